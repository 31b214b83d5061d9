"""Pictures of stored results of the chapter on closed-form inclusion probabilities: the simulated experiments.

Those of pruned networks are in `pruned`. Every function takes the rows of `book.lab.compare` and asks for them itself
when they are omitted. A result that has not been run, or only at the smoke profile's sizes, leaves its panels with the
words "not run"; published numbers are open markers.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book import lab
from book.display.panels import draw, legend_below, log_axis, missing
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context
from book.lab.queries import Rows, compared, series, settings_over, stored_arrays

METHODS = ("BNN-VS", "BNN", "NN", "NN-Dr", "LM", "BNN-VS-CV")
VARIED = {"D": "number of inputs", "alpha": "α (larger: weaker signal)", "pi": "share π of active inputs"}
FIXED = {"D": 100, "alpha": 2, "pi": 0.2}
CEILING = {"label": "the right 20 %", "color": INK, "lw": 1, "linestyle": ":", "marker": "none"}
TRIVIAL = {
    "keep all": {"color": INK, "lw": 1, "linestyle": "--", "marker": "none", "label": "keep all"},
    "keep none": {"color": INK, "lw": 1, "linestyle": "-.", "marker": "none", "label": "keep none"},
}
ONE_HOME = "log tau1=-1, log tau0=-1.5"
UCI_PRIOR = "log tau1=1, log tau0=-6"
READ_PRIOR = "log tau1=-1, log tau0=-3"
PRIOR_NAMES = {"": "log τ −1, −3", ONE_HOME: "log τ −1, −1.5", UCI_PRIOR: "log τ 1, −6", READ_PRIOR: "log τ −1, −3"}
Settings = Mapping[float, str]


def simulated(
    rows: Mapping[str, Rows] | None = None,
    arrays: Mapping | None = None,
    band: tuple[float, float] | None = None,
) -> Figure:
    """Figures 1 to 3 of the paper as four panels.

    Args:
        rows: {"influence", "importance": rows of the experiments}.
        arrays: those stored for "sbnn-importance" when omitted; "phi/SETTING" has shape (replicates, inputs).
        band: published range of the correlation; that of the list of published values when omitted.
    """
    rows = rows or {}
    with style_context():
        fig, axes = figure(2, nrows=2, height=3.0)
        _shares(axes[0, 0], compared("sbnn-influence", rows.get("influence")))
        importance = compared("sbnn-importance", rows.get("importance"))
        for panel, kind in ((axes[0, 1], "linear"), (axes[1, 0], "nonlinear")):
            _correlations(panel, importance, kind, _published_range() if band is None else band)
        _densities(axes[1, 1], stored_arrays("sbnn-importance") if arrays is None else arrays)
        legend_below(fig, axes[0, 1], ncols=4, fontsize="small")
        panel_letters(axes.flat)
    return fig


def _published_range() -> tuple[float, float] | None:
    listed = [value for value in lab.paper_values("sbnn-importance")[0] if value.metric == "correlation"]
    return next((one.limits for one in listed), None)


def _shares(panel: Axes, rows: Rows) -> None:
    """Figure 1: the share of input 2 in the importance of both against its influence, from 0 to 100 %."""
    drawn = False
    looks = line_styles([PRIOR_NAMES[""], PRIOR_NAMES[ONE_HOME]])
    for prior in ("", ONE_HOME):
        settings = settings_over(rows, "alpha=([0-9.]+)" + (f", {re.escape(prior)}" if prior else ""))
        columns = series(rows, settings, "sBNN", "share_2")
        columns[:, 0] = series(rows, settings, "sBNN", "influence")[:, 1]
        name = PRIOR_NAMES[prior]
        drawn |= draw(panel, columns[np.argsort(columns[:, 0])], looks[name] | {"label": name, "ms": 4})
    if drawn:
        alpha = np.linspace(0, 1, 101)
        explained = alpha**2 + (1 - alpha) ** 2
        truth = {"color": INK, "lw": 1, "ls": ":", "marker": "none", "label": "of what both explain"}
        panel.plot(alpha**2 / (explained + 1), 100 * alpha**2 / explained, **truth)
        panel.legend(loc="upper left", fontsize="small")
        panel.set_ylim(-2, 190)  # room for the legend above all curves
        panel.set_yticks([0, 50, 100])
    else:
        missing(panel)
    panel.set(xlabel="influence I of input 2", title="share of input 2 (%)")


def _correlations(panel: Axes, rows: Rows, kind: str, band: tuple[float, float] | None) -> None:
    """Figure 2: correlation of phi with the coefficients, from 0; the largest size with other priors too."""
    sizes = sorted({int(match[1]) for row in rows if (match := re.search(r"D=(\d+)", row["setting"]))})
    read = f", {re.escape(READ_PRIOR)}"
    patterns = {f"{size} inputs": f"D={size}, alpha=([0-9.]+){read}" for size in sizes}
    for prior, suffix in ((ONE_HOME, ""), (UCI_PRIOR, f", {re.escape(UCI_PRIOR)}")) if sizes else ():
        patterns[f"{sizes[-1]}, {PRIOR_NAMES[prior]}"] = f"D={sizes[-1]}, alpha=([0-9.]+){suffix}"
    looks, drawn = line_styles(list(patterns)), False
    for label, pattern in patterns.items():
        columns = series(rows, settings_over(rows, f"{kind}, {pattern}"), "sBNN", "correlation")
        columns[:, 3] = np.nan  # the range of all settings is drawn as a band
        drawn |= draw(panel, columns, looks[label] | {"ms": 4})
        if not np.isfinite(columns[:, 1]).any():
            panel.plot([], [], **looks[label])  # the legend is that of both panels
    if band is not None:
        panel.axhspan(*band, color=INK, alpha=0.12, lw=0, label="published range")
    if drawn:
        panel.set_ylim(-0.05, 1.05)
    else:
        missing(panel)
    panel.set(xlabel=VARIED["alpha"], title=f"correlation of φ and β, {kind}")


def _densities(panel: Axes, arrays: Mapping) -> None:
    """Figure 3: how phi is distributed over the inputs for the strongest and the weakest signal."""
    found = {}
    for (_, method, _, name), values in arrays.items():
        match = re.fullmatch(rf"phi/nonlinear, D=(\d+), alpha=([0-9.]+), {re.escape(READ_PRIOR)}", name)
        if method == "sBNN" and match:
            found[int(match[1]), float(match[2])] = np.asarray(values, dtype=float).ravel()
    panel.set(xlabel="importance φ", title="density of φ over the inputs", xlim=(0, 1))
    if not found:
        missing(panel)
        return
    size = max(number for number, _ in found)
    alphas = sorted(alpha for number, alpha in found if number == size)
    edges = np.linspace(0, 1, 21)
    for alpha, color, hatch in zip((alphas[0], alphas[-1]), PALETTE, ("", "///"), strict=False):
        heights, _ = np.histogram(found[size, alpha], bins=edges, density=True)
        look = {"fill": True, "facecolor": color, "edgecolor": color, "alpha": 0.4, "hatch": hatch}
        panel.stairs(heights, edges, label=f"α = {alpha:g}", **look)
    panel.legend(loc="upper right", fontsize="small")


def _methods(panel: Axes, rows: Rows, settings: Settings, metric: str, names: Sequence[str]) -> bool:
    """Curves of several methods; "not run" if there is none."""
    looks, drawn = line_styles(METHODS), False
    for name in names:
        where = settings if name != "BNN-VS-CV" else settings_over(rows, r"cv, pi=([0-9.]+)")
        columns = series(rows, where, name, metric)
        if name == "BNN-VS-CV":
            columns[:, 3] = np.nan  # the text says "above 80 %" of all
        drawn |= draw(panel, columns, looks[name] | {"ms": 4})
    if not drawn:
        missing(panel)
    return drawn


def _aside(panel: Axes, columns: np.ndarray, look: Mapping) -> None:
    columns = columns[np.isfinite(columns[:, 1])]
    panel.plot(columns[:, 0], columns[:, 1], **look)


def _accuracy(panel: Axes, rows: Rows, settings: Settings, names: Sequence[str]) -> None:
    if _methods(panel, rows, settings, "selection_accuracy", names):
        _aside(panel, series(rows, settings, "BNN-VS", "selection_ceiling"), CEILING)
        for rule, look in TRIVIAL.items():
            _aside(panel, series(rows, settings, rule, "selection_accuracy"), look)
        panel.set_ylim(0, 104)


def selection_settings(rows: Rows, vary: str) -> dict[float, str]:
    """{value of what is varied: setting}, with the other two at their fixed values."""
    parts = [f"{name}=" + ("([0-9.]+)" if name == vary else re.escape(f"{value:g}")) for name, value in FIXED.items()]
    return settings_over(rows, ", ".join(parts))


def selection(rows: Rows | None = None) -> Figure:
    """Figures 4 to 8 of the paper: inputs classified correctly and test errors as one thing varies, and shares kept.

    Errors are in units of the training targets' variance, so that 1 is what predicting their mean costs.

    Args:
        rows: of "sbnn-selection", with settings such as "D=100, alpha=2, pi=0.2" and "cv, pi=0.2".
    """
    rows = compared("sbnn-selection", rows)
    with style_context():
        fig, axes = figure(2, nrows=4, height=2.4)
        for (left, right), vary in zip(axes, VARIED, strict=False):
            settings = selection_settings(rows, vary)
            more = ("BNN-VS-CV",) if vary == "pi" else ()
            _accuracy(left, rows, settings, ("BNN-VS", "LM", *more))
            if _methods(right, rows, settings, "mse_test", (*METHODS[:5], *more)):
                log_axis(right)
            left.set(title="inputs classified right (%)", xlabel=VARIED[vary])
            right.set(title="test MSE / var y", xlabel=VARIED[vary])
        share, legend = axes[3]
        _kept(share, rows)
        legend.set_axis_off()
        looks = [*(line_styles(METHODS)[name] for name in METHODS), CEILING, *TRIVIAL.values()]
        handles = [legend.plot([], [], **look)[0] for look in looks]
        legend.legend(handles, [look["label"] for look in looks], loc="center", ncols=2, fontsize="small")
        panel_letters([*axes.flat[:7]])
    return fig


def _kept(panel: Axes, rows: Rows) -> None:
    """Figure 7a: the share of inputs that cross-validation keeps against the share that is active."""
    chosen = settings_over(rows, r"cv, pi=([0-9.]+)")
    kept = series(rows, chosen, "BNN-VS-CV", "detected_share")
    active = series(rows, chosen, "BNN-VS-CV", "active_share")[:, 1]
    kept[:, 0] = np.where(np.isfinite(active), active, 100 * kept[:, 0])
    if draw(panel, kept, line_styles(METHODS)["BNN-VS-CV"] | {"ms": 4}):
        panel.plot([0, 100], [0, 100], color=INK, lw=1, ls=":", marker="none")
    else:
        missing(panel)
    panel.set(title="inputs kept (%)", xlabel="active inputs (%)")
