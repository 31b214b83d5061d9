"""Pictures of stored results of networks from which the weights with the lowest inclusion probability were removed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book.display.panels import draw, log_axis, missing
from book.display.style import INK, figure, line_styles, panel_letters, style_context
from book.lab.queries import Rows, cell, compared, stored_arrays

UCI_SETS = {
    "boston": "Boston",
    "concrete": "Concrete",
    "energy": "Energy",
    "kin8nm": "kin8nm",
    "naval": "Naval",
    "power": "Power plant",
    "protein": "Protein",
    "wine": "Wine",
    "yacht": "Yacht",
    "year": "Year",
}
LENET_SETS = {"LeNet-5, set 1": "set 1: log τ₁ = 0, log τ₀ = −5", "LeNet-5, set 2": "set 2: log τ₁ = −1, log τ₀ = −3"}


def removal_curve(rows: Rows, setting: str, method: str, prefix: str, whole: tuple[str, ...] = ()) -> np.ndarray:
    """Columns (share removed in percent, our mean, its standard error, published) of one network, shape (shares, 4).

    Args:
        rows: from `book.lab.compare`.
        setting, method: of the network.
        prefix: of the metrics: "error" for "error_at_50" and the like.
        whole: metrics of the network from which nothing is removed; the first that exists is used beside "PREFIX_at_0".
    """
    shares = {
        float(match[1]): row["metric"]
        for row in rows
        if (row["setting"], row["method"]) == (setting, method)
        and (match := re.fullmatch(rf"{prefix}_at_([0-9.]+)", row["metric"]))
    }
    found = {share: np.array(cell(rows, setting, method, metric)) for share, metric in shares.items()}
    for metric in whole:
        full = np.array(cell(rows, setting, method, metric))
        zero = found.setdefault(0.0, np.full(3, np.nan))
        found[0.0] = np.where(np.isfinite(zero), zero, full)
    return np.array([(share, *found[share]) for share in sorted(found)], dtype=float).reshape(-1, 4)


def _relative(columns: np.ndarray) -> np.ndarray:
    """The curve over its value at 0 %, ours and the published one each by its own; 0 % itself is left out.

    Without errors: both numbers of a ratio come from the same networks, so that those of the levels say little.
    """
    whole = columns[columns[:, 0] == 0]
    if not len(whole):
        return np.empty((0, 4))
    _, ours, _, published = whole[0]
    return columns[columns[:, 0] > 0] / np.array([1.0, ours, np.nan, published])


def pruning(rows: Rows | None = None) -> Figure:
    """Figure 9 of the paper: test error of a trained network as its weights are removed, ranked in two ways.

    Args:
        rows: of "sbnn-pruning", with settings "pi=0.2", "pi=0.5" and "pi=0.9", the share of active inputs, and methods
            "sBNN" (by p*) and "signal-to-noise".
    """
    rows = compared("sbnn-pruning", rows)
    settings = ("pi=0.2", "pi=0.5", "pi=0.9")
    with style_context():
        fig, panels = figure(2, height=3.9, sharey=True)
        looks = line_styles([f"{100 * float(setting.removeprefix('pi=')):.0f} %" for setting in settings])
        drawn = {}
        for panel, method in zip(panels, ("sBNN", "signal-to-noise"), strict=True):
            columns = [_relative(removal_curve(rows, setting, method, "mse_test")) for setting in settings]
            drawn[panel] = any([draw(panel, *pair) for pair in zip(columns, looks.values(), strict=True)])
            panel.set(xlabel="weights removed (%)", title="by p*" if method == "sBNN" else "by |m| / σ")
        for panel, any_ours in drawn.items():
            if any_ours:
                panel.axhline(1, color=INK, lw=1, ls=":", marker="none")
                log_axis(panel)
            else:
                missing(panel)
        panels[0].set_ylabel("test MSE over that of all weights")
        handles = [panels[0].plot([], [], **look)[0] for look in looks.values()]
        title = "active inputs"
        fig.legend(handles, looks, loc="outside lower center", ncols=3, title=title, title_fontsize="small")
        panel_letters(panels)
    return fig


def uci(rows: Rows | None = None, names: Mapping[str, str] = UCI_SETS) -> Figure:
    """Figure 10 of the paper: test RMSE as weights are removed, with two methods that keep all of theirs.

    Args:
        rows: of "sbnn-uci".
        names: {setting: title}, one panel each.
    """
    rows = compared("sbnn-uci", rows)
    looks = line_styles(["sBNN", "sBNN-50", "PBP", "Dropout"])
    flat = {name: looks[name] | {"marker": "none", "lw": 1.3} for name in ("PBP", "Dropout")}
    with style_context():
        fig, axes = figure(2, nrows=-(-len(names) // 2), height=2.3, squeeze=False)
        for panel, (name, title) in zip(axes.flat, names.items(), strict=False):
            drawn = False
            for method in ("sBNN", "sBNN-50"):
                columns = removal_curve(rows, name, method, "rmse_test", ("rmse_test_mean_weights", "rmse_test"))
                if method == "sBNN-50":
                    columns[:, 3] = np.nan  # the paper prints one curve; it stands beside sBNN
                drawn |= draw(panel, columns, looks[method] | {"ms": 4.5})
            for method in ("PBP", "Dropout"):
                ours = cell(rows, name, method, "rmse_test")[0]
                if np.isfinite(ours):
                    panel.axhline(ours, **flat[method])
                    drawn = True
            if not drawn:
                missing(panel, empty=not panel.get_lines())
            panel.set(title=title, xlim=(-4, 99))
        for unused in axes.flat[len(names) :]:
            unused.set_axis_off()
        first = axes[0, 0]
        handles = [first.plot([], [], **looks[name])[0] for name in ("sBNN", "sBNN-50")]
        handles += [first.plot([], [], **flat[name])[0] for name in ("PBP", "Dropout")]
        handles += first.plot([], [], ls="none", marker="o", mfc="white", ms=8, color=looks["sBNN"]["color"])
        fig.legend(handles, [*looks, "sBNN, published"], loc="outside lower center", ncols=3)
        for panel in axes[-1]:
            panel.set_xlabel("weights removed (%)")
        fig.supylabel("test RMSE", size="medium")
        panel_letters(axes.flat[: len(names)])
    return fig


def _image_panel(panel: Axes, rows: Rows, curves: Mapping[str, tuple[str, str]]) -> bool:
    drawn = False
    for label, look in line_styles(list(curves)).items():
        drawn |= draw(panel, removal_curve(rows, *curves[label], "error", ("error_test",)), look)
    if not drawn:
        missing(panel, empty=not panel.get_lines())
    panel.set(xlabel="weights removed (%)", xlim=(-3, 102))
    return drawn


def _image_legend(fig: Figure, panel: Axes, labels: Sequence[str], ncols: int) -> None:
    handles = [panel.plot([], [], **look)[0] for look in line_styles(labels).values()]
    handles += panel.plot([], [], ls="none", marker="o", mfc="white", ms=8, color=INK)
    fig.legend(handles, [*labels, "published (open)"], loc="outside lower center", ncols=ncols)


def mnist_pruning(rows: Rows | None = None, setting: str = "1200") -> Figure:
    """Table 5 of the paper: test error on MNIST as weights are removed, for both methods and three rankings of weights.

    Args:
        rows: of "sbnn-mnist", with methods "sBNN" and "BbB", each ranked as its paper does, and the other rankings as
            "sBNN by SNR", "sBNN by |m|", "BbB by p*" and "BbB by |m|".
        setting: units a layer: "400", "800" or "1200".
    """
    return _both_methods(compared("sbnn-mnist", rows), setting)


def cifar10_pruning(rows: Rows | None = None, setting: str = "1200") -> Figure:
    """Table 6 of the paper: the same on CIFAR-10 with two layers of 1,200 units.

    Args:
        rows: of "sbnn-cifar10-mlp", with methods as for `mnist_pruning`.
        setting: units a layer.
    """
    return _both_methods(compared("sbnn-cifar10-mlp", rows), setting)


def _both_methods(rows: Rows, setting: str) -> Figure:
    panels = {"sBNN": "p*", "BbB": "SNR"}  # title: the ranking of the paper, which the rows do not name
    rankings = {"by p*": "p*", "by |m| / σ": "SNR", "by |m|": "|m|"}
    with style_context():
        fig, axes = figure(2, height=3.9, sharey=True)
        for panel, (method, own) in zip(axes, panels.items(), strict=True):
            names = {label: method if rank == own else f"{method} by {rank}" for label, rank in rankings.items()}
            _image_panel(panel, rows, {label: (setting, name) for label, name in names.items()})
            panel.set_title("sBNN" if method == "sBNN" else "Bayes by Backprop")
        axes[0].set_ylabel("test error (%)")
        _wide_range(axes[0])
        _image_legend(fig, axes[0], list(rankings), 4)
        panel_letters(axes)
    return fig


def _wide_range(panel: Axes) -> None:
    """A logarithmic axis where the errors differ by more than a factor of six."""
    values = np.concatenate([one.get_ydata() for one in panel.get_lines()] or [np.ones(1)]).astype(float)
    values = values[np.isfinite(values) & (values > 0)]
    if len(values) and values.max() > 6 * values.min():
        log_axis(panel)


def vgg(rows: Rows | None = None) -> Figure:
    """Table 9 of the paper as a curve: test error of the VGG-like network on CIFAR-10 as weights are removed.

    Args:
        rows: of "sbnn-vgg", with methods "sBNN", "sBNN by SNR" and "sBNN by |m|".
    """
    rows = compared("sbnn-vgg", rows)
    names = {"by p*": "sBNN", "by |m| / σ": "sBNN by SNR", "by |m|": "sBNN by |m|"}
    with style_context():
        fig, axes = figure(1, height=3.9)
        _image_panel(axes, rows, {label: ("VGG-like", name) for label, name in names.items()})
        axes.set_ylabel("test error (%)")
        _wide_range(axes)
        _image_legend(fig, axes, list(names), 2)
    return fig


def lenet(rows: Rows | None = None) -> Figure:
    """Table 8 and Figure 12 of the paper: two priors of LeNet-5, test error as nearly all weights are removed.

    Args:
        rows: of "sbnn-lenet", with settings "LeNet-5, set 1" and "LeNet-5, set 2".
    """
    rows = compared("sbnn-lenet", rows)
    curves = {label: (setting, "sBNN") for setting, label in LENET_SETS.items()}
    with style_context():
        fig, (left, right) = figure(2, height=3.9)
        _image_panel(left, rows, curves)
        drawn = False
        for label, look in line_styles(list(curves)).items():
            drawn |= draw(right, _relative(removal_curve(rows, *curves[label], "error", ("error_test",))), look)
        if not drawn:
            missing(right, empty=not right.get_lines())
        for panel, title in ((left, "test error (%)"), (right, "relative to 0 %")):
            panel.set(title=title, xlabel="weights removed (%)", xlim=(95.7, 100.1))
            if panel.get_lines():
                log_axis(panel)
        _image_legend(fig, left, list(curves), 2)
        panel_letters([left, right])
    return fig


def inclusion_cdf(arrays: Mapping | None = None, setting: str = "1200", cut: float = 0.95) -> Figure:
    """Figure 11 of the paper: the share of weights whose inclusion probability is at most p.

    Args:
        arrays: with the keys of `book.lab.load_arrays`; those stored for "sbnn-mnist" when omitted. The array
            "inclusion_cdf" has columns (p, share of weights with p* <= p), for "sBNN" and, if stored, "BbB".
        setting: units a layer.
        cut: share of weights that is marked by a line.
    """
    arrays = stored_arrays("sbnn-mnist") if arrays is None else arrays
    kept = {key[1]: value for key, value in arrays.items() if (key[0], key[3]) == (setting, "inclusion_cdf")}
    with style_context():
        fig, axes = figure(1, height=3.6)
        looks = line_styles(["sBNN", "BbB"], markers=False)
        for method in [name for name in looks if name in kept]:
            axes.plot(*np.asarray(kept[method], dtype=float).T, **looks[method])
        if "sBNN" in kept:
            axes.axhline(cut, color=INK, lw=1, ls=":", marker="none", label=f"{100 * cut:g} % of weights")
            axes.set(xlim=(-0.01, 1.01), ylim=(0, 1.03))
            axes.legend(loc="lower right")
        else:
            missing(axes)
        axes.set(xlabel="inclusion probability p*", ylabel="share of weights")
    return fig
