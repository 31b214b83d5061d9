"""Pictures of stored results of the chapter on Structured Bayesian Pruning.

Every function takes the rows of `book.lab.compare` or stored arrays, and asks for them itself when they are
omitted. A result that has not been run, or only at the smoke profile's sizes, leaves its panels with the words
"not run"; published numbers are open markers.
"""

from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from book.display.panels import draw, legend_below, log_axis, missing
from book.display.style import INK, figure, line_styles, panel_letters, style_context
from book.lab.queries import Rows, cell, compared, stored_arrays
from chapters.unit_noise.prices import cheapest, price_at

DENSE = {"LeNet-500-300": (784, 500, 300), "LeNet-5": (20, 50, 800, 500)}
VGG = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512, 512)  # at k = 1
METHODS = ("SBP", "SBPa", "SSL", "SparseVD")  # SBPa: the divergence of single layers is weighted
COSTS = {
    "flops_ratio": "FLOPs",
    "cpu_batch_1": "CPU\n1",
    "cpu_batch_256": "CPU\n256",
    "cpu_onnx_batch_1": "ONNX\n1",
    "cpu_onnx_batch_256": "ONNX\n256",
}
LABELS = {
    "Dropout": "dropout",
    "SBP": "SBP, noise 100 times as fast",
    "SBP, slow noise": "SBP, ten times as fast",
    "SBP, noise at the weights' rate": "SBP, as fast as weights",
}
HALF_BELL = float(np.log(2 * np.sqrt(1 - 2 / np.pi)))  # nats: entropy of a bell less that of half a bell, same variance
Arrays = Mapping[tuple[str, str, int, str], np.ndarray]


def kept_share(rows: Rows, setting: str, method: str, dense: tuple[int, ...], published: float = 1.0) -> np.ndarray:
    """Columns (layer, our share of units that are left, its standard error, published share), in percent.

    Args:
        rows: from `book.lab.compare`.
        setting, method: of the network.
        dense: units of its layers before pruning; those of the rows' "Original" are taken where it was run.
        published: factor of `dense` for the published numbers.
    """
    table = []
    for layer, units in enumerate(dense, start=1):
        ours, error, printed = cell(rows, setting, method, f"units_{layer}")
        own = cell(rows, setting, "Original", f"units_{layer}")[0]
        whole = own if np.isfinite(own) else units
        table.append((layer, 100 * ours / whole, 100 * error / whole, 100 * printed / (published * units)))
    return np.array(table, dtype=float)


def _legend(fig: Figure, panel: Axes, looks: Mapping[str, Mapping], ncols: int) -> None:
    """One legend of these looks below all panels, by a panel's empty lines."""
    handles = [panel.plot([], [], **dict(look) | {"label": "_"})[0] for look in looks.values()]
    fig.legend(handles, list(looks), loc="outside lower center", ncols=ncols, fontsize="small")


def _replicates(arrays: Arrays, setting: str, method: str, name: str) -> list[np.ndarray]:
    """The arrays of one name, replicate by replicate."""
    wanted = (setting, method, name)
    return [np.asarray(one, float) for key, one in sorted(arrays.items()) if (key[0], key[1], key[3]) == wanted]


