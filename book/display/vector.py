"""A figure as SVG for the page: in the dark with the colors of the dark mode, on a phone panel by panel.

The file is shown by an ``img``, which knows nothing of the page around it. So the file has views, and the address says
which: ``#dark``, ``#panel-2``, ``#panel-2-dark``. Without one it is the whole figure in light colors.
"""

import colorsys
import gzip
import io
import os
import re

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.transforms import Bbox

from book.display.frames import tidied
from book.display.picture import DARK, LIGHT
from book.display.style import INK, RC

GROUND = "#121212"  # of the dark pages
LARGEST = 150_000  # bytes, compressed; a picture of more points weighs less
CONTRAST = 4.0  # of any color in the dark, see tests/book/display/test_style.py
PAD = 0.1  # inches around a panel, and around the figure as IPython cuts it
DOTS = 100  # CSS pixels an inch, as the theme draws

_COLOR = re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})")
_GROUND_OF_HATCH = re.compile(r'fill="(#[0-9a-f]{6})"')  # matplotlib has no style there


def darkened(color: str) -> str:
    """What stands for a color in the dark: the theme's own, a gray between ink and ground, or a lighter one."""
    names = {to_hex(value): name for name, value in LIGHT.items() if value != INK}
    if color in names:
        return DARK[names[color]]
    ink, ground = to_rgb(DARK["ink"]), to_rgb(GROUND)
    r, g, b = to_rgb(color)
    if max(r, g, b) - min(r, g, b) < 0.03:
        share = min(1.0, (1.0 - g) / (1.0 - to_rgb(INK)[1]))
        return to_hex([share * one + (1.0 - share) * other for one, other in zip(ink, ground, strict=True)])
    hue, light, saturation = colorsys.rgb_to_hls(r, g, b)
    while contrast(colorsys.hls_to_rgb(hue, light, saturation), ground) < CONTRAST and light < 1.0:
        light += 0.02
    return to_hex(colorsys.hls_to_rgb(hue, min(light, 1.0), saturation))


def contrast(color: tuple[float, ...], ground: tuple[float, ...]) -> float:
    """Of a lighter color to a darker one, as WCAG counts it."""

    def luminance(rgb: tuple[float, ...]) -> float:
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in rgb]
        return sum(weight * v for weight, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    return (luminance(color) + 0.05) / (luminance(ground) + 0.05)


def panels(figure: Figure) -> list[Bbox]:
    """Parts in inches that can stand below each other, in reading order, a legend of the figure last, column by column.

    None where panels share the words at their axes, or overlap: the figure is one.
    """
    axes = [one for one in figure.axes if one.get_visible()]
    if len(axes) < 2 or figure.get_suptitle() or figure.texts or any(map(_silent, axes)):
        return []
    inches = figure.dpi_scale_trans.inverted()
    boxes = [one.get_tightbbox().transformed(inches) for one in axes]
    boxes += [box.transformed(inches) for legend in figure.legends for box in _columns(legend)]
    for i, box in enumerate(boxes):
        for other in boxes[:i]:
            inside = Bbox.intersection(box, other)
            if inside is not None and inside.width * inside.height > 0.02:  # a color bar, an inset, a second scale
                return []
    return [box.padded(PAD / 2) for box in boxes]


def _columns(legend: Legend) -> list[Bbox]:
    """The columns of a legend, in pixels: side by side they are wider than a phone."""
    whole, size = legend.get_window_extent(), legend.prop.get_size() * legend.get_figure().dpi / 72
    before = size * (legend.handlelength + legend.handletextpad + legend.borderpad)
    ends: dict[int, float] = {}
    for box in (text.get_window_extent() for text in legend.get_texts()):
        left = round(box.x0 - before)
        ends[left] = max(ends.get(left, 0.0), box.x1)  # the next column may have lines that stand out
    return [Bbox([[left, whole.y0], [end, whole.y1]]) for left, end in sorted(ends.items())]


def _silent(axes: Axes) -> bool:
    """Whether numbers at one of its axes are left to a neighbor."""
    shared = (axes.xaxis, axes.get_shared_x_axes()), (axes.yaxis, axes.get_shared_y_axes())
    return any(
        len(group.get_siblings(axes)) > 1 and not any(label.get_visible() for label in axis.get_ticklabels())
        for axis, group in shared
    )


def svg_of(figure: Figure) -> str | None:
    """The figure as SVG with its views; None where it has images, or so many points that pixels weigh less."""
    if any(axes.images or any(isinstance(one, QuadMesh) for one in axes.collections) for axes in figure.axes):
        return None
    figure.draw_without_rendering()
    crop, parts = figure.get_tightbbox().padded(PAD), panels(figure)  # before the file is drawn, which moves legends
    buffer, about = io.StringIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with plt.rc_context({"svg.fonttype": "path", "svg.hashsalt": "bnnlib"}):
        figure.savefig(buffer, format="svg", bbox_inches=crop, metadata=about)
    text, found = _GROUND_OF_HATCH.sub(r'style="fill: \1"', tidied(buffer.getvalue())), {}

    def named(color: re.Match) -> str:
        name = found.setdefault(color[2], f"--c{len(found)}")
        return f"{color[0]};{color[1]}:var({name})"  # readers that know no variables take the first

    text = _COLOR.sub(named, text)
    views = ['<view id="dark" class="d"/>']
    sizes = []
    for number, box in enumerate(parts, start=1):
        x, y = 72.0 * (box.x0 - crop.x0), 72.0 * (crop.y1 - box.y1)
        where = f'viewBox="{x:.1f} {y:.1f} {72.0 * box.width:.1f} {72.0 * box.height:.1f}"'
        views += [f'<view id="panel-{number}" {where}/>', f'<view id="panel-{number}-dark" class="d" {where}/>']
        sizes.append(f"{DOTS * box.width:.0f}x{DOTS * box.height:.0f}")
    light = ";".join(f"{name}:{color}" for color, name in found.items())
    dark = ";".join(f"{name}:{darkened(color)}" for color, name in found.items())
    head = f"<style>svg{{{light}}}.d:target~*{{fill:{DARK['ink']};{dark}}}</style>{''.join(views)}"
    root = f'width="{DOTS * crop.width:.0f}" height="{DOTS * crop.height:.0f}" data-panels="{" ".join(sizes)}"'
    text = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', root, text, count=1)
    text = re.sub(r"(<svg[^>]*>)", rf"\1{head}", text, count=1)
    return text if len(gzip.compress(text.encode())) < LARGEST else None


def use_style() -> None:
    """Switch matplotlib, and the notebook's inline figures if there is a notebook, to the book's theme."""
    mpl.rcParams.update(RC)
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    # pyplot would draw each figure once more after its cell, just before IPython draws, shows and closes it
    plt.switch_backend(mpl.rcParams["backend"])  # this hooks pyplot into IPython, now or at the first figure
    plt.uninstall_repl_displayhook()
    # twice the screen's resolution; version strings would make every rebuild look like a change
    set_matplotlib_formats("retina", metadata={"Software": None})
    if os.environ.get("BNN_STATIC"):  # as the book is built, see book.editions.execute
        shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, svg_of)
