"""Pictures of the chapter on learned priors: the samplers, the stochastic approximation, the pruning.

Every function takes plain arrays or numbers and returns a matplotlib Figure. Those of the
prior are in `prior` and named here too, those of results in `results`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from matplotlib.figure import Figure

from bnnlib import functional as bF
from book.display.style import INK, figure, line_styles, panel_letters, sparse_markers, style_context
from chapters.learned_priors.figures.prior import CONTROLS, PUBLISHED, SLAB, crossover, idea, penalty, penalty_in_words

__all__ = [
    "CONTROLS",
    "PUBLISHED",
    "SCHEMES",
    "chains",
    "crossover",
    "discretization_bias",
    "gaussian_variance",
    "idea",
    "langevin_density",
    "penalty",
    "penalty_in_words",
    "sparsity_schedule",
    "stochastic_approximation",
    "temperature",
]

SCHEMES = ("SGLD", "SGHMC, Euler", "SGHMC, BAOAB")


def langevin_density(
    draws: Mapping[str, np.ndarray],
    density: Callable[[np.ndarray], np.ndarray] | None = None,
    reach: float = 4.0,
    bins: int = 60,
) -> Figure:
    """Histograms of chains over the density that they should follow, one panel for each step size.

    Args:
        draws: {title: draws of one coordinate, any shape}, at most six.
        density: of the target; the standard normal when omitted.
        reach: half the width of the horizontal axis; draws beyond it are counted in the panel.
        bins: number of bars.
    """
    x = np.linspace(-reach, reach, 401)
    target = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi) if density is None else np.asarray(density(x))
    columns = min(len(draws), 2 if len(draws) in (2, 4) else 3)
    with style_context():
        fig, axes = figure(columns, nrows=math.ceil(len(draws) / columns), height=2.8, sharey=True, squeeze=False)
        for panel, (title, values) in zip(axes.flat, draws.items(), strict=False):
            values = np.asarray(values, dtype=float).ravel()
            counts, edges = np.histogram(values, bins=bins, range=(-reach, reach))
            heights = counts / (len(values) * np.diff(edges))
            panel.stairs(heights, edges, fill=True, color=SLAB, alpha=0.4, label="chain")
            panel.plot(x, target, color=INK, ls="--", marker="none", label="target")
            outside = 1 - counts.sum() / len(values)
            if outside > 1e-3:
                panel.text(
                    0.02, 0.97, f"{100 * outside:.1f} %\noutside", transform=panel.transAxes, size="small", va="top"
                )
            panel.set(title=title, xlim=(-reach, reach), ylim=(0, 1.25 * target.max()))
        for unused in axes.flat[len(draws) :]:
            unused.remove()
        for panel in axes[-1]:
            panel.set_xlabel("β")
        for row in axes:
            row[0].set_ylabel("density")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panel_letters(axes.flat[: len(draws)])
    return fig


def gaussian_variance(scheme: str, lr: float, momentum: float = 0.9, temperature: float = 1.0) -> float:
    """Stationary variance of a sampler's position on the target N(0, 1), from its own linear recursion.

    On a quadratic energy a step is z -> A z + s xi; the covariance solves V = A V A' + s s'. A and s are read off the
    functions of `bnnlib.functional`, so that no formula is typed in twice.

    Args:
        scheme: one of `SCHEMES`.
        lr, momentum, temperature: of the sampler.

    Returns:
        The variance; NaN where the recursion is unstable.

    Raises:
        ValueError: for an unknown scheme.
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme!r} is unknown, use one of {', '.join(SCHEMES)}")

    def step(position: float, velocity: float, noise: float) -> list[float]:
        q, v, xi = (torch.tensor(value, dtype=torch.float64) for value in (position, velocity, noise))
        if scheme == "SGLD":
            return [float(bF.sgld_step(q, q, xi, lr, temperature))]
        move = bF.sghmc_euler_step if scheme == "SGHMC, Euler" else bF.sghmc_baoab_step
        return [float(value) for value in move(q, v, q, xi, lr, momentum, temperature)]

    start = step(1.0, 0.0, 0.0)
    a = np.array([start] if len(start) == 1 else [start, step(0.0, 1.0, 0.0)]).T
    s = np.array(step(0.0, 0.0, 1.0))
    if np.abs(np.linalg.eigvals(a)).max() >= 1:
        return math.nan
    size = len(s) ** 2
    return float(np.linalg.solve(np.eye(size) - np.kron(a, a), np.outer(s, s).ravel())[0])


