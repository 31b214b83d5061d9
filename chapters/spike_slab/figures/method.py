"""Pictures of the chapter on variational spike-and-slab networks: the idea, the gradients.

Every function takes plain arrays and returns a matplotlib Figure. The explorers are in `explorers`, the pictures of
results in `results`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from bnnlib import functional as bF
from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, sparse_markers, style_context
from chapters.shared.figures import normal_density

SPIKE, SLAB = PALETTE[1], PALETTE[0]


def spike_and_slab(weights: Mapping[str, tuple[float, float, float]], reach: float = 3.0) -> Figure:
    """Distributions of a few weights: a bar of mass at zero and a slab with the rest.

    Args:
        weights: {title: (slab mean, slab standard deviation, inclusion probability)}, an even number of them.
        reach: half the width of the horizontal axis.
    """
    with style_context():
        fig, axes = figure(2, nrows=math.ceil(len(weights) / 2), height=2.3, sharex=True, squeeze=False)
        x = np.linspace(-reach, reach, 601)
        for panel, (title, (mean, scale, inclusion)) in zip(axes.flat, weights.items(), strict=True):
            slab = normal_density(x, mean, scale)
            panel.fill_between(x, inclusion * slab / slab.max(), color=SLAB, alpha=0.35, lw=0)
            panel.plot(x, inclusion * slab / slab.max(), color=SLAB, ls="-", marker="none")
            panel.bar(0, 1 - inclusion, width=0.11, color=SPIKE, hatch="//", edgecolor="white", zorder=3)
            panel.set(title=f"{title}: φ = {inclusion:g}", ylim=(0, 1.12), yticks=[0, 0.5, 1], xlim=(-reach, reach))
        for panel in axes[-1]:
            panel.set_xlabel("weight")
        for row in axes:
            row[0].set_ylabel("probability")
        panel_letters(axes)
    return fig


def gate_densities(inclusion: float, temperatures: Sequence[float]) -> Figure:
    """Density of the soft gate at several temperatures; the mass right of one half is the inclusion probability.

    Args:
        inclusion: phi of the gate.
        temperatures: of the binary Gumbel-softmax relaxation.
    """
    with style_context():
        fig, axes = figure(1, height=3.1)
        g = np.linspace(0.002, 0.998, 700)
        logit = np.log(g) - np.log1p(-g)
        looks = line_styles([f"τ = {t:g}" for t in temperatures])
        for temperature, look in zip(temperatures, looks.values(), strict=True):
            z = temperature * logit - bF.log_odds(inclusion)
            density = temperature / (g * (1 - g)) / (4 * np.cosh(z / 2) ** 2)
            axes.plot(g, density, **look)
        axes.axvspan(0.5, 1, color=SLAB, alpha=0.1, lw=0)
        axes.text(0.52, 3.65, f"mass here is φ = {inclusion:g}\nat every temperature", va="top", size="small")
        axes.set(xlabel="soft gate", ylabel="density", ylim=(0, 3.8), xlim=(0, 1))
        sparse_markers(axes)
        axes.legend(loc="upper left")
    return fig


def gradient_comparison(
    inclusion: np.ndarray,
    truth: np.ndarray,
    means: Mapping[str, np.ndarray],
    gates: Sequence[int],
    spreads: Mapping[str, np.ndarray],
) -> Figure:
    """Bias of gate-gradient estimators for one gate, and their spread as the number of gates grows.

    Args:
        inclusion: phi on the horizontal axis of the left panel.
        truth: exact gradient at those phi.
        means: {estimator: expectation at those phi}.
        gates: numbers of gates on the horizontal axis of the right panel.
        spreads: {estimator: standard deviation of one gate's gradient}.
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.4)
        looks = line_styles(["exact", *dict.fromkeys([*means, *spreads])])
        left.axhline(0, color=INK, lw=0.8, ls="-", marker="none")
        left.plot(inclusion, truth, **looks["exact"])
        for name, values in means.items():
            left.plot(inclusion, values, **looks[name])
        left.set(xlabel="φ", ylabel="mean gradient", title="one gate")
        for name, values in spreads.items():
            right.loglog(gates, values, **looks[name])
        right.set(xlabel="number of gates", ylabel="standard deviation", title="many gates")
        sparse_markers(left)
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panel_letters([left, right])
    return fig


def reparameterization(
    ratio: np.ndarray, spreads: Mapping[str, np.ndarray], traces: Mapping[str, np.ndarray]
) -> Figure:
    """How noisy two reparameterisations are as the slab leaves zero, and where they take a linear model.

    Args:
        ratio: |mu| / sigma of the slab.
        spreads: {estimator: standard deviation of the gradient in phi} at those ratios.
        traces: {method: exact negative ELBO after each step}.
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.4)
        looks = line_styles(list(dict.fromkeys([*spreads, *traces])))
        for name, values in spreads.items():
            left.semilogy(ratio, values, **looks[name])
        left.set(xlabel="|μ| / σ of the slab", ylabel="std of the φ gradient", title="one weight")
        for name, values in traces.items():
            right.plot(np.arange(1, len(values) + 1), values, **looks[name])
        right.set(xlabel="step", ylabel="exact negative ELBO (nats)", title="linear model")
        sparse_markers(left)
        sparse_markers(right)
        handles = {
            text: h for panel in (left, right) for h, text in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        fig.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)
        panel_letters([left, right])
    return fig
