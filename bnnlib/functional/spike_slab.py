"""Dirac spike-and-slab weights: gate times Gaussian slab, its relaxation, its exact divergence and gradients.

The family is equation (7) of Bai, Song and Cheng (2020): theta = gamma * (mean + scale * eps) with
gamma ~ Bernoulli(phi), stored as mean, rho (scale = softplus(rho)) and logit (phi = sigmoid(logit)).
"""

import math
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_probability, check_scale
from bnnlib.functional._autograd import closed_form_sum
from bnnlib.functional.gaussian import gaussian_kl_grad, softplus_scale, softplus_slope, unchecked_gaussian_kl

_Number = TypeVar("_Number", float, Tensor, float | Tensor)


def log_odds(probability: _Number) -> _Number:
    """log(p / (1 - p)), exact for probabilities as small as a double can hold (1e-200 gives -460.517).

    Raises:
        ValueError: a probability is not strictly between 0 and 1.

    Example:
        >>> log_odds(0.5), round(log_odds(1e-200), 3)
        (0.0, -460.517)
    """
    check_probability("probability", probability, open_interval=True)
    if isinstance(probability, Tensor):
        value = probability.double()
        return torch.log(value) - torch.log1p(-value)
    return math.log(probability) - math.log1p(-probability)


class _GatedKL(torch.autograd.Function):
    """KL(Bern(phi) || Bern(lambda)) + phi * slab.

    Autograd through these terms would subtract numbers near 1 where phi is near 0 or 1, and take 1 - phi from phi.
    """

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def forward(logit, slab, log_prior, log_not_prior):
        on, off = torch.sigmoid(logit), torch.sigmoid(-logit)
        gates = on * (F.logsigmoid(logit) - log_prior) + off * (F.logsigmoid(-logit) - log_not_prior)
        return gates + on * slab

    @staticmethod
    def backward(ctx, grad):
        inputs = logit, slab, log_prior, log_not_prior = ctx.saved_tensors
        on, off = torch.sigmoid(logit), torch.sigmoid(-logit)
        gradients = grad * on * off * (logit + slab + (log_not_prior - log_prior)), grad * on, -grad * on, -grad * off
        return tuple(
            part.sum_to_size(given.shape) if needed else None
            for part, given, needed in zip(gradients, inputs, ctx.needs_input_grad, strict=True)
        )


def _gated_kl(logit: Tensor, prior_logit: float | Tensor, slab: Tensor) -> Tensor:
    if not isinstance(prior_logit, Tensor):  # filled in on the device: a number copied to a GPU would wait for it
        prior_logit = torch.full((), prior_logit, dtype=torch.float64, device=logit.device)
    prior = prior_logit.to(logit.device)
    return _GatedKL.apply(logit, slab, *(F.logsigmoid(signed.double()).to(logit.dtype) for signed in (prior, -prior)))


def _prior_log_odds(prior_inclusion_probability: float | Tensor) -> float | Tensor:
    check_probability("prior_inclusion_probability", prior_inclusion_probability, open_interval=True)
    return log_odds(prior_inclusion_probability)


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

    Example:
        >>> spike_slab_kl(torch.tensor(1.0), torch.tensor(0.5), torch.tensor(2.0), 0.5, prior_scale=1.0)
        tensor(1.0484)
    """
    check_scale("prior_scale", prior_scale)
    return prior_log_odds_kl(mean, scale, logit, _prior_log_odds(prior_inclusion_probability), prior_scale)


def prior_log_odds_kl(
    mean: Tensor, scale: Tensor, logit: Tensor, prior_logit: float | Tensor, prior_scale: float | Tensor
) -> Tensor:
    """`spike_slab_kl` with the prior's inclusion probability as log-odds, without a look at tensors of a GPU."""
    return _gated_kl(logit, prior_logit, unchecked_gaussian_kl(mean, scale, prior_scale))


