"""The spike-and-slab Gaussian-Laplace prior and its closed-form updates, Deng, Zhang, Liang and Lin (2019), section 3.

A weight is, given sigma and gamma, Laplace with scale sigma * spike_scale (gamma = 0) or Gaussian with variance
sigma^2 * slab_variance (gamma = 1); gamma is Bernoulli(inclusion). In the paper spike_scale is v0, slab_variance v1,
inclusion delta. Every function is elementwise and broadcasts, so sigma, inclusion and the scales may differ between
the replicates of a stack. Numbers are checked; tensors are not, since a look at them would wait for a GPU:
`bnnlib.sampling.SpikeSlabGaussianLaplacePrior` checks once, when it is built.
"""

import math

import torch
from torch import Tensor

from bnnlib._checks import check_positive, check_probability, check_scale
from bnnlib.functional.gaussian_spike_slab import Number, _log
from bnnlib.functional.spike_slab import log_odds


def _numbers_positive(**values: Number) -> None:
    for name, value in values.items():
        if not isinstance(value, Tensor) and not 0.0 < value < math.inf:
            (check_positive if name == "slab_variance" else check_scale)(name, value)


def slab_log_odds_coefficients(
    inclusion: Number, sigma: Number, spike_scale: Number, slab_variance: Number, *, scaled: bool = True
) -> tuple[Number, Number, Number]:
    """Coefficients (constant, linear, quadratic) with which the log-odds of the slab are c + l |w| + q w^2.

    The logarithm of a / b in equation (aeb-slab-probability), equation (12) of Deng et al. (2019), is a quadratic in
    |w|: the Gaussian contributes q = -1 / (2 s^2 v1), the Laplace density l = 1 / (s v0).

    Args:
        inclusion: prior probability delta of the slab, strictly between 0 and 1.
        sigma: scale s of the hierarchy.
        spike_scale: v0, the Laplace scale in units of sigma.
        slab_variance: v1, the Gaussian variance in units of sigma^2.
        scaled: False leaves sigma out of both densities, as the published code for networks does.

    Raises:
        ValueError: a number is out of its range.

    Example:
        >>> constant, linear, quadratic = slab_log_odds_coefficients(0.5, 1.0, spike_scale=0.01, slab_variance=1.0)
        >>> round(linear, 4), round(quadratic, 4)
        (100.0, -0.5)
    """
    _numbers_positive(sigma=sigma, spike_scale=spike_scale, slab_variance=slab_variance)
    if not isinstance(inclusion, Tensor):
        check_probability("inclusion", inclusion, open_interval=True)
        prior: float | Tensor = log_odds(inclusion)
    else:
        prior = torch.logit(inclusion)
    s = sigma if scaled else 1.0
    # log N(0; s^2 v1) - log Laplace(0; s v0): sigma cancels from the constant
    constant = prior + _log(spike_scale) + math.log(2.0) - 0.5 * (_log(slab_variance) + math.log(2.0 * math.pi))
    return constant, 1.0 / (s * spike_scale), -0.5 / (s * s * slab_variance)


def slab_log_odds(
    weight: Tensor,
    inclusion: Number,
    sigma: Number,
    spike_scale: Number,
    slab_variance: Number,
    *,
    scaled: bool = True,
) -> Tensor:
    """log of P(gamma = 1 | w) / P(gamma = 0 | w), the logarithm of a / b in equation (aeb-slab-probability).

    Args:
        weight: w, any shape; the others as in `slab_log_odds_coefficients`.

    Returns:
        Tensor in weight's shape, in nats. It never overflows where densities would be 0 / 0.

    Raises:
        ValueError: a number is out of its range.

    Example:
        >>> slab_log_odds(torch.tensor([0.0, 0.5]), inclusion=0.5, sigma=1.0, spike_scale=0.01, slab_variance=1.0)
        tensor([-4.8310, 45.0440])
    """
    constant, linear, quadratic = slab_log_odds_coefficients(
        inclusion, sigma, spike_scale, slab_variance, scaled=scaled
    )
    return constant + linear * weight.abs() + quadratic * weight.square()


def slab_probability(
    weight: Tensor,
    inclusion: Number,
    sigma: Number,
    spike_scale: Number,
    slab_variance: Number,
    *,
    scaled: bool = True,
) -> Tensor:
    """Probability rho~ that the Gaussian component made the weight, equation (aeb-slab-probability), (12) of the paper.

    Arguments, result's shape and errors as for `slab_log_odds`.

    Example:
        >>> slab_probability(torch.tensor([0.0, 0.5]), inclusion=0.5, sigma=1.0, spike_scale=0.01, slab_variance=1.0)
        tensor([0.0079, 1.0000])
    """
    return torch.sigmoid(slab_log_odds(weight, inclusion, sigma, spike_scale, slab_variance, scaled=scaled))


def expected_precisions(rho: Tensor, spike_scale: Number, slab_variance: Number) -> tuple[Tensor, Tensor]:
    """(kappa0, kappa1) = ((1 - rho) / v0, rho / v1), equation (aeb-precisions), (13) of Deng et al. (2019).

    The expectations of 1 / (v0 (1 - gamma)) and 1 / (v1 gamma) over gamma as EMVS takes them: the weight of the
    absolute value and of half the square in the penalty.

    Raises:
        ValueError: a number is not positive.

    Example:
        >>> expected_precisions(torch.tensor([0.0, 1.0]), spike_scale=0.1, slab_variance=2.0)
        (tensor([10.,  0.]), tensor([0.0000, 0.5000]))
    """
    _numbers_positive(spike_scale=spike_scale, slab_variance=slab_variance)
    return (1.0 - rho) / spike_scale, rho / slab_variance


def optimal_sigma(linear: Tensor, quadratic: Tensor, count: Number) -> Tensor:
    """Positive root of count * s^2 - linear * s - quadratic = 0, equation (aeb-scale), (14) of Deng et al. (2019).

    Args:
        linear: R_b = C_b, the sum of kappa0 |w| over the sparse weights, not negative.
        quadratic: R_c = I + J + nu lambda (regression, I the sum of squared errors) or C_c = J + nu lambda, positive.
        count: R_a = N + p + nu or C_a = p + nu + 2, positive.

    Returns:
        Tensor in the arguments' common shape.

    Example:
        >>> optimal_sigma(torch.tensor(0.0), torch.tensor(4.0), count=1)
        tensor(2.)
    """
    return (linear + (linear.square() + 4.0 * count * quadratic).sqrt()) / (2.0 * count)


def optimal_inclusion(rho_sum: Tensor, count: Number, a: Number, b: Number) -> Tensor:
    """delta~ = (sum rho + a - 1) / (a + b + p - 2), equation (aeb-inclusion), (15) of Deng et al. (2019).

    Args:
        rho_sum: sum of rho over a layer's p weights.
        count: p.
        a, b: of the Beta(a, b) prior; a + b + p > 2.

    Example:
        >>> optimal_inclusion(torch.tensor(30.0), count=100, a=1, b=1)
        tensor(0.3000)
    """
    return (rho_sum + (a - 1.0)) / (a + b + count - 2.0)
