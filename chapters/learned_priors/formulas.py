"""One step of each sampler, and the spike-and-slab Gaussian-Laplace prior, as pure functions.

The gradient is that of the energy U = -log posterior (up to a constant) in nats. lr is the step size; with it and the
momentum a sampler at temperature 0 is `torch.optim.SGD` with the same two numbers. `bnnlib.sampling` takes the same
steps for all parameters at once, and the tests compare them. For the prior see `bnnlib.functional.slab_log_odds`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib._checks import check_non_negative, check_positive
from bnnlib.functional import slab_log_odds
from bnnlib.functional.sgmcmc import baoab_coefficients, euler_noise_scale

Number = float | Tensor


def sgld_step(position: Tensor, gradient: Tensor, noise: Tensor, lr: float, temperature: float = 1.0) -> Tensor:
    """theta - lr * grad + sqrt(2 lr T) * xi, equation (aeb-sgld), (2) of Deng et al. (2019), Welling and Teh (2011).

    At T = 1 it is equation (fnd-sgld).

    Args:
        position, gradient, noise: of one shape; noise is standard normal.
        lr: step size epsilon.
        temperature: T = 1 / tau.

    Returns:
        The new position.

    Example:
        >>> sgld_step(torch.tensor([1.0]), gradient=torch.tensor([2.0]), noise=torch.tensor([0.0]), lr=0.1)
        tensor([0.8000])
    """
    return position - lr * gradient + math.sqrt(2.0 * lr * temperature) * noise


def sghmc_euler_step(
    position: Tensor,
    velocity: Tensor,
    gradient: Tensor,
    noise: Tensor,
    lr: float,
    momentum: float,
    temperature: float = 1.0,
    gradient_variance: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The discretization of Saatci and Wilson (2017) that the paper takes, equation (aeb-sghmc-euler).

    v <- momentum v - lr grad + sqrt(2 lr ((1 - momentum) T - lr V / 2)) xi, then theta <- theta + v, with V an
    estimate of the gradient's variance: its noise brings lr^2 V into the velocity whatever the temperature is, and the
    friction takes out 2 lr (1 - momentum) T. The published code has (1 - momentum - lr V / 2) T, the same at T = 1.

    Returns:
        The new position and velocity.

    Example:
        >>> zero, one = torch.zeros(1), torch.ones(1)
        >>> sghmc_euler_step(zero, zero, gradient=one, noise=zero, lr=0.1, momentum=0.9)
        (tensor([-0.1000]), tensor([-0.1000]))
    """
    scale = euler_noise_scale(lr, momentum, temperature, gradient_variance)
    velocity = momentum * velocity - lr * gradient + scale * noise
    return position + velocity, velocity


