"""Every stop of a static explorer is its own figure to the pixel: nothing of another frame shines through."""

from __future__ import annotations

import io
from base64 import b64encode

import numpy as np
import pytest

from book.display import Control, explore, figure
from book.display import frames as _frames
from tests.book.display.test_explorer_browser import chromium, launch, screenshot, shown  # noqa: F401

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
    return explore(network, controls, title="Networks", alt="Bars, a curve and a matrix", static=True)


@pytest.fixture(scope="module")
def whole(explorer) -> list[str]:
    """The address of each figure as matplotlib writes it, in the order of the stops."""
    addresses = []
    for settings in explorer.grid:
        with _frames.drawn(network, settings) as fig:
            fig.savefig(buffer := io.BytesIO(), format="svg", dpi=192)
        addresses.append("data:image/svg+xml;base64," + b64encode(buffer.getvalue()).decode())
    return addresses


@pytest.fixture(scope="module")
def path(explorer, root, tmp_path_factory):
    path = tmp_path_factory.mktemp("exact") / "page.html"
    style = (root / "book" / "_static" / "book.css").read_text(encoding="utf-8")
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>Explorer</title><style>{style}</style><body class="bd-content"><div class="cell_output">'
        f'<div class="text_html">{explorer.to_html()}</div></div></body></html>',
        encoding="utf-8",
    )
    return path


def stops(page):
    """Move the sliders by keyboard over the whole grid, the second one fastest."""
    first, second = page.locator("input").all()
    for i in range(4):
        first.press("ArrowRight" if i else "Home")
        for k in range(3):
            second.press("ArrowRight" if k else "Home")
            yield i, k


@pytest.mark.parametrize(
    ("width", "ratio", "theme"),
    [(390, 1, "light"), (390, 2, "dark"), (1024, 1, "dark"), (1024, 2, "light"), (1440, 1, "light"), (1440, 2, "dark")],
)
def test_every_stop_is_its_own_figure_alone(chromium, path, whole, width, ratio, theme):  # noqa: F811
    context = chromium.new_context(viewport={"width": width, "height": 900}, device_scale_factor=ratio)
    page = context.new_page()
    page.goto(path.as_uri())
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    pictures = [shown(page) for _ in stops(page)]
    page.evaluate("document.querySelector('.bnn-print').remove()")
    alone = "(src) => { const image = document.querySelector('.bnn-first'); image.src = src; return image.decode(); }"
    expected = []
    for address in whole:
        page.evaluate(alone, address)
        expected.append(screenshot(page.locator(".bnn-card")))
    context.close()
    assert len(pictures) == 12
    distances = [np.abs(np.stack(pictures) - one).max(axis=(1, 2, 3)) for one in expected]
    assert max(row[i] for i, row in enumerate(distances)) <= TOLERANCE
    # The test would see a stop that shows another's figure.
    assert min(d for i, row in enumerate(distances) for k, d in enumerate(row) if i != k) > 10 * TOLERANCE


@pytest.mark.parametrize("width", [390, 1024])
def test_the_slider_and_the_picture_stay_where_they_are(chromium, path, width):  # noqa: F811
    page = chromium.new_page(viewport={"width": width, "height": 900})
    page.goto(path.as_uri())
    places = set()
    for _ in stops(page):
        boxes = [found.bounding_box() for found in page.locator("input, output, .bnn-card").all()]
        places.add(tuple(tuple(box.values()) for box in boxes))
    assert len(places) == 1
    page.close()
