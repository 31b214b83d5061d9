"""Pictures of the spike-and-slab Gaussian-Laplace prior: the idea, and the explorer of its penalty."""

import math
from collections.abc import Callable

import numpy as np
import torch
from matplotlib.figure import Figure

from bnnlib import functional as bF
from book.display.control import Control
from book.display.picture import Band, Line, Panel, Picture, Points, Rule, Text
from book.display.style import INK, PALETTE, annotate, figure, line_styles, panel_letters, style_context
from chapters.learned_priors import formulas

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
CONTROLS = {
    "spike_scale": Control("Laplace scale v₀", (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0), 0.1),
    "slab_variance": Control(
        "Gaussian variance v₁", (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0), 10.0
    ),
    "sigma": Control("σ", (0.25, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0), 1.0),
}
POINTS = 33  # on a curve


def components(
    weight: np.ndarray, spike_scale: float, slab_variance: float, sigma: float = 1.0, inclusion: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """((1 - delta) Laplace, delta Gaussian): the two terms of the prior density, equation (aeb-prior).

    Args:
        weight: any shape.
        spike_scale, slab_variance: v0 in units of sigma, v1 in units of sigma^2.
        sigma, inclusion: scale of the hierarchy and prior probability of the Gaussian.

    Returns:
        Two arrays in weight's shape; their sum is exp of `chapters.learned_priors.formulas.ssgl_log_density`.
    """
    scales = (sigma, spike_scale, slab_variance)
    w = torch.as_tensor(weight, dtype=torch.float64)
    density = formulas.ssgl_log_density(w, inclusion, *scales).exp()
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
    name = published_name(spike_scale, slab_variance)
    cross = "never crosses one half" if where is None else f"crosses one half at |w| = {where:.2g}"
    return (
        f"{f'Published setting {name}. ' if name else ''}{which_is_wider(spike_scale, slab_variance)}. "
        f"With sigma = {sigma:g}, rho {cross}."
    )


def _map(spike_scale: float, slab_variance: float) -> Panel:
    edge, low, high = np.array([1e-3, 10.0]), 2e-4, 20.0
    items = [
        Band(edge, edge, high, look=0, alpha=0.1),
        Band(edge, low, edge, look=1, alpha=0.1),
        Line(edge, edge, look="ink", dash=1, width=1.4),
        Text(1.3e-3, 10, "Gaussian wider"),
        Text(8, 3.5e-4, "Laplace wider (reversed)", "end"),
        Points([spike_scale], [math.sqrt(slab_variance)], "these settings", 4, marker=3, size=15),
    ]
    places = np.array([(v0, math.sqrt(v1)) for v0, v1 in PUBLISHED.values()])
    items.append(Points(*places.T, "published", "ink", marker=0, size=8, hollow=True))
    for name, (v0, height) in zip(PUBLISHED, places, strict=True):
        # where neither another marker nor the end of the axis is
        at = (v0 / 1.3, "end") if name in ("MNIST", "ResNet S=50 %") else (v0 * 1.3, "start")
        items.append(Text(at[0], height, name.removeprefix("ResNet "), at[1]))
    limits = {"xlim": tuple(edge), "ylim": (low, high), "xlog": True, "ylog": True}
    return Panel("published settings", items, "Laplace scale v₀", "Gaussian s.d. √v₁", **limits)


def penalty(spike_scale: float, slab_variance: float, sigma: float = 1.0, inclusion: float = 0.5) -> Picture:
    """Where the setting lies among the published ones, rho(w), the penalty and its gradient.

    Args:
        spike_scale, slab_variance, sigma, inclusion: v0, v1, sigma and delta of the prior.

    Returns:
        Four panels; the axis of the weight spans three crossovers of rho.
    """
    where = crossover(spike_scale, slab_variance, sigma, inclusion)
    reach = 3 * (where if where is not None else sigma * max(spike_scale, math.sqrt(slab_variance)))
    arguments = (inclusion, sigma, spike_scale, slab_variance)
    half = np.linspace(0, reach, POINTS // 2 + 1)
    half[0] = 1e-9 * reach  # the gradient jumps at 0
    w = np.r_[-half[::-1], half]
    t = torch.as_tensor(w)
    rho = bF.slab_probability(t, *arguments)
    ends = (torch.ones(()), torch.zeros(()))
    precise = [bF.expected_precisions(one, spike_scale, slab_variance) for one in (rho, *(e.double() for e in ends))]
    effective = -np.log(sum(components(w, spike_scale, slab_variance, sigma, inclusion)))
    heights = [effective - effective.min(), *(formulas.ssgl_penalty(t, *pair, sigma).numpy() for pair in precise[1:])]
    slopes = [formulas.ssgl_penalty_gradient(t, *pair, sigma).numpy() for pair in precise]
    top, steepest = 1.35 * heights[0].max(), 1.4 * np.abs(slopes[0]).max()
    crossings = [Rule(x=None if where is None else sign * where) for sign in (-1, 1)]
    looks = (("both", "ink", 0), ("Gaussian alone", 0, 1), ("Laplace alone", 1, 2))

    def lines(curves) -> list:
        pairs = zip(curves, looks, strict=True)
        return [*crossings, *(Line(w, curve, name, look, dash) for curve, (name, look, dash) in pairs)]

    ticks = {tick: f"{tick:.2g}".replace("-", "−") for tick in (-reach / 3, 0.0, reach / 3)}
    across = {"xlabel": "weight", "xlim": (-reach, reach), "xticks": ticks}
    name = published_name(spike_scale, slab_variance)
    share = [*crossings, Line(w, rho.numpy(), look="ink")]
    return Picture(
        [
            _map(spike_scale, slab_variance),
            Panel("probability of the Gaussian", share, ylabel="ρ", ylim=(0, 1.02), yticks=(0, 0.5, 1), **across),
            Panel("penalty", lines(heights), ylabel="nats", ylim=(-0.05 * top, top), **across),
            Panel("its gradient", lines(slopes), ylabel="nats per unit", ylim=(-steepest, steepest), **across),
        ],
        f"{which_is_wider(spike_scale, slab_variance)}\n"
        f"{f'published setting: {name}' if name else 'not a published setting'}",
    )
