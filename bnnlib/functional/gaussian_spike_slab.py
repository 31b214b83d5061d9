"""The Gaussian spike-and-slab prior with closed-form inclusion probabilities, Saha, Liu and Liang (2024), section 3.

A weight is N(0, slab_scale^2) with probability `prior_inclusion_probability`, else N(0, spike_scale^2); its posterior
is N(mean, scale^2) times Bernoulli(p). In the paper slab_scale is tau_1, spike_scale tau_0 and the prior probability
pi. Everything depends on the posterior through its second moment mean^2 + scale^2 alone, except the entropy -log scale.
Every function is elementwise and broadcasts, so the prior may differ between the replicates of a stack.
"""

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor

from bnnlib._checks import _holds, _shown, check_probability, check_scale
from bnnlib.functional._autograd import transformed

Number = float | Tensor
NARROWEST_SPIKE = 1e-19


class MixturePrior(NamedTuple):
    """What the closed forms need of a Gaussian spike-and-slab prior; made by `mixture_prior`.

    Numbers, or tensors that broadcast against the weights.

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> round(prior.slab_precision, 6), round(prior.spike_precision, 6)
        (1.0, 100.0)
    """

    slab_precision: Number  # 1 / tau_1^2
    spike_precision: Number  # 1 / tau_0^2
    slab_cost: Number  # log(tau_1 / pi), nats
    spike_cost: Number  # log(tau_0 / (1 - pi)), nats


def mixture_prior(slab_scale: Number, spike_scale: Number, prior_inclusion_probability: Number) -> MixturePrior:
    """The prior of equation (sbnn-prior), (3.1) of the paper, checked and in the form in which it is used.

    Args:
        slab_scale: standard deviation tau_1 of the slab, a number or a tensor.
        spike_scale: standard deviation tau_0 of the spike, below tau_1.
        prior_inclusion_probability: pi, strictly between 0 and 1.

    Raises:
        ValueError: a scale is not positive, the spike is not narrower than the slab or narrower than float32 can
            tell from 0, or pi is not inside (0, 1).

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> round(prior.spike_precision, 6)
        100.0
    """
    check_scale("slab_scale", slab_scale)
    check_scale("spike_scale", spike_scale)
    check_probability("prior_inclusion_probability", prior_inclusion_probability, open_interval=True)
    if not _holds(slab_scale - spike_scale, lambda difference: difference > 0):
        raise ValueError(
            f"spike_scale is {_shown(spike_scale)} and slab_scale {_shown(slab_scale)}, but the spike must be narrower "
            "than the slab, or inclusion would mean a small weight. Exchange the two, or move them apart."
        )
    if not _holds(spike_scale, lambda scale: scale > NARROWEST_SPIKE):
        raise ValueError(
            f"spike_scale is {_shown(spike_scale)}, but below {NARROWEST_SPIKE:g} its precision 1 / spike_scale^2 "
            "leaves the range of float32. For so narrow a spike use the Dirac spike of bnnlib.nn.SpikeSlabLinear."
        )
    slab, spike, probability = (_double(v) for v in (slab_scale, spike_scale, prior_inclusion_probability))
    slab_cost, spike_cost = _log(slab) - _log(probability), _log(spike) - _log1p(-probability)
    return MixturePrior(slab**-2, spike**-2, slab_cost, spike_cost)


def _double(value: Number) -> Number:
    return value.double() if isinstance(value, Tensor) else float(value)


def _log(value: Number) -> Number:
    return value.log() if isinstance(value, Tensor) else math.log(value)


def _log1p(value: Number) -> Number:
    return value.log1p() if isinstance(value, Tensor) else math.log1p(value)


