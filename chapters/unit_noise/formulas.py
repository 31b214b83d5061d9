"""What the lesson needs of the truncated log-uniform prior and the log-normal posterior beyond the library."""

import math

import torch
from torch import Tensor

from bnnlib._checks import check_count
from bnnlib.functional import truncated_normal as tn
from bnnlib.functional._autograd import double_backward
from bnnlib.functional.truncated_log_normal import (
    LOWER,
    UPPER,
    Moment,
    PlainSample,
    _checked,
    _interval,
    _kl,
    _kl_grad,
    _snr,
    _standard,
    sample_forward,
    sample_grad,
)


def truncated_log_uniform_log_density(theta: Tensor, lower: float = LOWER, upper: float = UPPER) -> Tensor:
    """Log of the density 1 / (theta (upper - lower)), equation (sbp-log-uniform); -inf outside the interval.

    Args:
        theta: positive.
        lower, upper: bounds of log theta.

    Raises:
        ValueError: the interval is shorter than 1 or not finite.

    Example:
        >>> truncated_log_uniform_log_density(torch.tensor([1.0, 2.0]))
        tensor([-2.9957,    -inf])
    """
    _interval(lower, upper)
    log_theta = theta.log()
    inside = (log_theta >= lower) & (log_theta <= upper)
    return torch.where(inside, -log_theta - math.log(upper - lower), -math.inf)


def truncated_log_uniform_moment(order: int = 1, lower: float = LOWER, upper: float = UPPER) -> float:
    """E theta^k = (exp(k upper) - exp(k lower)) / (k (upper - lower)), equation (sbp-limit).

    Raises:
        ValueError: the order is not a positive integer, or the interval is shorter than 1 or not finite.

    Example:
        >>> round(truncated_log_uniform_moment(1), 6), round(truncated_log_uniform_moment(2), 6)
        (0.05, 0.025)
    """
    check_count("order", order)
    _interval(lower, upper)
    return (math.exp(order * upper) - math.exp(order * lower)) / (order * (upper - lower))


def truncated_log_uniform_snr(lower: float = LOWER, upper: float = UPPER) -> float:
    """Signal-to-noise ratio of the prior, equation (sbp-limit): 1/3 on [-20, 0] to nine digits.

    Raises:
        ValueError: the interval is shorter than 1 or not finite.

    Example:
        >>> round(truncated_log_uniform_snr(), 6)
        0.333333
    """
    first = truncated_log_uniform_moment(1, lower, upper)
    return first / math.sqrt(truncated_log_uniform_moment(2, lower, upper) - first**2)


def truncated_log_normal_log_density(
    theta: Tensor, mean: Tensor, scale: Tensor, lower: float = LOWER, upper: float = UPPER
) -> Tensor:
    """Log of the density of theta, equation (sbp-log-normal); -inf outside [exp(lower), exp(upper)].

    Args:
        theta: positive, broadcasts with the others.
        mean, scale, lower, upper: as for `truncated_log_normal_kl`.

    Raises:
        ValueError: as `truncated_log_normal_kl`.

    Example:
        >>> truncated_log_normal_log_density(torch.tensor([0.5, 2.0]), torch.zeros(2), torch.ones(2))
        tensor([0.2271,   -inf])
    """
    wide_mean, wide_scale = _checked(mean, scale, lower, upper)
    log_theta = theta.double().log()
    x, w, end = _standard(wide_mean, wide_scale, lower, upper)
    log_z = tn.hazards(x, w, end)[3].log()
    y = (upper - log_theta) / wide_scale
    # v^2 - x^2 = y (y + 2 x): the squares cancel where Z was divided by phi(x)
    exponent = torch.where(x > 0.0, -0.5 * y * (y + 2.0 * x), -0.5 * (x + y).square() - tn.LOG_ROOT_TWO_PI)
    value = exponent - log_z - wide_scale.log() - log_theta
    inside = (log_theta >= lower) & (log_theta <= upper)
    return torch.where(inside, value, -math.inf).to(mean.dtype)


