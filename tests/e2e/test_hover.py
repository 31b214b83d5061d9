"""What a reference leads to is shown beside it, to the mouse and the keyboard, without a network; and code is found."""

import pytest

from tests.e2e.fits import TOO_WIDE
from tests.e2e.pages import opened_up

CHAPTER, ASKED = "chapters/01_fixture.html", "chapters/02_asked.html"
# by the beginning of the address: the page, the words of the link, and what is shown
SHOWN = {
    "#equation-fix-power": (CHAPTER, "(1.1)", "mjx-container[display]"),
    "#fix-figure": (CHAPTER, "Figure 1.1", "figure img[alt^='A parabola']"),
    "#fix-theorem": (CHAPTER, "Theorem 1.1", "mjx-container"),
    "../book/notation.html#term-Power": (CHAPTER, "power", "a[href$='notation.html#term-Root']"),
    "../book/bibliography.html#id": (CHAPTER, "2020", "p"),
    "../book/notation.html#report-fix-runs": (
        CHAPTER,
        "1.26*",
        "p:text('fix-runs, \"a|b\": 3 runs (seeds 0 to 2), *commit*')",
    ),
    "01_fixture.html#equation-fix-power": (ASKED, "(1.1)", "mjx-container[display]"),
    "01_fixture.html#fix-figure": (ASKED, "Figure 1.1", "figure img[alt^='A parabola']"),
}
BOX = "[role=tooltip]"


def in_place(page) -> bool:
    """Whether all of the preview can be seen."""
    box, size = page.locator(BOX).bounding_box(), page.viewport_size
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    return box["x"] >= 0 and box["y"] >= 0 and right <= size["width"] and bottom <= size["height"]


@pytest.mark.parametrize("address", SHOWN)
def test_a_reference_shows_what_it_leads_to(open_page, small_book, address):
    name, words, inside = SHOWN[address]
    page = open_page(small_book / name, offline=True)
    link = page.locator(f".bd-article a[href^='{address}']").filter(has_text=words).first
    link.hover()
    page.locator(f"{BOX} {inside}").first.wait_for()
    assert in_place(page)
    assert page.eval_on_selector_all(f"{BOX} img", "(all) => all.every((one) => one.src.startsWith('file:'))")
    assert page.locator(f"{BOX} :is([id], script, .headerlink)").count() == 0
    page.mouse.move(1, 1)
    page.locator(BOX).wait_for(state="detached")
    link.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    page.locator(f"{BOX} {inside}").first.wait_for()
    assert link.get_attribute("aria-describedby") == page.locator(BOX).get_attribute("id")
    page.keyboard.press("Escape")
    page.locator(BOX).wait_for(state="detached")
    assert page.faults == []


def test_the_mouse_may_move_onto_what_is_shown(open_page, small_book, axe):
    page = open_page(small_book / CHAPTER)
    page.locator("a[href*='term-Power']").hover()
    link = page.locator(f"{BOX} a[href$='term-Root']")
    link.hover()
    page.wait_for_timeout(600)  # longer than it stays when it is left
    assert axe is None or axe.violations(page) == []
    link.click()
    page.wait_for_url("**/notation.html#term-Root")


def test_a_finger_follows_the_link_at_once(open_page, small_book):
    page = open_page(small_book / CHAPTER, width=390, has_touch=True)
    page.locator("a[href='#equation-fix-power']:not(.headerlink)").first.tap()
    page.wait_for_timeout(600)  # longer than the mouse has to rest
    assert page.url.endswith("#equation-fix-power")
    assert page.locator(BOX).count() == 0


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


def test_a_page_of_code_fits_a_phone_and_is_accessible(open_page, small_book, axe):
    page = open_page(small_book / "_modules/chapters/fixture/shapes.html", width=390, offline=True)
    opened_up(page)
    assert page.evaluate(TOO_WIDE) == []
    assert axe is None or axe.violations(page) == []
    assert page.faults == []
