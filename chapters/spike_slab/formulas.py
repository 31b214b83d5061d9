"""The rates of section 4 of Bai, Song and Cheng (2020), and the reparameterisation that they leave for the gates."""

import math

import torch
from torch import Tensor

from bnnlib._checks import check_positive, check_probability, check_scale
from bnnlib.functional.spike_slab import _gated_kl, _prior_log_odds


def variational_error_rate(
    num_samples: int, num_inputs: int, num_hidden_layers: int, width: int, sparsity: float
) -> float:
    """r_n = ((L + 1) s/n) log N + (s/n) log(p sqrt(n/s)), equation (svbnn-rate): the price of s active weights.

    Example:
        >>> round(variational_error_rate(1000, num_inputs=50, num_hidden_layers=1, width=10, sparsity=20), 4)
        0.2095
    """
    for name, value in (("num_samples", num_samples), ("sparsity", sparsity)):
        check_positive(name, value)
    share = sparsity / num_samples
    return share * (
        (num_hidden_layers + 1) * math.log(width) + math.log(num_inputs * math.sqrt(num_samples / sparsity))
    )


def estimation_error_rate(variational_rate: float, num_samples: int, delta: float = 1.01) -> float:
    """epsilon_n^2 = r_n log(n)^delta with delta > 1, equation (svbnn-epsilon).

    Example:
        >>> round(estimation_error_rate(0.01, num_samples=1000), 4)
        0.0704
    """
    if delta <= 1:
        raise ValueError(f"delta is {delta}, but Lemma 4.2 needs delta > 1.")
    return variational_rate * math.log(num_samples) ** delta


def spike_slab_inverse_cdf(uniform: Tensor, mean: Tensor, scale: Tensor, inclusion_probability: Tensor) -> Tensor:
    """theta = F^{-1}(u) for the Dirac spike-and-slab distribution, the first reparameterisation of section 5.

    Equation (svbnn-inverse-cdf). Differentiable in mean, scale and inclusion_probability wherever theta is not 0; on
    the atom the derivative is 0. Any shapes that broadcast.

    Raises:
        ValueError: an inclusion probability is outside [0, 1] or a scale is not positive.

    Example:
        >>> uniform = torch.tensor([0.01, 0.5, 0.99])
        >>> spike_slab_inverse_cdf(uniform, torch.zeros(3), torch.ones(3), torch.full((3,), 0.5))
        tensor([-2.0537,  0.0000,  2.0537])
    """
    check_probability("inclusion_probability", inclusion_probability)
    check_scale("scale", scale)
    normal = torch.distributions.Normal(0.0, 1.0)
    below = inclusion_probability * normal.cdf(-mean / scale)  # mass of the slab to the left of the atom
    atom = 1.0 - inclusion_probability
    left, right = uniform < below, uniform >= below + atom
    inside = torch.where(left, uniform, torch.where(right, uniform - atom, 0.5 * torch.ones_like(uniform)))
    safe = torch.where(left | right, inside / inclusion_probability.clamp_min(1e-12), 0.5 * torch.ones_like(inside))
    theta = mean + scale * normal.icdf(safe.clamp(1e-12, 1 - 1e-12))
    return torch.where(left | right, theta, torch.zeros_like(theta))


def bernoulli_kl(logit: Tensor, prior_inclusion_probability: float | Tensor) -> Tensor:
    """KL(Bern(sigmoid(logit)) || Bern(prior_inclusion_probability)) in nats, finite for every finite logit.

    Equation (svbnn-bernoulli-kl), the second term of equation (10). Both logarithms are taken as logsigmoid, so
    that nothing is computed as log(0) or as 1 - 1: a direct evaluation is NaN beyond logits of 36.7 in float64.

    Raises:
        ValueError: the prior probability is not strictly between 0 and 1.

    Example:
        >>> bernoulli_kl(torch.tensor([0.0, 100.0]), 0.5)
        tensor([0.0000, 0.6931])
    """
    return _gated_kl(logit, _prior_log_odds(prior_inclusion_probability), torch.zeros_like(logit))


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

    Example:
        >>> hard, soft = gumbel_softmax_gate(torch.tensor([-2.0, 2.0]), torch.zeros(2))
        >>> hard, soft
        (tensor([0., 1.]), tensor([0.0180, 0.9820]))
    """
    check_positive("temperature", temperature)
    eta = logit + logistic
    return (eta > 0).to(eta.dtype), torch.sigmoid(eta / temperature)