def spike_slab_kl_grad(
    mean: Tensor, scale: Tensor, logit: Tensor, prior_logit: float | Tensor, prior_scale: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradient of `spike_slab_kl` in (mean, scale, logit), in closed form; equation (svbnn-kl-gradient).

    Args:
        prior_logit: log_odds(lambda), so that priors below the smallest single-precision number work in float32.

    Example:
        >>> one = torch.tensor(1.0)
        >>> spike_slab_kl_grad(one, one, one, prior_logit=1.0, prior_scale=1.0)
        (tensor(0.7311), tensor(0.), tensor(0.0983))
    """
    inclusion = torch.sigmoid(logit)
    d_mean, d_scale = gaussian_kl_grad(mean, scale, prior_scale)
    slab = torch.addcmul(scale.square(), mean, mean).mul_(0.5 / prior_scale**2).sub_(torch.log(scale))
    slab.add_(math.log(prior_scale) - 0.5 if not isinstance(prior_scale, Tensor) else prior_scale.log() - 0.5)
    # phi (1 - phi): sigmoid(-logit) keeps the digits that 1 - sigmoid(logit) loses for large logits
    d_logit = slab.add_(logit).sub_(prior_logit).mul_(inclusion).mul_(torch.sigmoid(-logit))
    return d_mean.mul_(inclusion), d_scale.mul_(inclusion), d_logit


def logistic_noise(uniform: Tensor) -> Tensor:
    """log(u) - log(1 - u) for u ~ U(0, 1): the noise of the Gumbel-softmax gate, finite also where u was drawn as 0.

    Example:
        >>> logistic_noise(torch.tensor([0.5, 0.9]))
        tensor([0.0000, 2.1972])
    """
    return torch.logit(uniform, eps=torch.finfo(uniform.dtype).eps / 2)


def gate_of(eta: Tensor) -> Tensor:
    """1 where eta > 0 and 0 elsewhere, in eta's type: a Boolean gate makes every product with it five times slower."""
    if not eta.is_cpu:
        return torch.heaviside(eta, eta.new_zeros(()))
    # heaviside is forty times slower than a product there; twice the largest number, so that the smallest passes 1 too
    largest = torch.finfo(eta.dtype).max
    return F.hardtanh_((eta * largest).mul_(largest), 0.0, 1.0)  # `clamp_` is slow under vmap


def spike_slab_value(mean: Tensor, scale: Tensor, logit: Tensor, noise: Tensor, logistic: Tensor) -> Tensor:
    """The weight of `spike_slab_draw` with the slab's standard deviation at hand, without gradients."""
    return torch.addcmul(mean, scale, noise).mul_(gate_of(logit + logistic))


def spike_slab_kl_sum(
    mean: Tensor,
    rho: Tensor,
    logit: Tensor,
    prior_logit: float | Tensor,
    prior_scale: float,
    with_value: bool = True,
    dim: int | None = None,
) -> Tensor:
    """Exact sum of `spike_slab_kl` over all weights, in nats, with a closed-form gradient in (mean, rho, logit).

    Args:
        prior_logit: log_odds(lambda).
        with_value: with False the result's value is 0 and only its gradient is exact.
        dim: sum along it alone.

    Example:
        >>> mean, rho, logit = (torch.zeros(10, requires_grad=True) for _ in range(3))
        >>> kl = spike_slab_kl_sum(mean, rho, logit, prior_logit=0.0, prior_scale=1.0)
        >>> kl.shape, bool(kl > 0)
        (torch.Size([]), True)
    """

    def value(mean: Tensor, rho: Tensor, logit: Tensor) -> Tensor:
        return prior_log_odds_kl(mean, softplus_scale(rho), logit, prior_logit, prior_scale)

    def gradient(grad: Tensor, mean: Tensor, rho: Tensor, logit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        d_mean, d_scale, d_logit = spike_slab_kl_grad(mean, softplus_scale(rho), logit, prior_logit, prior_scale)
        return d_mean.mul_(grad), d_scale.mul_(softplus_slope(rho)).mul_(grad), d_logit.mul_(grad)

    return closed_form_sum(value, gradient, mean, rho, logit, with_value=with_value, dim=dim)