def lenet(rows: Rows | None = None) -> Figure:
    """The table of both LeNets on MNIST: units that are left, and the dense network's costs over the compressed one's.

    Args:
        rows: of "sbp-mnist".
    """
    rows = compared("sbp-mnist", rows)
    original = {"color": INK, "lw": 1.2, "linestyle": ":", "marker": "none"}
    looks = line_styles(METHODS)
    with style_context():
        fig, axes = figure(2, nrows=2, height=2.9)
        for (left, right), (setting, dense) in zip(axes, DENSE.items(), strict=True):
            drawn = {left: False, right: False}
            for k, method in enumerate(METHODS):
                aside = np.array([0.16 * (k - 0.5 * (len(METHODS) - 1)), 0, 0, 0])  # methods stand side by side
                drawn[left] |= draw(left, kept_share(rows, setting, method, dense) + aside, looks[method])
                costs = np.array([(i, *cell(rows, setting, method, metric)) for i, metric in enumerate(COSTS)], float)
                costs[1:, 3] = np.nan  # times on other hardware are not comparable
                drawn[right] |= draw(right, costs + aside, looks[method] | {"linestyle": "none"})
            left.axhline(100, **original)
            right.axhline(1, **original)
            log_axis(right)
            left.set(title=setting, ylabel="units left (%)", ylim=(-4, 108), xlabel="units of the dense network")
            left.set_xticks(range(1, len(dense) + 1), [str(units) for units in dense])
            right.set(title="costs", ylabel="dense / compressed", xlim=(-0.5, len(COSTS) - 0.5))
            right.set_xticks(range(len(COSTS)), list(COSTS.values()), fontsize="small")
            for panel, any_ours in drawn.items():
                if not any_ours:
                    missing(panel, empty=not any(one.get_label() == "_published" for one in panel.get_lines()))
        printed = {"linestyle": "none", "marker": "o", "mfc": "white", "ms": 8, "color": INK}
        _legend(fig, axes[0, 0], looks | {"published (open)": printed, "Original": original}, 5)
        panel_letters(axes)
    return fig


def vgg(rows: Rows | None = None) -> Figure:
    """Table 1 of the paper: the share of units that each layer of the VGG-like network keeps, a panel a method.

    Args:
        rows: of "sbp-vgg", with the published settings "k=1.0" and "k=1.5".
    """
    rows = compared("sbp-vgg", rows)
    names = ("k = 1, published", "k = 1.5, published", "k = 1, ours")
    looks = dict(zip(names, line_styles(names).values(), strict=True))
    with style_context():
        fig, axes = figure(1, nrows=3, height=2.0, sharex=True)
        for panel, method in zip(axes, ("SparseVD", "SBP", "SBPa"), strict=True):
            for name, k in zip(names, (1.0, 1.5), strict=False):
                printed = kept_share(rows, f"k={k}", method, VGG, k)[:, [0, 3]]
                panel.plot(*printed.T, **looks[name] | {"mfc": "white", "ms": 7, "lw": 1.2})
            own = kept_share(rows, "k=1.0", method, VGG)
            own[:, 3] = np.nan  # the published ones are drawn above
            if not draw(panel, own, looks[names[2]]):
                missing(panel, empty=not np.isfinite(panel.get_lines()[0].get_ydata()).any())
            panel.set(title=method, ylim=(-5, 108), yticks=[0, 50, 100], ylabel="left (%)")
        axes[-1].set(xlabel="layer: 13 convolutions, one linear", xticks=range(1, 15))
        hollow = {name: look | {"mfc": "white"} for name, look in looks.items() if name != names[2]}
        _legend(fig, axes[0], looks | hollow, 2)
        panel_letters(axes)
    return fig


