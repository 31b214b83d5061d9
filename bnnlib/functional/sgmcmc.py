"""One step of the stochastic-gradient samplers, as pure functions of position, gradient and noise.

The gradient is that of the energy U = -log posterior (up to a constant) in nats. lr is the step size; with it and the
momentum a sampler at temperature 0 is `torch.optim.SGD` with the same two numbers.
"""

from __future__ import annotations

import math

from torch import Tensor


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


def euler_noise_scale(lr: float, momentum: float, temperature: float, gradient_variance: float = 0.0) -> float:
    """Standard deviation of the noise of `sghmc_euler_step`; 0 where the gradient's own noise is more than enough."""
    if temperature == 0.0:
        return 0.0
    return math.sqrt(2.0 * lr * max(0.0, 1.0 - momentum - 0.5 * gradient_variance * lr / temperature) * temperature)


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


def baoab_coefficients(lr: float, momentum: float, temperature: float) -> tuple[float, float, float]:
    """(kick, drift, noise scale) of `sghmc_baoab_step`: h^2, 1 / 2 and h sqrt((1 - momentum^2) T)."""
    squared_step = 2.0 * lr / (1.0 + momentum)
    return squared_step, 0.5, math.sqrt(squared_step * (1.0 - momentum**2) * temperature)
