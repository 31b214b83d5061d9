"""Log-normal noise cut to an interval: the model of Structured Bayesian Pruning (Neklyudov et al., 2017).

`mean` and `scale` are those of log theta before it is cut, and `lower` < `upper` bound log theta: the published
interval is [-20, 0], so that theta lies in [2e-9, 1]. Everything is evaluated in double precision, whatever the dtype
of the arguments: digits that the published forms lose cannot be given back later.
"""

import math

import torch
from torch import Tensor

from bnnlib._checks import check_scale
from bnnlib.functional import truncated_normal as tn

LOWER, UPPER = -20.0, 0.0
_SMALL = 0.05  # below this scale the variance of theta comes from a series: differences of moments have lost it


def _interval(lower: float, upper: float) -> None:
    if not (math.isfinite(lower) and math.isfinite(upper) and upper - lower >= 1.0):
        raise ValueError(
            f"the interval is [{lower}, {upper}], but log theta needs finite bounds at least 1 apart. The published "
            "ones are lower=-20, upper=0."
        )


def _checked(mean: Tensor, scale: Tensor, lower: float, upper: float) -> tuple[Tensor, Tensor]:
    _interval(lower, upper)
    check_scale("scale", scale)
    if not bool((mean >= lower).all()):
        raise ValueError(
            f"mean goes down to {mean.min().item()}, but it must be at least lower = {lower}: clamp it, as the layer "
            "does. (NaN is refused too.)"
        )
    return mean.double(), scale.double()


def _standard(mean: Tensor, scale: Tensor, lower: float, upper: float) -> tuple[Tensor, Tensor, Tensor]:
    """x, w and x + w of `bnnlib.functional.truncated_normal`."""
    return (mean - upper) / scale, (upper - lower) / scale, (mean - lower) / scale


def _kl(mean: Tensor, scale: Tensor, lower: float, upper: float) -> Tensor:
    x, w, end = _standard(mean, scale, lower, upper)
    a, b, rest, z = tn.hazards(x, w, end)
    # where x > 0, x^2 / 2 of log Z cancels x a / 2 but for (1 - x (a - x)) / 2 - 1 / 2
    own = torch.where(x > 0.0, 0.5 * rest - 1.0, -0.5 * x * a - 0.5 - tn.LOG_ROOT_TWO_PI)
    return torch.log(w / z) + own + 0.5 * end * b


def _kl_grad(mean: Tensor, scale: Tensor, lower: float, upper: float) -> tuple[Tensor, Tensor]:
    """Derivatives in the mean and in log(scale)."""
    x, w, end = _standard(mean, scale, lower, upper)
    a, b, rest, _ = tn.hazards(x, w, end)
    product = x * a - 1.0
    d_x = 0.5 * (a * rest + b * (product + end * (a - b - end)))
    return d_x / scale, 0.5 * w * b * (end * (end + b) - product) - x * d_x - 1.0