def sghmc_baoab_step(
    position: Tensor,
    velocity: Tensor,
    gradient: Tensor,
    noise: Tensor,
    lr: float,
    momentum: float,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """A splitting of underdamped Langevin dynamics with one gradient a step, equation (aeb-baoab).

    Kick, half a drift, exact Ornstein-Uhlenbeck refreshment by the factor `momentum`, half a drift. Two half kicks of
    Leimkuhler and Matthews (2013)'s BAOAB are merged into one, which leaves the positions what they were: on a Gaussian
    target their distribution is exact at every stable step size. The velocity is kept in units of position per kick,
    v = h r with h^2 = 2 lr / (1 + momentum), so that T = 0 is gradient descent with momentum.

    Returns:
        The new position and velocity; the velocity is the one after the refreshment.

    Example:
        >>> zero, one = torch.zeros(1), torch.ones(1)
        >>> sghmc_baoab_step(zero, zero, gradient=one, noise=zero, lr=0.1, momentum=0.9)
        (tensor([-0.1000]), tensor([-0.0947]))
    """
    kick, drift, scale = baoab_coefficients(lr, momentum, temperature)
    kicked = velocity - kick * gradient
    velocity = momentum * kicked + scale * noise
    return position + drift * (kicked + velocity), velocity


def ssgl_penalty(weight: Tensor, kappa0: Tensor, kappa1: Tensor, sigma: Number) -> Tensor:
    """kappa0 |w| / sigma + kappa1 w^2 / (2 sigma^2) per weight, in nats: the prior's term of Q1, equation (aeb-q1).

    Args:
        weight, kappa0, kappa1: of one shape.
        sigma: broadcasts against them.

    Example:
        >>> ssgl_penalty(torch.tensor([2.0]), torch.tensor([1.0]), torch.tensor([0.5]), sigma=1.0)
        tensor([3.])
    """
    return kappa0 * weight.abs() / sigma + kappa1 * weight.square() / (2.0 * sigma**2)


def ssgl_penalty_gradient(weight: Tensor, kappa0: Tensor, kappa1: Tensor, sigma: Number) -> Tensor:
    """Derivative kappa0 sign(w) / sigma + kappa1 w / sigma^2 of `ssgl_penalty`, with the subgradient 0 at w = 0.

    Example:
        >>> ssgl_penalty_gradient(torch.tensor([-2.0, 0.0]), torch.ones(2), torch.ones(2), sigma=1.0)
        tensor([-3.,  0.])
    """
    return kappa0 * torch.sign(weight) / sigma + kappa1 * weight / sigma**2


def ssgl_log_density(
    weight: Tensor, inclusion: Number, sigma: Number, spike_scale: Number, slab_variance: Number
) -> Tensor:
    """log of the mixture density of equation (aeb-prior), (4) of Deng et al. (2019), with gamma summed out, in nats.

    Arguments, result's shape and errors as for `slab_log_odds`. Its negative is the effective penalty, equation
    (aeb-penalty); its derivative is minus `ssgl_penalty_gradient` at the kappas that belong to rho~.

    Example:
        >>> ssgl_log_density(torch.tensor([0.0, 1.0]), inclusion=0.5, sigma=1.0, spike_scale=0.1, slab_variance=1.0)
        tensor([ 0.9931, -2.1111])
    """
    odds = slab_log_odds(weight, inclusion, sigma, spike_scale, slab_variance)
    not_included = torch.log1p(-inclusion) if isinstance(inclusion, Tensor) else math.log1p(-inclusion)
    spike = not_included - weight.abs() / (sigma * spike_scale) - math.log(2.0) - _log(sigma) - _log(spike_scale)
    return spike + F.softplus(odds)  # log(b + a) = log b + log(1 + a / b)


def _log(value: Number) -> Number:
    return value.log() if isinstance(value, Tensor) else math.log(value)


def cyclical(step: int, initial: float, steps: int, cycles: int) -> float:
    """Step size that falls from `initial` along half a cosine, `cycles` times over `steps`, equation (aeb-cyclical).

    Zhang, Li, Zhang, Chen and Wilson (2020): large steps find a new mode, small ones sample it.

    Example:
        >>> cyclical(1, 0.1, steps=100, cycles=2), cyclical(51, 0.1, 100, 2), cyclical(50, 0.1, 100, 2) < 0.001
        (0.1, 0.1, True)
    """
    length = -(-steps // cycles)
    return 0.5 * initial * (1.0 + math.cos(math.pi * (((step - 1) % length) / length)))


class constant:
    """The same value at every step.

    Raises:
        ValueError: the value is negative or not finite.

    Example:
        >>> constant(0.1)(7)
        0.1
    """

    def __init__(self, value: float) -> None:
        self.value = float(check_non_negative("value", value))

    def __call__(self, step: int) -> float:
        return self.value


class annealed:
    """initial / factor^k: a temperature that falls geometrically, equation (aeb-temperature); simulated annealing.

    The inverse temperature of the paper, tau <- tau * factor, once for every call's step. factor = 1 is constant.

    Raises:
        ValueError: the initial value is not positive or the factor is below 1.

    Example:
        >>> [round(annealed(8.0, 2.0)(k), 6) for k in (1, 2, 3)]
        [4.0, 2.0, 1.0]
    """

    def __init__(self, initial: float, factor: float) -> None:
        self.initial = check_positive("initial", initial)
        if not 1.0 <= factor < math.inf:
            raise ValueError(f"factor is {factor:g}, but it must be at least 1: the temperature is divided by it.")
        self.factor = factor

    def __call__(self, step: int) -> float:
        # the power underflows to temperature 0 where it would overflow
        return self.initial * math.exp(-step * math.log(self.factor))
