"""Dirac spike-and-slab weights: gate times Gaussian slab, its relaxation, its exact divergence and gradients.

The family is equation (7) of Bai, Song and Cheng (2020): theta = gamma * (mean + scale * eps) with
gamma ~ Bernoulli(phi), stored as mean, rho (scale = softplus(rho)) and logit (phi = sigmoid(logit)).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_positive, check_probability
from bnnlib.functional.gaussian import gaussian_kl, gaussian_kl_grad


def log_odds(probability: float | Tensor) -> float | Tensor:
    """log(p / (1 - p)), exact for probabilities as small as a double can hold (1e-200 gives -460.517).

    Raises:
        ValueError: a probability is not strictly between 0 and 1.
    """
    check_probability("probability", probability, open_interval=True)
    if isinstance(probability, Tensor):
        value = probability.double()
        return torch.log(value) - torch.log1p(-value)
    return math.log(probability) - math.log1p(-probability)


def bernoulli_kl(logit: Tensor, prior_inclusion_probability: float | Tensor) -> Tensor:
    """KL(Bern(sigmoid(logit)) || Bern(prior_inclusion_probability)) in nats, finite for every finite logit.

    Equation (svbnn-bernoulli-kl), the second term of equation (10). Both logarithms are taken as logsigmoid, so
    that nothing is computed as log(0) or as 1 - 1: a direct evaluation is NaN beyond logits of 36.7 in float64.

    Raises:
        ValueError: the prior probability is not strictly between 0 and 1.
    """
    check_probability("prior_inclusion_probability", prior_inclusion_probability, open_interval=True)
    prior = torch.as_tensor(prior_inclusion_probability, dtype=torch.float64, device=logit.device)
    log_prior, log_not_prior = prior.log().to(logit.dtype), torch.log1p(-prior).to(logit.dtype)
    on = torch.sigmoid(logit) * (F.logsigmoid(logit) - log_prior)
    off = torch.sigmoid(-logit) * (F.logsigmoid(-logit) - log_not_prior)
    return on + off


def spike_slab_kl(
    mean: Tensor,
    scale: Tensor,
    logit: Tensor,
    prior_inclusion_probability: float | Tensor,
    prior_scale: float | Tensor,
) -> Tensor:
    """KL of the Dirac spike-and-slab posterior to the Dirac spike-and-slab prior, per weight, in nats.

    Equation (svbnn-kl): KL(Bern(phi) || Bern(lambda)) + phi * KL(N(mean, scale^2) || N(0, prior_scale^2)), the last
    two terms of equation (10) of Bai, Song and Cheng (2020).

    Args:
        mean, scale, logit: tensors that broadcast; scale > 0 is a standard deviation, phi = sigmoid(logit).
        prior_inclusion_probability: lambda, a number or a float64 tensor that broadcasts.
        prior_scale: prior standard deviation of the slab.

    Raises:
        ValueError: lambda is not strictly between 0 and 1, or prior_scale is not positive.
    """
    slab = torch.sigmoid(logit) * gaussian_kl(mean, scale, prior_scale)
    return bernoulli_kl(logit, prior_inclusion_probability) + slab


def spike_slab_kl_grad(
    mean: Tensor, scale: Tensor, logit: Tensor, prior_logit: float | Tensor, prior_scale: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradient of `spike_slab_kl` in (mean, scale, logit), in closed form; equation (svbnn-kl-gradient).

    Args:
        prior_logit: log_odds(lambda), so that priors below the smallest single-precision number work in float32.
    """
    inclusion = torch.sigmoid(logit)
    d_mean, d_scale = gaussian_kl_grad(mean, scale, prior_scale)
    slab = torch.addcmul(scale.square(), mean, mean).mul_(0.5 / prior_scale**2).sub_(torch.log(scale))
    slab.add_(math.log(prior_scale) - 0.5 if not isinstance(prior_scale, Tensor) else prior_scale.log() - 0.5)
    # phi (1 - phi): sigmoid(-logit) keeps the digits that 1 - sigmoid(logit) loses for large logits
    d_logit = slab.add_(logit).sub_(prior_logit).mul_(inclusion).mul_(torch.sigmoid(-logit))
    return d_mean.mul_(inclusion), d_scale.mul_(inclusion), d_logit


def logistic_noise(uniform: Tensor) -> Tensor:
    """log(u) - log(1 - u) for u ~ U(0, 1): the noise of the Gumbel-softmax gate, finite also where u was drawn as 0."""
    tiny = torch.finfo(uniform.dtype).eps / 2
    return torch.logit(uniform, eps=tiny)


def gumbel_softmax_gate(logit: Tensor, logistic: Tensor, temperature: float = 0.5) -> tuple[Tensor, Tensor]:
    """Hard and soft gate of the binary Gumbel-softmax (concrete) relaxation, equation (svbnn-gumbel).

    Args:
        logit: log-odds of the inclusion probability.
        logistic: `logistic_noise` of the same shape.
        temperature: tau > 0; the soft gate approaches the hard one as tau falls to 0.

    Returns:
        (hard, soft): hard = 1[soft > 1/2] is exactly Bernoulli(sigmoid(logit)) at every temperature.

    Raises:
        ValueError: the temperature is not positive.
    """
    check_positive("temperature", temperature)
    eta = logit + logistic
    return (eta > 0).to(eta.dtype), torch.sigmoid(eta / temperature)


