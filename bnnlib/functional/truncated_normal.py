"""Special functions of the truncated normal that keep their digits where Phi underflows.

The normal variable log theta with mean m and scale s, cut to [lower, upper], is described by
v = (m - log theta) / s, a standard normal cut to [x, x + w] with x = (m - upper) / s and w = (upper - lower) / s.
Its survival function is Q, and M(x) = Q(x) / phi(x) is the Mills ratio. Where x is large, Q underflows and terms of the
size x^2 cancel; all that is needed can be written with

    excess    r(x) = 1 / M(x) - x, which falls as 1 / x,
    remainder q(x) = Q(x + w) / Q(x), the share of the tail beyond the far end.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

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


# x r(x) - 1 = -2 u + 10 u^2 - ... : minus twice the index times the coefficients of log M
_EXCESS = (0.0, *(2.0 * k * c for k, c in enumerate(LOG_MILLS, 1)))


def excess(x: Tensor) -> tuple[Tensor, Tensor]:
    """r(x) = 1 / M(x) - x and 1 - x r(x) for x >= 0, both to nearly full relative precision."""
    near = x.clamp(max=FAR)
    r_near = mills(near).reciprocal() - near
    inverse = x.clamp(min=FAR).reciprocal()
    shortfall = -polynomial(inverse.square(), _EXCESS)
    far = x > FAR
    return torch.where(far, (1.0 - shortfall) * inverse, r_near), torch.where(far, shortfall, 1.0 - near * r_near)


def log_remainder(x: Tensor, w: Tensor) -> Tensor:
    """log q = log(Q(x + w) / Q(x)) for x >= 0."""
    return torch.log(mills(x + w) / mills(x)) - w * (x + 0.5 * w)


def probability(x: Tensor, w: Tensor) -> Tensor:
    """Z = Q(x) - Q(x + w) for x <= 0 <= x + w, a sum of two positive terms."""
    root = math.sqrt(0.5)
    return 0.5 * (torch.erf((x + w) * root) - torch.erf(x * root))


def hazards(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the entropy and its gradient are made of, for every x >= -w.

    Returns:
        A = phi(x) / Z, B = phi(x + w) / Z, 1 - x (A - x) where x > 0, and log(Z / phi(x)) where x > 0, log Z
        elsewhere.
    """
    right, left = x.clamp(min=0.0), x.clamp(max=0.0)
    r, shortfall = excess(right)
    log_q = log_remainder(right, w)
    kept = -torch.expm1(log_q)  # 1 - q
    hazard = right + r
    beyond = hazard * torch.exp(log_q) / kept  # A is 1 / M + 1 / M * q / (1 - q)
    z = probability(left, w)
    tail = x > 0.0
    a = torch.where(tail, hazard + beyond, density(left) / z)
    b = torch.where(tail, (hazard / kept) * torch.exp(-w * (right + 0.5 * w)), density(left + w) / z)
    return a, b, shortfall - right * beyond, torch.where(tail, torch.log(kept / hazard), torch.log(z))


def log_tilt(x: Tensor, w: Tensor, c: Tensor) -> Tensor:
    """log E exp(-c (v - x)) of a standard normal v cut to [x, x + w], for c >= 0 and x >= -w."""
    right, left = x.clamp(min=0.0), x.clamp(max=0.0)
    shifted = x + c
    near, over = shifted.clamp(max=0.0), shifted.clamp(min=0.0)
    # log of N(x) = (Q(x) - Q(x + w)) / phi(x): the tilt is N(x + c) / N(x)
    top = torch.log(mills(over) * -torch.expm1(log_remainder(over, w)))
    bottom = torch.log(mills(right) * -torch.expm1(log_remainder(right, w)))
    log_z = torch.log(probability(left, w))
    inside = c * (left + 0.5 * c) + torch.log(probability(near, w)) - log_z
    across = top - log_z - 0.5 * left.square() - LOG_ROOT_TWO_PI
    return torch.where(x > 0.0, top - bottom, torch.where(shifted < 0.0, inside, across))


# second derivatives of the terms from u^2 on, in powers of u
_BEND = tuple(2.0 * k * (2.0 * k + 1.0) * c for k, c in enumerate(LOG_MILLS, 1))[1:]


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
