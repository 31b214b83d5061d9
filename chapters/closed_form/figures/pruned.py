"""Pictures of stored results of networks from which the weights with the lowest inclusion probability were removed."""

import re
from collections.abc import Mapping
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from book.display.panels import draw, log_axis, missing
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context
from book.lab.queries import Rows, cell, compared, stored_arrays
from chapters.closed_form.experiments.lenet import AT_ONCE
from chapters.closed_form.experiments.networks import network as build
from chapters.closed_form.experiments.orders import LONG

UCI_SETS = {
    "boston": "Boston",
    "concrete": "Concrete",
    "energy": "Energy",
    "kin8nm": "Kin8nm",
    "naval": "Naval",
    "power": "Power plant",
    "protein": "Protein",
    "wine": "Wine",
    "yacht": "Yacht",
    "year": "Year",
}
LENET_SETS = {"LeNet-5, set 1": "set 1: log τ 0, −5", "LeNet-5, set 2": "set 2: log τ −1, −3"}
IMAGE_METHODS = {
    "by p*": "sBNN",
    "by |m| / σ": "sBNN by SNR",
    "by |m|": "sBNN by |m|",
    "Bayes by Backprop by |m| / σ": "BbB",
}
AS_PUBLISHED = "{}, as published"  # settings of sBNN with the published prior, epochs and optimizer
ORDERS = {"by p*": "by p*", "by |m| / σ": "by |m| / sigma", "by |m|": "by |m|"}  # label: method of "sbnn-orders"
RIVALS = {"by p*": "sBNN", "Sparse VD": "Sparse VD", "|w|, retrained (DC)": "DC"}
LOOKS = line_styles(list(IMAGE_METHODS | RIVALS))
QUOTED = ("DNS", "SWS", "BC-GHS")  # Table 7 has them from other papers
OTHERS = {"ls": "none", "marker": "*", "mfc": "white", "mec": INK, "ms": 10, "mew": 0.8}
LEFT = (10, 5, 2, 1, 0.5, 0.2, 0.1)


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


def removed(rows: Mapping[str, Rows] | None = None, arrays: Mapping | None = None) -> Figure:
    """Figures 9, 11 and 12 of the paper with Tables 5 to 9, as nine panels: what removing weights costs.

    Args:
        rows: {"pruning", "orders", "mnist", "cifar10-mlp", "lenet", "vgg": rows of the experiments}; those omitted are
            asked for.
        arrays: of "sbnn-mnist"; "inclusion_cdf" has columns (p, share of weights with p* <= p).
    """
    given = rows or {}
    names = ("pruning", "orders", "mnist", "cifar10-mlp", "lenet", "vgg")
    rows = {name: compared(f"sbnn-{name}", given.get(name)) for name in names}
    with style_context():
        fig, axes = figure(2, nrows=5, height=2.6)
        flat = list(axes.flat)
        _lesson(flat[0], rows["orders"])
        _simulated(flat[1], rows["pruning"])
        _cdf(flat[2], stored_arrays("sbnn-mnist") if arrays is None else arrays)
        _orders(flat[3], rows["mnist"], "1200", "MNIST, 1200 units")
        _orders(flat[4], rows["cifar10-mlp"], "1200", "CIFAR-10, 1200 units")
        _orders(flat[5], rows["vgg"], "VGG-like", "CIFAR-10, VGG-like")
        _lenet(flat[6], rows["lenet"])
        _rivals(flat[7], rows["lenet"], "LeNet-300-100")
        _rivals(flat[8], rows["lenet"], "LeNet-5")
        flat[9].set_axis_off()
        handles = [flat[9].plot([], [], **look)[0] for look in LOOKS.values()]
        handles += flat[9].plot([], [], ls="none", marker="o", mfc="white", ms=8, color=INK)
        handles += flat[9].plot([], [], **OTHERS)
        names = [*LOOKS, "published (open)", f"published: {', '.join(QUOTED)}"]
        flat[9].legend(handles, names, loc="center", fontsize="small")
        panel_letters(flat[:9])
    return fig


def _finish(panel: Axes, drawn: bool, **settings) -> None:
    if not drawn:
        missing(panel, empty=not panel.get_lines())
    panel.set(**{"xlabel": "weights removed (%)", "xlim": (-3, 102)} | settings)


def _lesson(panel: Axes, rows: Rows) -> None:
    """The lesson's own network after long training, in three orders."""
    drawn = False
    for label, look in LOOKS.items():
        if label in ORDERS:
            columns = removal_curve(rows, LONG, ORDERS[label], "rmse_test")
            drawn |= draw(panel, columns, look | {"ms": 4})
    _finish(panel, drawn, title="the lesson's network: RMSE")


def _simulated(panel: Axes, rows: Rows) -> None:
    """Figure 9: error of three shares of active inputs over that of the whole network, by p*."""
    settings = ("pi=0.2", "pi=0.5", "pi=0.9")
    looks = line_styles([f"π = {setting.removeprefix('pi=')}" for setting in settings])
    drawn = False
    for setting, look in zip(settings, looks.values(), strict=True):
        drawn |= draw(panel, _relative(removal_curve(rows, setting, "sBNN", "mse_test")), look | {"ms": 4})
    if drawn:
        panel.axhline(1, color=INK, lw=1, ls=":", marker="none")
        panel.legend(loc="upper left", fontsize="small")
    _finish(panel, drawn, title="Figure 9: MSE over that of all")


