"""Explorers of the chapter: what time buys, size against error, and the plane of the two ways to err in a selection."""

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from matplotlib.figure import Figure

from bnnlib.contest import METHODS
from book.display.control import Control
from book.display.explorer import Explorer, curves
from book.display.panels import missing
from book.display.picture import Band, Line, Panel, Picture, Points, Text, span
from book.display.style import figure
from book.lab.intervals import estimate, half
from chapters.side_by_side.matrix import CALLED, NAMES, SIMULATIONS
from chapters.side_by_side.rivals import RIVALS
from chapters.side_by_side.standing import BUDGETS, stored_budgets, values

SPARSE = ("gradual_pruning", "group_lasso", "group_lasso_adam", "lottery_ticket")
CONTROLS = ("random_pruning", "small_dense")
MEASURES = {"rmse": "RMSE", "nll": "NLL", "crps": "CRPS"}


def _stored() -> tuple[str, ...]:
    return tuple(task for task in SIMULATIONS if stored_budgets(task))


def _task() -> Control:
    first = max(_stored(), key=lambda task: len(stored_budgets(task)))
    return Control("task", _stored(), first, format=CALLED.__getitem__, choice=True)


def _empty() -> Figure | None:
    """A picture that says that nothing is stored; None where at least two tasks are."""
    if len(_stored()) > 1:
        return None
    fig, panel = figure()
    missing(panel)
    return fig


def _method(default: str) -> Control:
    return Control("method", tuple(METHODS), default, format=NAMES.__getitem__, discrete=True)


@cache
def _means(task: str, metric: str) -> dict[str, np.ndarray]:
    """Method to its mean and half of its 95 % interval at each budget, (3, 2); NaN where nothing is stored."""
    found = {}
    for method in METHODS:
        every = [estimate(values(task, budget, method, metric).tolist()) for budget in BUDGETS]
        found[method] = np.array([(mean if n > 1 else math.nan, half(error, n)) for mean, error, n in every])
    return found


def time(task: str, measure: str, method: str) -> Picture:
    """One measure of all methods over the budget, one of them with its interval."""
    found = _means(task, measure)
    every = np.array([one[:, 0] for one in found.values()])
    place, own = np.array(BUDGETS, dtype=float), found[method]
    others = np.array([[*one[:, 0], np.nan] for one in found.values()]).ravel()
    items = [
        Line(np.tile([*place, np.nan], len(found)), others, "all methods", "gray", 0, 1.2, 0.5),
        Points(np.tile(place, len(found)), every.ravel(), "", "gray", 0, 4, alpha=0.6),
        Line(place, found["ensemble"][:, 0], "deep ensemble", "ink", 1),
        Points(place, found["ensemble"][:, 0], "", "ink", 1),
        Band(place, own[:, 0] - own[:, 1], own[:, 0] + own[:, 1], "", 1),
        Line(place, own[:, 0], "this method", 1, 0),
        Points(place, own[:, 0], "", 1, 0, 10),
    ]
    last = max(stored_budgets(task)[-1] for task in _stored())
    said = [f"{a:.3f} ± {b:.3f} at B = {c}" for (a, b), c in zip(own, BUDGETS, strict=True) if np.isfinite(a)]
    shown = f"{'; '.join(said)} (95 %)" if said else "not run"
    panel = Panel(
        "what does time buy?",
        items,
        "budget B",
        "error, less is better",
        (0.8, 1.25 * last),
        _span(every),
        xlog=True,
        xticks={float(one): str(one) for one in BUDGETS if one <= last},
    )
    return Picture([panel], f"{NAMES[method]}, {MEASURES[measure]}\n{shown}")


def _span(numbers: np.ndarray, log: bool = False) -> tuple[float, float]:
    return span(numbers, log=log) if np.isfinite(numbers).any() else (0.5, 1.0)


def _in_words(draw: Callable[..., Picture], task: str, **settings) -> str:
    """The alternative text of a picture: its task and its heading."""
    return f"On {CALLED[task]}: {', '.join(draw(task, **settings).heading.splitlines())}."


