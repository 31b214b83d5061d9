"""Pictures of the chapter on closed-form inclusion probabilities: the idea, gradients, and two orders of weights.

The explorers are in `explorers`, the pictures of results in `results` and `pruned`.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bnnlib import functional as bF
from book.display.style import INK, PALETTE, annotate, figure, line_styles, panel_letters, stand_alone, style_context
from chapters.closed_form.figures.explorers import SLAB, SPIKE, inclusion_curve, mixture, threshold

CLOSED, SAMPLED = PALETTE[0], PALETTE[1]
LOG_SLAB, LOG_SPIKE = -1.0, -3.0  # LeNet-5, set 2: the published scales that are closest, so both show in one picture


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
    prior = mixture(log_slab, log_spike, inclusion)
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
        names = dict(zip(("small", "large"), posteriors, strict=False))
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


def gradient_variance(draws: int = 20_000, generator: torch.Generator | None = None) -> Figure:
    """Gradient of the prior's term at sigma = 0.05: in closed form, and Bayes by Backprop's estimate from one draw.

    Args:
        draws: for the mean and the spread of the estimate.
        generator: of the draws.
    """
    mean = torch.linspace(0, 0.4, 121, dtype=torch.float64)
    noise = torch.randn(draws, generator=generator, dtype=torch.float64)
    found = gradient_statistics(mean, 0.05, noise, mixture(LOG_SLAB, LOG_SPIKE, 0.5))
    with style_context():
        fig, panels = figure(2, height=3.6)
        for k, (panel, symbol) in enumerate(zip(panels, ("m", "σ"), strict=True)):
            middle, spread = found["mean"][k], found["sd"][k]
            panel.fill_between(
                mean, middle - spread, middle + spread, color=SAMPLED, alpha=0.18, lw=0, label="± 1 s.d."
            )
            panel.plot(mean, middle, color=SAMPLED, ls="--", marker="none", label="Bayes by Backprop, mean")
            panel.plot(mean, found["exact"][k], color=CLOSED, ls="-", marker="none", label="closed form")
            panel.set(xlabel="posterior mean m", title=f"gradient in {symbol}", xlim=(0, 0.4))
        panels[0].set_ylabel("nats per unit")
        fig.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, columnspacing=1.2)
        panel_letters(panels)
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
        stand_alone(panels)
        fig.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        panel_letters(panels)
    return fig