def inclusion_log_odds(second_moment: Tensor, prior: MixturePrior) -> Tensor:
    """logit p* = B - A, equation (sbnn-log-odds), (3.17) of the paper, in nats: linear in the second moment.

    Args:
        second_moment: mean^2 + scale^2, any shape.
        prior: from `mixture_prior`.

    Returns:
        Tensor of the broadcast shape. Rank weights by this and not by p*, which rounds to 1 for most large weights.

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> inclusion_log_odds(torch.tensor([0.0, 0.1]), prior)
        tensor([-2.3026,  2.6474])
    """
    slope = 0.5 * (prior.spike_precision - prior.slab_precision)
    return slope * second_moment + (prior.spike_cost - prior.slab_cost)


def closed_form_inclusion(mean: Tensor, scale: Number, prior: MixturePrior) -> Tensor:
    """p*, the optimal variational inclusion probability, equation (sbnn-inclusion), (3.8) of the paper.

    Args:
        mean, scale: of the Gaussian posterior, broadcastable; scale 0 gives E[Z | weight = mean] under the prior.
        prior: from `mixture_prior`.

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> closed_form_inclusion(torch.tensor([0.0, 0.2, 1.0]), 0.01, prior)
        tensor([0.0913, 0.4213, 1.0000])
    """
    return torch.sigmoid(inclusion_log_odds(mean.square() + scale**2, prior))


def expected_precision(second_moment: Tensor, prior: MixturePrior) -> Tensor:
    """p* / tau_1^2 + (1 - p*) / tau_0^2 at a second moment, equation (sbnn-gradient): the strength of the shrinkage.

    At mean^2 + scale^2 it belongs to the closed form; at a drawn weight's square it is the score of the mixture
    density divided by the weight, which Bayes by Backprop uses, equation (sbnn-bbb-mean).

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> expected_precision(torch.tensor([0.0, 1.0]), prior)
        tensor([91.,  1.])
    """
    # from the spike's side: 1 - p* = sigmoid(-log-odds) stays exact where p* rounds to 1 and the spike is narrow
    spike_share = torch.sigmoid(-inclusion_log_odds(second_moment, prior))
    return prior.slab_precision + (prior.spike_precision - prior.slab_precision) * spike_share


def _costs(second_moment: Tensor, prior: MixturePrior) -> tuple[Tensor, Tensor]:
    """A and B of equation (sbnn-inclusion)."""
    half = 0.5 * second_moment
    return half * prior.slab_precision + prior.slab_cost, half * prior.spike_precision + prior.spike_cost


class _LogAddExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, first, second):
        ctx.save_for_backward(first, second)
        ctx.save_for_forward(first, second)
        return torch.logaddexp(first, second)

    @staticmethod
    def backward(ctx, grad):
        first, second = ctx.saved_tensors  # once: a checkpoint gives them out once
        return _shared(grad, second - first), _shared(grad, first - second)

    @staticmethod
    def jvp(ctx, first, second):
        ahead = ctx.saved_tensors[0] - ctx.saved_tensors[1]
        return first * torch.sigmoid(ahead) + second * torch.sigmoid(-ahead)


def _shared(grad: Tensor, behind: Tensor) -> Tensor:
    """grad / (1 + e^behind), to the bit as PyTorch has it, and with a derivative where that overflows."""
    if not torch.is_grad_enabled():
        return grad / (1.0 + torch.exp(behind))
    far = torch.exp(behind.detach()).isinf()
    return (grad / (1.0 + torch.exp(behind.masked_fill(far, 0.0)))).masked_fill(far, 0.0)


def _log_add_exp(first: Tensor, second: Tensor) -> Tensor:
    """torch.logaddexp; with second derivatives also where PyTorch's are NaN, since exp(|first - second|) overflows."""
    if not torch.is_grad_enabled():
        return torch.logaddexp(first, second)
    if not transformed():
        return cast(Tensor, _LogAddExp.apply(first, second))
    far = (first - second).abs().exp().isinf()
    near = torch.logaddexp(first.masked_fill(far, 0.0), second.masked_fill(far, 0.0))
    return torch.where(far, torch.maximum(first, second), near)