def time_explorer() -> Explorer | Figure:
    """Knobs for the task, the measure and the method; a picture without results says so."""
    if empty := _empty():
        return empty
    controls = {
        "task": _task(),
        "measure": Control("measure", tuple(MEASURES), "rmse", format=MEASURES.__getitem__, choice=True),
        "method": _method("sghmc_sa"),
    }

    return curves(time, controls, title="What does time buy?", alt=partial(_in_words, time))


def size(task: str, budget: int, method: str) -> Picture:
    """Bytes that are shipped against the error of what is shipped, all methods, one of them named."""
    place = {one: (values(task, budget, one, "bytes"), values(task, budget, one, "rmse_shipped")) for one in METHODS}
    means = {
        one: (float(np.mean(a)) / 1000.0, float(np.mean(b))) if len(a) and len(b) else (math.nan, math.nan)
        for one, (a, b) in place.items()
    }
    groups = {
        "pruned": SPARSE,
        "controls": CONTROLS,
        "others": tuple(one for one in METHODS if one not in (*SPARSE, *CONTROLS)),
    }
    items = [
        Points(*np.array([means[one] for one in members]).T, name, look, look, 8)
        for look, (name, members) in enumerate(groups.items())
    ]
    x, y = means[method]
    every = np.array(list(means.values()))
    items += [Points([x], [y], "this method", "ink", 0, 15, hollow=True)]
    panel = Panel(
        "size and error of what is shipped",
        items,
        "kB, all networks",
        "RMSE of what is shipped",
        _span(every[:, 0], True),
        _span(every[:, 1]),
        xlog=True,
    )
    said = f"{x:.1f} kB, RMSE {y:.3f}" if math.isfinite(x) else "not run"
    return Picture([panel], f"{NAMES[method]} at B = {budget}\n{said}")


def size_explorer() -> Explorer | Figure:
    """Knobs for the task, the budget and the method; a picture without results says so."""
    if empty := _empty():
        return empty
    budgets = sorted(set.intersection(*(set(stored_budgets(task)) for task in _stored())))
    choice = {"budget": Control("budget B", tuple(budgets), budgets[0], choice=True)} if len(budgets) > 1 else {}
    controls = {"task": _task(), **choice, "method": _method("lottery_ticket")}

    def compute(task: str, method: str, budget: int = budgets[0]) -> Picture:
        return size(task, budget, method)

    return curves(compute, controls, title="How small for which error?", alt=partial(_in_words, compute))


def selection(task: str, method: str) -> Picture:
    """False positive against false negative rates of the inputs that are selected, seed by seed and as means."""
    both = [*METHODS, *RIVALS]
    rates = {one: tuple(values(task, 1, one, rate) for rate in ("fpr", "fnr")) for one in both}
    means = {one: (float(np.mean(a)), float(np.mean(b))) for one, (a, b) in rates.items() if len(a)}
    networks = np.array([means[one] for one in METHODS if one in means]).reshape(-1, 2)
    others = np.array([means[one] for one in RIVALS if one in means]).reshape(-1, 2)
    own = rates[method]
    line = np.array([0.0, 100.0])
    items = [
        Line(line, 100.0 - line, "no better than chance", "gray", 2, 1.3),
        Points(*networks.T, "networks", 0, 0, 8),
        Points(*others.T, "lasso, knockoffs", 1, 2, 10),
        Points(*own, "this method, each seed", "ink", 1, 6, hollow=True),
        *(Text(x + 2.5, y, one, "start", 1) for one, (x, y) in means.items() if one in RIVALS),
    ]
    panel = Panel("which inputs?", items, "relevant by mistake, %", "missed, %", (-4, 104), (-6, 106))
    x, y = means.get(method, (math.nan, math.nan))
    said = f"{x:.0f} % of the irrelevant selected, {y:.0f} % of the relevant missed" if math.isfinite(x) else "not run"
    return Picture([panel], f"{NAMES[method]} at B = 1\n{said}")


def selection_explorer() -> Explorer | Figure:
    """Knobs for the task and the method; a picture without results says so."""
    if empty := _empty():
        return empty

    controls = {"task": _task(), "method": _method("sghmc_sa")}
    return curves(selection, controls, title="Which inputs matter?", alt=partial(_in_words, selection))
