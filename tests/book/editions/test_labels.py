"""What the Sphinx extension `labels` makes of the environment; that the pages say the same is tested in tests/e2e."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document

from book.editions._ext import labels


@pytest.fixture
def app():
    """As much of Sphinx as numbers and labels need: one page with an equation, a figure, a section and a theorem."""
    search = ("search", "", "Search")
    standard = SimpleNamespace(
        anonlabels={"fig": ("page", "fig"), "part": ("page", "part"), "search": ("search", "")},
        labels={"fig": ("page", "fig", "A picture"), "part": ("page", "part", "A part"), "search": search},
    )  # fmt: skip
    domains = {"std": standard, "math": SimpleNamespace(equations={"a_b": ("page", 7)})}
    formats = {"figure": "Figure %s", "section": "Section %s"}
    config = SimpleNamespace(numfig=True, math_numfig=True, math_eqref_format=None, numfig_format=formats)
    env = SimpleNamespace(
        get_domain=domains.__getitem__,
        config=config,
        titles={"page": nodes.title("", "Page")},
        toc_fignumbers={
            "page": {"figure": {"fig": (3, 2)}, "displaymath": {"equation-a-b": (3, 5)}, "theorem": {"thm": (3, 1)}}
        },
        proof_list={
            "thm": {"realtype": "theorem", "docname": "page", "nonumber": False},
            "proof": {"realtype": "proof", "docname": "page", "nonumber": True},
        },
    )
    return SimpleNamespace(env=env)


def test_everything_is_called_as_a_reference_on_a_page_calls_it(app):
    shown = labels.named(app.env) | labels.equations(app.env) | labels.proofs(app.env)
    assert {label: entry["text"] for label, entry in shown.items()} == {
        "fig": "Figure 3.2",
        "part": "A part",
        "a_b": "(3.5)",
        "thm": "Theorem 3.1",
        "proof": "Proof",
    }
    assert shown["a_b"]["anchor"] == "equation-a-b"


def test_without_numbers_by_chapter_equations_count_through_the_book(app):
    app.env.config.math_numfig = False
    assert labels.equations(app.env)["a_b"]["text"] == "(7)"


def test_a_printed_table_shows_numbers_in_its_links(app):
    page = new_document("page")
    page += nodes.raw("", '<a href="#equation-a-b">a_b</a>, <a href="#equation-c">c</a>', format="html")
    labels.number_links(app, page, "page")
    assert page.astext() == '<a href="#equation-a-b">(3.5)</a>, <a href="#equation-c">c</a>'


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"doi": "10.1/x", "url": "https://example.org"}, "https://doi.org/10.1/x"),
        ({"eprint": "1234.5678", "archiveprefix": "arXiv"}, "https://arxiv.org/abs/1234.5678"),
        ({"url": "https://example.org"}, "https://example.org"),
        ({}, None),
    ],
)
def test_where_a_work_can_be_read(fields, where):
    assert labels.address(SimpleNamespace(fields=fields)) == where


def test_entries_keep_only_the_escapes_that_every_markdown_knows():
    assert labels.plain(r"44\(1\):283, 2005\. Of $L\_0$ and \*.") == r"44(1):283, 2005. Of $L_0$ and \*."
