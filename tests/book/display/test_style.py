"""The theme keeps its promises: contrast, color vision, signals besides color, reproducible files."""

import itertools

import matplotlib as mpl
import numpy as np
import pytest

from book import display
from book.display import picture, style
from book.display.gallery import covered, failures

mpl.use("agg")

# Full color-vision deficiency after Machado, Oliveira and Fernandes (2009), on linear RGB.
DEFICIENCIES = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(color: str) -> np.ndarray:
    value = np.array(mpl.colors.to_rgb(color))
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def least_distance(palette, matrix) -> float:
    seen = [lab(np.array(matrix) @ linear(color)) for color in palette]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))


@pytest.mark.parametrize("color", display.PALETTE)
def test_every_color_stands_out_on_the_white_card(color):
    luminance = linear(color) @ [0.2126, 0.7152, 0.0722]
    assert 1.05 / (luminance + 0.05) >= 3.0  # WCAG 1.4.11, graphics


@pytest.mark.parametrize("ground", ["#121212", "#14181e"])
@pytest.mark.parametrize("look", picture.LOOKS)
def test_every_color_of_the_dark_mode_stands_out_on_its_ground(look, ground):
    light, dark = (linear(color) @ [0.2126, 0.7152, 0.0722] + 0.05 for color in (picture.DARK[look], ground))
    assert light / dark >= 4.0


@pytest.mark.parametrize("palette", [display.PALETTE, [picture.DARK[str(i)] for i in range(7)]], ids=["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_colors_stay_apart_for_everyone(deficiency, palette):
    # A Lab distance of 2.3 is just noticeable side by side; thin lines far apart need several times that.
    assert least_distance(palette, DEFICIENCIES[deficiency]) > 15


def test_the_measure_sees_a_bad_palette():
    """Red and green of equal lightness are the classic mistake: seen apart normally, not with deuteranopia."""
    bad = ("#D03A2B", "#6B7A00")
    assert least_distance(bad, DEFICIENCIES["normal"]) > 50
    assert least_distance(bad, DEFICIENCIES["deuteranopia"]) < 15


def test_lines_differ_in_style_and_marker_as_well_as_in_color():
    fig, axes = display.figure()
    lines = [axes.plot([0, 1], [i, i])[0] for i in range(len(display.PALETTE))]
    for get in ("get_color", "get_marker"):
        assert len({getattr(line, get)() for line in lines}) == len(lines)
    assert len({str(line._dash_pattern) for line in lines}) == len(lines)
    assert fig.get_size_inches()[0] == pytest.approx(5.1)


def test_line_styles_follow_the_order_of_names():
    styles = display.line_styles(["SVBNN", "VBNN"])
    assert styles["SVBNN"] == {"label": "SVBNN", "color": display.PALETTE[0], "linestyle": "-", "marker": "o"}
    assert display.line_styles(["SVBNN"], markers=False)["SVBNN"]["marker"] == "none"
    with pytest.raises(ValueError, match="repeated"):
        display.line_styles(["a", "a"])
    with pytest.raises(ValueError, match="8 names given, 7 can be told apart"):
        display.line_styles(list("abcdefgh"))


@pytest.mark.parametrize("columns", [1, 2])
def test_text_is_readable_on_a_phone(columns):
    """360 CSS pixels less 44 of margins and card: tick labels of at least 7 px with two panels, 8 px with one."""
    with display.style_context():
        points = mpl.rcParams["xtick.labelsize"]
    shown = points / 72 / style.PANEL_WIDTH[columns] * 316
    assert shown >= {1: 8, 2: 7}[columns]


def test_figure_refuses_four_columns():
    with pytest.raises(ValueError, match="use 1, 2 or 3 columns"):
        display.figure(4)


def test_the_theme_ends_with_its_block_and_reaches_seaborn():
    seaborn = pytest.importorskip("seaborn")
    before = dict(mpl.rcParams)
    with display.style_context():
        assert [mpl.colors.to_hex(c).upper() for c in seaborn.color_palette()] == list(display.PALETTE)
    assert dict(mpl.rcParams) == before


def test_use_style_sets_everything():
    with mpl.rc_context():
        display.use_style()
        assert mpl.rcParams["svg.hashsalt"] == "bnnlib" and mpl.rcParams["font.size"] == style.FONT_SIZE


def test_panel_letters_keep_titles():
    _, axes = display.figure(2, 2)
    axes[0, 0].set_title("error", loc="left")
    display.panel_letters(axes)
    assert [panel.get_title(loc="left") for panel in axes.flat][:2] == ["$\\mathbf{a}$  error", "$\\mathbf{b}$"]


def test_panels_that_share_an_axis_can_each_stand_alone():
    figure, axes = display.figure(2, 2, sharex="col", sharey="row")
    axes[0, 0].set_ylabel("error")
    axes[1, 1].set_xlabel("step")
    style.stand_alone(axes)
    assert [(panel.get_xlabel(), panel.get_ylabel()) for panel in axes.flat] == [
        ("", "error"), ("step", "error"), ("", ""), ("step", "")
    ]  # fmt: skip
    figure.draw_without_rendering()
    assert all(axis.get_ticklabels()[0].get_visible() for one in axes.flat for axis in (one.xaxis, one.yaxis))


def test_dense_curves_keep_a_few_markers_that_do_not_coincide():
    _, axes = display.figure()
    for i in range(2):
        axes.plot(np.arange(200), np.full(200, i))
    axes.plot(range(5), range(5))
    display.sparse_markers(axes)
    first, second, short = (line.get_markevery() for line in axes.get_lines())
    assert first[1] == second[1] == 25 and first[0] != second[0] and short is None


X = np.linspace(0, 1, 50)
CURVES = {  # some that leave a corner free, and some that go through all corners and the middle
    "free": {"flat": (X, 0 * X), "rising": (X, X**4)},
    "full": {"down": (X, 1 - X), "up": (X, X), "middle": (X, 0.5 + 0 * X), "top": (X, 1 + 0 * X)},
}


@pytest.mark.slow
def test_no_legend_lies_over_a_curve():
    fig = failures([(name, "x", "y", CURVES[name]) for name in ("free", "full", "full", "free")])
    fig.draw_without_rendering()
    assert not any(covered(panel) for panel in fig.axes)
    panel = fig.axes[0]
    assert panel.get_ylim()[1] == pytest.approx(1.05, rel=0.01)
    panel.legend(loc="lower right")  # where a curve begins or ends in both
    fig.draw_without_rendering()
    assert covered(panel)
