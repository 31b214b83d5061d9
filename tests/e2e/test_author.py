"""A source in the JupyterLab of `make author`: placeholders, then numbers, live sliders, a clean file; and its page."""

from pathlib import Path

from tests.e2e.jupyter import run_all

FIXTURE = Path(__file__).resolve().parent / "fixtures/chapters/01_fixture.ipynb"
SAID = "The profile was smoke, what was not run is (not run), and marks stay as they are: *1.5* ± <i>2</i>."
# Of a role that was not evaluated, or whose evaluation failed, one of these is seen.
RAW = ("said[", "{eval}", 'f"{', "KeyError", "NameError")


def test_a_source_shows_numbers_moves_its_picture_and_is_saved_without_either(root, lab, open_in_lab):
    command = next(line for line in (root / "Makefile").read_text().splitlines() if "author_config" in line)
    assert "--config=book/editions/author_config.py" in command
    name = "chapters/01_fixture.ipynb"
    page = open_in_lab(FIXTURE, name)
    rendered = page.locator(".jp-MarkdownCell")
    text = rendered.filter(has_text="The profile was")
    text.wait_for()
    assert "The profile was …, what was not run is …, and marks stay as they are: …." in text.inner_text()
    assert not [mark for mark in RAW if mark in "\n".join(rendered.all_inner_texts())]

    run_all(page)
    rendered.filter(has_text="The profile was smoke").wait_for()
    assert SAID in text.inner_text()
    assert "4. That many were said, and twice 1.125 is 2.25." in text.inner_text()
    *cells, number = text.locator("td").all_inner_texts()
    assert cells == ["profile", "smoke", "stored"] and number.startswith("1.26")
    assert not [mark for mark in (*RAW, "…") if mark in "\n".join(rendered.all_inner_texts())]

    picture = page.locator(".jp-OutputArea .widget-html img[alt^='The curve x to the power']")
    picture.wait_for()
    assert picture.get_attribute("alt") == "The curve x to the power 2 between minus one and one."
    before = picture.get_attribute("src")
    page.locator(".jp-OutputArea .noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    while picture.get_attribute("src") == before:
        page.wait_for_timeout(300)
    assert picture.get_attribute("alt") == "The curve x to the power 3 between minus one and one."
    assert page.locator(".jp-OutputArea .widget-readout").inner_text() == "3"

    saved = lab.ask(f"contents/{name}")["last_modified"]
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    while lab.ask(f"contents/{name}")["last_modified"] == saved:
        page.wait_for_timeout(300)
    assert page.locator(".jp-OutputArea-output").count() > 0  # the page keeps what the file leaves out
    assert (lab.folder / name).read_text() == FIXTURE.read_text()
    assert page.faults == []


def test_the_page_of_the_book_says_the_same(small_book, open_page):
    page = open_page(small_book / "chapters/01_fixture.html")
    paragraphs = "\n".join(page.locator("article p").all_inner_texts())
    assert SAID in paragraphs
    assert "4. That many were said, and twice 1.125 is 2.25." in paragraphs
    assert page.locator("article td", has_text="smoke").count() == 1
    assert not [mark for mark in RAW if mark in paragraphs]
