"""MyST as plain Markdown: what each role and directive becomes, and that nothing is passed on unseen."""

import re

import pytest

from book.editions.learner.directives import Converter
from book.editions.learner.names import Names
from book.editions.project import BookError

HERE, THERE = "chapters/03_here", "chapters/04_there"


def label(kind: str, text: str, page: str = HERE) -> dict:
    return {"kind": kind, "text": text, "page": page, "anchor": "any"}


def work(authors: str, year: str, url: str | None) -> dict:
    return {"authors": authors, "year": year, "url": url, "entry": f"{authors} {year}."}


NAMES = Names(
    HERE,
    {
        "eq-a": label("equation", "(3.2)"),
        "fig-b": label("figure", "Figure 4.1", THERE),
        "thm": label("theorem", "Theorem 3.1"),
        "ex": label("exercise", "Exercise 3.4"),
        "tab": label("table", "Table 3.1"),
    },
    {"first": work("A and B", "1999", None), "second": work("C et al.", "2020", "https://arxiv.org/abs/1")},
    {HERE: "Here", THERE: "There", "book/verdicts": "Verdicts"},
)


@pytest.fixture
def convert():
    return Converter(NAMES).text


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("see {eq}`eq-a`", "see (3.2)"),
        ("{numref}`fig-b` shows", "[Figure 4.1](04_there.ipynb) shows"),
        ("{numref}`Picture %s <fig-b>`", "[Picture 4.1](04_there.ipynb)"),
        ("{prf:ref}`thm`, {ref}`the theorem <thm>`", "Theorem 3.1, the theorem"),
        # The page lists works in the order of the bibliography.
        ("{cite}`second,first`", "[A and B, 1999, [C et al., 2020](https://arxiv.org/abs/1)]"),
        ("{cite:t}`second` say", "C et al. [[2020](https://arxiv.org/abs/1)] say"),
        ("{term}`words <Entry>`", "words"),
        ("{py:func}`bnnlib.nn.predict`, {py:mod}`the library <bnnlib.nn>`", "`bnnlib.nn.predict`, the library"),
        ("[the next](04_there.ipynb)", "[the next](04_there.ipynb)"),
        ("([what they mean](../book/verdicts.md))", "(what they mean [book page *Verdicts*])"),
        ("[](../book/verdicts.md) tells", "*Verdicts* [book page] tells"),
        ("[out](https://example.org)", "[out](https://example.org)"),
        (r"$\mathbb{E}[x](y)$", r"$\mathbb{E}[x](y)$"),
        ("95 % of them. <!-- definition -->", "95 % of them."),
        ("(target)=\n## Heading", "## Heading"),
        ("% a note\nText", "Text"),
        ("```python\n{eq}`eq-a`\n```", "```python\n{eq}`eq-a`\n```"),
    ],
)
def test_inline(convert, source, shown):
    assert convert(source) == shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("```{math}\n:label: eq-a\na = b\n```", "$$\na = b \\tag{3.2}\n$$"),
        ("$$\na = b\n$$ (eq-a)", "$$\na = b \\tag{3.2}\n$$"),
        ("$$a = b$$", "$$\na = b\n$$"),
        ("```{math}\na \\\\\nb\n```", "$$\n\\begin{aligned}\na \\\\\nb\n\\end{aligned}\n$$"),
        ("```{math}\n\\begin{align}\na &= b\n\\end{align}\n```", "$$\n\\begin{aligned}\na &= b\n\\end{aligned}\n$$"),
        ("```{math}\n\\begin{cases} a \\\\ b \\end{cases}\n```", "$$\n\\begin{cases} a \\\\ b \\end{cases}\n$$"),
        ("- item\n\n  ```{math}\n  a\n  ```", "- item\n\n  $$\n  a\n  $$"),
        # JupyterLab would read the marks of a quote into a formula of several lines.
        (
            "```{prf:theorem} Big\n:label: thm\nLet\n\n$$\na\n= b\n$$\n```",
            "> **Theorem 3.1 (Big).**\n>\n> Let\n>\n> $$ a = b $$",
        ),
        ("````{prf:proof}\nBy {eq}`eq-a`.\n````", "> **Proof.**\n>\n> By (3.2)."),
        (
            "````{exercise} Try\n:label: ex\n\nFind $x$.\n\n```{hint}\n:class: dropdown\nLook.\n```\n````",
            "> **Exercise 3.4 (Try).**\n>\n> Find $x$.\n\n<details>\n<summary>Hint</summary>\n\nLook.\n\n</details>",
        ),
        ("```{note}\nMind.\n```", "> **Note**\n>\n> Mind."),
        (
            ":::{admonition} Mind *this*\n:class: dropdown\nIt.\n:::",
            "<details>\n<summary>Mind *this*</summary>\n\nIt.\n\n</details>",
        ),
        (
            "```{list-table} Two\n:header-rows: 1\n:name: tab\n\n"
            "* - A\n  - B\n* - $|x|$\n  - long\n    text {eq}`eq-a`\n```",
            "**Table 3.1.** Two\n\n| A | B |\n| --- | --- |\n| $\\vert x\\vert $ | long text (3.2) |",
        ),
    ],
)  # fmt: skip
def test_blocks(convert, source, shown):
    assert convert(source) == shown


def test_a_box_does_not_take_in_the_next_line(convert):
    shown = convert("```{note}\nMind.\n```\nAfter the box.")
    assert shown.endswith("> Mind.\n\nAfter the box.")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{unheard}`of`", "role {unheard}"),
        ("```{unheard} of\n```", "directive {unheard}"),
        ("{eq}`nowhere`", "no page has the label 'nowhere'"),
        ("{cite}`nobody`", "does not hold 'nobody'"),
        ("[text](../book/nowhere.md)", "no page 'book/nowhere'"),
    ],
)
def test_what_has_no_plain_form_is_an_error_that_names_it(convert, source, told):
    with pytest.raises(BookError, match=re.escape(told)):
        convert(source)