class Moment(torch.autograd.Function):
    """E theta^order, of which a network takes the first and the lesson the second, too."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx, inputs, output):
        mean, scale, *ctx.constants = inputs
        ctx.save_for_backward(mean, scale, output)

    @staticmethod
    def forward(mean, scale, order, lower, upper):
        return torch.exp(order * upper + tn.log_tilt(*_standard(mean, scale, lower, upper), order * scale))

    @staticmethod
    def backward(ctx, grad):
        mean, scale, moment = ctx.saved_tensors
        order, *interval = ctx.constants
        d_x, d_log_scale = tn.log_tilt_grad(*_standard(mean, scale, *interval), order * scale)
        grad = grad * moment / scale
        return grad * d_x, grad * d_log_scale, None, None, None


def _snr(mean: Tensor, scale: Tensor, lower: float, upper: float) -> Tensor:
    return torch.rsqrt(torch.expm1(_log_relative_second_moment(mean, scale, lower, upper)))


def _log_relative_second_moment(mean: Tensor, scale: Tensor, lower: float, upper: float) -> Tensor:
    """log(E theta^2 / (E theta)^2)."""
    wide = scale.clamp(min=_SMALL)
    ends = _standard(mean, wide, lower, upper)  # those of the series' scales are not used, but stay finite
    direct = tn.log_tilt(*ends, 2.0 * wide) - 2.0 * tn.log_tilt(*ends, wide)
    x, _, end = _standard(mean, scale, lower, upper)
    # a small scale sees only the nearer end; seen from the lower one the tilt has the other sign
    nearer = torch.where(x > -end, x + scale, -end - scale)
    k2, k4, k6 = tn.half_line_cumulants(nearer.clamp(max=tn.FAR + 1.0))
    square = scale.clamp(max=_SMALL).square()
    series = square * (k2 + square * (k4 / 12.0 + square * k6 / 360.0))
    far = tn.far_second_difference(x.clamp(min=tn.FAR), scale)
    return torch.where(x > tn.FAR, far, torch.where(scale < _SMALL, series, direct))


class PlainSample(torch.autograd.Function):
    """The draw with a gradient of plain operations, for transformations and for derivatives of derivatives.

    It finds the level from theta, which costs digits where the noise is next to none.
    """

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx, inputs, output):
        mean, scale, uniform, *ctx.interval = inputs
        ctx.save_for_backward(mean, scale, uniform, output)

    @staticmethod
    def forward(mean, scale, uniform, lower, upper):
        # a copy: compiled by PyTorch 2.11, a tensor that was changed in place comes out without a gradient
        return sample_forward(mean, scale, uniform, lower, upper)[0].clone()

    @staticmethod
    def backward(ctx, grad):
        mean, scale, uniform, theta = ctx.saved_tensors
        x, _, end = _standard(mean, scale, *ctx.interval)
        y = (ctx.interval[1] - theta.log()) / scale
        v = x + y
        near = torch.exp(y * (0.5 * y + x)) * (1.0 - uniform)
        far = torch.exp(-0.5 * (end - v) * (end + v)) * uniform
        grad = grad * theta
        return grad * (1.0 - near - far), grad * (x * near + end * far - v), None, None, None


def sample_forward(mean: Tensor, scale: Tensor, uniform: Tensor, lower: float, upper: float):
    """theta by the inverse distribution function, and what `sample_grad` needs. All in float64, unchecked."""
    x, w, end = _standard(mean, scale, lower, upper)
    level = torch.lerp(tn.survival(x), tn.survival(end), uniform)
    # `clamp_` would be slow under vmap
    v = torch.special.ndtri(level.clamp(1e-300, 1.0 - 1.2e-16)).neg_()  # finite, whatever was rounded
    y = v - x
    if tn.any_far(x):
        # Q has underflowed or is about to: the far end is out of sight, and the hazard is nearly linear
        inner = x.clamp(min=tn.FAR)
        hazard, depth = tn.mills(inner).reciprocal(), -torch.log1p(-uniform)
        slope = 2.0 * (1.0 - tn.shortfall(inner)) * hazard / inner  # 2 h r
        step = 2.0 * depth / (hazard + torch.sqrt(hazard.square() + slope * depth))
        y = torch.where(x > tn.FAR, step, y)
        v = torch.where(x > tn.FAR, x + step, v)
    y = torch.minimum(y.clamp_min_(0.0), w)
    # measured from the nearer of the mean and the upper end: from the other, a small scale drowns in rounding
    log_theta = torch.where(x < 0.0, mean - scale * v, upper - scale * y).clamp(lower, upper)
    return log_theta.exp_(), (scale, x, end, v, y, uniform)


def sample_grad(grad: Tensor, scale: Tensor, x: Tensor, end: Tensor, v: Tensor, y: Tensor, uniform: Tensor):
    """Pull a gradient in log theta back to the mean and to log(scale), with the levels of the draw held fixed."""
    # the parts that move with the upper and with the lower end
    near = torch.exp((0.5 * y).add_(x).mul_(y)).mul_(1.0 - uniform)
    far = torch.exp((end - v).mul_(end + v).mul_(-0.5)).mul_(uniform)
    d_log_scale = (x * near).addcmul_(end, far).sub_(v).mul_(scale).mul_(grad)
    return near.add_(far).neg_().add_(1.0).mul_(grad), d_log_scale