class _KL(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
        ctx.interval = inputs[2:]

    @staticmethod
    def forward(mean, scale, lower, upper):
        return _kl(mean, scale, lower, upper)

    @staticmethod
    def backward(ctx, grad):
        mean, scale = ctx.saved_tensors
        d_mean, d_log_scale = _kl_grad(mean, scale, *ctx.interval)
        return grad * d_mean, grad * d_log_scale / scale, None, None


def truncated_log_normal_kl(mean: Tensor, scale: Tensor, lower: float = LOWER, upper: float = UPPER) -> Tensor:
    """KL divergence of the truncated log-normal to the log-uniform on the same interval, equation (sbp-kl), in nats.

    KL = log(b - a) - log(2 pi e) / 2 - log s - log Z - (alpha phi(alpha) - beta phi(beta)) / (2 Z) with
    alpha = (a - m) / s, beta = (b - m) / s, Z = Phi(beta) - Phi(alpha); differentiable, in closed form.

    Args:
        mean, scale: of log theta before truncation, one shape; scale > 0, mean >= lower.
        lower, upper: a and b, the bounds of log theta.

    Returns:
        Tensor in the arguments' shape, one divergence an entry.

    Raises:
        ValueError: a scale is not positive, a mean lies below the interval, or the interval is shorter than 1.

    Example:
        >>> truncated_log_normal_kl(torch.tensor(-2.0), torch.tensor(0.01))
        tensor(6.1820)
    """
    wide = _checked(mean, scale, lower, upper)
    return _KL.apply(*wide, lower, upper).to(mean.dtype)


def truncated_log_normal_second_moment(
    mean: Tensor, scale: Tensor, lower: float = LOWER, upper: float = UPPER
) -> Tensor:
    """E theta^2, equation (sbp-second-moment): exp(2 m + 2 s^2) [Phi(2 s - alpha) - Phi(2 s - beta)] / Z, stable.

    Args, Raises: as for `truncated_log_normal_kl`.

    Returns:
        Tensor in the arguments' shape.

    Example:
        >>> truncated_log_normal_second_moment(torch.tensor([-2.0]), torch.tensor([0.01]))  # near exp(-4)
        tensor([0.0183])
    """
    return Moment.apply(*_checked(mean, scale, lower, upper), 2, lower, upper).to(mean.dtype)


def truncated_log_normal_mean(mean: Tensor, scale: Tensor, lower: float = LOWER, upper: float = UPPER) -> Tensor:
    """E theta, equation (sbp-mean): exp(m + s^2 / 2) [Phi(s - alpha) - Phi(s - beta)] / Z in its stable form.

    Args, Raises: as for `truncated_log_normal_kl`.

    Returns:
        Tensor in the arguments' shape, between exp(lower) and exp(upper).

    Example:
        >>> truncated_log_normal_mean(torch.tensor([-2.0]), torch.tensor([0.01]))  # near exp(-2)
        tensor([0.1353])
    """
    return Moment.apply(*_checked(mean, scale, lower, upper), 1, lower, upper).to(mean.dtype)


def truncated_log_normal_snr(mean: Tensor, scale: Tensor, lower: float = LOWER, upper: float = UPPER) -> Tensor:
    """Signal-to-noise ratio E theta / sqrt(Var theta), equation (sbp-snr); units at or below 1 are pruned.

    It is 1 / sqrt(exp(d) - 1) with d = log E theta^2 - 2 log E theta. For small scales d is the second difference of a
    cumulant generating function and is summed from the cumulants, equation (sbp-snr-stable); far in the tail from the
    series of the Mills ratio.

    Args, Raises: as for `truncated_log_normal_kl`.

    Returns:
        Tensor in the arguments' shape, positive; 1/3 (to nine digits) where the noise is the log-uniform prior on
        [-20, 0].

    Example:
        >>> truncated_log_normal_snr(torch.tensor([-1.0, -1.0]), torch.tensor([0.1, 5.0])) > 1
        tensor([ True, False])
    """
    return _snr(*_checked(mean, scale, lower, upper), lower, upper).to(mean.dtype)


class _Sample(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mean, scale, uniform, lower, upper):
        theta, saved = sample_forward(mean, scale, uniform, lower, upper)
        ctx.save_for_backward(mean, theta, *saved)
        ctx.interval = lower, upper
        return theta

    @staticmethod
    def backward(ctx, grad):
        mean, theta, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True
            level, interval = saved[-1], ctx.interval
            given = double_backward(lambda *at: (PlainSample.apply(*at, level, *interval),), (mean, saved[0]), [grad])
            return *given, None, None, None
        d_mean, d_log_scale = sample_grad(theta * grad, *saved)
        return d_mean, d_log_scale / saved[0], None, None, None


def truncated_log_normal_sample(
    mean: Tensor, scale: Tensor, uniform: Tensor, lower: float = LOWER, upper: float = UPPER
) -> Tensor:
    """theta above which a share `uniform` of its distribution lies, equation (sbp-sample); differentiable.

    It is the inverse distribution function at 1 - uniform: near the upper end, where the noise of a unit that carries
    signal lies, levels of the upper tail keep their digits. Where Phi underflows the level is inverted through the
    hazard, so that every mean and scale gives a draw.

    Args:
        mean, scale: as for `truncated_log_normal_kl`.
        uniform: levels of the upper tail in (0, 1), the same shape; towards 0 the draw goes to exp(upper).
        lower, upper: the bounds of log theta.

    Returns:
        Tensor of noise in [exp(lower), exp(upper)], the arguments' shape.

    Raises:
        ValueError: as `truncated_log_normal_kl`.

    Example:
        >>> theta = truncated_log_normal_sample(torch.zeros(5), torch.ones(5), torch.rand(5))
        >>> bool(((theta > 0) & (theta <= 1)).all())
        True
    """
    wide = _checked(mean, scale, lower, upper)
    tiny = torch.finfo(uniform.dtype).eps / 2.0
    return _Sample.apply(*wide, uniform.double().clamp(tiny, 1.0 - tiny), lower, upper).to(mean.dtype)
