"""Pictures of stored results of the chapter on closed-form inclusion probabilities: the simulated experiments.

Those of regression and image data are in `pruned` and named here too. Every function takes the rows of
`book.lab.compare` and asks for them itself when they are omitted. A result that has not been run, or only at the
smoke profile's sizes, leaves its panels with the words "not run"; published numbers are open markers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book import lab
from book.display.panels import draw, log_axis, missing
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context
from book.lab.queries import Rows, compared, series, settings_over, stored_arrays
from chapters.closed_form.figures.pruned import cifar10_pruning, inclusion_cdf, lenet, mnist_pruning, pruning, uci, vgg

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
CEILING = {"label": "the right 20 % (panel a)", "color": INK, "lw": 1, "linestyle": ":", "marker": "none"}
Settings = Mapping[str, Mapping[float, str]]  # of each method that has its own; of all others under ""


def influence(rows: Rows | None = None) -> Figure:
    """Figure 1 of the paper: psi of both inputs against the influence of the second, equation (sbnn-influence).

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
        rows: of "sbnn-importance", with settings such as "linear, D=20, alpha=1"; those that name another prior at
            their end are drawn as one more curve.
        band: published range of the correlation; that of the list of published values when omitted.
    """
    rows = compared("sbnn-importance", rows)
    if band is None:
        listed = [value for value in lab.paper_values("sbnn-importance")[0] if value.metric == "correlation"]
        band = next(((one.mean - one.tolerance, one.mean + one.tolerance) for one in listed), None)
    sizes = sorted({int(match[1]) for row in rows if (match := re.search(r"D=(\d+)", row["setting"]))})
    patterns = {f"D = {size}": f"D={size}, alpha=([0-9.]+)" for size in sizes}
    if others := sorted({match[1] for row in rows if (match := re.search(r"alpha=[0-9.]+, (log .*)", row["setting"]))}):
        name = others[0].replace("tau1=", "τ₁ = ").replace("tau0=", "τ₀ = ").replace("-", "−")
        patterns[f"D = {sizes[-1]}, {name}"] = f"D={sizes[-1]}, alpha=([0-9.]+), {re.escape(others[0])}"
    with style_context():
        fig, panels = figure(2, height=3.8, sharey=True)
        looks = line_styles(list(patterns))
        for panel, kind in zip(panels, ("linear", "nonlinear"), strict=True):
            drawn = False
            for k, (label, pattern) in enumerate(patterns.items()):
                columns = series(rows, settings_over(rows, f"{kind}, {pattern}"), "sBNN", "correlation")
                columns[:, 3] = np.nan  # the range of all settings is drawn as a band
                columns[:, 0] += 0.08 * (k - 0.5 * (len(patterns) - 1))  # error bars side by side
                drawn |= draw(panel, columns, looks[label])
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
        arrays: with the keys of `book.lab.load_arrays`; those stored for "sbnn-importance" when omitted. The array
            "phi/SETTING" holds phi of every input, shape (replicates, inputs).
        settings: to draw, at most four; of those with the most inputs, the smallest and the largest alpha when omitted.
        kind: "linear" or "nonlinear", where `settings` are omitted.
    """
    arrays = stored_arrays("sbnn-importance") if arrays is None else arrays
    named = {key[3]: values for key, values in arrays.items() if key[1] == "sBNN"}
    phi = {name.removeprefix("phi/"): values for name, values in named.items() if name.startswith("phi/")}
    if settings is None:
        found = [(re.fullmatch(rf"{kind}, D=(\d+), alpha=([0-9.]+)", setting), setting) for setting in phi]
        size = max((int(match[1]) for match, _ in found if match), default=None)
        ordered = sorted((float(match[2]), setting) for match, setting in found if match and int(match[1]) == size)
        settings = [ordered[k][1] for k in dict.fromkeys((0, len(ordered) - 1))] if ordered else ["small α", "large α"]
    edges = np.linspace(0, 1, 21)
    with style_context():
        columns = min(2, len(settings))
        fig, panels = figure(columns, nrows=-(-len(settings) // columns), height=3.2, sharey=True, squeeze=False)
        for panel, setting in zip(panels.flat, settings, strict=False):
            if setting in phi:
                values = np.asarray(phi[setting], dtype=float).ravel()
                heights, _ = np.histogram(values, bins=edges, density=True)
                panel.stairs(heights, edges, fill=True, color=PALETTE[0], alpha=0.4)
                median = float(np.median(values))
                panel.axvline(median, color=INK, lw=1.2, ls="--", marker="none", label="median")
            else:
                missing(panel)
            panel.set(title=setting.replace("alpha", "α").replace("=", " = "), xlabel="importance φ", xlim=(0, 1))
        for row in panels:
            row[0].set_ylabel("density")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        if handles:
            fig.legend(handles, labels, loc="outside lower center")
        panel_letters(panels)
    return fig


def _methods(panel: Axes, rows: Rows, settings: Settings, metric: str, names: Sequence[str]) -> bool:
    """Curves of several methods; one "not run" if none has any."""
    looks, drawn = line_styles(METHODS), False
    for name in names:
        drawn |= draw(panel, series(rows, settings.get(name, settings[""]), name, metric), looks[name])
    if not drawn:
        missing(panel)
    return drawn


def _ceiling(panel: Axes, rows: Rows, settings: Mapping[float, str]) -> None:
    """The accuracy of keeping as many inputs, but those with the largest effects."""
    columns = series(rows, settings, "BNN-VS", "selection_ceiling")
    columns = columns[np.isfinite(columns[:, 1])]
    panel.plot(columns[:, 0], columns[:, 1], **CEILING)


def _legend(panel: Axes, looks: Sequence[Mapping]) -> None:
    panel.set_axis_off()
    panel.legend([panel.plot([], [], **look)[0] for look in looks], [look["label"] for look in looks], loc="center")


def _selection_settings(rows: Rows, vary: str) -> dict[float, str]:
    """{value of what is varied: setting}, with the other two at their fixed values."""
    parts = [f"{name}=" + ("([0-9.]+)" if name == vary else re.escape(f"{value:g}")) for name, value in FIXED.items()]
    return settings_over(rows, ", ".join(parts))


def selection(rows: Rows | None = None, vary: str = "D") -> Figure:
    """Figures 4 to 6 of the paper: how many inputs are classified correctly, training and test errors.

    Errors are in units of the training targets' variance, so that 1 is what predicting their mean costs.

    Args:
        rows: of "sbnn-selection", with settings such as "D=100, alpha=2, pi=0.2".
        vary: "D", "alpha" or "pi"; the other two are at 100, 2 and 0.2.

    Raises:
        ValueError: for another name to vary.
    """
    if vary not in VARIED:
        raise ValueError(f"vary={vary!r} is not possible: use one of {', '.join(VARIED)}")
    rows = compared("sbnn-selection", rows)
    settings = {"": _selection_settings(rows, vary)}
    names = METHODS[:-1]
    with style_context():
        fig, axes = figure(2, nrows=2, height=2.9)
        accuracy, training, test, legend = axes.flat
        if _methods(accuracy, rows, settings, "selection_accuracy", ("BNN-VS", "LM")):
            _ceiling(accuracy, rows, settings[""])
            accuracy.set_ylim(0, 104)
        accuracy.set(title="inputs classified right (%)", xlabel=VARIED[vary])
        for panel, metric, title in (
            (training, "mse_train", "training MSE / var y"),
            (test, "mse_test", "test MSE / var y"),
        ):
            if _methods(panel, rows, settings, metric, names):
                log_axis(panel)
            panel.set(title=title, xlabel=VARIED[vary])
        _legend(legend, [*(line_styles(METHODS)[name] for name in names), CEILING])
        panel_letters([accuracy, training, test])
    return fig


def cross_validation(rows: Rows | None = None) -> Figure:
    """Figures 7 and 8 of the paper: the share of inputs that cross-validation keeps, and what that does to the scores.

    Args:
        rows: of "sbnn-selection": settings "cv, pi=0.2" and the like hold the thresholds by cross-validation
            (BNN-VS-CV), those with D = 100 and alpha = 2 the other methods.
    """
    rows = compared("sbnn-selection", rows)
    chosen = settings_over(rows, r"cv, pi=([0-9.]+)")
    settings = {"": _selection_settings(rows, "pi"), "BNN-VS-CV": chosen}
    with style_context():
        fig, axes = figure(2, nrows=2, height=2.9)
        share, accuracy, test, legend = axes.flat
        kept = series(rows, chosen, "BNN-VS-CV", "detected_share")
        active = series(rows, chosen, "BNN-VS-CV", "active_share")[:, 1]
        kept[:, 0] = np.where(np.isfinite(active), active, 100 * kept[:, 0])
        if draw(share, kept, line_styles(METHODS)["BNN-VS-CV"]):
            share.plot([0, 100], [0, 100], color=INK, lw=1, ls=":", marker="none")
        else:
            missing(share)
        share.set(title="inputs kept (%)", xlabel="active inputs (%)")
        if _methods(accuracy, rows, settings, "selection_accuracy", ("BNN-VS", "BNN-VS-CV")):
            accuracy.set_ylim(0, 104)
        if _methods(test, rows, settings, "mse_test", METHODS):
            log_axis(test)
        accuracy.set(title="inputs classified right (%)", xlabel=VARIED["pi"])
        test.set(title="test MSE / var y", xlabel=VARIED["pi"])
        _legend(legend, list(line_styles(METHODS).values()))
        panel_letters([share, accuracy, test])
    return fig
