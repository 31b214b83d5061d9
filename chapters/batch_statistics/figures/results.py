"""Pictures of stored results of the chapter on Stochastic Batch Normalization.

Every function asks the store for what is omitted. A network that has not been run, or only at the smoke profile's
sizes, leaves its panels with the words "not run"; published numbers are open markers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book.display.panels import missing, replicate_points
from book.display.style import INK, PALETTE, figure, panel_letters, style_context
from book.lab.queries import Rows, cell, compared, replicates, stored_arrays, stored_values

EXPERIMENTS = ("sbn-mnist", "sbn-cifar5")
UNKNOWN = {"LeNet-5": "Fashion-MNIST", "VGG-11": "CIFAR, classes 5–9", "ResNet-18": "CIFAR, classes 5–9"}
_BASES = {"BN": (PALETTE[3], "o"), "DE": (PALETTE[0], "s"), "DO": (PALETTE[1], "^")}
METHODS = {"BN": "BN", "SBN": "BN", "DE": "DE", "DE+SBN": "DE", "DO": "DO", "DO+SBN": "DO"}
CONTROL = "BN, matched"  # the statistics that SBN estimates, without their noise; run for some networks
PLAIN, SCALED = PALETTE[0], PALETTE[1]
Arrays = Mapping[tuple[str, str, int, str], np.ndarray]


def _stored(arrays: Arrays | None) -> Arrays:
    if arrays is not None:
        return arrays
    return {key: value for name in EXPERIMENTS for key, value in stored_arrays(name).items()}


def look(method: str) -> dict:
    """A method's look: color and marker by what is averaged, solid with random statistics and dashed without.

    Args:
        method: "BN", "SBN", "DE", "DE+SBN", "DO" or "DO+SBN".
    """
    color, marker = _BASES[METHODS[method]]
    random = "SBN" in method
    face = color if random else "white"
    return {"label": method, "color": color, "marker": marker, "mfc": face, "linestyle": "-" if random else "--"}


def stored_statistics(arrays: Arrays | None = None, network: str = "LeNet-5") -> dict[str, np.ndarray]:
    """Statistics of real batches of the first network, for `sbn.statistics`; {} while nothing is stored.

    Args:
        arrays: with the keys of `book.lab.load_arrays`; those stored when omitted.
        network: setting of the arrays.

    Returns:
        {layer: array (2 + batches, features, 2)}, as `sbn.tables` describes them.
    """
    start = "statistics|"
    found = {key[3]: value for key, value in _stored(arrays).items() if key[0] == network}
    return {name.removeprefix(start): np.asarray(v, float) for name, v in found.items() if name.startswith(start)}


def entropy_curves(arrays: Arrays, network: str, part: str = "unknown") -> dict[str, np.ndarray]:
    """Distribution functions of the entropy, averaged over networks where a method has several.

    Args:
        arrays: with the keys of `book.lab.load_arrays`; "METHOD|entropy_cdf_PART" has columns (entropy in nats,
            share of inputs at or below it, one for each network).
        network: setting of the arrays.
        part: "unknown" or "test".

    Returns:
        {method: array (points, 2)} in the order of METHODS.
    """
    named = {key[3]: np.asarray(value, dtype=float) for key, value in arrays.items() if key[0] == network}
    found = {method: named.get(f"{method}|entropy_cdf_{part}") for method in METHODS}
    return {
        method: np.stack([table[:, 0], table[:, 1:].mean(1)], axis=1)
        for method, table in found.items()
        if table is not None
    }


def entropy_cdf(arrays: Arrays | None = None) -> Figure:
    """Figure 1 of the paper: distribution functions of the predictive entropy on unknown images, a panel a network.

    The more to the right and the lower, the better.

    Args:
        arrays: with the keys of `book.lab.load_arrays`; those stored for "sbn-mnist" and "sbn-cifar5" when omitted.
    """
    arrays = _stored(arrays)
    with style_context():
        fig, axes = figure(2, nrows=2, height=2.9)
        for panel, (network, unknown) in zip(axes.flat, UNKNOWN.items(), strict=False):
            curves = entropy_curves(arrays, network)
            for k, (method, table) in enumerate(curves.items()):
                every = (3 * k % 18, 18)
                panel.plot(*table.T, **look(method) | {"markevery": every, "ms": 5, "lw": 1.7})
            if not curves:
                missing(panel)
            else:
                panel.set_xlim(-0.02, next(iter(curves.values()))[-1, 0])
            panel.set(title=f"{network}: {unknown}", ylim=(-0.02, 1.02))
        for panel in axes[:, 0]:
            panel.set_ylabel("share of images")
        for panel in (axes[1, 0], axes[0, 1]):
            panel.set_xlabel("predictive entropy (nats)")
        legend = axes[1, 1]
        legend.set_axis_off()
        handles = [legend.plot([], [], **look(method))[0] for method in METHODS]
        legend.legend(handles, list(METHODS), loc="center", title="solid: random statistics", title_fontsize="small")
        panel_letters(axes.flat[:3])
    return fig


def _points(panel: Axes, rows: Rows, network: str, metric: str, methods: Sequence[str]) -> bool:
    """A metric of each method before and after temperature scaling, published values open; True if ours exist."""
    drawn = False
    styles = (("", PLAIN, "o", -0.14), ("_scaled", SCALED, "s", 0.14))
    for suffix, color, marker, aside in styles:
        table = np.array([cell(rows, network, method, metric + suffix) for method in methods], dtype=float)
        ours, error, printed = table.T
        places = np.arange(len(methods)) + aside
        known, listed = np.isfinite(ours), np.isfinite(printed)
        for place, method in zip(places, methods, strict=True):
            each = replicates(rows, network, method, metric + suffix)
            replicate_points(panel, each, place, color, upright=True, width=0.05)
        if known.any():
            style = {"color": color, "marker": marker, "ls": "none", "ms": 5.5, "capsize": 2}
            panel.errorbar(places[known], ours[known], np.nan_to_num(error[known]), **style)
        if listed.any():
            panel.plot(
                places[listed], printed[listed], color=color, marker=marker, mfc="white", ms=8, ls="none", zorder=1
            )
        drawn |= bool(known.any())
    return drawn


def _scaled_rows(name: str) -> Rows:
    """Rows of the scaled calibration error, which is stored but not one of the measures that tables list."""
    rows = []
    for network in UNKNOWN:
        for method in (*METHODS, CONTROL):
            values = stored_values(name, network, method, "ece_scaled")
            if len(values):
                error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
                where = {"setting": network, "method": method, "metric": "ece_scaled", "profile": "stored"}
                rows.append(where | {"mean": float(values.mean()), "se": error, "published": None, "values": values})
    return rows


def calibration(rows: Rows | None = None) -> Figure:
    """Negative log-likelihood and calibration error on known images, before and after temperature scaling.

    Args:
        rows: of "sbn-mnist" and "sbn-cifar5" together.
    """
    if rows is None:
        rows = [row for name in EXPERIMENTS for row in [*compared(name, None), *_scaled_rows(name)]]
    with style_context():
        fig, axes = figure(2, nrows=len(UNKNOWN), height=2.3)
        for pair, network in zip(axes, UNKNOWN, strict=True):
            control = any((row["setting"], row["method"]) == (network, CONTROL) for row in rows)
            methods = ["BN", CONTROL, *list(METHODS)[1:]] if control else list(METHODS)
            ticks = [name.replace("+", "\n+").replace(", ", "\n") for name in methods]
            for panel, (metric, (title, unit)) in zip(
                pair, {"nll": ("NLL", "nats"), "ece": ("ECE", "%")}.items(), strict=True
            ):
                drawn = _points(panel, rows, network, metric, methods)
                panel.set(title=f"{network}: {title}", ylabel=unit)
                panel.set_xlim(-0.6, len(methods) - 0.4)
                panel.set_xticks(range(len(methods)), ticks, fontsize="small")
                if panel.get_lines():
                    panel.set_ylim(0, 1.08 * panel.dataLim.y1)
                if not drawn:
                    missing(panel, empty=not panel.get_lines())
        styles = [(PLAIN, "o", PLAIN), (SCALED, "s", SCALED), (INK, "o", "white")]
        handles = [
            axes[0, 0].plot([], [], color=color, marker=marker, mfc=face, ls="none", ms=7)[0]
            for color, marker, face in styles
        ]
        names = ["as predicted", "temperature scaled", "published (open)"]
        fig.legend(handles, names, loc="outside lower center", ncols=3, fontsize="small")
        panel_letters(axes)
    return fig
