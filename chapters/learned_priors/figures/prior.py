"""Pictures of the spike-and-slab Gaussian-Laplace prior: the idea, and the explorer of its penalty."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from matplotlib.figure import Figure

from bnnlib import functional as bF
from book.display.explorer import Control
from book.display.style import INK, PALETTE, annotate, figure, line_styles, panel_letters, style_context

SPIKE, SLAB = PALETTE[1], PALETTE[0]

# (v0, v1) of Deng et al. (2019): the regression of section 4.1, MNIST, and ResNet20 at overall sparsity S
PUBLISHED = {
    "regression": (0.1, 10.0),
    "MNIST": (1.0, 0.1),
    "ResNet S=90 %": (0.005, 1e-5),
    "ResNet S=70 %": (0.1, 5e-5),
    "ResNet S=50 %": (0.1, 5e-4),
    "ResNet S=30 %": (0.5, 1e-3),
}
# The rendered page has room for 24 frames; four of the six published pairs are among them.
CONTROLS = {
    "spike_scale": Control("Laplace scale v₀", (0.005, 0.01, 0.05, 0.1, 0.5, 1.0), 0.1, (0.005, 0.1, 1.0)),
    "slab_variance": Control(
        "Gaussian variance v₁",
        (1e-5, 5e-5, 5e-4, 1e-3, 0.01, 0.1, 1.0, 10.0),
        10.0,
        (1e-5, 5e-5, 0.1, 10.0),
    ),
    "sigma": Control("σ", (0.5, 1.0, 2.0), 1.0, (1.0, 2.0)),
}


def components(
    weight: np.ndarray, spike_scale: float, slab_variance: float, sigma: float = 1.0, inclusion: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """((1 - delta) Laplace, delta Gaussian): the two terms of the prior density, equation (aeb-prior).

    Args:
        weight: any shape.
        spike_scale, slab_variance: v0 in units of sigma, v1 in units of sigma^2.
        sigma, inclusion: scale of the hierarchy and prior probability of the Gaussian.

    Returns:
        Two arrays in weight's shape; their sum is exp of `bnnlib.functional.ssgl_log_density`.
    """
    scales = (sigma, spike_scale, slab_variance)
    w = torch.as_tensor(weight, dtype=torch.float64)
    density = bF.ssgl_log_density(w, inclusion, *scales).exp()
    rho = bF.slab_probability(w, inclusion, *scales)
    return ((1 - rho) * density).numpy(), (rho * density).numpy()


def shrinkage(observed: np.ndarray, noise: float, log_prior: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Posterior mean of a weight that was observed once with Gaussian noise, by the trapezoid rule.

    Args:
        observed: observations, shape (m,).
        noise: their standard deviation.
        log_prior: log density of the weight, up to a constant.

    Returns:
        Posterior means, shape (m,).
    """
    observed = np.asarray(observed, dtype=float)
    reach = np.abs(observed).max() + 8 * noise
    w = np.linspace(-reach, reach, 8001)
    log_weight = log_prior(w) - 0.5 * ((observed[:, None] - w) / noise) ** 2
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return weight @ w / weight.sum(axis=1)


def idea(
    spike_scale: float = 0.1,
    slab_variance: float = 10.0,
    noise: float = 0.2,
    small: float = 0.3,
    large: float = 1.2,
    sigma: float = 1.0,
    inclusion: float = 0.5,
) -> Figure:
    """The mixture prior, and what it does to a small and to a large weight.

    Args:
        spike_scale, slab_variance, sigma, inclusion: as in `components`.
        noise: standard deviation of what the data say about a weight.
        small, large: two observations that are marked.
    """
    reach = 1.5 * large
    with style_context():
        fig, (left, right) = figure(2, height=3.5)
        w = np.linspace(-reach, reach, 801)
        spike, slab = components(w, spike_scale, slab_variance, sigma, inclusion)
        looks = line_styles(["Gaussian slab", "Laplace spike", "both"], markers=False)
        for look, density in zip(looks.values(), (slab, spike, spike + slab), strict=True):
            left.semilogy(w, density, **look | ({"color": INK} if look["label"] == "both" else {}))
        left.set(xlabel="weight", ylabel="prior density", title="the prior", ylim=(slab.max() / 100, 3 * spike.max()))

        z = np.linspace(0, reach, 121)
        means = shrinkage(z, noise, lambda x: np.log(sum(components(x, spike_scale, slab_variance, sigma, inclusion))))
        laplace = shrinkage(z, noise, lambda x: -np.abs(x) / (sigma * spike_scale))
        left.plot([], [], color=INK, lw=1, ls=":", marker="none", label="no prior")
        right.plot(z, z, color=INK, lw=1, ls=":", marker="none")
        right.plot(z, laplace, **looks["Laplace spike"])
        right.plot(z, means, **looks["both"] | {"color": INK})
        right.set(xlabel="what the data say", ylabel="posterior mean", title="what is left", ylim=(0, reach))
        for value, offset in ((small, (-4.0, 62.0)), (large, (-48.0, 24.0))):
            kept = float(np.interp(value, z, means))
            right.plot([value], [kept], marker="o", ls="none", color=INK)
            annotate(right, f"{value:g} → {kept:.2f}", (value, kept), offset, size="small", ha="center")
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        panel_letters([left, right])
    return fig


