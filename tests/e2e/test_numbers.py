"""Numbers in the text: of a source that is opened in JupyterLab as it is, and on the page of the book."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.jupyter import run_all

FIXTURE = Path(__file__).resolve().parent / "fixtures/chapters/01_fixture.ipynb"
SAID = "The profile was smoke, what was not run is (not run), and marks stay as they are: *1.5* ± <i>2</i>."
# Of a role that was not evaluated, or whose evaluation failed, one of these is seen.
RAW = ("said[", "{eval}", 'f"{', "KeyError", "NameError")


def test_a_source_in_jupyterlab_shows_placeholders_then_numbers_and_never_an_expression(open_in_lab):
    page = open_in_lab(FIXTURE, "numbers.ipynb")
    rendered = page.locator(".jp-MarkdownCell")
    text = rendered.filter(has_text="The profile was")
    text.wait_for()
    assert "The profile was …, what was not run is …, and marks stay as they are: …." in text.inner_text()
    assert not [mark for mark in RAW if mark in "\n".join(rendered.all_inner_texts())]

    run_all(page)
    rendered.filter(has_text="The profile was smoke").wait_for()
    assert SAID in text.inner_text()
    assert "3. That many were said, and twice 1.125 is 2.25." in text.inner_text()
    assert text.locator("td").all_inner_texts() == ["profile", "smoke"]
    assert not [mark for mark in (*RAW, "…") if mark in "\n".join(rendered.all_inner_texts())]
    assert page.faults == []


def test_the_page_of_the_book_says_the_same(small_book, open_page):
    page = open_page(small_book / "chapters/01_fixture.html")
    paragraphs = "\n".join(page.locator("article p").all_inner_texts())
    assert SAID in paragraphs
    assert "3. That many were said, and twice 1.125 is 2.25." in paragraphs
    assert page.locator("article td", has_text="smoke").count() == 1
    assert not [mark for mark in RAW if mark in paragraphs]
