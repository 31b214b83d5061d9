"""The learner's edition in a real JupyterLab: run whole, every slider moved; and it says what the page says."""

import json
import re

import pytest

from book.editions.learner.lab import plain_jupyterlab
from tests.e2e.jupyter import run_all, serving

RAW = re.compile(r"\{[\w:.+-]+\}`|(?:`{3,}|:{3,})\{|\$\$|\\tag|\\operatorname")
# What has become of the cells after Run All, from the notebook's model: cells far below may not be in the page.
STATE = """() => {
  const cells = jupyterapp.shell.currentWidget.content.model.cells;
  const state = {waiting: 0, errors: []};
  for (let i = 0; i < cells.length; i++) {
    const cell = cells.get(i);
    if (cell.type !== "code") continue;
    if (cell.executionCount === null && cell.sharedModel.source.trim()) state.waiting++;
    for (let j = 0; j < cell.outputs.length; j++)
      if (cell.outputs.get(j).type === "error") state.errors.push(cell.id);
  }
  return state;
}"""


@pytest.fixture(scope="module")
def lab(root, tmp_path_factory):
    """JupyterLab as `make lab` starts it."""
    home = tmp_path_factory.mktemp("learner")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in plain_jupyterlab(home / "plain").items():
            patch.setenv(name, value)
        with serving(home, root) as running:
            yield running


def run_whole(page) -> None:
    run_all(page)
    while (state := page.evaluate(STATE))["waiting"] and not state["errors"]:
        page.wait_for_timeout(500)
    assert state["errors"] == []


def move_every_slider(page) -> int:
    """Move each slider by a step and wait for its picture to change; the number of sliders."""
    handles = page.locator(".jp-OutputArea .noUi-handle")
    for number in range(handles.count()):
        handle = handles.nth(number)
        picture = handle.locator("xpath=ancestor::*[contains(@class, 'jp-OutputArea-output')]").locator("img").first
        before, value = picture.get_attribute("src"), float(handle.get_attribute("aria-valuenow"))
        handle.focus()
        page.keyboard.press("ArrowRight" if value < float(handle.get_attribute("aria-valuemax")) else "ArrowLeft")
        while picture.get_attribute("src") == before:
            page.wait_for_timeout(200)
    return handles.count()


def words(page) -> str:
    return page.evaluate("document.querySelector('.jp-Notebook').innerText")


def test_the_fixture_chapter(small_book, open_in_lab, open_page):
    edition = small_book / "_sources" / "chapters" / "01_fixture.ipynb"
    page = open_in_lab(edition, "fixture.ipynb")
    run_whole(page)
    assert move_every_slider(page) >= 1
    told = words(page)
    assert not RAW.findall(told)
    html = open_page(small_book / "chapters" / "01_fixture.html")
    for name in ("#fix-figure .caption-number", "#fix-theorem .caption-number", "#fix-exercise-1 .caption-number"):
        assert html.locator(name).inner_text().strip() in told
    for number in html.locator(".eqno").all_inner_texts():
        assert number.strip("#") in told
    text = page.locator(".jp-MarkdownCell summary", has_text="Solution")
    titles = page.locator(".jp-MarkdownCell h3")
    assert not titles.first.is_visible()  # folded with its section
    page.get_by_role("button", name="cells hidden").click()
    titles.first.wait_for()
    assert titles.all_inner_texts() == ["Exercise 1.1 (Zero)", "Exercise 1.2 (One)"]
    folded = page.locator(".jp-MarkdownCell:has(h3) .jp-collapseHeadingButton.jp-mod-collapsed")
    assert folded.count() == 2 and not text.is_visible()  # the list is open, no solution is
    titles.first.hover()
    folded.first.click()
    text.wait_for()
    assert folded.count() == 1  # and the other one stays folded
    assert page.faults == []


def test_a_real_chapter_runs_whole_and_every_slider_moves(built_book, open_in_lab):
    """Of those with two explorers the one that computes least; all run without a browser in test_learner_chapters."""
    written = built_book / "_sources" / "chapters" / "04_closed_form_inclusion.ipynb"
    page = open_in_lab(written)
    run_whole(page)
    sources = ["".join(cell["source"]) for cell in json.loads(written.read_text())["cells"]]
    explorers = sum(bool(re.search(r"explorer?\(", source)) for source in sources)
    assert move_every_slider(page) >= explorers > 0
    assert not RAW.findall(words(page))
    assert page.faults == []
