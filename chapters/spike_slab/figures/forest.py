"""Forest plots: published numbers and ours with both uncertainties, one line a setting and method."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from book.display.panels import replicate_points
from book.display.style import FONT_SIZE, INK, PALETTE, figure, panel_letters, style_context
from book.lab.intervals import FEW, quantile
from book.lab.metrics import metrics
from book.lab.verdicts import DIVERGED, NOT_COMPARABLE, NOT_PUBLISHED, NOT_RUN, WORDS, symbol, word_of

LINE = 0.4  # inches of a line, room for the published value above ours
HEADING = 0.85  # of a line
APART = 0.19  # of a line, between its middle and each of the two values
OURS, ASIDE = PALETTE[0], PALETTE[6]
BAND = "#EFEFEF"  # behind a setting's name
SMALL = FONT_SIZE - 1.5
_LOOKS = {
    "published": {"marker": "D", "mfc": "white", "mec": INK, "color": INK, "ms": 7},
    "ours": {"marker": "o", "mfc": OURS, "mec": "white", "color": OURS, "ms": 7, "mew": 0.8},
    "aside": {"marker": "s", "mfc": ASIDE, "mec": "white", "color": ASIDE, "ms": 6, "mew": 0.8},
}
_TELLING = {"lower": "← better", "higher": "better →"}


@dataclass(frozen=True)
class _Line:
    """A line of the plot: a heading where `method` is None."""

    place: float
    text: str
    setting: str
    method: str | None


def forest(
    rows: Sequence[Mapping],
    metric: str | Sequence[str],
    *,
    settings: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Published values (open diamonds) above ours (filled circles), one line a setting and method, a panel a metric.

    Bars are intervals of 95 % by Student's t, as in `book.lab.verdicts.verdict`: published ones hold the paper's
    replicates and the sampling of a test set of its own, as far as both are known. Small points are our single
    replicates. At the right margin stands the sign of the verdict. What was not run says so, and the smoke profile
    counts as not run.

    Args:
        rows: of `book.lab.compare`.
        metric: name or names, at most three side by side.
        settings: which ones, in this order; by default all that have one of the metrics, in the rows' order.
        labels: how metrics are called in the titles, where not as in metrics.toml.

    Raises:
        ValueError: an unknown metric or setting, or more than three panels.
    """
    wanted = [metric] if isinstance(metric, str) else list(metric)
    if len(wanted) > 3:
        raise ValueError(f"{len(wanted)} metrics do not fit side by side: give at most 3")
    rows = [row for row in rows if row["metric"] in _known("metric", wanted, rows)]
    settings = _known("setting", settings, rows)
    rows = [row for row in rows if row["setting"] in settings]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {(row["setting"], row["method"], row["metric"]): row for row in rows}
    lines = _lines({key[:2] for key in found}, settings, methods)
    with style_context():
        fig, axes = _panels(len(wanted), height=LINE * (lines[0].place - lines[-1].place + 1.2))
        for place, (panel, one) in enumerate(zip(axes, wanted, strict=True)):
            first = place == 0
            # white panels would hide a heading that runs on into the next one
            panel.patch.set_visible(first)
            known = metrics()[one]
            if known.nominal is not None:
                panel.axvline(known.nominal, color=INK, lw=1, ls=":", marker="none", zorder=1)
            for line in lines:
                if line.method is None:
                    _heading(panel, line, said=first)
                else:
                    _draw(panel, line.place, found.get((line.setting, line.method, one)))
            _frame(panel, lines, first)
            unit = f" ({known.unit})" if known.unit else ""
            width = 40 if len(axes) == 1 else 20
            panel.set_title(textwrap.fill((labels or {}).get(one, known.label + unit), width))
            direction = _TELLING.get(known.direction) or (f"nominal: {known.nominal:g}" if known.nominal else "")
            panel.set_xlabel(direction, fontsize=SMALL)
        if len(wanted) > 1:
            panel_letters(axes)
        _legend(fig, rows, columns=2)
    return fig


def _known(field: str, wanted: Sequence[str] | None, rows: Sequence[Mapping]) -> list[str]:
    """Those wanted, or all in the rows' order."""
    present = list(dict.fromkeys(row[field] for row in rows))
    if unknown := [one for one in wanted or () if one not in present]:
        raise ValueError(f"no row has the {field} {unknown[0]!r}; the rows have: {', '.join(present) or 'none'}")
    return present if wanted is None else list(wanted)


def _lines(pairs: set[tuple[str, str]], settings: list[str], methods: list[str]) -> list[_Line]:
    """From top to bottom; settings are headings where several have several methods."""
    grouped = len(settings) > 1 and len(methods) > 1
    lines: list[_Line] = []
    place = 0.0
    for setting in settings:
        if grouped:
            lines.append(_Line(place, setting, setting, None))
            place -= HEADING
        for method in methods:
            if (setting, method) in pairs:
                text = method if grouped or len(settings) == 1 else setting
                lines.append(_Line(place, text, setting, method))
                place -= 1
        place += (1 - HEADING) if grouped else 0
    return lines