def discretization_bias(
    measured: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    momentum: float = 0.9,
    largest: float = 1.6,
) -> Figure:
    """Variance of the chain on N(0, 1) against the step size: lines from theory, markers from simulation.

    Args:
        measured: {scheme of `SCHEMES`: (step sizes, variances of simulated chains)}.
        momentum: of the two SGHMC schemes.
        largest: right end of the horizontal axis.
    """
    measured = measured or {}
    if unknown := set(measured) - set(SCHEMES):
        raise ValueError(f"measured names {sorted(unknown)}, use {', '.join(SCHEMES)}")
    with style_context():
        fig, axes = figure(1, height=3.5)
        axes.axhline(1, color=INK, lw=1, ls=":", marker="none")
        lr = np.linspace(0.005, largest, 200)
        for scheme, look in line_styles(SCHEMES).items():
            axes.plot(lr, [gaussian_variance(scheme, h, momentum) for h in lr], **look | {"marker": "none"})
            if scheme in measured:
                axes.plot(*measured[scheme], **look | {"linestyle": "none", "label": "_simulated"})
        axes.text(0.99, 1.01, "target", transform=axes.get_yaxis_transform(), size="small", ha="right", va="bottom")
        axes.set(xlabel="step size ε", ylabel="variance of the chain", xlim=(0, largest), ylim=(0.85, 2.6))
        axes.legend(
            loc="upper left", title="lines: theory; markers: chains" if measured else None, title_fontsize="small"
        )
    return fig


def temperature(
    x: np.ndarray,
    energy: np.ndarray,
    draws: Mapping[float, np.ndarray] | None = None,
    temperatures: Sequence[float] = (),
) -> Figure:
    """An energy, and the density that is proportional to exp(-U / T) at several temperatures.

    Args:
        x: grid, shape (m,), increasing and evenly spaced.
        energy: U on it, in nats.
        draws: {T: draws of a chain at that temperature}; their histograms are drawn as markers.
        temperatures: the T of the curves; those of `draws` when omitted.

    Raises:
        ValueError: neither draws nor temperatures are given.
    """
    draws = draws or {}
    chosen = list(temperatures) or list(draws)
    if not chosen:
        raise ValueError("there is no temperature to draw: give draws={T: draws} or temperatures=[...]")
    x, energy = np.asarray(x, dtype=float), np.asarray(energy, dtype=float)
    with style_context():
        fig, (left, right) = figure(2, height=3.4)
        left.plot(x, energy, color=INK, ls="-", marker="none")
        left.set(xlabel="β", ylabel="energy U (nats)", title="the energy")
        # walls far above the hottest chain's reach would flatten what it can see
        height = min(np.ptp(energy), 6 * max(chosen))
        left.set_ylim(energy.min() - 0.05 * height, energy.min() + height)
        for value, look in zip(chosen, line_styles([f"T = {t:g}" for t in chosen]).values(), strict=True):
            density = np.exp(-(energy - energy.min()) / value)
            right.plot(x, density / np.trapezoid(density, x), **look | {"marker": "none"})
            if value in draws:
                values = np.asarray(draws[value], dtype=float).ravel()
                counts, edges = np.histogram(values, bins=24, range=(x[0], x[-1]))
                heights = counts / (len(values) * np.diff(edges))
                right.plot(
                    (edges[1:] + edges[:-1]) / 2, heights, **look | {"linestyle": "none", "ms": 4, "label": "_chain"}
                )
        right.set(xlabel="β", ylabel="density", title="what the chain samples")
        right.set_ylim(bottom=0)
        fig.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(chosen)))
        panel_letters([left, right])
    return fig


