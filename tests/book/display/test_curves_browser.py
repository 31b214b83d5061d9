"""Explorers that draw themselves, in a real browser: every stop, both themes, phone and desk, from a file."""

import re

import numpy as np
import pytest

from book.display import Line, Points
from tests.book.display.test_curves import compute, explorer  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# What each panel shows: the size of its area, and of each item its path or its words.
DRAWN = """(root) => [...root.querySelectorAll(".bnn-area")].map((area) => ({
  size: [Number(area.getAttribute("width")), Number(area.getAttribute("height"))],
  items: [...area.children].map((one) => one.getAttribute("d") ?? one.textContent),
}))"""
FONTS = """() => [...document.querySelectorAll(".bnn-plot text, .bnn-legend, .bnn-panel p, .bnn-heading, label")]
  .map((one) => {
    const matrix = one.getScreenCTM?.();
    return parseFloat(getComputedStyle(one).fontSize) * (matrix ? Math.hypot(matrix.a, matrix.b) : 1);
  })"""
COLORS = """() => [...document.querySelectorAll(".bnn-first")].map((first) => [
  getComputedStyle(first.querySelector(".bnn-area path[stroke-dasharray]")).stroke,
  getComputedStyle(first.querySelector(".bnn-plot text")).fill,
  getComputedStyle(first.closest(".bnn-card")).backgroundColor])[0].join(" ")"""


@pytest.fixture(scope="module")
def path(explorer, root, tmp_path_factory):  # noqa: F811
    path = tmp_path_factory.mktemp("curves") / "page.html"
    style = (root / "book" / "_static" / "book.css").read_text(encoding="utf-8")
    fragments = "".join(
        f'<div class="cell_output"><div class="text_html">{explorer.to_html()}</div></div>' for _ in "ab"
    )
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>Explorers</title><style>{style}</style><body class="bd-content">{fragments}</body></html>',
        encoding="utf-8",
    )
    return path


@pytest.fixture
def open_page(open_quietly, path):
    def opened(width=1024, **options):
        return open_quietly(path, viewport={"width": width, "height": 900}, **options)

    return opened


def numbers(d: str) -> np.ndarray:
    """The corners of a path of M and L, or the places of its markers."""
    return np.array([[float(v) for v in pair.split()] for pair in re.findall(r"[ML](-?[\d.]+ -?[\d.]+)", d)])


@pytest.mark.parametrize(("width", "ratio"), [(390, 2), (1024, 1)])
def test_every_stop_draws_its_own_numbers(open_page, explorer, width, ratio):  # noqa: F811
    page = open_page(width, device_scale_factor=ratio)
    last = page.locator(".bnn-explorer").last
    slider, seen, places = last.locator("[type=range]"), [], set()
    slider.press("Home")
    for k in range(12):
        for scale in ("small", "large"):
            last.get_by_role("radio", name=scale).check()
            assert last.locator(".bnn-first").get_attribute("aria-label") == f"k {k}, {scale}"
            assert last.locator(".bnn-heading span").inner_text() == f"k is {k}"
            drawn, picture = last.evaluate(DRAWN), compute(k, scale)
            seen.append(str(drawn))
            places.add(str([slider.bounding_box(), *(one.bounding_box() for one in last.locator(".bnn-plot").all())]))
            for panel, shown in zip(picture.panels, drawn, strict=True):
                assert len(panel.items) == len(shown["items"])
                size = np.array(shown["size"])
                for item, d in zip(panel.items, shown["items"], strict=True):
                    if not isinstance(item, Line | Points):
                        continue
                    known = np.isfinite(item.y)
                    up, ends = (np.log(item.y), np.log(panel.ylim)) if panel.ylog else (item.y, np.array(panel.ylim))
                    x = (item.x - panel.xlim[0]) / (panel.xlim[1] - panel.xlim[0])
                    expected = np.stack([x, 1 - (up - ends[0]) / (ends[1] - ends[0])], 1)[known] * size
                    assert numbers(d).reshape(-1, 2) == pytest.approx(expected, abs=size.max() / 4000)
        slider.press("ArrowRight")
    assert len(set(seen)) == 24  # the test would see a stop that shows another's
    assert len(places) == 1  # nothing jumps, and the slider keeps its width
    # the first explorer on the page has not moved
    assert page.locator(".bnn-explorer").first.get_attribute("data-stop") == "8"


def test_a_phone_reads_it(open_page):
    page = open_page(390, device_scale_factor=2, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert min(page.evaluate(FONTS)) >= 11
    boxes = [plot.bounding_box() for plot in page.locator(".bnn-explorer").first.locator(".bnn-plot").all()]
    assert all(box["width"] > 300 and 0.7 < box["height"] / box["width"] < 0.8 for box in boxes)
    assert boxes[0]["y"] + boxes[0]["height"] < boxes[1]["y"]  # one below the other
    label = page.locator(".bnn-tabs label").first.bounding_box()
    assert label["height"] >= 44
    slider = page.locator("[type=range]").first
    box = slider.bounding_box()
    assert box["height"] >= 44 and box["width"] >= 150 and box["x"] >= 0 and box["x"] + box["width"] <= 390
    page.touchscreen.tap(box["x"] + box["width"] - 8, box["y"] + box["height"] / 2)
    assert slider.get_attribute("aria-valuetext") == "11"


def test_the_dark_mode_has_its_own_colors(open_page):
    page = open_page()
    light = page.evaluate(COLORS)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    dark = page.evaluate(COLORS)
    assert light == "rgb(0, 114, 178) rgb(34, 34, 34) rgb(255, 255, 255)"
    assert dark == "rgb(79, 161, 203) rgb(230, 230, 230) rgb(18, 18, 18)"


def test_tabs_move_by_the_arrow_keys_are_spoken_and_start_again_with_the_page(open_page):
    page = open_page()
    first, last = page.locator(".bnn-explorer").all()
    last.get_by_role("radio", name="small").focus()
    page.keyboard.press("ArrowRight")
    assert last.get_by_role("radio", name="large").is_checked()
    assert first.get_by_role("radio", name="small").is_checked()
    assert last.get_attribute("data-stop") == "9" and first.get_attribute("data-stop") == "8"
    page.wait_for_function(  # said after a pause, so that a screen reader is not flooded
        "[...document.querySelectorAll('[role=status]')].map((e) => e.textContent).join() === ',k 4, large'"
    )
    first.locator("[type=range]").press("End")
    assert first.locator("output").inner_text() == "11"
    page.reload()
    assert first.locator("output").inner_text() == "4" and first.get_attribute("data-stop") == "8"
    assert first.locator("[type=range]").input_value() == "4" and last.get_by_role("radio", name="small").is_checked()


def test_print_and_a_page_without_scripts_show_the_default(open_page, launch, path):
    page = open_page()
    page.locator("[type=range]").first.press("End")
    page.emulate_media(media="print")
    explorer = page.locator(".bnn-explorer").first  # noqa: F811
    assert explorer.locator(".bnn-print").is_visible() and not explorer.locator(".bnn-first").is_visible()
    assert "Number k\n4" in explorer.inner_text() and not page.locator(".bnn-tabs").first.is_visible()
    page = launch("--blink-settings=scriptEnabled=false").new_page()
    page.goto(path.as_uri())
    explorer = page.locator(".bnn-explorer").first
    assert explorer.locator(".bnn-print").is_visible() and not explorer.locator(".bnn-first").is_visible()
    assert "The controls need JavaScript; the picture shows Number k 4, Scale small." in explorer.inner_text()
