"""Pictures of stored results: Figure 2 with its seeds, effective draws by second, the reduced LeNet by epoch."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from book import lab
from book.display.panels import legend_below, missing, replicate_points
from book.display.style import PALETTE, figure, line_styles, panel_letters, stand_alone, style_context
from book.lab.queries import replicates
from chapters.acceptance.experiments.six_gaussians import BINS, EXTENT, OBJECTIVES
from chapters.acceptance.figures.method import ring
from chapters.acceptance.targets import MODES, SCALE, mode_centers

METHODS = tuple(OBJECTIVES)
# Evaluations by HMC in mh-logistic, profile book: the warm-up of 64 chains, and a draw, whose leapfrog steps come from
# the warm-up. No result stores them; a test runs warm-ups again with their seeds.
HMC_WARM_UP, HMC_GRADIENTS = 64 * 2052, 2


def six_histograms(setting: str, seed: int = 0) -> Figure:
    """The target and the stored histograms of 25,000 draws, a panel for each objective.

    Args:
        setting: of the experiment mh-six-gaussians.
        seed: whose draws are shown.
    """
    found = {
        method: table
        for (place, method, number, name), table in lab.stored_arrays("mh-six-gaussians").items()
        if (place, number, name) == (setting, seed, "histogram")
    }
    side = (np.arange(BINS) + 0.5) * (2 * EXTENT / BINS) - EXTENT
    away = np.stack(np.meshgrid(side, side), -1)[:, :, None] - mode_centers().numpy()
    target = np.exp(-0.5 * (away**2).sum(-1) / SCALE**2).sum(-1)
    with style_context():
        fig, axes = figure(2, nrows=2, height=3.2)
        tables = {"target": target} | {method: found.get(method) for method in METHODS}
        for panel, (name, table) in zip(axes.flat, tables.items(), strict=True):
            panel.set_title(name)
            if table is None:
                missing(panel)
                continue
            panel.imshow(table / table.max(), origin="lower", extent=(-EXTENT, EXTENT) * 2, cmap="Blues", vmax=0.8)
            ring(panel)
            panel.grid(visible=False)
        panel_letters(axes)
    return fig


def six_seeds(rows: Sequence[Mapping], settings: Sequence[str]) -> Figure:
    """Every seed: modes found, and the acceptance rate on the target beside the one that the chain sees.

    Args:
        rows: from `book.lab.compare("mh-six-gaussians")`.
        settings: of which the modes are shown; the rates are of the first.
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.2)
        for panel, pairs in (
            (left, [("modes_found", setting, setting) for setting in settings]),
            (right, [("acceptance", settings[0], "on exact points"), ("acceptance_chain", settings[0], "chain's own")]),
        ):
            known = False
            for place, (metric, setting, legend) in enumerate(pairs):
                values = [replicates(rows, setting, method, metric) for method in METHODS]
                known = known or any(map(len, values))
                look = {"label": legend, "marker": "o^"[place], "size": 5.5, "alpha": 0.7}
                for x, one in enumerate(values):
                    if len(one):
                        at = x + 0.36 * place - 0.18
                        replicate_points(panel, one, at, PALETTE[place], upright=True, width=0.1, **look)
            if not known:
                missing(panel)
                continue
            panel.tick_params(axis="x", labelsize="small")
            panel.set_xticks(range(3), ["VI", "acceptance", "symm. KL"])
            handles, labels = panel.get_legend_handles_labels()
            once = dict(zip(labels, handles, strict=True))
            panel.legend(once.values(), once.keys(), fontsize="small", loc="lower right", title="")
        left.set(ylabel="modes found", ylim=(0, MODES + 0.4), yticks=range(MODES + 1))
        right.set(ylabel="acceptance rate (%)", ylim=(0, 100))
        panel_letters((left, right))
    return fig


def learning_pays(rows: Sequence[Mapping], sets: Sequence[str], methods: Sequence[str]) -> Figure:
    """Effective draws over seconds, training and warm-up included; where a curve crosses HMC's, learning has paid.

    Args:
        rows: from `book.lab.compare("mh-logistic")`.
        sets: data sets, a panel each.
        methods: to show.
    """
    with style_context():
        fig, axes = figure(len(sets), height=3.2, sharey=True, squeeze=False)
        seconds = np.geomspace(0.3, 1000, 200)
        for panel, name in zip(axes[0], sets, strict=True):
            known = False
            for method, look in line_styles(list(methods), markers=False).items():
                rate, start = (lab.stored_mean(rows, name, method, m) for m in ("ess_per_second", "seconds_training"))
                if rate is None or start is None:
                    continue
                known = True
                later = seconds[seconds > start]
                panel.plot(later, rate * (later - start), **look)
            if not known:
                missing(panel)
                continue
            panel.set(xscale="log", yscale="log", xlabel="seconds", title=name, ylim=(1e3, 3e8))
        axes[0, 0].set_ylabel("effective draws")
        stand_alone(axes)
        legend_below(fig, axes[0, 0], ncols=3, fontsize="small")
        panel_letters(axes[0])
    return fig


def crossings(rows: Sequence[Mapping], name: str, method: str, other: str = "HMC") -> list[float]:
    """Effective draws after which the method, training included, has caught up with the other, in each run.

    Args:
        rows: from `book.lab.compare("mh-logistic")`.
        name: data set.
        method: that learns first.
        other: that it races.

    Returns:
        One number for each replicate; infinity where it never catches up.
    """
    asked = [replicates(rows, name, who, m) for who in (method, other) for m in ("ess_per_second", "seconds_training")]
    return [
        caught_up(start, 1.0 / rate, other_start, 1.0 / other_rate)
        for rate, start, other_rate, other_start in zip(*asked, strict=True)
    ]


def crossings_in_evaluations(rows: Sequence[Mapping], name: str, method: str, learning: float) -> list[float]:
    """As `crossings` beside HMC, but by evaluations of the posterior, of which one with its gradient counts as one.

    Args:
        rows, name, method: as for `crossings`.
        learning: evaluations that the method learns with.
    """
    worth = (replicates(rows, name, who, "ess_share_geyer") / 100.0 for who in (method, "HMC"))
    return [
        caught_up(learning, 1.0 / ours, HMC_WARM_UP, HMC_GRADIENTS / theirs)
        for ours, theirs in zip(*worth, strict=True)
    ]


def caught_up(start: float, cost: float, other_start: float, other_cost: float) -> float:
    """Draws after which both have spent the same, where n draws cost start + n cost; infinity if never."""
    gain = other_cost - cost
    return max(0.0, (start - other_start) / gain) if gain > 0 else math.inf
