"""Still pictures: paired differences, doubt under shift, what tuning buys, and a gallery of failures."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from bnnlib.contest import METHODS
from book.display.gallery import failures, make_room
from book.display.panels import missing
from book.display.style import PALETTE, figure, line_styles, panel_letters
from chapters.side_by_side.costs import costs
from chapters.side_by_side.matrix import CALLED, NAMES, SIMULATIONS
from chapters.side_by_side.shifts import SHIFTS
from chapters.side_by_side.standing import QUESTIONS, standing, stored_budgets, values

TRIALS = (1, 2, 4, 8)
SHIFTED = ("deterministic", "deterministic_sgd", "ensemble", "dropout", "sghmc", "unit_noise")


def step_costs() -> Figure:
    """What a step of each method costs in simulation II, relative to the ordinary network, from the stored table."""
    fig, panel = figure(height=5.2)
    found = dict(sorted(costs()["simulation-2"].items(), key=lambda one: one[1]))
    panel.barh([NAMES[one] for one in found], list(found.values()), color=PALETTE[0])
    panel.axvline(1.0, color="0.3", lw=1)
    panel.set_xlabel("processor time of a step, one network with Adam = 1", loc="right")  # below the names, too
    return fig


def luck(single: Sequence[int], kept: Sequence[int]) -> Figure:
    """How many methods of a comparison look decided though nothing is there, over many comparisons."""
    fig, panel = figure()
    most = int(max(*single, *kept)) + 1
    for place, (name, counts) in enumerate({"each alone": single, "by Holm's rule": kept}.items()):
        share = np.bincount(np.asarray(counts, dtype=int), minlength=most)[:most] / len(counts)
        panel.bar(np.arange(most) + 0.4 * place - 0.2, share, 0.4, label=name, color=PALETTE[place])
    panel.set(xlabel="methods of 20 that look decided", ylabel="share of comparisons", xticks=range(most))
    panel.legend()
    return fig


def differences() -> Figure:
    """Differences of RMSE to the reference paired by seed, with 95 % intervals; the gray band is equivalence."""
    fig, axes = figure(len(SIMULATIONS), height=6.2, sharey=True)
    reference, _, share = QUESTIONS["rmse"]
    methods = [one for one in METHODS if one != reference]
    for panel, task in zip(axes, SIMULATIONS, strict=True):
        rows = {row["method"]: row for row in standing(task, 1, "rmse")}
        if not rows:
            missing(panel)
            continue
        half = -share * rows[reference]["mean"]
        panel.axvspan(-half, half, color="0.88", zorder=0)
        for place, method in enumerate(reversed(methods)):
            if method not in rows:
                continue
            row = rows[method]
            look = PALETTE[{"better": 2, "worse": 1}.get(row["verdict"], 0)]
            panel.hlines(place, row["low"], row["high"], color=look, lw=1.6)
            filled = look if row["verdict"] in ("better", "worse") else "white"
            panel.plot(row["difference"], place, "o", color=look, mfc=filled, ms=5, ls="none")
        panel.set(title=CALLED[task], xlabel="difference in RMSE")
        panel.set_yticks(range(len(methods)), [NAMES[one] for one in reversed(methods)])
    panel_letters(axes)
    return fig


def trials(task: str = "simulation-2", budget: int = 1) -> Figure:
    """(a) The lowest validation NLL after some trials, minus that after all; (b) test errors by default and tuned."""
    fig, (left, right) = figure(2)
    gains = {}
    for method in METHODS:
        tried = values(task, budget, method, "validation_nll", "trials")
        if len(tried) == TRIALS[-1]:
            gains[method] = np.minimum.accumulate(tried)[np.array(TRIALS) - 1] - tried.min()
    if not gains:
        for panel in (left, right):
            missing(panel)
        return fig
    most = sorted(gains, key=lambda one: -gains[one][0])[:3]
    for method, gain in gains.items():
        if method not in most:
            left.plot(TRIALS, gain, color="0.75", lw=1, ls="-", marker="")
    for method, look in line_styles(most).items():
        left.plot(TRIALS, gains[method], **look | {"label": NAMES[method]})
    left.set(xlabel="trials", ylabel="validation NLL above the best", xscale="log")
    left.set_xticks(TRIALS, [str(one) for one in TRIALS])
    left.minorticks_off()
    left.legend(fontsize="small")
    pairs = {
        one: [float(values(task, budget, one, "rmse", kind).mean()) for kind in ("default", "tuned")] for one in gains
    }
    points = np.array(list(pairs.values()))
    ends = [points.min() - 0.05, points.max() + 0.05]
    right.plot(ends, ends, color="0.6", lw=1, ls="-", marker="")
    right.plot(*points.T, "o", color=PALETTE[0], ls="none")
    right.set(xlabel="RMSE of the default", ylabel="RMSE when tuned")
    panel_letters([left, right])
    make_room([left])
    return fig


def shifts(task: str = "MNIST") -> Figure:
    """NLL at the best temperature over the severity of three shifts, and accuracy over the size of an attack (PGD).

    Severity and size 0 are the test images as they are. The attack is on networks of its own, with default settings.
    """
    fig, grid = figure(2, 2)
    panels = list(grid.flat)
    sizes = (0.0, 0.05, 0.1, 0.2)
    for panel, kind in zip(panels, (*SHIFTS, "attack"), strict=True):
        attacked = kind == "attack"
        names = ["nll_tempered", *(f"nll_{kind}_{severity}" for severity in range(1, 6))]
        if attacked:
            names = ["accuracy", *(f"accuracy_pgd_{size:g}" for size in sizes[1:])]
        place, kind_of = (f"{task}, attacked", "default") if attacked else (task, "tuned")
        for method, look in line_styles(SHIFTED).items():
            found = [values(place, 1, method, name, kind_of) for name in names]
            if all(len(one) for one in found):
                x = sizes if attacked else range(6)
                panel.plot(x, [float(one.mean()) for one in found], **look | {"label": NAMES[method]})
        panel.set(title=kind, xlabel="severity", ylabel="NLL, nats", yscale="log")
        if attacked:
            panel.set(xlabel="largest change of a pixel", ylabel="accuracy, %", yscale="linear")
        if not panel.lines:
            missing(panel)
    if panels[0].lines:  # six long names hide the curves of a panel
        named = panels[0].get_legend_handles_labels()
        fig.legend(*named, loc="outside lower center", ncols=3, fontsize="small")
    panel_letters(panels)
    return fig


def failed(budget: int = 1) -> Figure:
    """Four ways to be misled, each from the stored runs."""
    if not all(stored_budgets(task) for task in ("simulation-2", "correlated")):
        fig, panel = figure()
        missing(panel)
        return fig
    order = np.arange(1, 11)

    def seeds(task: str, method: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.asarray(values(task, budget, method, metric), dtype=float)
        return order[: len(numbers)], np.sort(numbers)

    def pair(task: str, method: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        return {"over draws": seeds(task, method, "rmse"), "as shipped": seeds(task, method, "rmse_shipped")}

    rates = {
        "false discoveries": seeds("simulation-2", "gaussian_spike_slab", "fdr"),
        "missed": seeds("simulation-2", "gaussian_spike_slab", "fnr"),
    }
    kept = {
        NAMES[one]: seeds("simulation-2", one, "active") for one in ("spike_slab", "sparse_vd", "gaussian_spike_slab")
    }
    correlated = {NAMES[one]: seeds("correlated", one, "fnr") for one in ("sghmc_sa", "gradual_pruning")}
    correlated["knockoffs"] = seeds("correlated", "knockoffs", "fnr")
    return failures(
        [
            ("two networks, one name", "data set, sorted", "RMSE", pair("simulation-2", "gaussian_spike_slab")),
            ("no discovery, no merit", "data set, sorted", "percent", rates),
            ("sparse by name", "data set, sorted", "weights left, %", kept),
            ("a guarantee of nothing", "data set, sorted", "inputs missed, %", correlated),
        ]
    )
