"""Special functions of the truncated normal that keep their digits where Phi underflows.

The normal variable log theta with mean m and scale s, cut to [lower, upper], is described by
v = (m - log theta) / s, a standard normal cut to [x, x + w] with x = (m - upper) / s and w = (upper - lower) / s.
Its survival function is Q, and M(x) = Q(x) / phi(x) is the Mills ratio. Where x is large, Q underflows and terms of the
size x^2 cancel; all that is needed can be written with

    excess    r(x) = 1 / M(x) - x, which falls as 1 / x,
    remainder q(x) = Q(x + w) / Q(x), the share of the tail beyond the far end.
"""

import math

import torch
from torch import Tensor

from bnnlib.functional._autograd import transformed

LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
FAR = 30.0  # from here on the asymptotic series has more digits than 1 / M(x) - x
# log M(x) = -log x - u + 5/2 u^2 - 37/3 u^3 + 353/4 u^4 - 4081/5 u^5 ..., u = 1 / x^2
LOG_MILLS = (-1.0, 5.0 / 2.0, -37.0 / 3.0, 353.0 / 4.0, -4081.0 / 5.0)


def polynomial(u: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """c_0 + c_1 u + c_2 u^2 + ... by Horner's rule."""
    total = torch.full_like(u, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * u + coefficient
    return total


def density(x: Tensor) -> Tensor:
    """Standard normal density."""
    return torch.exp(-0.5 * x.square() - LOG_ROOT_TWO_PI)


def survival(x: Tensor) -> Tensor:
    """Q(x) = 1 - Phi(x) with full relative precision down to underflow, which torch.special.ndtr does not have."""
    return 0.5 * torch.special.erfc(x * math.sqrt(0.5))


def mills(x: Tensor) -> Tensor:
    """Mills ratio M(x) = Q(x) / phi(x) for x >= 0."""
    return math.sqrt(0.5 * math.pi) * torch.special.erfcx(x * math.sqrt(0.5))


# 1 - x r(x) = 2 u - 10 u^2 + ...: minus twice the index times the coefficients of log M
_SHORTFALL = (0.0, *(-2.0 * k * c for k, c in enumerate(LOG_MILLS, 1)))
# second derivatives of the terms of log M behind -log x, divided by u^2; _BEND without that of -u
_SLOPE = tuple(2.0 * k * (2.0 * k + 1.0) * c for k, c in enumerate(LOG_MILLS, 1))
_BEND = _SLOPE[1:]


def shortfall(x: Tensor) -> Tensor:
    """1 - x r(x) for x >= FAR; it falls as 2 / x^2."""
    return polynomial(x.square().reciprocal(), _SHORTFALL)


def any_far(x: Tensor) -> bool:
    """Whether the asymptotic forms are needed; always where looking would wait for a GPU, or is not possible."""
    return transformed() or not x.is_cpu or bool((x > FAR).any())


def log_remainder(x: Tensor, w: Tensor) -> Tensor:
    """log q = log(Q(x + w) / Q(x)) for x >= 0."""
    return torch.log(mills(x + w) / mills(x)) - w * (x + 0.5 * w)


def hazards(x: Tensor, w: Tensor, end: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the entropy and its gradient are made of, for every x >= -w; `end` is x + w to all digits.

    A = phi(x) / Z, B = phi(x + w) / Z, 1 - x (A - x), and Z / phi(x) where x > 0, Z elsewhere.
    """
    right, left, tail = x.clamp(min=0.0), x.clamp(max=0.0), x > 0.0
    ratio, decay = mills(right), torch.exp(-w * (right + 0.5 * w))
    z = torch.where(tail, ratio - decay * mills(end), survival(left) - survival(end))
    a = torch.where(tail, 1.0, density(left)) / z
    b = torch.where(tail, decay, density(end)) / z
    rest = 1.0 - x * (a - x)
    if any_far(x):
        inner = x.clamp(min=FAR)
        rest = torch.where(x > FAR, shortfall(inner) - inner * (a - ratio.reciprocal()), rest)
    return a, b, rest, z


def log_tilt(x: Tensor, w: Tensor, end: Tensor, c: Tensor) -> Tensor:
    """log E exp(-c (v - x)) of a standard normal v cut to [x, end], for c >= 0 and x >= -w.

    It is log N(x + c) - log N(x) with N(x) = (Q(x) - Q(x + w)) / phi(x).
    """
    right, left, shifted = x.clamp(min=0.0), x.clamp(max=0.0), x + c
    near, over = shifted.clamp(max=0.0), shifted.clamp(min=0.0)
    top = torch.log(mills(over) * -torch.expm1(log_remainder(over, w)))
    bottom = torch.log(mills(right) * -torch.expm1(log_remainder(right, w)))
    log_z = torch.log(survival(left) - survival(end))
    inside = c * (left + 0.5 * c) + torch.log(survival(near) - survival(end + c)) - log_z
    across = top - log_z - 0.5 * left.square() - LOG_ROOT_TWO_PI
    return torch.where(x > 0.0, top - bottom, torch.where(shifted < 0.0, inside, across))


def log_tilt_grad(x: Tensor, w: Tensor, end: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Derivative of `log_tilt` in x, and in the log of a scale to which c is proportional and x and w inversely."""
    a, b, _, _ = hazards(x, w, end)
    a_c, b_c, rest_c, _ = hazards(x + c, w, end + c)
    inner = x.clamp(min=FAR)
    inverse = (inner + 0.5 * c).square().reciprocal()
    # r(x) - r(x + c), whose digits are in the difference of the first terms
    drop = c * (1.0 / (inner * (inner + c)) + inverse.square() * polynomial(inverse, _SLOPE))
    # a small tilt is a derivative: the difference would be rounding
    step = c * half_line_cumulants((x + 0.5 * c).clamp(max=FAR + 1.0))[0]
    drop = torch.where(x > FAR, drop, torch.where((c < 1e-4) & (end > 40.0), step, c + (a - a_c)))
    excess = torch.where(x + c > FAR, (1.0 - rest_c) / (x + c).clamp(min=FAR), a_c - x - c)
    # inside the interval x is huge where the scale is small, and has to be canceled before it is rounded
    own = torch.where(x > 0.0, -c * excess - x * drop, c * (c - a_c) - x * (a - a_c))
    return drop + (b_c - b), own + c * b_c - end * (b_c - b)


def far_second_difference(x: Tensor, step: Tensor) -> Tensor:
    """log M(x + 2 step) - 2 log M(x + step) + log M(x) for x >= FAR, without differences of nearly equal numbers."""
    square, middle = step.square(), (x + step).square()
    product = x * (x + 2.0 * step)  # middle - square
    logarithm = torch.log1p(square / product)
    first = -2.0 * square * (3.0 * middle - square) / (middle * product.square())
    inverse = middle.reciprocal()
    return logarithm + first + square * inverse * inverse * inverse * polynomial(inverse, _BEND)


def half_line_cumulants(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Second, fourth and sixth cumulant of a standard normal cut to [x, infinity), for x <= FAR.

    They are derivatives of log M. With h = 1 / M the first is r' = h r - 1, and every further one follows from it.
    """
    right = x.clamp(min=0.0)
    left = x.clamp(min=-40.0, max=0.0)  # below, phi is 0 to all digits
    h = torch.where(x > 0.0, mills(right).reciprocal(), density(left) / torch.special.ndtr(-left))
    r = h - torch.where(x > 0.0, x, left)
    k2 = 1.0 - r * h
    k3 = k2 * h - r * (1.0 - k2)
    slope, rest = h + r, 1.0 - 2.0 * k2
    k4 = k3 * slope + 2.0 * k2 * (1.0 - k2)
    k5 = k4 * slope + 3.0 * k3 * rest
    return k2, k4, k5 * slope + 4.0 * k4 * rest - 6.0 * k3.square()