def spike_slab_profile_penalty(mean: Tensor, scale: Tensor, prior: MixturePrior) -> Tensor:
    """R*(m, sigma) = R at p*, -logsumexp(-A, -B) - log sigma, equation (sbnn-profile), per weight in nats.

    Minimizing it is what alternating between weights and p* does, since p* minimizes R for given weights.

    Args:
        mean, scale: of the Gaussian posterior.
        prior: from `mixture_prior`.

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> spike_slab_profile_penalty(torch.tensor([0.0, 1.0]), torch.tensor([0.1, 0.1]), prior)
        tensor([1.0412, 3.5007])
    """
    cost_slab, cost_spike = _costs(mean.square() + scale.square(), prior)
    return -_log_add_exp(-cost_slab, -cost_spike) - torch.log(scale)


def spike_slab_profile_grad(mean: Tensor, scale: Tensor, prior: MixturePrior) -> tuple[Tensor, Tensor]:
    """Gradient of `spike_slab_profile_penalty` in (mean, scale), equation (sbnn-gradient), (3.14)-(3.15) of the paper.

    The paper differentiates in sigma^2; this is the derivative in sigma, 2 sigma times that.

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> spike_slab_profile_grad(torch.tensor([0.0]), torch.tensor([0.1]), prior)
        (tensor([0.]), tensor([-1.3952]))
    """
    precision = expected_precision(mean.square() + scale.square(), prior)
    return mean * precision, scale * precision - scale.reciprocal()


def scale_mixture_log_density(weight: Tensor, prior: MixturePrior) -> Tensor:
    """log(pi N(w; 0, tau_1^2) + (1 - pi) N(w; 0, tau_0^2)), equation (sbnn-marginal-prior), in nats.

    The prior of Bayes by Backprop (Blundell et al., 2015), which is the spike-and-slab prior with Z summed out.

    Args:
        weight: w, any shape.
        prior: from `mixture_prior`.

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> scale_mixture_log_density(torch.tensor([0.0, 1.0]), prior)
        tensor([ 0.7858, -2.1121])
    """
    cost_slab, cost_spike = _costs(weight.square(), prior)
    return _log_add_exp(-cost_slab, -cost_spike) - 0.5 * math.log(2.0 * math.pi)


def scale_mixture_kl_sample(mean: Tensor, scale: Tensor, noise: Tensor, prior: MixturePrior) -> Tensor:
    """log q(w) - log pi(w) at w = mean + scale * noise: Bayes by Backprop's estimate of a KL without closed form.

    Equation (sbnn-bbb), the objective J_B of section 3.3, per weight in nats; unbiased.

    Args:
        mean, scale: of the Gaussian posterior.
        noise: standard normal draws.
        prior: from `mixture_prior`.

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> scale_mixture_kl_sample(torch.tensor(0.0), torch.tensor(0.1), torch.tensor(0.0), prior)
        tensor(0.5978)
    """
    entropy = 0.5 * noise.square() + torch.log(scale) + 0.5 * math.log(2.0 * math.pi)
    return -entropy - scale_mixture_log_density(torch.addcmul(mean, scale, noise), prior)


def scale_mixture_grad_sample(mean: Tensor, scale: Tensor, noise: Tensor, prior: MixturePrior) -> tuple[Tensor, Tensor]:
    """Gradient of `scale_mixture_kl_sample` in (mean, scale), equations (sbnn-bbb-mean) and (sbnn-bbb-scale).

    (3.13) and (3.16) of the paper; (3.16) is in sigma^2, this in sigma, 2 sigma times that.

    Example:
        >>> prior = mixture_prior(slab_scale=1.0, spike_scale=0.1, prior_inclusion_probability=0.5)
        >>> mean, scale = torch.tensor([0.0, 1.0]), torch.tensor([0.1, 0.1])
        >>> [one.shape for one in scale_mixture_grad_sample(mean, scale, torch.randn(2), prior)]
        [torch.Size([2]), torch.Size([2])]
    """
    weight = torch.addcmul(mean, scale, noise)
    score = weight * expected_precision(weight.square(), prior)
    return score, score * noise - scale.reciprocal()
