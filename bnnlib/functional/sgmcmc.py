"""Coefficients of the stochastic-gradient Hamiltonian samplers, equations (aeb-sghmc-euler) and (aeb-baoab)."""

import math


def euler_noise_scale(lr: float, momentum: float, temperature: float, gradient_variance: float = 0.0) -> float:
    """Standard deviation of the noise of an Euler step; 0 where the gradient's own noise is more than enough."""
    if temperature == 0.0:
        return 0.0
    return math.sqrt(2.0 * lr * max(0.0, 1.0 - momentum - 0.5 * gradient_variance * lr / temperature) * temperature)


def baoab_coefficients(lr: float, momentum: float, temperature: float) -> tuple[float, float, float]:
    """(kick, drift, noise scale) of a BAOAB step: h^2, 1 / 2 and h sqrt((1 - momentum^2) T)."""
    squared_step = 2.0 * lr / (1.0 + momentum)
    return squared_step, 0.5, math.sqrt(squared_step * (1.0 - momentum**2) * temperature)
