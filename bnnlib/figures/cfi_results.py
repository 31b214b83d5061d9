"""Pictures of stored results of the chapter on closed-form inclusion probabilities: the simulated experiments.

Those of regression and image data are in `cfi_pruned` and named here too. Every function takes the rows of
`bnnlib.store.compare` and asks for them itself when they are omitted. A result that has not been run, or only at the
smoke profile's sizes, leaves its panels with the words "not run"; published numbers are open markers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnnlib import store
from bnnlib.figures.aeb_results import stored_arrays
from bnnlib.figures.cfi_pruned import cifar10_pruning, inclusion_cdf, lenet, mnist_pruning, pruning, uci, vgg
from bnnlib.figures.cfi_rows import Rows, compared, draw, log_axis, missing, series, settings_over
from bnnlib.figures.style import INK, PALETTE, figure, line_styles, panel_letters, style_context

__all__ = [
    "cifar10_pruning",
    "cross_validation",
    "importance",
    "importance_densities",
    "inclusion_cdf",
    "influence",
    "lenet",
    "mnist_pruning",
    "pruning",
    "selection",
    "uci",
    "vgg",
]

METHODS = ("BNN-VS", "BNN", "NN", "NN-Dr", "LM", "BNN-VS-CV")
VARIED = {"D": "number of inputs D", "alpha": "α (larger: weaker signal)", "pi": "share π of active inputs"}
FIXED = {"D": 100, "alpha": 2, "pi": 0.2}


def influence(rows: Rows | None = None) -> Figure:
    """Figure 1 of the paper: psi of both inputs against the influence of the second, equation (cfi-influence).

    Args:
        rows: of "sbnn-influence", with settings "alpha=0" to "alpha=1".
    """
    rows = compared("sbnn-influence", rows)
    settings = settings_over(rows, r"alpha=([0-9.]+)")
    where = series(rows, settings, "sBNN", "influence")[:, 1]
    with style_context():
        fig, axes = figure(1, height=3.6)
        drawn = False
        for (metric, label), look in zip(
            {"psi_1": "ψ₁", "psi_2": "ψ₂"}.items(), line_styles(["psi_1", "psi_2"]).values(), strict=True
        ):
            columns = series(rows, settings, "sBNN", metric)
            columns[:, 0] = where
            drawn |= draw(axes, columns[np.argsort(where)], look | {"label": label})
        if drawn:
            axes.legend()
        else:
            missing(axes)
        axes.set(xlabel="influence I of input 2", ylabel="importance ψ")
    return fig


def importance(rows: Rows | None = None, band: tuple[float, float] | None = None) -> Figure:
    """Figure 2 of the paper: correlation of phi with the coefficients, for linear and nonlinear data.

    Args:
        rows: of "sbnn-importance", with settings such as "linear, D=20, alpha=1".
        band: published range of the correlation; that of the list of published values when omitted.
    """
    rows = compared("sbnn-importance", rows)
    if band is None:
        listed = [value for value in store.paper_values("sbnn-importance")[0] if value.metric == "correlation"]
        band = next(((one.mean - one.tolerance, one.mean + one.tolerance) for one in listed), None)
    with style_context():
        fig, panels = figure(2, height=3.6, sharey=True)
        sizes = sorted({int(match[1]) for row in rows if (match := re.search(r"D=(\d+)", row["setting"]))})
        looks = line_styles([f"D = {size}" for size in sizes])
        for panel, kind in zip(panels, ("linear", "nonlinear"), strict=True):
            drawn = False
            for k, (size, look) in enumerate(zip(sizes, looks.values(), strict=True)):
                settings = settings_over(rows, rf"{kind}, D={size}, alpha=([0-9.]+)")
                columns = series(rows, settings, "sBNN", "correlation")
                columns[:, 3] = np.nan  # the range of all settings is drawn as a band
                columns[:, 0] += 0.08 * (k - 0.5 * (len(sizes) - 1))  # error bars side by side
                drawn |= draw(panel, columns, look)
            if not drawn:
                missing(panel)
            if band is not None:
                panel.axhspan(*band, color=INK, alpha=0.12, lw=0, label="published range")
            panel.set(xlabel=VARIED["alpha"], title=f"{kind} data")
        panels[0].set_ylabel("correlation of φ and β")
        fig.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        panel_letters(panels)
    return fig


def importance_densities(
    arrays: Mapping | None = None, settings: Sequence[str] | None = None, kind: str = "nonlinear"
) -> Figure:
    """Figure 3 of the paper: how phi is distributed over the inputs, for a strong and for a weak signal.

    Args:
        arrays: with the keys of `bnnlib.store.load_arrays`; those stored for "sbnn-importance" when omitted. An array
            "phi" holds phi of every input, shape (inputs,) or (replicates, inputs).
        settings: to draw, at most four; of those with the most inputs, the smallest and the largest alpha when omitted.
        kind: "linear" or "nonlinear", where `settings` are omitted.
    """
    arrays = stored_arrays("sbnn-importance") if arrays is None else arrays
    phi: dict[str, list[np.ndarray]] = {}
    for (setting, method, _, array), values in arrays.items():
        if (method, array) == ("sBNN", "phi"):
            phi.setdefault(setting, []).append(np.asarray(values, dtype=float).ravel())
    if settings is None:
        found = [(re.fullmatch(rf"{kind}, D=(\d+), alpha=([0-9.]+)", setting), setting) for setting in phi]
        size = max((int(match[1]) for match, _ in found if match), default=None)
        ordered = sorted((float(match[2]), setting) for match, setting in found if match and int(match[1]) == size)
        settings = [ordered[0][1], ordered[-1][1]][: len(ordered)] if ordered else ["small α", "large α"]
    edges = np.linspace(0, 1, 21)
    with style_context():
        columns = min(2, len(settings))
        fig, panels = figure(columns, nrows=-(-len(settings) // columns), height=3.2, sharey=True, squeeze=False)
        for panel, setting in zip(panels.flat, settings, strict=False):
            if setting in phi:
                values = np.concatenate(phi[setting])
                heights, _ = np.histogram(values, bins=edges, density=True)
                panel.stairs(heights, edges, fill=True, color=PALETTE[0], alpha=0.4)
                panel.axvline(np.median(values), color=INK, lw=1.2, ls="--", marker="none")
                panel.text(np.median(values) + 0.02, 0.96, "median", transform=panel.get_xaxis_transform(), va="top")
            else:
                missing(panel)
            panel.set(title=setting.replace("alpha", "α"), xlabel="importance φ", xlim=(0, 1))
        for row in panels:
            row[0].set_ylabel("density")
        panel_letters(panels)
    return fig


def _methods(panel: Axes, rows: Rows, settings: Mapping[float, str], metric: str, names: Sequence[str]) -> bool:
    looks, drawn = line_styles(METHODS), False
    for name in names:
        drawn |= draw(panel, series(rows, settings, name, metric), looks[name])
    if not drawn:
        missing(panel)
    return drawn


def _method_legend(panel: Axes, names: Sequence[str]) -> None:
    panel.set_axis_off()
    looks = line_styles(METHODS)
    panel.legend([panel.plot([], [], **looks[name])[0] for name in names], names, loc="center")


def selection(rows: Rows | None = None, vary: str = "D") -> Figure:
    """Figures 4 to 6 of the paper: how many inputs are classified correctly, training and test errors.

    Args:
        rows: of "sbnn-selection", with settings such as "D=100, alpha=2, pi=0.2".
        vary: "D", "alpha" or "pi"; the other two are at 100, 2 and 0.2.

    Raises:
        ValueError: for another name to vary.
    """
    if vary not in VARIED:
        raise ValueError(f"vary={vary!r} is not possible: use one of {', '.join(VARIED)}")
    rows = compared("sbnn-selection", rows)
    parts = [f"{name}=" + ("([0-9.]+)" if name == vary else re.escape(f"{value:g}")) for name, value in FIXED.items()]
    settings = settings_over(rows, ", ".join(parts))
    names = METHODS[:-1]
    with style_context():
        fig, axes = figure(2, nrows=2, height=2.9)
        panels = list(axes.flat)
        metrics = {
            "selection_accuracy": "inputs classified right (%)",
            "mse_train": "training MSE",
            "mse_test": "test MSE",
        }
        for panel, (metric, title) in zip(panels, metrics.items(), strict=False):
            drawn = _methods(panel, rows, settings, metric, names[:1] if metric == "selection_accuracy" else names)
            panel.set(title=title, xlabel=VARIED[vary])
            if drawn and metric != "selection_accuracy":
                log_axis(panel)
            elif drawn:
                panel.set_ylim(0, 104)
        _method_legend(panels[3], names)
        panel_letters(panels[:3])
    return fig


def cross_validation(rows: Rows | None = None) -> Figure:
    """Figures 7 and 8 of the paper: the share of inputs that cross-validation keeps, what that does to both scores.

    Args:
        rows: of "sbnn-selection", with settings "cv, pi=0.2" and the like for thresholds by cross-validation.
    """
    rows = compared("sbnn-selection", rows)
    settings = settings_over(rows, r"cv, pi=([0-9.]+)")
    names = [
        name for name in METHODS if any(row["method"] == name and row["setting"] in settings.values() for row in rows)
    ]
    with style_context():
        fig, axes = figure(2, nrows=2, height=2.9)
        panels = list(axes.flat)
        share = series(rows, settings, "BNN-VS-CV", "detected_share")
        share[:, 0] *= 100
        if draw(panels[0], share, line_styles(METHODS)["BNN-VS-CV"]):
            panels[0].plot([0, 100], [0, 100], color=INK, lw=1, ls=":", marker="none")
        else:
            missing(panels[0])
        panels[0].set(title="inputs kept (%)", xlabel="active inputs (%)")
        chosen = [name for name in names if name.startswith("BNN-VS")]
        if _methods(panels[1], rows, settings, "selection_accuracy", chosen):
            panels[1].set_ylim(0, 104)
        if _methods(panels[2], rows, settings, "mse_test", names):
            log_axis(panels[2])
        panels[1].set(title="inputs classified right (%)", xlabel=VARIED["pi"])
        panels[2].set(title="test MSE", xlabel=VARIED["pi"])
        _method_legend(panels[3], names)
        panel_letters(panels[:3])
    return fig
