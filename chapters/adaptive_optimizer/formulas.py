"""What the lesson derives beyond the library: early steps, signal over noise, the chain's temperature and scale."""

from __future__ import annotations

import math

import numpy as np
from scipy import special


def squared_gradient(mean: float, variance: float, batch_size: int) -> float:
    """Expected square of a mini-batch gradient, equation (avo-squared).

    Args:
        mean: of the gradients of single observations.
        variance: of the same.
        batch_size: B, drawn with replacement.
    """
    return mean**2 + variance / batch_size


def early_variance(steps: np.ndarray) -> np.ndarray:
    """Variance of 1 / sqrt(v_t) for v_t the mean of t squared standard normals.

    Args:
        steps: t, whole numbers from 1.

    Returns:
        The variances; infinite for t <= 2.
    """
    t = np.asarray(steps, dtype=float)
    safe = np.maximum(t, 3.0)
    ratio = np.exp(special.gammaln(0.5 * (safe - 1.0)) - special.gammaln(0.5 * safe))
    return np.where(t > 2, safe / (safe - 2.0) - 0.5 * safe * ratio**2, np.inf)


def signal_to_noise(lr: float, gradient: float, scale: float, alpha: float) -> float:
    """Size of a step over the standard deviation of its noise, before the momentum form.

    Args:
        lr: l.
        gradient: m, the momentum of the gradient.
        scale: sigma, standard deviation of the posterior before and after the step.
        alpha: 0.5 or 1.
    """
    return lr * scale ** (2.0 * alpha - 1.0) * abs(gradient) / math.sqrt(2.0)


def momentum_signal_to_noise(lr: float, gradient: float, momentum: float, temperature: float) -> float:
    """The same of the momentum form.

    Args:
        lr: l.
        gradient: g of the mean loss.
        momentum: beta.
        temperature: T.
    """
    return lr**0.25 * abs(gradient) / (math.sqrt(2.0 + 2.0 * momentum**2) * temperature)


def chain_temperature(num_data: float, temperature: float, tau: float, lr: float, momentum: float) -> float:
    """Temperature T' at which the momentum form samples the posterior, equation (avo-temperature).

    Args:
        num_data: N.
        temperature: T, the factor of the noise.
        tau: held fixed.
        lr: l.
        momentum: beta.
    """
    return num_data * temperature**2 * tau * math.sqrt(lr) * (1.0 + momentum**2) / (1.0 - momentum)


def learned_scale(curvature: float, num_data: float, weight_decay: float = 0.0, noise_factor: float = 1.0) -> float:
    """Standard deviation at which the learned scale rests, equation (avo-fixed-scale), while tau is below 1.

    Args:
        curvature: h of the mean loss.
        num_data: N.
        weight_decay: omega.
        noise_factor: kappa, 1 for draws of q and sqrt(2 + 2 beta^2) for the chain.
    """
    return 1.0 / math.sqrt(num_data * (noise_factor * curvature + weight_decay))
