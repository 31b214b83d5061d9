"""Pictures of stored results: the examples by epoch beside the published runs, and the methods without each part."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book import lab
from book.display.panels import legend_below, log_axis, missing, replicate_points
from book.display.style import INK, PALETTE, figure, panel_letters, style_context
from book.lab.queries import replicates

EXAMPLES = ("example 1", "example 2", "example 3")
METHODS = (
    "AVO",
    "AVO, exact E-step",
    "AVO, no warm-up",
    "AVO, long warm-up",
    "AVO, no noise",
    "AVO, no group prior",
    "AVO, none removed",
    "AVO, every layer",
    "magnitude",
    "group lasso",
    "SVBNN",
    "SA-EM",
    "lasso",
)
ERROR = {"example 1": "test MSE", "example 2": "test MSE", "example 3": "test error (%)"}

# epoch: error and share of zeros, printed while the published notebooks ran, which end one epoch short of their number;
# wrong classes in percent for the third
PUBLISHED = {
    "example 1": (
        {100: 1.50, 500: 1.43, 1000: 1.29, 2000: 1.20, 2999: 1.108},
        {52: 98.57, 100: 98.97, 2999: 98.97},
    ),
    "example 2": (
        {100: 27.4, 200: 7.1, 500: 3.2, 1500: 2.70, 1999: 2.64, 5999: 2.494},
        {52: 71.6, 200: 97.7, 600: 99.31, 5999: 99.31},
    ),
    "example 3": (
        {500: 14.6, 1000: 6.2, 1500: 5.0, 1999: 3.6, 2999: 3.9},
        {52: 38.0, 150: 81.0, 500: 93.0, 800: 98.6, 2999: 98.73},
    ),
}


def stored_traces(example: str) -> dict[str, np.ndarray] | None:
    """{"epochs" (T,), "error" (T, R), "zeros" (T, R)} of the published method; None where nothing is stored."""
    found = {}
    for (_, method, _, name), values in lab.stored_arrays(f"avo-{example.replace(' ', '-')}").items():
        if method == "AVO" and name.startswith("trace/AVO/"):
            found[name.rpartition("/")[2]] = values.astype(float)
    return found or None


def traces(stored: Mapping[str, Mapping[str, np.ndarray] | None] | None = None) -> Figure:
    """Test error and zeros by epoch: every data set of ours, and the published run.

    Args:
        stored: {example: as from `stored_traces`}; read from the store if omitted.
    """
    stored = {name: stored_traces(name) for name in EXAMPLES} if stored is None else stored
    with style_context():
        fig, axes = figure(3, nrows=2, height=2.7)
        for column, name in enumerate(EXAMPLES):
            ours, printed = stored.get(name), PUBLISHED[name]
            for row, (panel, kind) in enumerate(zip(axes[:, column], ("error", "zeros"), strict=True)):
                if ours is None and row:  # the words stand where the title would
                    missing(panel, empty=False)
                else:
                    panel.set_title(name)
                if ours is not None:
                    _runs(panel, ours["epochs"], ours[kind])
                panel.plot(
                    *zip(*printed[row].items(), strict=True), "D", mfc="white", mec=PALETTE[1], ms=7, mew=1.6,
                    ls="none", label="published run",
                )  # fmt: skip
                panel.set(xlim=(0, None), xlabel="epoch")
            log_axis(axes[0, column])
            axes[0, column].set_ylabel(ERROR[name])
            axes[1, column].set(ylim=(0, 104), ylabel="zeros (%)")
        legend_below(fig, axes[0, 0], ncols=3, fontsize="small")
        panel_letters(axes)
    return fig


def _runs(panel: Axes, epochs: np.ndarray, values: np.ndarray) -> None:
    """A thin line for each data set, and their median."""
    for number, one in enumerate(values.T):
        label = "_run" if number else "ours, a data set"
        panel.plot(epochs, one, color=PALETTE[0], lw=0.9, alpha=0.4, ls="-", marker="none", label=label)
    median = np.median(values, axis=1)
    panel.plot(epochs, median, color=INK, lw=1.8, ls="--", marker="none", label="ours, median")


def parts(rows: Mapping[str, Sequence[Mapping]]) -> Figure:
    """Every data set by method: test error above, wrong and missed inputs below.

    Args:
        rows: {"example-1": from `book.lab.compare`, ...}.
    """
    with style_context():
        fig, axes = figure(3, nrows=2, height=3.6, sharey=True)
        for column, name in enumerate(EXAMPLES):
            table = rows[name.replace(" ", "-")]
            metric = "accuracy" if name == "example 3" else "mse_test"
            errors = {one: replicates(table, name, one, metric) for one in METHODS}
            if metric == "accuracy":
                errors = {one: 100.0 - values for one, values in errors.items()}
            _strip(axes[0, column], errors)
            axes[0, column].set(title=name, xlabel=ERROR[name])
            faults = {one: replicates(table, name, one, "false_positives") for one in METHODS}
            misses = {one: replicates(table, name, one, "false_negatives") for one in METHODS}
            _strip(axes[1, column], faults, misses)
            axes[1, column].set(xlabel="inputs")
        for panel in axes[:, 0]:
            panel.set_yticks(range(len(METHODS)), METHODS)
            panel.set_ylim(len(METHODS) - 0.5, -0.5)
        handles = [
            axes[1, 0].plot([], [], marker, color=color, ms=6, ls="none", label=label)[0]
            for marker, color, label in (("o", PALETTE[0], "wrong inputs kept"), ("x", PALETTE[1], "true inputs lost"))
        ]
        fig.legend(handles=handles, loc="outside lower center", ncols=2, fontsize="small")
        panel_letters(axes)
    return fig


def _strip(panel: Axes, values: Mapping[str, np.ndarray], misses: Mapping[str, np.ndarray] | None = None) -> None:
    """Points by method, and crosses for a second count; "not run" without any."""
    if not any(len(one) for one in values.values()):
        missing(panel)
        return
    for place, name in enumerate(METHODS):
        if misses is None:
            replicate_points(panel, values[name], place, PALETTE[0], width=0.18)
            if len(values[name]):
                panel.plot([np.mean(values[name])], [place], "|", color=INK, ms=14, mew=2)
            continue
        panel.plot(values[name], np.full(len(values[name]), place - 0.15), "o", color=PALETTE[0], ms=5, alpha=0.5)
        panel.plot(misses[name], np.full(len(misses[name]), place + 0.2), "x", color=PALETTE[1], ms=6, alpha=0.6)
    panel.grid(axis="y", visible=False)
    if misses is not None:
        most = max(12.0, 1.6 * max(np.max(one, initial=0.0) for one in (*values.values(), *misses.values())))
        panel.set_xscale("symlog", linthresh=5)
        panel.set_xlim(-0.5, most)
        ticks = [one for one in (0, 2, 5, 20, 100, 1000) if one < most]
        panel.set_xticks(ticks, map(str, ticks), minor=False)
        panel.set_xticks([], minor=True)
