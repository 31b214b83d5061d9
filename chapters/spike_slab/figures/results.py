"""Pictures of stored results of the spike-and-slab chapter: the lambda sweeps, selected edges, MNIST by epoch.

A result that has not been run leaves its curve out; the picture then says so.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from book.display.panels import missing
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context


def sweep_curve(rows: Sequence[Mapping], prefix: str, metric: str, lambdas: Sequence[str]) -> tuple[np.ndarray, ...]:
    """(ours, standard deviation, published) of one metric along the sweep; NaN where there is none.

    Args:
        rows: from `book.lab.compare("svbnn-lambda")`.
        prefix: "1b" or "2".
        metric: "rmse_train", "rmse_test" or "log_sparsity".
        lambdas: the settings' values as they are written, in order.
    """
    found = {row["setting"]: row for row in rows if row["metric"] == metric}
    # the smoke profile runs the code, not the experiment: only its published column is shown
    found = {key: row if row["profile"] != "smoke" else row | {"mean": None, "sd": None} for key, row in found.items()}
    chosen = [found.get(f"{prefix}/lambda={value}", {}) for value in lambdas]
    return tuple(np.array([row.get(key) for row in chosen], dtype=float) for key in ("mean", "sd", "published"))


def lambda_sweep(rows: Sequence[Mapping], lambdas: Sequence[str], names: Mapping[str, str]) -> Figure:
    """Test and training error (top) and log sparsity (bottom) along the sweep, one column for each simulation.

    Args:
        rows: from `book.lab.compare("svbnn-lambda")`.
        lambdas: the settings' values in order, "opt" among them.
        names: {prefix of the settings: title}, two of them.
    """
    place = np.arange(len(lambdas))
    with style_context():
        fig, axes = figure(2, nrows=2, height=3.3)
        looks = line_styles(["training", "test"])
        ours = {"label": "ours", "marker": "o", "ls": "-", "color": PALETTE[0]}
        for column, (prefix, title) in enumerate(names.items()):
            top, bottom = axes[:, column]
            mean, spread, _ = sweep_curve(rows, prefix, "rmse_train", lambdas)
            if np.isfinite(mean).any():
                top.errorbar(place, mean, spread, capsize=2, **looks["training"])
            for panel, metric, look, printed in (
                (top, "rmse_test", looks["test"], "published (test)"),
                (bottom, "log_sparsity", ours, "published"),
            ):
                mean, spread, published = sweep_curve(rows, prefix, metric, lambdas)
                if np.isfinite(mean).any():
                    panel.errorbar(place, mean, spread, capsize=2, **look)
                else:
                    missing(panel, empty=not np.isfinite(published).any())
                if np.isfinite(published).any():
                    panel.plot(place, published, ls="none", marker="^", mfc="white", color=PALETTE[2], label=printed)
                panel.set(title=title, xlabel="prior inclusion λ")
                panel.set_xticks(place, lambdas, rotation=70, size="small")
                panel.axvline(lambdas.index("opt"), color=INK, lw=1, ls=":", marker="none")
                if panel.get_legend_handles_labels()[0]:
                    panel.legend(fontsize="small")
            top.set_ylabel("RMSE")
            bottom.set_ylabel("log sparsity")
        panel_letters(axes)
    return fig


def unpack(inclusion: np.ndarray, sizes: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """(weights (fan_out, fan_in), biases (fan_out,)) of each layer from a flat vector in `Layout` order.

    Raises:
        ValueError: the vector does not have as many entries as the network has weights and biases.
    """
    needed = sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))
    if len(inclusion) != needed:
        raise ValueError(f"inclusion has {len(inclusion)} entries, but sizes {tuple(sizes)} need {needed}.")
    layers, start = [], 0
    for fan_in, fan_out in pairwise(sizes):
        middle, end = start + fan_in * fan_out, start + (fan_in + 1) * fan_out
        layers.append((np.asarray(inclusion[start:middle]).reshape(-1, fan_in), np.asarray(inclusion[middle:end])))
        start = end
    return layers


def selected_edges(inclusion: np.ndarray, sizes: Sequence[int]) -> list[tuple[int, int, int, float]]:
    """Edges (layer, from, to, phi) with phi above one half that lie on a path from an input to the output."""
    masks = [weight > 0.5 for weight, _ in unpack(inclusion, sizes)]
    forward = [np.ones(sizes[0], dtype=bool)]
    for mask in masks:
        forward.append((mask & forward[-1]).any(axis=1))
    backward = [np.ones(sizes[-1], dtype=bool)]
    for mask in reversed(masks):
        backward.insert(0, (mask & backward[0][:, None]).any(axis=0))
    edges = []
    for layer, (mask, (weight, _)) in enumerate(zip(masks, unpack(inclusion, sizes), strict=True)):
        live = mask & forward[layer] & backward[layer + 1][:, None]
        edges += [(layer, int(i), int(j), float(weight[j, i])) for j, i in np.argwhere(live)]
    return edges


def epochs(
    curves: Mapping[str, Sequence[Mapping[str, np.ndarray]]], references: Mapping[str, float] | None = None
) -> Figure:
    """Test accuracy and share of active weights by epoch, a color for each method and a line for each run.

    Args:
        curves: {method: [{"epoch", "accuracy", "sparsity"} of each run]} with percentages.
        references: {name: published sparsity in percent}, drawn as thin lines in the right panel.
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.4)
        if not curves:
            missing(left)
            missing(right, empty=not references)
        for name, look in line_styles(list(curves)).items():
            for number, curve in enumerate(curves[name]):
                label = name if number == 0 else None
                look = look | {"markevery": max(1, len(curve["epoch"]) // 8), "label": label}
                left.plot(curve["epoch"], curve["accuracy"], **look)
                right.plot(curve["epoch"], np.maximum(curve["sparsity"], 1e-3), **look)
        for name, value in (references or {}).items():
            right.axhline(value, color=INK, lw=0.9, ls=":", marker="none")
            beside = {"transform": right.get_yaxis_transform(), "ha": "right", "va": "bottom"}
            right.text(0.99, value * 1.05, name, size="small", **beside)
        left.set(xlabel="epoch", ylabel="test accuracy (%)", ylim=(90, 100), title="accuracy")
        right.set(xlabel="epoch", ylabel="active weights (%)", yscale="log", ylim=(0.1, 130), title="sparsity")
        if curves:
            fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panel_letters([left, right])
    return fig
