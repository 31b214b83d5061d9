"""Pictures of the chapter on closed-form inclusion probabilities: the idea and the steps of its derivation.

Those that show a network are in `networks` and named here too; the explorers are in `explorers`, the pictures
of results in `results`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bnnlib import functional as bF
from book.display.style import INK, PALETTE, annotate, figure, line_styles, panel_letters, sparse_markers, style_context
from chapters.closed_form.figures.explorers import SLAB, SPIKE, inclusion_curve, threshold
from chapters.closed_form.figures.networks import minibatches, paths, ranking

__all__ = [
    "LOG_SLAB",
    "LOG_SPIKE",
    "envelope",
    "gradient_statistics",
    "gradient_variance",
    "idea",
    "minibatches",
    "optimal_inclusion",
    "paths",
    "ranking",
]

CLOSED, SAMPLED = PALETTE[0], PALETTE[1]
LOG_SLAB, LOG_SPIKE = -1.0, -3.0  # LeNet-5, set 2: the published scales that are closest, so both show in one picture


def _prior(log_slab: float, log_spike: float, inclusion: float) -> bF.MixturePrior:
    return bF.mixture_prior(math.exp(log_slab), math.exp(log_spike), inclusion)


def idea(
    posteriors: Sequence[tuple[float, float]] = ((0.03, 0.04), (0.25, 0.06)),
    log_slab: float = LOG_SLAB,
    log_spike: float = LOG_SPIKE,
    inclusion: float = 0.5,
) -> Figure:
    """The prior with its spike and slab, and the inclusion probability that follows from where a weight lies.

    Args:
        posteriors: (mean, scale) of two weights.
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi.
    """
    prior = _prior(log_slab, log_spike, inclusion)
    moments = [math.hypot(*one) for one in posteriors]
    reach = 1.7 * max(moments)
    with style_context():
        fig, (left, right) = figure(2, height=3.6)
        w = torch.linspace(-reach, reach, 601, dtype=torch.float64)
        both = bF.scale_mixture_log_density(w, prior).exp().numpy()
        slab = inclusion_curve(w.abs().numpy(), log_slab, log_spike, inclusion) * both
        looks = line_styles(["slab", "spike", "prior"], markers=False)
        colors = {"slab": SLAB, "spike": SPIKE, "prior": INK}
        for name, density in (("slab", slab), ("spike", both - slab), ("prior", both)):
            left.semilogy(w, density, **looks[name] | {"color": colors[name]})
        bottom = 0.3 * slab.min()
        names = dict(zip("AB", posteriors, strict=False))
        for (name, (mean, scale)), y in zip(names.items(), (0.16, 0.06), strict=False):
            height = bottom * (both.max() / bottom) ** y
            left.errorbar([mean], [height], xerr=2 * scale, color=INK, marker="o", ls="none", capsize=3)
            left.text(mean, 1.2 * height, name, ha="center", weight="bold")
        left.set(xlabel="weight", ylabel="density", title="prior, two posteriors", ylim=(bottom, 2.5 * both.max()))
        left.set_xlim(-0.75 * reach, reach)

        r = np.linspace(0, reach, 301)
        right.plot(r, inclusion_curve(r, log_slab, log_spike, inclusion), color=INK, ls="-", marker="none")
        where = threshold(log_slab, log_spike, inclusion)
        if where is not None:
            right.axvline(where, color=INK, lw=1, ls=":", marker="none")
            right.text(where + 0.03 * reach, 0.5, f"p* = 1/2\nat r = {where:.2g}", size="small", va="center")
        offsets = ((46.0, -6.0), (10.0, -34.0))
        for name, moment, offset in zip(names, moments, offsets, strict=False):
            value = float(inclusion_curve(np.array(moment), log_slab, log_spike, inclusion))
            right.plot([moment], [value], color=INK, marker="o", ls="none")
            annotate(right, f"{name}: {value:.2f}", (moment, value), offset, size="small", weight="bold")
        right.set(xlabel="r = √(m² + σ²)", ylabel="p*", title="inclusion probability")
        right.set(ylim=(-0.04, 1.06), yticks=[0, 0.5, 1], xlim=(0, reach))
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        panel_letters([left, right])
    return fig


def gradient_statistics(mean: Tensor, scale: float, noise: Tensor, prior: bF.MixturePrior) -> dict[str, np.ndarray]:
    """Both methods' gradient of the prior's term, in the mean and in the scale, at each mean.

    Args:
        mean: of the posterior, shape (m,).
        scale: its standard deviation.
        noise: standard normal draws, shape (draws,), the same for every mean.
        prior: from `bnnlib.functional.mixture_prior`.

    Returns:
        {"exact": R* (sbnn-gradient), "mean", "sd": of one draw of Bayes by Backprop, (sbnn-bbb-mean) and
        (sbnn-bbb-scale)}; each of shape (2, m): in the mean, in the scale.
    """
    scale = torch.full_like(mean, scale)
    exact = torch.stack(bF.spike_slab_profile_grad(mean, scale, prior))
    drawn = torch.stack(bF.scale_mixture_grad_sample(mean, scale, noise[:, None].to(mean.dtype), prior))
    found = {"exact": exact, "mean": drawn.mean(dim=1), "sd": drawn.std(dim=1)}
    return {name: value.numpy() for name, value in found.items()}


def gradient_variance(
    scale: float = 0.05,
    log_slab: float = LOG_SLAB,
    log_spike: float = LOG_SPIKE,
    inclusion: float = 0.5,
    largest: float = 0.4,
    draws: int = 20_000,
    generator: torch.Generator | None = None,
) -> Figure:
    """Gradient of the prior's term: in closed form, and Bayes by Backprop's estimate from one drawn weight.

    Args:
        scale: sigma of the posterior.
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi.
        largest: right end of the axis of m.
        draws: for the mean and the spread of the estimate.
        generator: of the draws.
    """
    mean = torch.linspace(0, largest, 121, dtype=torch.float64)
    noise = torch.randn(draws, generator=generator, dtype=torch.float64)
    found = gradient_statistics(mean, scale, noise, _prior(log_slab, log_spike, inclusion))
    with style_context():
        fig, panels = figure(2, height=3.6)
        for k, (panel, symbol) in enumerate(zip(panels, ("m", "σ"), strict=True)):
            middle, spread = found["mean"][k], found["sd"][k]
            panel.fill_between(
                mean, middle - spread, middle + spread, color=SAMPLED, alpha=0.18, lw=0, label="± 1 s.d."
            )
            panel.plot(mean, middle, color=SAMPLED, ls="--", marker="none", label="Bayes by Backprop, mean")
            panel.plot(mean, found["exact"][k], color=CLOSED, ls="-", marker="none", label="closed form")
            panel.set(xlabel="posterior mean m", title=f"gradient in {symbol}", xlim=(0, largest))
        panels[0].set_ylabel("nats per unit")
        fig.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, columnspacing=1.2)
        panel_letters(panels)
    return fig


def optimal_inclusion(
    posteriors: Sequence[tuple[float, float]] = ((0.02, 0.05), (0.09, 0.05), (0.15, 0.05)),
    log_slab: float = LOG_SLAB,
    log_spike: float = LOG_SPIKE,
    inclusion: float = 0.5,
) -> Figure:
    """The penalty R as a function of p for a few weights, with its minimum at p*: the proposition in one picture.

    Args:
        posteriors: (mean, scale) of up to seven weights.
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi.
    """
    prior = _prior(log_slab, log_spike, inclusion)
    p = torch.linspace(0, 1, 401, dtype=torch.float64)
    with style_context():
        fig, axes = figure(1, height=3.6)
        names = [f"m = {mean:g}, σ = {scale:g}" for mean, scale in posteriors]
        for (mean, scale), look in zip(posteriors, line_styles(names).values(), strict=True):
            m, s = (torch.tensor(float(value), dtype=torch.float64) for value in (mean, scale))
            axes.plot(p, bF.spike_slab_penalty(m, s, p, prior), **look | {"marker": "none", "label": "_curve"})
            best = bF.closed_form_inclusion(m, s, prior)
            axes.plot([best], [bF.spike_slab_penalty(m, s, best, prior)], **look | {"ms": 9, "zorder": 3})
        axes.set(xlabel="inclusion probability p", ylabel="penalty R (nats)", xlim=(-0.02, 1.02))
        axes.legend(title="marker: at p*", title_fontsize="small", fontsize="small")
    return fig


def envelope(
    probabilities: Sequence[float] = (0.0, 0.2, 0.8, 1.0),
    scale: float = 0.05,
    log_slab: float = LOG_SLAB,
    log_spike: float = LOG_SPIKE,
    inclusion: float = 0.5,
    largest: float = 0.3,
) -> Figure:
    """R at fixed p against the mean: parabolas above R*, each of which touches it where p = p*.

    Args:
        probabilities: the fixed p, at most six.
        scale: sigma of the posterior.
        log_slab, log_spike, inclusion: log tau_1, log tau_0 and pi.
        largest: right end of the axis of m.
    """
    prior = _prior(log_slab, log_spike, inclusion)
    m = torch.linspace(0, largest, 301, dtype=torch.float64)
    s = torch.full_like(m, scale)
    profile = bF.spike_slab_profile_penalty(m, s, prior)
    best = bF.closed_form_inclusion(m, s, prior).numpy()
    with style_context():
        fig, axes = figure(1, height=4.0)
        axes.plot(m, profile, color=INK, ls="-", lw=3, marker="none", label="R* (p = p*)")
        looks = line_styles(["R*", *[f"p = {value:g}" for value in probabilities]])
        for value, look in zip(probabilities, list(looks.values())[1:], strict=True):
            axes.plot(m, bF.spike_slab_penalty(m, s, torch.tensor(value).double(), prior), **look | {"lw": 1.5})
            if best[0] < value < best[-1]:
                touch = float(np.interp(value, best, m))
                axes.plot([touch], [float(np.interp(touch, m, profile))], marker="o", ms=8, mfc="none", color=INK)
        sparse_markers(axes)
        low, high = float(profile.min()), float(profile.max())
        axes.set(xlabel="posterior mean m", ylabel="penalty R (nats)", xlim=(0, largest))
        axes.set_ylim(low - 0.08 * (high - low), high + 0.9 * (high - low))
        fig.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    return fig
