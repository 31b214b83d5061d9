"""Explorers in the rendered page: native sliders change the picture, its text and the read-out without a kernel."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.e2e.pages import KNOBS, SETTLED

SHOWN = """(root) => ({
  alts: [...root.querySelectorAll(".bnn-card :is(img, [role=img])")].filter((i) => i.checkVisibility())
    .map((i) => i.alt ?? i.getAttribute("aria-label")),
  values: [...root.querySelectorAll("output")].map((o) => o.value),
  spoken: [...root.querySelectorAll("[type=range]")].map((i) => i.getAttribute("aria-valuetext")),
})"""


def state(explorer) -> dict:
    """What the reader is told: the description of the pictures, and the values beside and behind the sliders."""
    return explorer.evaluate(SHOWN)


def drawn(explorer) -> np.ndarray:
    """The pixels of the first picture, shape (height, width, 3), from 0 to 255."""
    # Of the card, the round corners are drawn a shade differently once the page has been scrolled; the picture is not.
    # A new picture is loaded after the event that asked for it, decoded, and shown with the next frames of the screen;
    # colors of a page that was just opened may still be on their way.
    explorer.evaluate("(root) => Promise.all([...root.querySelectorAll('img')].map((image) => image.decode()))")
    explorer.evaluate(f"() => ({SETTLED})()")
    picture = Image.open(io.BytesIO(explorer.locator(".bnn-first").screenshot()))
    return np.asarray(picture.convert("RGB")).astype(int)


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two drawings show the same: Chromium smooths the edges of one picture by up to 20 of 255 otherwise, each
    time that it draws it; a line that is elsewhere changes pixels by a hundred and more."""
    return one.shape == other.shape and np.abs(one - other).max() < 64


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["desk", "phone"])
def test_a_slider_moves_the_picture_by_keyboard(open_page, small_book, width, dark):
    page = open_page(small_book / "chapters/01_fixture.html", width=width, dark=dark)
    found, active = page.locator(".bnn-explorer"), "document.activeElement.matches('.bnn-explorer input')"
    slider = found.get_by_label("Degree")
    start, first = state(found), drawn(found)
    assert start["values"] == start["spoken"] == ["2"]
    assert "to the power 2" in start["alts"][0]

    slider.focus()
    for key, inside in (("Shift+Tab", False), ("Tab", True)):
        page.keyboard.press(key)
        assert page.evaluate(active) is inside
    page.keyboard.press("ArrowRight")
    moved = state(found)
    assert moved["values"] == moved["spoken"] == ["3"]
    assert "to the power 3" in moved["alts"][0]
    assert not alike(first, drawn(found))
    slider.press("Home")
    assert state(found)["values"] == ["1"]
    slider.press("ArrowRight")
    assert state(found) == start and alike(first, drawn(found))

    box = found.locator(".bnn-card").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert slider.bounding_box()["height"] >= 24  # the least size of a target that a finger can hit (WCAG 2.2)
    assert page.faults == []


def test_a_knob_that_moves_nothing_and_a_picture_without_words_would_be_seen(open_page, small_book):
    page = open_page(small_book / "chapters/01_fixture.html")
    moved = page.evaluate(KNOBS)
    assert moved["knobs"] > 0 and moved["faults"] == []
    # without their listeners
    page.evaluate("document.querySelectorAll('.bnn-control').forEach((one) => one.replaceWith(one.cloneNode(true)))")
    page.evaluate("document.querySelectorAll('.bnn-first').forEach((one) => one.removeAttribute('aria-label'))")
    told = "\n".join(page.evaluate(KNOBS)["faults"])
    assert "changes nothing" in told and "without words" in told
