"""Half-Cauchy scales with log-normal posteriors: the divergence that the horseshoe network minimizes."""

import math

import torch
from torch import Tensor

from bnnlib._checks import check_scale
from bnnlib.functional._autograd import closed_form_sum


def half_cauchy_kl(location: Tensor, log_scale: Tensor, prior_scale: float) -> Tensor:
    """Upper bound of KL(q(tau) || C+(0, prior_scale)) for log tau ~ N(location, exp(log_scale)^2), in nats.

    Equation (svbnn-half-cauchy). It is what remains of the auxiliary-variable bound of Ghosh, Yao and Doshi-Velez
    (2018) when their inverse-gamma auxiliary posterior is set to its optimum, and equals Jensen's inequality applied
    to E log(1 + tau^2 / prior_scale^2).

    Args:
        location, log_scale: tensors of one shape; the posterior of log tau.
        prior_scale: b > 0, the median of the half-Cauchy prior.

    Raises:
        ValueError: prior_scale is not positive.

    Example:
        >>> half_cauchy_kl(torch.tensor(0.0), torch.tensor(-1.0), prior_scale=1.0)
        tensor(0.8703)
    """
    check_scale("prior_scale", prior_scale)
    spread = 2.0 * torch.exp(2.0 * log_scale)
    log_rate = torch.logaddexp(spread - 2.0 * location, location.new_full((), -2.0 * math.log(prior_scale)))
    constant = math.log(math.pi * prior_scale) - 0.5 * math.log(2.0 * math.pi * math.e) - math.log(2.0)
    return log_rate + location - log_scale + constant


def half_cauchy_kl_sum(
    location: Tensor, log_scale: Tensor, prior_scale: float, with_value: bool = True, dim: int | None = None
) -> Tensor:
    """Sum of `half_cauchy_kl` over all scales, with its gradient in (location, log_scale) in closed form.

    Args:
        location, log_scale, prior_scale: as for `half_cauchy_kl`.
        with_value: with False the value is 0 and only the gradient is exact.
        dim: sum along it alone.

    Example:
        >>> half_cauchy_kl_sum(torch.zeros(2), torch.full((2,), -1.0), prior_scale=1.0)
        tensor(1.7405)
    """

    def gradient(grad: Tensor, location: Tensor, log_scale: Tensor) -> tuple[Tensor, Tensor]:
        spread = torch.exp(2.0 * log_scale).mul_(2.0)
        share = torch.sub(spread, location, alpha=2.0).add_(2.0 * math.log(prior_scale)).sigmoid_()
        return (1.0 - 2.0 * share).mul_(grad), share.mul_(spread).mul_(2.0).sub_(1.0).mul_(grad)

    def value(location: Tensor, log_scale: Tensor) -> Tensor:
        return half_cauchy_kl(location, log_scale, prior_scale)

    return closed_form_sum(value, gradient, location, log_scale, with_value=with_value, dim=dim)
