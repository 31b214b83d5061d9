"""Pictures of stored results of the chapter on Stochastic Batch Normalization.

Every function asks the store for what is omitted. A network that has not been run, or only at the smoke profile's
sizes, leaves its panels with the words "not run"; published numbers are open markers.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from book.display.panels import missing
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, stand_alone, style_context
from book.lab.queries import stored_arrays
from book.lab.store import NotStoredError, load_result

EXPERIMENTS = ("sbn-mnist", "sbn-cifar5")
UNKNOWN = {"LeNet-5": "Fashion-MNIST", "VGG-11": "CIFAR, classes 5–9", "ResNet-18": "CIFAR, classes 5–9"}
_BASES = {"BN": (PALETTE[3], "o"), "DE": (PALETTE[0], "s"), "DO": (PALETTE[1], "^")}
METHODS = {"BN": "BN", "SBN": "BN", "DE": "DE", "DE+SBN": "DE", "DO": "DO", "DO+SBN": "DO"}
CONTROL = "BN, matched"  # the statistics that SBN estimates, without their noise
PLACES = {"LeNet-5": "sbn-mnist", "VGG-11": "sbn-cifar5", "ResNet-18": "sbn-cifar5"}  # which experiment has a network
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
        for panel in axes.flat[:3]:
            panel.set_xlabel("predictive entropy (nats)")
        legend = axes[1, 1]
        legend.set_axis_off()
        handles = [legend.plot([], [], **look(method))[0] for method in METHODS]
        legend.legend(handles, list(METHODS), loc="center", title="solid: random statistics", title_fontsize="small")
        panel_letters(axes.flat[:3])
    return fig


def parts() -> Figure:
    """What changes from running averages to new ones, and from there to draws: a line for each stored network.

    Two rows, AUROC and test error, as differences to the same network with its running averages (BN); a column for
    each network of the paper. Where the control was not run the line goes straight to SBN.
    """
    steps = ("BN", CONTROL, "SBN")
    measures = {"auroc": "AUROC (points)", "error_test": "error (points)"}
    looks = list(line_styles(list("012345")).values())
    with style_context():
        fig, axes = figure(3, nrows=2, height=2.4, sharey="row")
        for column, (network, name) in zip(axes.T, PLACES.items(), strict=True):
            for panel, metric in zip(column, measures, strict=True):
                found = [_by_replicate(name, network, method, metric) for method in steps]
                for look, seed in zip(looks, found[0], strict=False):
                    places = [k for k, values in enumerate(found) if seed in values]
                    change = [found[k][seed] - found[0][seed] for k in places]
                    panel.plot(places, change, **look | {"label": f"network {seed}", "lw": 1.5, "ms": 5})
                panel.axhline(0, color=INK, lw=0.8)
                panel.set_xticks(range(3), ["BN", "new\naverages", "draws"], fontsize="small")
                panel.set(title=network, xlim=(-0.25, 2.25))
                if not found[0]:
                    missing(panel)
                elif not found[1]:
                    panel.text(
                        1,
                        0.04,
                        "control:\nnot run",
                        ha="center",
                        transform=panel.get_xaxis_transform(),
                        fontsize="small",
                    )
        for panel, words in zip(axes[:, 0], measures.values(), strict=True):
            panel.set_ylabel(words)
        stand_alone(axes)
        panel_letters(axes)
    return fig


def _by_replicate(name: str, network: str, method: str, metric: str) -> dict[int, float]:
    """Our stored values by the number of the network; {} while nothing beyond the smoke profile is stored."""
    try:
        result = load_result(name)
    except NotStoredError:
        return {}
    wanted = (network, method, metric)
    rows = [row for row in result["rows"] if (row["setting"], row["method"], row["metric"]) == wanted]
    return {row["replicate"]: row["value"] for row in rows} if result["profile"] != "smoke" else {}