class _SpikeSlabWeight(torch.autograd.Function):
    """Hard gate forward, soft gate backward; the backward pass also adds kl_weight times the gradient of the KL."""

    @staticmethod
    def forward(ctx, mean, rho, logit, noise, logistic, temperature, prior_logit, prior_scale, kl_weight):
        scale = F.softplus(rho)
        eta = logit + logistic
        gate = eta > 0
        slab = torch.addcmul(mean, scale, noise)
        ctx.save_for_backward(mean, scale, logit, noise, eta, gate, slab)
        ctx.constants = temperature, prior_logit, prior_scale, kl_weight
        return slab * gate

    @staticmethod
    def backward(ctx, grad):
        mean, scale, logit, noise, eta, gate, slab = ctx.saved_tensors
        temperature, prior_logit, prior_scale, kl_weight = ctx.constants
        soft = torch.sigmoid(eta / temperature)
        d_logit = torch.addcmul(soft, soft, soft, value=-1.0).mul_(slab).mul_(grad).mul_(1.0 / temperature)
        d_mean = grad * gate
        d_scale = d_mean * noise
        if kl_weight:
            kl_mean, kl_scale, kl_logit = spike_slab_kl_grad(mean, scale, logit, prior_logit, prior_scale)
            d_mean.add_(kl_mean, alpha=kl_weight)
            d_scale.add_(kl_scale, alpha=kl_weight)
            d_logit.add_(kl_logit, alpha=kl_weight)
        d_rho = d_scale.mul_(torch.expm1(-scale).neg_())
        return d_mean, d_rho, d_logit, None, None, None, None, None, None


def spike_slab_weight(
    mean: Tensor,
    rho: Tensor,
    logit: Tensor,
    noise: Tensor,
    logistic: Tensor,
    temperature: float = 0.5,
    prior_logit: float | Tensor = 0.0,
    prior_scale: float | Tensor = 1.0,
    kl_weight: float = 0.0,
) -> Tensor:
    """Sparse weight draw with the straight-through Gumbel-softmax gradient, equation (svbnn-straight-through).

    Args:
        mean, rho, logit: parameters of one shape.
        noise, logistic: standard normal draws and `logistic_noise` of that shape, drawn by the caller.
        temperature: of the soft gate in the backward pass.
        prior_logit, prior_scale: of the prior; used only when `kl_weight` is not 0.
        kl_weight: if not 0, the backward pass adds `kl_weight` times the exact gradient of the KL divergence, and no KL
            needs to be evaluated or differentiated by the caller. The loss must then have unit weight.

    Returns:
        Tensor of the same shape, exactly 0 where the gate is closed.
    """
    return _SpikeSlabWeight.apply(mean, rho, logit, noise, logistic, temperature, prior_logit, prior_scale, kl_weight)


class _SpikeSlabKLSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mean, rho, logit, prior_inclusion_probability, prior_scale, with_value):
        scale = F.softplus(rho)
        ctx.save_for_backward(mean, scale, logit)
        ctx.prior_logit, ctx.prior_scale = log_odds(prior_inclusion_probability), prior_scale
        if not with_value:
            return mean.new_zeros(())
        return spike_slab_kl(mean, scale, logit, prior_inclusion_probability, prior_scale).sum()

    @staticmethod
    def backward(ctx, grad):
        mean, scale, logit = ctx.saved_tensors
        d_mean, d_scale, d_logit = spike_slab_kl_grad(mean, scale, logit, ctx.prior_logit, ctx.prior_scale)
        d_rho = d_scale.mul_(torch.expm1(-scale).neg_())
        return d_mean.mul_(grad), d_rho.mul_(grad), d_logit.mul_(grad), None, None, None


def spike_slab_kl_sum(
    mean: Tensor,
    rho: Tensor,
    logit: Tensor,
    prior_inclusion_probability: float,
    prior_scale: float,
    with_value: bool = True,
) -> Tensor:
    """Exact sum of `spike_slab_kl` over all weights, in nats, with a closed-form gradient in (mean, rho, logit).

    Args:
        with_value: with False the result's value is 0 and only its gradient is exact.
    """
    return _SpikeSlabKLSum.apply(mean, rho, logit, prior_inclusion_probability, prior_scale, with_value)


def spike_slab_inverse_cdf(uniform: Tensor, mean: Tensor, scale: Tensor, inclusion_probability: Tensor) -> Tensor:
    """theta = F^{-1}(u) for the Dirac spike-and-slab distribution, the first reparameterisation of section 5.

    Equation (svbnn-inverse-cdf). Differentiable in mean, scale and inclusion_probability wherever theta is not 0; on
    the atom the derivative is 0. Any shapes that broadcast.

    Raises:
        ValueError: an inclusion probability is outside [0, 1] or a scale is not positive.
    """
    check_probability("inclusion_probability", inclusion_probability)
    check_positive("scale", scale)
    normal = torch.distributions.Normal(0.0, 1.0)
    below = inclusion_probability * normal.cdf(-mean / scale)  # mass of the slab to the left of the atom
    atom = 1.0 - inclusion_probability
    left, right = uniform < below, uniform >= below + atom
    inside = torch.where(left, uniform, torch.where(right, uniform - atom, 0.5 * torch.ones_like(uniform)))
    safe = torch.where(left | right, inside / inclusion_probability.clamp_min(1e-12), 0.5 * torch.ones_like(inside))
    theta = mean + scale * normal.icdf(safe.clamp(1e-12, 1 - 1e-12))
    return torch.where(left | right, theta, torch.zeros_like(theta))
