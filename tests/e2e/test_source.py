"""From a cell to the code of the study's functions that it uses, and back."""

import pytest

from tests.e2e.fits import TOO_WIDE
from tests.e2e.pages import opened_up

try:
    from tests.e2e import axe
except pytest.skip.Exception:  # its package is not installed
    axe = None


def test_a_cell_leads_to_the_code_that_it_uses_and_the_code_back(open_page, small_book):
    page = open_page(small_book / "chapters/01_fixture.html", offline=True)
    lines = page.locator(".bnn-source")
    assert lines.all_text_contents() == ["Source: power"]  # the library's own have their reference
    lines.get_by_role("link", name="power").click()
    page.wait_for_url("**/_modules/chapters/fixture/shapes.html#power")
    assert "return x**degree" in page.locator("[id='power']").text_content()
    page.locator("[id='power'] .viewcode-back").click()
    page.wait_for_url("**/chapters/01_fixture.html#chapters.fixture.shapes.power")
    assert page.locator(":target").text_content() == "power"
    assert page.faults == []


def test_a_page_of_code_fits_a_phone_and_is_accessible(open_page, small_book):
    page = open_page(small_book / "_modules/chapters/fixture/shapes.html", width=390, offline=True)
    opened_up(page)
    assert page.evaluate(TOO_WIDE) == []
    assert axe is None or axe.violations(page) == []
    assert page.faults == []
