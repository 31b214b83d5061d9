"""Figures of the page as SVG: their colors in the dark, their panels, and what stays pixels."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from book.display import style, vector
from book.display.picture import DARK, LIGHT


def lines(ncols=1, **options):
    with style.style_context():
        figure, axes = style.figure(ncols, **options)
        for panel in np.ravel(axes):
            panel.plot([0, 1], [1, 2], color=style.PALETTE[1], label="a")
            panel.set_xlabel("x")
    return figure, axes


def test_every_look_has_its_own_color_in_the_dark():
    for look, color in LIGHT.items():
        if color != style.INK and look != "gray":
            assert vector.darkened(color.lower()) == DARK[look]
    assert vector.darkened(style.INK) == DARK["ink"]
    assert vector.darkened("#ffffff") == vector.GROUND


def test_grays_change_sides_and_keep_their_order():
    shades = [to_rgb(vector.darkened("#" + 3 * f"{level:02x}"))[1] for level in range(0x22, 0x100, 13)]
    assert shades == sorted(shades, reverse=True) and len(set(shades)) == len(shades)


@pytest.mark.parametrize("color", ["#000080", "#8b0000", "#005500", "#440154"])
def test_other_colors_are_lightened_until_they_are_seen(color):
    made = to_rgb(vector.darkened(color))
    assert vector.contrast(made, to_rgb(vector.GROUND)) >= vector.CONTRAST - 0.1  # of eight bits
    assert np.argmax(made) == np.argmax(to_rgb(color))


def test_the_file_has_a_view_for_the_dark_and_for_each_panel_in_both():
    text = vector.svg_of(lines(2)[0])
    root = ElementTree.fromstring(text)
    views = {one.get("id"): one.get("viewBox") for one in root.iter("{http://www.w3.org/2000/svg}view")}
    assert list(views) == ["dark", "panel-1", "panel-1-dark", "panel-2", "panel-2-dark"]
    assert views["panel-1"] == views["panel-1-dark"] != views["panel-2"]
    _, _, width, height = map(float, root.get("viewBox").split())
    shown = float(root.get("width")), float(root.get("height"))
    assert shown == pytest.approx((width / 0.72, height / 0.72), abs=1.0)
    left, right = ([float(v) for v in views[f"panel-{k}"].split()] for k in (1, 2))
    assert left[0] < right[0] and left[0] + left[2] < right[0] + right[2] <= width + 1
    widths = [size.split("x")[0] for size in root.get("data-panels").split()]
    assert widths == [f"{v[2] / 0.72:.0f}" for v in (left, right)]
    # a color is its own, for readers that know no variables, and then a variable with two values
    name = re.search(r"stroke: #d55e00;stroke:var\((--c\d+)\)", text)[1]
    assert f"{name}:#d55e00" in text and f"{name}:{DARK['1']}" in text
    assert text == vector.svg_of(lines(2)[0])


def test_hatched_areas_are_seen_in_the_dark():
    figure, axes = lines()
    axes.bar([0], [1], color=style.INK, hatch="//")
    text = vector.svg_of(figure)
    assert f"fill: {style.INK.lower()};fill:var(" in text[text.index("<pattern") : text.index("</pattern")]


def test_a_single_panel_fits_a_phone(root):
    least = re.search(r"max\(100%, ([\d.]+) \* var\(--drawn", (root / "book/_static/book.css").read_text())
    width = float(re.search(r'<svg[^>]* width="(\d+)"', vector.svg_of(lines()[0]))[1])
    assert float(least[1]) * width <= 390 - 3 * 16  # the margins of the page and of the figure
    assert float(least[1]) * 10 * vector.DOTS / 72 >= 9  # pixels of the smallest words


@pytest.mark.slow
def test_panels_that_need_each_other_stay_together():
    assert vector.panels(lines()[0]) == []
    figure, axes = lines(2, sharey=True)
    assert vector.panels(figure) == []
    figure, axes = lines(2)
    axes[0].twinx().plot([0, 1], [3, 4])
    assert vector.panels(figure) == []
    figure, _ = lines(2)
    figure.supxlabel("both")
    assert vector.panels(figure) == []
    figure, axes = lines(2)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center")
    figure.draw_without_rendering()
    assert len(vector.panels(figure)) == 3
    figure, axes = lines(2)
    for name in "bcd":
        axes[0].plot([0, 1], [0, 1], label=name)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.draw_without_rendering()
    text = vector.svg_of(figure)
    boxes = [float(one) / 72 for one in re.search(r'id="panel-4" viewBox="([^"]+)"', text)[1].split()]
    figure.draw_without_rendering()
    crop = figure.get_tightbbox().padded(vector.PAD)
    *_, left, right = vector.panels(figure)
    assert boxes[:1] + boxes[2:3] == pytest.approx([right.x0 - crop.x0, right.width], abs=0.02)
    assert left.x0 < left.x1 < right.x0 < left.x1 + 3 * vector.PAD and left.y0 == right.y0  # no end of a line in both


@pytest.mark.slow
def test_images_and_clouds_stay_pixels():
    figure, axes = lines(2)
    axes[1].imshow(np.eye(3))
    assert vector.svg_of(figure) is None
    figure, axes = lines()
    axes.scatter(*np.random.default_rng(0).normal(size=(2, 20_000)))
    assert vector.svg_of(figure) is None