def _curves(panel: Axes, curves: list[np.ndarray], look: Mapping) -> None:
    """One line for each replicate over the epochs, the first with the label."""
    for k, values in enumerate(curves):
        epochs = np.arange(1, len(values) + 1)
        own = {"markevery": max(1, len(values) // 8), "lw": 1.6, "label": look["label"] if k == 0 else "_replicate"}
        panel.plot(epochs, values, **dict(look) | own)


def vgg_curves(arrays: Arrays | None = None, narrow: Arrays | None = None) -> Figure:
    """How far noise on VGG-like networks came: SBP's divergence a unit, and the share of units pruned, by epoch.

    The divergence of SBPa is weighted, so that its height says nothing of a unit's ratio.

    Args:
        arrays: with the keys of `book.lab.load_arrays`; those stored for "sbp-vgg" when omitted. "kl" has a value for
            each epoch, in nats, "units" a row for each epoch, a column for each layer.
        narrow: of "sbp-vgg-causes", the same of networks of a quarter of the width.
    """
    arrays = stored_arrays("sbp-vgg") if arrays is None else arrays
    narrow = stored_arrays("sbp-vgg-causes") if narrow is None else narrow
    shown = {
        "SBP": (arrays, "k=1.0", "SBP"),
        "SBPa": (arrays, "k=1.0", "SBPa"),
        "k = 1/4, farther": (narrow, "k=0.25", "SBP, farther"),
        "k = 1/4, by heart": (narrow, "k=0.25, by heart", "SBP"),
        "k = 1/4, by heart, farther": (narrow, "k=0.25, by heart", "SBP, farther"),
    }
    looks = line_styles(list(shown))
    with style_context():
        fig, (left, right) = figure(2, height=3.8)
        for label, (given, where, method) in shown.items():
            totals = [one.sum(1) for one in _replicates(given, where, method, "units")]
            _curves(right, [100 * (1 - one / one[0]) for one in totals], looks[label])
            if method != "SBPa":
                sums = _replicates(given, where, method, "kl")
                _curves(left, [kl / one[0] for kl, one in zip(sums, totals, strict=True)], looks[label])
        for panel in (left, right):
            panel.set_xlabel("epoch")
            if not panel.get_lines():
                missing(panel)
        if left.get_lines():
            left.axhline(cheapest(np.ones(1))[0].item(), color=INK, lw=1.2, ls=":", marker="none")
            left.set_ylim(bottom=0)
            _legend(fig, left, looks, 2)
        left.set_title("divergence a unit (nats)")
        right.set_title("units pruned (%)")
        panel_letters([left, right])
    return fig


def random_labels(arrays: Arrays | None = None) -> Figure:
    """Accuracy on randomly labeled training images and the units that are left, over the epochs.

    Args:
        arrays: with the keys of `book.lab.load_arrays`; those stored for "sbp-random-labels" when omitted. The
            array "curve" has columns (training accuracy, units removed, ...), in percent, a row for each epoch.
    """
    arrays = stored_arrays("sbp-random-labels") if arrays is None else arrays
    looks = {name: look | {"label": LABELS[name]} for name, look in line_styles(list(LABELS)).items()}
    with style_context():
        fig, (left, right) = figure(2, height=3.6)
        for method, look in looks.items():
            found = _replicates(arrays, "MNIST, MLP", method, "curve")
            _curves(left, [one[:, 0] for one in found], look)
            if method != "Dropout":
                _curves(right, [100 - one[:, 1] for one in found], look)
        for panel in (left, right):
            if not panel.get_lines():
                missing(panel)
            panel.set(xlabel="epoch", ylim=(-4, 104))
        if left.get_lines():
            left.axhline(10, color=INK, lw=1, ls=":", marker="none")  # chance
        left.set_title("accuracy, random labels (%)")
        right.set_title("units left (%)")
        legend_below(fig, left, ncols=2, fontsize="small")
        panel_letters([left, right])
    return fig


def fixed_mean(arrays: Arrays | None = None) -> Figure:
    """What a free location saves at each signal-to-noise ratio, and LeNet-5 with a free and with a fixed one.

    Args:
        arrays: with the keys of `book.lab.load_arrays`; those stored for "sbp-mnist" when omitted. The array
            "units" has a row for each epoch, a column for each layer of units.
    """
    arrays = stored_arrays("sbp-mnist") if arrays is None else arrays
    names = {"SBPa": "μ learned", "SBPa, fixed mu": "μ = 0"}
    dense = np.array(DENSE["LeNet-5"], dtype=float)
    ratios = np.geomspace(0.36, 100, 90)
    saved = price_at(torch.as_tensor(ratios), torch.zeros(1)).numpy() - cheapest(ratios)[0]
    with style_context():
        fig, (left, right) = figure(2, height=3.6)
        left.plot(ratios, saved, color=INK, lw=2.2, marker="none")
        left.axhline(HALF_BELL, color=INK, lw=1.2, ls=":", marker="none")
        left.set(xscale="log", xlabel="signal-to-noise ratio", title="saved by a free μ (nats)", ylim=(0, 0.22))
        left.set_xticks([0.5, 1, 3, 10, 30, 100], ["0.5", "1", "3", "10", "30", "100"])
        left.minorticks_off()
        looks = line_styles(list(names.values()))
        for method, name in names.items():
            found = _replicates(arrays, "LeNet-5", method, "units")
            _curves(right, [100 * one.sum(1) / dense.sum() for one in found], looks[name])
        if not right.get_lines():
            missing(right)
        else:
            right.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            right.legend(loc="upper right", fontsize="small")
        right.set(xlabel="epoch", title="units left (%)", ylim=(-4, 104))
        panel_letters([left, right])
    return fig
