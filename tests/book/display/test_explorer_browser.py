"""The static explorer in a real browser, from a file, without a network and without a kernel."""

from __future__ import annotations

import io
from base64 import b64encode

import numpy as np
import pytest
from PIL import Image

from book.display import Control, explore, figure
from book.display import frames as _frames

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Grey levels of 255, for what a browser may round differently. Nothing is lost: lines are stored as they were drawn,
# and the image here, cells of a few colors, without loss.
TOLERANCE = 2
RATES = ("1e-200", "1e-5", "0.1", "even odds")


def network(rate, size):
    """Bars, a curve and a matrix of which hardly a pixel stays from stop to stop, as in an empty and a full network."""
    fig, (left, right) = figure(2)
    chosen = RATES.index(rate)
    left.bar(range(size), np.abs(np.sin(np.arange(size) + chosen)) * chosen / 3, color=f"C{chosen}")
    left.plot([0, size], [chosen, 0], marker="none")
    left.set(ylim=(0, 1.05), xlim=(-1, 20), title=f"at {rate}")
    right.imshow(np.indices((size, size)).sum(0) % (chosen + 2), aspect="auto", interpolation="none")
    right.grid(False)
    return fig


@pytest.fixture(scope="module")
def explorer():
    controls = {
        "rate": Control("Prior inclusion", RATES, "0.1", discrete=True),
        "size": Control("Units", (4, 9, 20), 9, discrete=True),
    }
    return explore(network, controls, title="Networks", alt=lambda rate, size: f"{size} at {rate}", static=True)


@pytest.fixture(scope="module")
def path(explorer, root, tmp_path_factory):
    """A page that shows the explorer twice."""
    path = tmp_path_factory.mktemp("site") / "page.html"
    style = (root / "book" / "_static" / "book.css").read_text(encoding="utf-8")
    shown = f'<div class="cell_output"><div class="text_html">{explorer.to_html()}</div></div>'
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>Explorer</title><style>{style}</style><body class="bd-content">{shown}{shown}</body></html>',
        encoding="utf-8",
    )
    return path


@pytest.fixture
def open_page(open_quietly, path):
    return lambda **options: open_quietly(path, **options)


def screenshot(page) -> np.ndarray:
    """The pixels of the first card."""
    page.wait_for_function("[...document.images].every((image) => image.complete)")
    shot = page.locator(".bnn-card").first.screenshot(animations="disabled")
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(float)


@pytest.mark.parametrize(("width", "ratio", "theme"), [(390, 2, "dark"), (1024, 1, "light")])
def test_every_stop_is_its_own_figure_alone_and_nothing_jumps(open_page, explorer, width, ratio, theme):
    page = open_page(viewport={"width": width, "height": 900}, device_scale_factor=ratio)
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    first, second = page.locator(".bnn-explorer").first.locator("input").all()
    pictures, places = [], set()
    for i in range(4):
        first.press("ArrowRight" if i else "Home")
        for k in range(3):
            second.press("ArrowRight" if k else "Home")
            pictures.append(screenshot(page))
            places.add(str([found.bounding_box() for found in page.locator("input, output, .bnn-card").all()]))
    assert len(places) == 1
    page.evaluate("document.querySelector('.bnn-print').remove()")
    alone = "(src) => { const image = document.querySelector('.bnn-first'); image.src = src; return image.decode(); }"
    expected = []
    for settings in explorer.grid:  # each figure as matplotlib writes it
        with _frames.drawn(network, settings) as fig:
            fig.savefig(buffer := io.BytesIO(), format="svg", dpi=192)
        page.evaluate(alone, "data:image/svg+xml;base64," + b64encode(buffer.getvalue()).decode())
        expected.append(screenshot(page))
    distances = [np.abs(np.stack(pictures) - one).max(axis=(1, 2, 3)) for one in expected]
    assert max(row[i] for i, row in enumerate(distances)) <= TOLERANCE
    # The test would see a stop that shows another's figure.
    assert min(d for i, row in enumerate(distances) for k, d in enumerate(row) if i != k) > 10 * TOLERANCE


def test_keys_move_the_picture_its_words_and_its_value_of_one_explorer(open_page):
    page = open_page(viewport={"width": 900, "height": 700})
    found, other = page.locator(".bnn-explorer").all()
    before = screenshot(page)
    found.get_by_label("Units").focus()
    page.keyboard.press("ArrowRight")
    assert found.get_by_label("Units").get_attribute("aria-valuetext") == "20"
    assert found.locator("output").all_text_contents() == ["0.1", "20"]
    assert found.get_by_role("img", name="20 at 0.1").count() == 1
    page.wait_for_function(  # said after a pause, so that a screen reader is not flooded
        "document.querySelector('.bnn-explorer [role=status]').textContent === '20 at 0.1'"
    )
    assert np.abs(screenshot(page) - before).max() > 10 * TOLERANCE
    assert other.locator("output").all_text_contents() == ["0.1", "9"]
    assert other.get_attribute("data-frame") == "0" != found.get_attribute("data-frame")
    page.reload()
    assert page.locator("output").all_text_contents() == ["0.1", "9"] * 2
    assert page.locator("input").nth(1).input_value() == "1"


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
    assert first.get_attribute("aria-valuetext") == "even odds"


def test_print_and_a_page_without_scripts_show_the_default(open_page, launch, path):
    page = open_page(viewport={"width": 900, "height": 700})
    default = screenshot(page)
    page.locator("input").first.press("End")
    assert np.abs(screenshot(page) - default).max() > 10 * TOLERANCE
    page.emulate_media(media="print")
    shown = page.locator(".bnn-explorer").first
    assert shown.locator(".bnn-print").is_visible() and not shown.locator(".bnn-first").is_visible()
    assert "Prior inclusion\n0.1" in shown.inner_text().replace(" ", " ") and "even odds" not in shown.inner_text()
    assert not page.locator("input").first.is_visible()
    # The switch, not Playwright's emulation: with the latter the page is still read as if scripts would run.
    page = launch("--blink-settings=scriptEnabled=false").new_page(viewport={"width": 900, "height": 700})
    page.goto(path.as_uri())
    assert page.locator(".bnn-card img").first.is_visible() and not page.locator("input").first.is_visible()
    text = page.locator("body").inner_text()
    assert text.count("The controls need JavaScript; the picture shows Prior inclusion 0.1, Units 9.") == 2