def _orders(panel: Axes, rows: Rows, setting: str, title: str) -> None:
    """Test error of one network in three orders, and of Bayes by Backprop by its own where it was run.

    A sparsity that is published beside its error is a point of the published curve. A method that was run as published
    is shown so.
    """
    drawn = False
    for label, method in IMAGE_METHODS.items():
        as_published = AS_PUBLISHED.format(setting)
        known = any(row["setting"] == as_published and row["method"] == method for row in rows)
        place = as_published if known else setting
        columns = removal_curve(rows, place, method, "error", ("error_test",))
        share, error = (cell(rows, place, method, metric)[2] for metric in ("removed", "error_pruned"))
        columns = np.vstack([columns, [share, np.nan, np.nan, error]])
        drawn |= draw(panel, columns, LOOKS[label] | {"ms": 4})
    _finish(panel, drawn, title=f"{title}: error (%)")
    _wide_range(panel)


def _lenet(panel: Axes, rows: Rows) -> None:
    """Table 8 and Figure 12: two priors of LeNet-5, nearly all weights removed by p*."""
    looks, drawn = line_styles(list(LENET_SETS.values())), False
    for setting, label in LENET_SETS.items():
        columns = removal_curve(rows, setting, "sBNN", "error", ("error_test",))
        drawn |= draw(panel, columns[columns[:, 0] > 0], looks[label] | {"ms": 4})
    _finish(panel, drawn, title="LeNet-5, two priors: error (%)", xlim=(95.7, 100.1))
    if panel.get_lines():
        log_axis(panel)
    if drawn:
        panel.legend(loc="upper left", fontsize="small")


@cache
def parameters_left(network: str, removed: float) -> float:
    """Percent of all weights and biases that are left where a share of the weights goes and every bias stays.

    Args:
        network: "LeNet-300-100" or "LeNet-5".
        removed: percent of the weights.
    """
    model = build({"network": network.partition(",")[0]}, "deterministic", 0)
    biases = sum(p.numel() for name, p in model.named_parameters() if name.endswith("bias"))
    whole = sum(p.numel() for p in model.parameters())
    return 100.0 * ((1.0 - removed / 100.0) * (whole - biases) + biases) / whole


def _kept(rows: Rows, network: str, method: str) -> np.ndarray:
    """Columns (percent left, our error, its standard error, published); shares of all weights and biases."""
    columns = removal_curve(rows, network, method, "error")
    if method == "sBNN":  # which ranks biases too; the published share has a column of its own
        share, error = (cell(rows, network, method, metric)[2] for metric in ("removed", "error_pruned"))
        columns = np.vstack([columns[columns[:, 0] > 0], [share, np.nan, np.nan, error]])
        columns[:, 0] = 100.0 - columns[:, 0]
        return columns
    if method == "Sparse VD":  # whose threshold has removed most of the weights before any share is asked for
        own, _, printed = cell(rows, network, method, "active")
        whole = columns[columns[:, 0] == 0][0] if (columns[:, 0] == 0).any() else np.full(4, np.nan)
        columns = columns[columns[:, 0] > 100.0 - own] if np.isfinite(own) else columns[:0]
        ends = [[100.0 - own, whole[1], whole[2], np.nan], [100.0 - printed, np.nan, np.nan, whole[3]]]
        columns = np.vstack([ends, columns])
    columns = columns[(columns[:, 0] > 0) & np.isfinite(columns[:, 0])]
    columns[:, 0] = [parameters_left(network, share) for share in columns[:, 0]]
    return columns


def _rivals(panel: Axes, rows: Rows, network: str) -> None:
    """Table 7: our networks, two rivals by their own ways to fewer weights, and the numbers that the paper quotes."""
    drawn = False
    for label, method in RIVALS.items():
        drawn |= draw(panel, _kept(rows, network, method), LOOKS[label] | {"ms": 4})
    at_once = _kept(rows, f"{network}, at once", "DC") if network in AT_ONCE else np.empty((0, 4))
    drawn |= draw(panel, at_once, LOOKS["|w|, retrained (DC)"] | {"linestyle": "none", "marker": "D", "ms": 6})
    for method in QUOTED:
        share, error = (cell(rows, network, method, metric)[2] for metric in ("removed", "error_pruned"))
        if np.isfinite([share, error]).all():
            panel.plot(100.0 - share, error, **OTHERS)
    whole = cell(rows, network, "Original", "error_test")[0]
    if np.isfinite(whole):
        panel.axhline(whole, color=INK, lw=1, ls=":", marker="none")
    limits = {"xlabel": "weights and biases left (%)", "xlim": (12.5, 0.085)}
    _finish(panel, drawn, title=f"{network}, rivals: error (%)", **limits)
    if panel.get_lines():
        log_axis(panel)
        panel.set_xscale("log")
        panel.set_xticks(LEFT, [f"{share:g}" for share in LEFT])
        panel.xaxis.set_minor_formatter(NullFormatter())


def _cdf(panel: Axes, arrays: Mapping, setting: str = AS_PUBLISHED.format(1200), cut: float = 95.0) -> None:
    """Figure 11: the share of weights whose inclusion probability is at most p."""
    kept = {key[1]: value for key, value in arrays.items() if (key[0], key[3]) == (setting, "inclusion_cdf")}
    if "sBNN" in kept:
        p, share = np.asarray(kept["sBNN"], dtype=float).T
        panel.plot(p, 100 * share, color=PALETTE[0], ls="-", marker="none")
        panel.axhline(cut, color=INK, lw=1, ls=":", marker="none")
        panel.set(xlim=(-0.01, 1.01), ylim=(0, 103))
    else:
        missing(panel)
    panel.set(xlabel="inclusion probability p*", title="MNIST: weights below p* (%)")


def _wide_range(panel: Axes) -> None:
    """A logarithmic axis where the errors differ by more than a factor of six."""
    values = np.concatenate([one.get_ydata() for one in panel.get_lines()] or [np.ones(1)]).astype(float)
    values = values[np.isfinite(values) & (values > 0)]
    if len(values) and values.max() > 6 * values.min():
        log_axis(panel)
