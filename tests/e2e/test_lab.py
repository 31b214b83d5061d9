"""Explorers in a real JupyterLab: after Run All, moving a slider calls the live function and draws a new picture."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.jupyter import run_all

FIXTURE = Path(__file__).resolve().parent / "fixtures/chapters/01_fixture.ipynb"


def test_a_live_slider_draws_a_new_picture(open_in_lab):
    page = open_in_lab(FIXTURE)
    run_all(page)
    picture = page.locator(".jp-OutputArea .widget-html img[alt^='The curve x to the power']")
    picture.wait_for()
    assert picture.get_attribute("alt") == "The curve x to the power 2 between minus one and one."
    before = picture.get_attribute("src")
    handle = page.locator(".jp-OutputArea .noUi-handle")
    handle.focus()
    page.keyboard.press("ArrowRight")
    while picture.get_attribute("src") == before:
        page.wait_for_timeout(300)
    assert picture.get_attribute("alt") == "The curve x to the power 3 between minus one and one."
    assert page.locator(".jp-OutputArea .widget-readout").inner_text() == "3"
    assert page.faults == []
