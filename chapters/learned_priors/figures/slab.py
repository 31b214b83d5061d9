"""Pictures of the experiment aeb-slab: who keeps the slab, and how fast a prior may learn."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.panels import missing, replicate_points
from book.display.picture import Line, Panel, Picture, Points, Rule, Text
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context
from book.lab.queries import stored_arrays, stored_values
from chapters.learned_priors.experiments.slab import EXPONENTS, FIRST, OFFSET, SETTING, TRACED, ZERO, traced_steps

NAME, STEPS = "aeb-slab", 4000
TRACES = ("SGLD-SA", "SGLD-EM", "SGLD")
FLOOR = 1e-6  # of what a logarithmic axis shows
_AXES = {
    "inclusion": {"ylabel": "δ", "yscale": "log", "ylim": (FLOOR, 1.5)},
    "sigma": {"ylabel": "σ", "ylim": (0, 8.5)},
    "rho1": {"ylabel": "ρ₁", "ylim": (-0.03, 1.03)},
    "beta1": {"ylabel": "β₁ (truth: 3)", "ylim": (-0.8, 4.4)},
}
_RUNS = {  # of the last panel, in this order
    "SGLD-SA": "SA",
    "SGLD-EM, lost": "EM, slab lost",
    "SGLD-EM, kept": "EM, slab kept",
    "SGLD-EM, sigma^2=3": "EM, σ² held at 3",
    "SGLD-EM, delta=1/2": "EM, δ held at 1/2",
    "SGLD-SA, then EM": "SA, then EM",
    "SGLD": "never learned",
    ZERO: "predict 0",
}
_COLORS = dict(zip(TRACES, PALETTE, strict=False))  # as in the panels above


def _stored(name: str) -> dict[int, np.ndarray]:
    """{data set: array} of one name, as float64."""
    found = stored_arrays(NAME).items()
    return {number: value.astype(float) for (_, _, number, what), value in found if what == name}


def em_chains() -> list[tuple[int, float, bool]]:
    """(data set, test error, whether the slab was kept) of all stored chains of EM: two a data set, of other noise."""
    place = FIRST.index(1.0), EXPONENTS.index(0.0)  # of the grid: w_k = 1
    errors, kept = _stored("grid mse"), _stored("grid kept")
    chains = [(number, errors[number][place], bool(kept[number][place] > 0)) for number in sorted(errors)]
    first = zip(*(stored_values(NAME, SETTING, "SGLD-EM", metric) for metric in ("mse_test", "kept")), strict=True)
    return chains + [(number, float(error), bool(share > 0)) for number, (error, share) in enumerate(first)]


def em_gone_by(step: int) -> float | None:
    """Of the traced chains of EM that lose the slab, the share whose delta is below `FLOOR` by a step."""
    traces, place = _stored("trace SGLD-EM"), TRACED.index("inclusion")
    ends = [
        trace[place][np.searchsorted(traced_steps(STEPS), step)] for trace in traces.values() if not trace[place][-1]
    ]
    return float(np.mean(np.array(ends) < FLOOR)) if ends else None


def kept_on_grid() -> dict[float, list[float]]:
    """{w_1: share of the data sets that keep their slab, by exponent} of the explorer's grid; {} without a store."""
    found = _stored("grid kept")
    table = np.stack(list(found.values())) > 0 if found else np.empty((0, 0, 0))
    return {first: table[:, row].mean(axis=0).tolist() for row, first in enumerate(FIRST) if found}


def slab_traces() -> Figure:
    """Share of slabs, scale, first weight and its rho, a thin line for each data set; the errors of all runs."""
    arrays = {method: _stored(f"trace {method}") for method in TRACES}
    steps, names = traced_steps(STEPS), dict(zip(TRACES, ("SA", "EM", "never learned"), strict=True))
    with style_context():
        fig, axes = figure(2, nrows=3, height=2.6)
        looks = line_styles(list(names.values()), markers=False)
        for panel, (quantity, limits) in zip(axes.flat, _AXES.items(), strict=False):
            if not arrays["SGLD-SA"]:
                missing(panel)
                continue
            place = TRACED.index(quantity)
            for method in reversed(TRACES):  # stochastic approximation on top
                for trace in arrays[method].values():
                    values = np.maximum(trace[place], FLOOR) if quantity == "inclusion" else trace[place]
                    panel.plot(steps, values, **looks[names[method]] | {"lw": 1, "alpha": 0.55, "label": "_"})
            panel.set(xscale="log", xlabel="step", **limits)
        handles = [axes[0, 0].plot([], [], **look)[0] for look in looks.values()]
        for old in axes[2]:
            old.remove()
        wide = fig.add_subplot(axes[2, 0].get_gridspec()[2, :])
        _errors(wide)
        fig.legend(handles, looks, loc="outside lower center", ncols=3)
        panel_letters([*axes[:2].flat, wide])
    return fig