def crossover(spike_scale: float, slab_variance: float, sigma: float = 1.0, inclusion: float = 0.5) -> float | None:
    """Smallest |w| > 0 at which spike and slab are equally probable, equation (aeb-slab-probability); None if none is.

    Arguments as in `bnnlib.functional.slab_log_odds_coefficients`.
    """
    c, linear, quadratic = bF.slab_log_odds_coefficients(inclusion, sigma, spike_scale, slab_variance)
    discriminant = linear**2 - 4 * quadratic * c
    if discriminant < 0:
        return None
    # quadratic < 0, so this order is increasing
    roots = [(-linear + sign * math.sqrt(discriminant)) / (2 * quadratic) for sign in (1, -1)]
    return next((root for root in roots if root > 0), None)


def published_name(spike_scale: float, slab_variance: float) -> str | None:
    """Name of the published setting with these two values, if there is one."""
    pairs = {name: pair for name, pair in PUBLISHED.items() if np.allclose(pair, (spike_scale, slab_variance))}
    return next(iter(pairs), None)


def which_is_wider(spike_scale: float, slab_variance: float) -> str:
    """A line that says which component is wider, by the Laplace scale and the Gaussian's standard deviation."""
    deviation = math.sqrt(slab_variance)
    if math.isclose(spike_scale, deviation, rel_tol=1e-6):
        return f"v₀ = √v₁ = {deviation:.2g}: neither is wider"
    if spike_scale < deviation:
        return f"v₀ = {spike_scale:.2g} < √v₁ = {deviation:.2g}: the Gaussian is wider, as in the text"
    return f"v₀ = {spike_scale:.2g} > √v₁ = {deviation:.2g}: the Laplace is wider, roles reversed"


def penalty_in_words(spike_scale: float, slab_variance: float, sigma: float = 1.0, inclusion: float = 0.5) -> str:
    """The alternative text of `penalty`."""
    where = crossover(spike_scale, slab_variance, sigma, inclusion)
    at_zero = float(bF.slab_probability(torch.zeros(1), inclusion, sigma, spike_scale, slab_variance))
    name = published_name(spike_scale, slab_variance)
    cross = "never crosses one half" if where is None else f"crosses one half at |w| = {where:.2g}"
    return (
        f"{f'Published setting {name}. ' if name else ''}{which_is_wider(spike_scale, slab_variance)}. "
        f"With sigma = {sigma:g}, rho is {at_zero:.2f} at w = 0 and {cross}."
    )


def _map(panel, spike_scale: float, slab_variance: float) -> None:
    edge, low, high = np.array([1e-3, 10.0]), 2e-4, 20.0
    panel.fill_between(edge, edge, high, color=SLAB, alpha=0.10, lw=0)
    panel.fill_between(edge, low, edge, color=SPIKE, alpha=0.10, lw=0)
    panel.plot(edge, edge, color=INK, lw=1, ls="--", marker="none")
    panel.text(1.4e-3, 12, "Gaussian wider", size="small", va="top")
    panel.text(8, 2.6e-4, "Laplace wider (reversed)", size="small", ha="right")
    for name, (v0, v1) in PUBLISHED.items():
        panel.plot([v0], [math.sqrt(v1)], marker="D", ls="none", color=INK, mfc="white", zorder=3)
        below = -9.5 if v0 == 0.1 and v1 < 1 else -3.5  # S=30 %'s marker is close
        short, where = name.removeprefix("ResNet "), (v0, math.sqrt(v1))
        panel.annotate(short, where, (9, below), textcoords="offset points", size="x-small")
    panel.plot([spike_scale], [math.sqrt(slab_variance)], marker="*", ms=17, ls="none", color=PALETTE[4], zorder=2)
    panel.set(xscale="log", yscale="log", xlim=edge, ylim=(low, high), title="published settings")
    panel.set(xlabel="Laplace scale v₀", ylabel="Gaussian s.d. √v₁")