def stochastic_approximation(weights: Mapping[str, np.ndarray], errors: Mapping[str, np.ndarray]) -> Figure:
    """Mean squared distance of the averaged parameter from its fixed point: against the step, and against w_k.

    Args:
        weights: {name of the step-size sequence: w_k at k = 1, 2, ...}.
        errors: {the same names: E |theta_k - theta*|^2 at those k}, positive.
    """
    with style_context():
        fig, (left, right) = figure(2, height=3.5, sharey=True)
        floor, ends = math.inf, []
        for name, look in line_styles(list(errors)).items():
            w, error = np.asarray(weights[name], dtype=float), np.asarray(errors[name], dtype=float)
            # evenly spaced on a logarithmic axis: a curve of 10^5 points is not sharper, only larger
            k = np.unique(np.geomspace(1, len(error), 120).astype(int))
            left.loglog(k, error[k - 1], **look)
            right.loglog(w[k - 1], error[k - 1], **look)
            if w[-1] < floor:
                floor, ends = w[-1], [w[0], w[-1], error[-1]]
        line = np.array(ends[:2])
        right.plot(
            line, ends[2] * line / ends[1], color=INK, lw=1, ls=":", marker="none", label="proportional to $w_k$"
        )
        right.invert_xaxis()
        left.set(xlabel="step k", ylabel="$E|θ_k - θ^*|^2$", title="in time")
        right.set(xlabel="weight $w_k$ (falling)", title="Theorem 1")
        for panel in (left, right):
            sparse_markers(panel, 6)
        fig.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panel_letters([left, right])
    return fig


def sparsity_schedule(
    steps: np.ndarray,
    targets: Mapping[str, np.ndarray],
    measured: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
) -> Figure:
    """Share of weights that the paper's schedule sets to zero, equation (aeb-pruning), and what a network did.

    Args:
        steps: on the horizontal axis, shape (m,).
        targets: {name: sparsity in [0, 1] at those steps, from `bnnlib.pruning.smooth_sparsity`}.
        measured: {one of the names: (steps, share of zeros)}, drawn as markers.
    """
    with style_context():
        fig, axes = figure(1, height=3.3)
        for name, look in line_styles(list(targets)).items():
            axes.plot(steps, 100 * np.asarray(targets[name]), **look | ({"marker": "none"} if measured else {}))
            if name in (measured or {}):
                where, share = measured[name]
                axes.plot(where, 100 * np.asarray(share), **look | {"linestyle": "none", "label": "_measured"})
        if not measured:
            sparse_markers(axes)
        axes.set(xlabel="step", ylabel="weights set to zero (%)", ylim=(0, 100), xlim=(0, None))
        axes.legend(loc="upper left", ncols=2, fontsize="small")
    return fig


def chains(draws: np.ndarray, statistics: Mapping[str, float] | None = None, length: int = 2000) -> Figure:
    """Traces of several chains, and the histogram of each: what split R-hat compares.

    Args:
        draws: shape (chains, draws), two to seven chains.
        statistics: {name: value} printed above the histograms, e.g. {"split R-hat": 1.01}.
        length: largest number of draws shown in the traces.
    """
    draws = np.asarray(draws, dtype=float)
    with style_context():
        fig, (left, right) = figure(2, height=3.2, sharey=True, width_ratios=(2, 1))
        looks = line_styles([f"chain {k + 1}" for k in range(len(draws))], markers=False)
        step = max(1, -(-draws.shape[1] // length))
        edges = np.histogram_bin_edges(draws, bins=40)
        for values, look in zip(draws, looks.values(), strict=True):
            left.plot(np.arange(0, len(values), step), values[::step], **look | {"lw": 0.8, "linestyle": "-"})
            counts, _ = np.histogram(values, bins=edges, density=True)
            right.stairs(counts, edges, orientation="horizontal", color=look["color"], ls=look["linestyle"], lw=1.6)
            right.plot([], [], **look)
        left.set(xlabel="draw", ylabel="β", title="traces")
        title = "\n".join(f"{name} {value:.3g}" for name, value in (statistics or {}).items())
        right.set(xlabel="density", title=title or "histograms")
        fig.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        panel_letters([left, right])
    return fig