def _errors(panel: Axes) -> None:
    """Test error of every chain, one column for each run."""
    chains = em_chains()
    values = {name: stored_values(NAME, SETTING, name, "mse_test") for name in _RUNS}
    for name, wanted in (("SGLD-EM, lost", False), ("SGLD-EM, kept", True)):
        values[name] = np.array([error for _, error, kept in chains if kept is wanted])
    if not len(values["SGLD-SA"]):
        missing(panel)
        return
    for place, (name, errors) in enumerate(values.items()):
        replicate_points(panel, errors, -place, _COLORS.get(name.split(",")[0], INK), width=0.2)
        panel.plot(np.median(errors), -place, marker="|", ms=12, mew=2, color=INK, ls="none")
    panel.axvline(3, color=INK, lw=1, ls=":", marker="none")
    panel.set_yticks(-np.arange(len(_RUNS)), _RUNS.values(), size="small")
    panel.set(xscale="log", xlabel="test error (the noise alone: 3)", xlim=(2.5, 40))
    panel.set_xticks([3, 5, 10, 20, 30], ["3", "5", "10", "20", "30"])
    panel.minorticks_off()
    panel.grid(axis="y", visible=False)


# Of the points of a trace, about one in four, both ends among them: the explorer's 48 stops have two traces each.
SHOWN = np.linspace(0, len(traced_steps(STEPS)) - 1, 12).round().astype(int)


def steps(first: float, exponent: float) -> Picture:
    """Weights, delta and the first weight of one data set, and the test errors of all, at one point of the grid.

    Args:
        first: w_1.
        exponent: alpha, how fast the weights fall.
    """
    row, column = FIRST.index(first), EXPONENTS.index(exponent)
    k, scale = traced_steps(STEPS)[SHOWN], first * (1.0 + OFFSET) ** exponent
    smooth = np.geomspace(1, STEPS, 9)
    across = {"xlabel": "step", "xlim": (1, STEPS), "xlog": True, "xticks": (1, 10, 100, 1000)}
    weights = [Line(smooth, scale / (OFFSET + smooth) ** exponent, look=0)]
    shares, traces, errors = _stored("grid kept"), _stored("grid traces"), _stored("grid mse")
    delta, weight, scatter, heading = [Rule(y=1.0)], [Rule(y=3.0)], [Rule(y=3.0)], "not run"
    if errors:
        trace = traces[0][:, row, column, SHOWN]
        delta.append(Line(k, np.maximum(trace[TRACED.index("inclusion")], FLOOR), look=0))
        weight.append(Line(k, trace[TRACED.index("beta1")], look=0))
        table = np.stack([errors[number][:, column] for number in sorted(errors)])
        number = len(table)
        places = first * np.linspace(0.9, 1.1, number)
        scatter.append(Points(places, table[:, row], look="gray", marker=0, size=4, alpha=0.5))
        scatter.append(Line(FIRST, np.median(table, axis=0), "median", 1))
        scatter.append(Rule(x=first))
        kept = int(sum(share[row, column] > 0 for share in shares.values()))
        heading = (
            f"A = {scale:.3g}, α = {exponent:g}: the slab is kept on {kept} of {number} data sets\n"
            f"median test error {np.median(table[:, row]):.1f}; the noise alone has variance 3"
        )
    else:
        scatter.append(Text(0.05, 10, "not run", "middle"))
    return Picture(
        [
            Panel("weights of the average", weights, ylabel="w", ylim=(1e-5, 1.3), ylog=True, **across),
            Panel("share of slabs", delta, ylabel="δ", ylim=(FLOOR, 2.0), ylog=True, **across),
            Panel("first weight", weight, ylabel="β₁ (truth: 3)", ylim=(-0.8, 4.2), **across),
            Panel(
                "all data sets", scatter, "first weight of the average, w₁", "test error", (0.0025, 1.2), (2.5, 40),
                xlog=True, ylog=True, xticks=(0.003, 0.01, 0.1, 1), yticks=(3, 5, 10, 20, 40),
            ),
        ],
        heading,
    )  # fmt: skip


def steps_in_words(first: float, exponent: float) -> str:
    """The alternative text of `steps`."""
    return f"First weight w = {first:g}, exponent {exponent:g}. " + steps(first, exponent).heading.replace("\n", "; ")


def steps_explorer() -> Explorer:
    """Knobs for the first weight of the average and for its exponent."""
    controls = {
        "first": Control("First weight w₁", FIRST, 0.08),
        "exponent": Control("Exponent α", EXPONENTS, 0.7, choice=True),
    }
    return curves(steps, controls, title="How fast may a prior learn?", alt=steps_in_words)
