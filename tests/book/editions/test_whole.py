"""What a book in one file makes of its pages, and how the landing page leads to it."""

import re
from itertools import chain

import pytest
from bs4 import BeautifulSoup

from book.editions.epub import STYLED, Parts, styled
from book.editions.landing import publish
from book.editions.project import Project
from book.editions.report_tables import fold
from book.editions.whole import CALL, FOR_HANDS, Whole, leave_out_folds, parts, stop


def article(inside: str):
    return BeautifulSoup(f"<article>{inside}</article>", "html.parser").article


def test_rows_that_a_report_folds_are_left_out():
    found = article(f"<h1>Report</h1>{fold('Runs: 2', '<p>run-a</p>')}<details>kept</details>")
    assert [one.get_text("|", strip=True) for one in found.select(FOR_HANDS)] == ["Runs: 2|run-a"]


@pytest.mark.parametrize(("rows", "kept"), [(30, True), (31, False)])
def test_a_folded_table_is_shown_unless_it_is_long(rows, kept):
    table = f"<table>{'<tr><td>cell</td></tr>' * rows}</table>"
    found = article(f'<div class="admonition dropdown"><p class="admonition-title">All</p>{table}</div>')
    leave_out_folds(found)
    assert ("cell" in found.get_text()) == kept and ("Only on the screen: All" in found.get_text()) != kept


def test_an_explorer_stands_still_at_its_first_setting():
    knob = '<div class="bnn-control"><label><span>Rate</span><input></label>0.1 0.2<b class="bnn-default">0.2</b></div>'
    found = article(
        f'<div class="bnn-explorer bnn-data"><p class="bnn-title">Try</p>{knob}<div class="bnn-first">drawn</div>'
        '<img class="bnn-print" src="data:,"></div>'
    )
    stop(found.div)
    assert found.get_text("|") == "Try|Rate: 0.2 (on the screen this moves)" and found.img["src"] == "data:,"


@pytest.mark.parametrize(
    ("code", "left_out"),
    [("figures.vgg();\n", True), ('equation_table("mh")', True), ("x = figures.vgg()", False), ("results.a()\nb", 0)],
)
def test_a_line_that_calls_for_a_figure_is_left_to_its_caption(code, left_out):
    assert bool(CALL.fullmatch(code)) == left_out


def test_reports_and_the_status_are_an_appendix(root):
    project = Project(root)
    captions, documents = zip(*parts(project), strict=True)
    assert captions[-1] == "Appendix: reports"
    assert set(documents[-1]) == {*project.reports, *chain(*project.continued.values()), "book/status"}
    assert documents[0] == ["book/index"]
    assert sorted(name for part in documents for name in part) == sorted(project.printed)


def test_the_landing_page_links_the_editions_that_were_made_and_no_others(tmp_path):
    (tmp_path / "_toc.yml").write_text("root: book/index\n")
    project = Project(tmp_path)
    (project.html / "book").mkdir(parents=True)
    page = project.html / "book" / "index.html"
    page.write_text(
        "<h1>Title</h1><section></section>"
        "<article><section><h1>Title</h1><p>About.</p><section><h2>First</h2></section></section></article>"
    )
    for suffixes in (["epub"], ["epub", "pdf"], ["pdf", "epub"]):  # again, and in any order: one line
        made = tmp_path / f"book.{suffixes[-1]}"
        made.write_bytes(b"x" * 2_400_000)
        publish(project, made)
        text = page.read_text()
        assert sorted(re.findall(r'href="../sparse-bayes-book\.(\w+)">\w+</a> \(2 MB\)', text)) == sorted(suffixes)
        assert text.index("About.") < text.index("in one file") < text.index("<h2>First")
    assert (project.html / "sparse-bayes-book.pdf").read_bytes() == made.read_bytes()


def test_the_title_of_a_page_in_the_epub_has_formulas_as_they_are_read():
    parts, whole = Parts.__new__(Parts), Whole.__new__(Whole)
    parts.whole, parts.home, parts.files = whole, {"page--a": "a"}, {}
    whole.articles, whole.renamed = {"a": article("<h1>Of \\(\\psi\\)</h1>")}, {"a": {"": "page--a"}}
    parts.add("page--a", "<h1>Of <math><mi>ψ</mi></math></h1>")
    assert "<title>Of ψ</title>" in parts.files["a.xhtml"].decode()
    assert whole.outline("a") == [(0, "page--a", "Of ψ")]  # of which the contents are made


@pytest.mark.parametrize(
    ("style", "text", "letters"),
    [("script", "NL", "𝒩ℒ"), ("double-struck", "ER", "𝔼ℝ"), ("bold-italic", "θ", "𝜽"), ("fraktur", "H", "ℌ")],
)
def test_letters_of_a_style_are_letters_of_their_own_and_other_symbols_stay(style, text, letters):
    assert STYLED.sub(styled, f'<mi mathvariant="{style}">{text}</mi>') == f"<mi>{letters}</mi>"
    for kept in ('<mi mathvariant="normal">d</mi>', f'<mi mathvariant="{style}">&amp;</mi>', "<mi>x</mi>"):
        assert STYLED.sub(styled, kept) == kept