def _panels(number: int, height: float) -> tuple[Figure, np.ndarray]:
    extra = 1.1 if number > 1 else 0.8  # titles of two lines, ticks
    fig, axes = figure(number, height=height + extra, sharey=True, squeeze=False)
    fig.set_figheight(fig.get_figheight() + 1.0)  # of the legend
    fig.set_figwidth(min(fig.get_figwidth(), 6.8))  # three panels as well: a phone shrinks wider text below 9 px
    return fig, axes.ravel()


def _heading(panel: Axes, line: _Line, said: bool) -> None:
    panel.axhspan(line.place - 0.35, line.place + 0.35, color=BAND, lw=0, zorder=2)
    if said:
        where = {"transform": panel.get_yaxis_transform(), "ha": "left", "va": "center"}
        panel.text(0.01, line.place, line.text, weight="bold", fontsize=SMALL, zorder=5, clip_on=False, **where)


def _draw(panel: Axes, place: float, row: Mapping | None) -> None:
    if row is None:
        return
    own = place
    if row["published"] is not None:
        own = place - APART
        _interval(panel, place + APART, row["published"], _half(row, "published"), _LOOKS["published"])
    shown = _shown(row)
    where = {"transform": panel.get_yaxis_transform(), "ha": "left", "va": "center"}
    if not shown:
        infinite = row["n"] and row["profile"] != "smoke"
        text = DIVERGED if infinite or word_of(row["verdict"]) == DIVERGED else NOT_RUN
        panel.text(0.02, own, text, style="italic", fontsize=SMALL - 1, zorder=5, **where)
    else:
        look = _LOOKS["aside" if word_of(row["verdict"]) == NOT_COMPARABLE else "ours"]
        if row["n"] > 1:
            replicate_points(panel, np.asarray(row["values"]), own, look["color"])
        _interval(panel, own, row["mean"], _half(row, "ours"), look)
    if shown and row["published"] is not None:
        panel.text(1.02, place, symbol(row["verdict"]), fontsize=FONT_SIZE, **where)


def _shown(row: Mapping) -> bool:
    """Whether there is a mean of ours to draw: not of the smoke profile, and finite."""
    return bool(row["n"]) and row["profile"] != "smoke" and math.isfinite(row["mean"])


def _half(row: Mapping, side: str) -> float | None:
    """Half of the interval of one side; two runs have none that would mean anything."""
    if side == "published":
        return None if row["published_se"] is None else quantile(row["published_df"]) * row["published_se"]
    return None if row["se"] is None or row["n"] < FEW else quantile(row["n"] - 1) * row["se"]


def _interval(panel: Axes, place: float, mean: float, half: float | None, look: Mapping) -> None:
    if half is not None:
        panel.errorbar(mean, place, xerr=half, fmt="none", capsize=3, elinewidth=1.6, ecolor=look["color"], zorder=4)
    panel.plot(mean, place, linestyle="none", zorder=5, **look)


def _frame(panel: Axes, lines: list[_Line], first: bool) -> None:
    drawn = [line for line in lines if line.method is not None]
    panel.set_ylim(lines[-1].place - 0.6, lines[0].place + 0.6)
    panel.set_yticks([line.place for line in drawn], [line.text for line in drawn])
    panel.tick_params(axis="y", length=0, labelleft=first)
    panel.grid(visible=False, axis="y")
    panel.xaxis.set_major_locator(MaxNLocator(4))


def _bars(halves: Iterable[float | None]) -> str:
    """What the bars are, in the words of the legend."""
    known = [half is not None for half in halves]
    return ", 95 %" if all(known) else ", 95 % where known" if any(known) else ""


def _legend(fig: Figure, rows: Sequence[Mapping], columns: int) -> None:
    """What the markers are, and which signs stand at the margin."""
    run = [row for row in rows if _shown(row)]
    words = {word_of(row["verdict"]) for row in run}
    published = [row for row in rows if row["published"] is not None]
    entries = []
    if published:
        entries.append(("published" + _bars(_half(row, "published") for row in published), _LOOKS["published"]))
    if words - {NOT_COMPARABLE}:
        entries.append(("ours" + _bars(_half(row, "ours") for row in run), _LOOKS["ours"]))
    if NOT_COMPARABLE in words:
        entries.append(("ours, not comparable", _LOOKS["aside"]))
    if any(row["n"] > 1 for row in run):
        one = {"marker": "o", "color": OURS if words - {NOT_COMPARABLE} else ASIDE, "ms": 3, "alpha": 0.6, "ls": "none"}
        entries.append(("one replicate", one))
    signs: dict[str, list[str]] = {}
    for word in (*WORDS, NOT_PUBLISHED):
        if word in words and any(word_of(row["verdict"]) == word for row in published):
            signs.setdefault(symbol(word), []).append(word)
    told = "   ".join(f"{sign} {', '.join(some)}" for sign, some in signs.items())
    handles = [Line2D([], [], **{"linewidth": 1.6} | dict(look)) for _, look in entries]
    if entries:
        fig.legend(
            handles,
            [text for text, _ in entries],
            title=textwrap.fill(told, 56) or None,
            title_fontsize=SMALL,
            fontsize=SMALL,
            loc="outside lower center",
            ncols=columns,
        )