def penalty(spike_scale: float, slab_variance: float, sigma: float = 1.0, inclusion: float = 0.5) -> Figure:
    """Where the setting lies among the published ones, rho(w), the penalty and its gradient.

    Args:
        spike_scale, slab_variance, sigma, inclusion: v0, v1, sigma and delta of the prior.

    Returns:
        Four panels of the same size at every setting; the axis of the weight spans three crossovers of rho.
    """
    where = crossover(spike_scale, slab_variance, sigma, inclusion)
    reach = 3 * (where if where is not None else sigma * max(spike_scale, math.sqrt(slab_variance)))
    arguments = (inclusion, sigma, spike_scale, slab_variance)
    w = np.linspace(-reach, reach, 401)
    t = torch.as_tensor(w)
    rho = bF.slab_probability(t, *arguments)
    kappa = bF.expected_precisions(rho, spike_scale, slab_variance)
    with style_context():
        # axes and grid lines that stay where they are make the frames of an explorer smaller
        fig, ((plane, share), (height, slope)) = figure(2, nrows=2, height=2.9, layout="none")
        fig.subplots_adjust(left=0.115, right=0.98, top=0.855, bottom=0.16, wspace=0.32, hspace=0.52)
        name = published_name(spike_scale, slab_variance)
        second = f"published setting: {name}" if name else "not a published setting"
        fig.suptitle(f"{which_is_wider(spike_scale, slab_variance)}\n{second}", size="medium", y=0.985)
        _map(plane, spike_scale, slab_variance)
        share.plot(w, rho.numpy(), color=INK, ls="-", marker="none")
        share.set(ylim=(0, 1.02), yticks=[0, 0.5, 1], ylabel="ρ", title="probability of the Gaussian")
        looks = line_styles(["both", "Gaussian alone", "Laplace alone"], markers=False)
        colors = {"both": INK, "Gaussian alone": SLAB, "Laplace alone": SPIKE}
        looks = {key: look | {"color": colors[key]} for key, look in looks.items()}
        ends = (torch.ones(()), torch.zeros(()))
        precise = [kappa, *(bF.expected_precisions(one.double(), spike_scale, slab_variance) for one in ends)]
        effective = -np.log(sum(components(w, spike_scale, slab_variance, sigma, inclusion)))
        curves = [effective - effective.min(), *(bF.ssgl_penalty(t, *pair, sigma).numpy() for pair in precise[1:])]
        for look, curve, pair in zip(looks.values(), curves, precise, strict=True):
            height.plot(w, curve, **look)
            slope.plot(w, bF.ssgl_penalty_gradient(t, *pair, sigma).numpy(), **look)
        top = 1.35 * curves[0].max()
        steepest = 1.4 * np.abs(slope.get_lines()[0].get_ydata()).max()
        height.set(ylim=(-0.05 * top, top), ylabel="nats", title="penalty")
        slope.set(ylim=(-steepest, steepest), ylabel="nats per unit", title="its gradient")
        for panel in (share, height, slope):
            panel.set(xlabel="weight", xlim=(-reach, reach))
            ticks = np.array([-1, 0, 1]) * reach / 3
            panel.set_xticks(ticks, [f"{tick:.2g}".replace("-", "−") for tick in ticks])
            panel.grid(axis="y", visible=panel is share)
            if where is not None:
                for sign in (-1, 1):
                    panel.axvline(sign * where, color=INK, lw=1, ls=":", marker="none")
        fig.legend(*height.get_legend_handles_labels(), loc="lower center", ncols=3)
        panel_letters([plane, share, height, slope])
    return fig
