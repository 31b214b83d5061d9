"""The static explorer in a real browser, from a file, without a network and without a kernel."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pytest
from PIL import Image

from book.display import Control, explore, figure
from book.display import frames as _frames

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PADDING = 8  # CSS pixels of the card around the picture

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def bars(height, number):
    fig, axes = figure()
    fig.set_size_inches(5, 3)  # a whole number of CSS pixels, so that the browser resamples nothing
    axes.bar(range(number), [height] * number)
    axes.set(ylim=(0, 4), xlim=(-1, 5), title=f"{number} bars")
    return fig


def line(slope):
    fig, axes = figure(2)
    for panel in axes:
        panel.plot([0, 1], [0, slope])
        panel.set_ylim(0, 3)
    return fig


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A page with three explorers, one of them shown twice, and the explorer of bars itself."""
    first = explore(
        bars,
        {
            "height": Control("Height of the bars", (1, 2, 3), 2, discrete=True),
            "number": Control("Number", (2, 4), 2, discrete=True),
        },
        title="Bars",
        alt=lambda height, number: f"{number} bars of height {height}",
        static=True,
    )
    second = explore(
        line, {"slope": Control("Slope", (1, 2), 1, discrete=True)}, title="Lines", alt="Two lines", static=True
    )
    path = tmp_path_factory.mktemp("site") / "page.html"
    body = "".join(explorer.to_html() for explorer in (first, second, first))
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Explorers</title><body><h1>Explorers</h1>{body}</body></html>",
        encoding="utf-8",
    )
    return path, first


@pytest.fixture(scope="module")
def launch(request):
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: browser checks not run (Debian: apt-get install chromium)")
    playwright, browsers = request.getfixturevalue("playwright"), []

    def launched(*switches):
        browsers.append(playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *switches]))
        return browsers[-1]

    yield launched
    for browser in browsers:
        browser.close()


@pytest.fixture(scope="module")
def chromium(launch):
    return launch()


@pytest.fixture
def open_page(chromium, site):
    pages, faults = [], []

    def opened(**options):
        page = chromium.new_context(**options).new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: pages.append(request.url))
        page.goto(site[0].as_uri())
        return page

    yield opened
    assert faults == []
    assert [url for url in pages if not url.startswith(("file:", "data:"))] == []


def shown(page, number: int = 0) -> np.ndarray:
    """The picture of the explorer as the reader sees it."""
    page.wait_for_function("[...document.images].every((image) => image.complete)")
    return screenshot(page.locator(".bnn-card").nth(number))


def screenshot(found) -> np.ndarray:
    shot = found.screenshot(animations="disabled")
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(float)


def distance(image: np.ndarray, **settings) -> float:
    """Root mean square difference from matplotlib's own pixels, wherever within a pixel the page has put them."""
    # Four times as fine, because matplotlib moves the lines of a drawing to whole pixels and a browser does not.
    direct = np.asarray(_frames.draw(bars, settings, 4 * 96)[0].reduce(4)).astype(float)[1:-1, 1:-1]
    rows, columns = direct.shape[:2]
    inside = image[PADDING:-PADDING, PADDING:-PADDING]
    placed = [inside[y : y + rows, x : x + columns] for y in range(3) for x in range(3)]
    return min(float(np.sqrt(np.mean((part - direct) ** 2))) for part in placed if part.shape == direct.shape)


def test_keys_move_the_picture_its_words_and_its_value(open_page):
    page = open_page(viewport={"width": 900, "height": 700})
    root = page.locator(".bnn-explorer").first
    slider = root.get_by_label("Height of the bars")
    assert distance(shown(page), height=2, number=2) < 10
    slider.focus()
    page.keyboard.press("ArrowRight")
    root.get_by_label("Number").focus()
    page.keyboard.press("End")
    picture = shown(page)
    assert distance(picture, height=3, number=4) < 10 < 30 < distance(picture, height=2, number=2)
    assert slider.get_attribute("aria-valuetext") == "3"
    assert root.locator("output").all_text_contents() == ["3", "4"]
    assert root.get_by_role("img", name="4 bars of height 3").count() == 1
    page.wait_for_function(  # said after a pause, so that a screen reader is not flooded
        "document.querySelector('.bnn-explorer [role=status]').textContent === '4 bars of height 3'"
    )
    slider.focus()
    page.keyboard.press("ArrowLeft")
    root.get_by_label("Number").focus()
    page.keyboard.press("Home")
    assert distance(shown(page), height=2, number=2) < 10
    # the same explorer further down the page keeps its own state
    assert page.locator(".bnn-explorer").nth(2).locator("output").all_text_contents() == ["2", "2"]


def test_explorers_on_one_page_do_not_move_each_other(open_page):
    page = open_page()
    page.locator(".bnn-explorer").nth(2).get_by_label("Number").press("End")
    frames = [page.locator(".bnn-explorer").nth(i).get_attribute("data-frame") for i in range(3)]
    assert frames[:2] == ["0", "0"] and frames[2] != "0"
    assert page.evaluate("document.querySelectorAll('[id]').length") == 0


def test_a_phone_shows_everything_without_scrolling_sideways(open_page):
    page = open_page(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for slider in page.locator("input").all():
        box = slider.bounding_box()
        assert box["height"] >= 44 and box["width"] >= 150
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360
    first = page.locator("input").first
    box = first.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 8, box["y"] + box["height"] / 2)
    assert first.get_attribute("aria-valuetext") == "3"


def test_print_shows_the_default_frame_and_its_values(open_page):
    page = open_page(viewport={"width": 900, "height": 700})
    page.locator(".bnn-explorer").first.get_by_label("Height of the bars").press("End")
    assert distance(shown(page), height=2, number=2) > 30
    page.emulate_media(media="print")
    assert distance(shown(page), height=2, number=2) < 10
    text = page.locator(".bnn-explorer").first.inner_text()
    assert "Height of the bars\n2" in text.replace(" ", " ") and "3" not in text
    assert not page.locator("input").first.is_visible()


def test_without_scripts_there_is_a_picture_and_no_dead_slider(launch, site):
    # The switch, not Playwright's emulation: with the latter the page is still read as if scripts would run.
    page = launch("--blink-settings=scriptEnabled=false").new_page(viewport={"width": 900, "height": 700})
    page.goto(site[0].as_uri())
    assert distance(screenshot(page.locator(".bnn-card").first), height=2, number=2) < 10
    assert not page.locator("input").first.is_visible()
    text = page.locator("body").inner_text()
    assert text.count("The controls need JavaScript; the picture shows Height of the bars 2, Number 2.") == 2


def test_a_reload_starts_from_the_default_again(open_page):
    page = open_page()
    page.locator("input").first.press("End")
    page.reload()
    assert page.locator("output").first.inner_text() == "2"
    assert page.locator("input").first.input_value() == "1"
