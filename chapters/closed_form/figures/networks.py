"""Pictures of the chapter on closed-form inclusion probabilities: paths of a network, ranked weights, minibatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.figure import Figure

from bnnlib import functional as bF
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, style_context


def paths(inclusion: Sequence[np.ndarray]) -> Figure:
    """A small network with p on its edges and psi at its inputs, equation (sbnn-psi).

    Args:
        inclusion: P of each layer, inputs first, shapes (n_l, n_(l-1)); a few units a layer, or the numbers overlap.
    """
    layers = [torch.as_tensor(np.asarray(layer, dtype=float)) for layer in inclusion]
    psi = bF.path_importance(layers)
    sizes = [layers[0].shape[1], *[layer.shape[0] for layer in layers]]

    def place(depth: int, unit: int) -> tuple[float, float]:
        return float(depth), (sizes[depth] - 1) / 2 - unit

    with style_context():
        fig, axes = figure(1, height=1.2 + 0.95 * max(sizes))
        axes.set_axis_off()
        for depth, layer in enumerate(layers):
            for j, i in np.ndindex(*layer.shape):
                (x0, y0), (x1, y1) = place(depth, i), place(depth + 1, j)
                p = float(layer[j, i])
                axes.plot([x0, x1], [y0, y1], color=INK, lw=0.5 + 3 * p, ls="-", marker="none", zorder=1)
                # off the middle, so that the numbers of two crossing edges do not meet
                at = 0.33
                ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
                where = (x0 + at * (x1 - x0), y0 + at * (y1 - y0))
                axes.text(*where, f"{p:g}", ha="center", va="center", bbox=ground, zorder=2)
        for depth, size in enumerate(sizes):
            for unit in range(size):
                x, y = place(depth, unit)
                axes.plot([x], [y], marker="o", ms=26, mfc="white", mec=INK, ls="none", zorder=3)
                name = f"$x_{unit + 1}$" if depth == 0 else "$y$" if depth == len(layers) and size == 1 else ""
                axes.text(x, y, name, ha="center", va="center", zorder=4)
                if depth == 0:
                    axes.text(x - 0.16, y, f"ψ = {float(psi[unit]):.3g}", ha="right", va="center")
        half = (max(sizes) - 1) / 2
        axes.set(xlim=(-0.75, len(layers) + 0.2), ylim=(-half - 0.45, half + 0.45))
    return fig


def ranking(mean: np.ndarray, scale: np.ndarray, share: float = 0.5) -> Figure:
    """Which weights two rules remove: the smallest second moment (p*), or the smallest ratio |m| / sigma.

    Args:
        mean, scale: of the weights' posteriors, shape (n,). The axes are logarithmic: removed and kept weights differ
            by orders of magnitude.
        share: of the weights that are removed.
    """
    mean, scale = np.abs(np.asarray(mean, dtype=float)), np.asarray(scale, dtype=float)
    mean = np.maximum(mean, 1e-3 * np.median(scale))  # zero has no place on a logarithmic axis
    scores = {"by p*": np.hypot(mean, scale), "by |m| / σ": mean / scale}
    (left, right), (low, high) = ((0.7 * values.min(), 1.5 * values.max()) for values in (mean, scale))
    with style_context():
        fig, panels = figure(2, height=3.9, sharey=True)
        for panel, (name, score) in zip(panels, scores.items(), strict=True):
            order = np.argsort(score, kind="stable")
            count = round(share * len(score))
            gone, kept = order[:count], order[count:]
            panel.loglog(mean[kept], scale[kept], marker="o", ls="none", ms=4, color=PALETTE[0], label="kept")
            panel.loglog(mean[gone], scale[gone], marker="x", ls="none", ms=4, color=PALETTE[1], label="removed")
            cut = 0.5 * (score[order[count - 1]] + score[order[min(count, len(order) - 1)]])
            if name == "by p*":
                angle = np.arctan(np.geomspace(1e-6, 1e6, 401))  # dense towards both axes
                border = (cut * np.cos(angle), cut * np.sin(angle))
            else:
                border = (cut * np.array([low, high]), [low, high])
            panel.loglog(*border, color=INK, ls="--", lw=1.2, marker="none")
            panel.set(title=name, xlabel="|m|", xlim=(left, right), ylim=(low, high))
        panels[0].set_ylabel("σ")
        fig.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panel_letters(panels)
    return fig


def minibatches(weights: Mapping[str, np.ndarray]) -> Figure:
    """The share of the penalty that each minibatch of an epoch carries, equation (sbnn-minibatch).

    Args:
        weights: {name of the scheme: r_1, ..., r_M}, each adding up to 1.
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.3)
        for name, look in line_styles(list(weights)).items():
            r = np.asarray(weights[name], dtype=float)
            batch = np.arange(1, len(r) + 1)
            look = look | {"markevery": max(1, len(r) // 8)}
            positive = r > 0  # the smallest are below the range of float64
            left.semilogy(batch[positive], r[positive], **look)
            right.semilogx(batch, np.cumsum(r), **look | {"markevery": 0.15})
        low, high = np.log10(left.get_ylim())
        left.set_yticks(10.0 ** np.unique(np.round(np.linspace(min(0, np.floor(high)), low, 5)[:4])))
        left.minorticks_off()
        left.set(xlabel="minibatch i", ylabel="$r_i$", title="weight of the penalty")
        right.set(xlabel="minibatch i", ylabel="$r_1 + … + r_i$", title="up to batch i", ylim=(0, 1.04))
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panel_letters([left, right])
    return fig
