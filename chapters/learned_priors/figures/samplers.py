"""Pictures of the samplers' bias, and of the rate at which a stochastic approximation converges.

Every function takes plain arrays or numbers and returns a matplotlib Figure.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.figure import Figure

from book.display.style import INK, figure, line_styles, panel_letters, sparse_markers, stand_alone, style_context
from chapters.learned_priors import formulas

SCHEMES = ("SGLD", "SGHMC, Euler", "SGHMC, BAOAB")


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
            return [float(formulas.sgld_step(q, q, xi, lr, temperature))]
        move = formulas.sghmc_euler_step if scheme == "SGHMC, Euler" else formulas.sghmc_baoab_step
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
) -> Figure:
    """Variance of the chain on N(0, 1) against the step size: lines from theory, markers from simulation.

    Args:
        measured: {scheme of `SCHEMES`: (step sizes, variances of simulated chains)}.
        momentum: of the two SGHMC schemes.
    """
    measured = measured or {}
    if unknown := set(measured) - set(SCHEMES):
        raise ValueError(f"measured names {sorted(unknown)}, use {', '.join(SCHEMES)}")
    with style_context():
        fig, axes = figure(1, height=3.5)
        axes.axhline(1, color=INK, lw=1, ls=":", marker="none")
        lr = np.linspace(0.005, 1.6, 200)
        for scheme, look in line_styles(SCHEMES).items():
            axes.plot(lr, [gaussian_variance(scheme, h, momentum) for h in lr], **look | {"marker": "none"})
            if scheme in measured:
                axes.plot(*measured[scheme], **look | {"linestyle": "none", "label": "_simulated"})
        axes.text(0.99, 1.01, "target", transform=axes.get_yaxis_transform(), size="small", ha="right", va="bottom")
        axes.set(xlabel="step size ε", ylabel="variance of the chain", xlim=(0, 1.6), ylim=(0.85, 2.6))
        axes.legend(
            loc="upper left", title="lines: theory; markers: chains" if measured else None, title_fontsize="small"
        )
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
        stand_alone([left, right])
        fig.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panel_letters([left, right])
    return fig
