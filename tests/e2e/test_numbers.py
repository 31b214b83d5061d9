"""Numbers in the text: of a source that is opened in JupyterLab as it is, and on the page of the book."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.jupyter import run_all, serving

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


def test_make_author_saves_a_source_without_what_running_it_left(root, tmp_path, browser):
    command = next(line for line in (root / "Makefile").read_text().splitlines() if "author_config" in line)
    config = root / "book/editions/author_config.py"
    assert f"--config={config.relative_to(root)}" in command
    name = "chapters/01_fixture.ipynb"
    with serving(tmp_path, root, f"--config={config}") as lab:
        context = browser.new_context()
        context.set_default_timeout(0)
        page = lab.open(FIXTURE, context, name)
        run_all(page)
        page.locator(".jp-MarkdownCell", has_text="The profile was smoke").wait_for()
        before = lab.ask(f"contents/{name}")["last_modified"]
        page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        while lab.ask(f"contents/{name}")["last_modified"] == before:
            page.wait_for_timeout(300)
        # The page keeps what the file leaves out.
        assert page.locator(".jp-OutputArea-output").count() > 0
        assert (lab.folder / name).read_text() == FIXTURE.read_text()
        context.close()
