"""The optimizer of Ke and Fan (2023), section 2, one pure function an equation, and what the lesson derives beside.

A weight has the prior N(0, 1 / delta) and the posterior N(mu, sigma^2). Two units occur. The estimators (2) of the
paper are in nats of all N observations. The optimizer works with the mean loss: a weight decay `wd` stands for the
prior precision delta / N, the preconditioner tau^2 = 1 / s^2 for the curvature of the mean loss, and the posterior's
standard deviation is proportional to the temperature T, which N^(-1/2) makes the one of all N observations.
"""

import math

import numpy as np
import torch
from scipy import special
from torch import Tensor

from bnnlib.functional import injected_scale
from bnnlib.functional.adaptive_variational import ALPHAS, ESTIMATORS

Number = float | Tensor


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


def learned_scale(curvature: float, num_data: float, weight_decay: float = 0.0, noise_factor: float = 1.0) -> float:
    """Standard deviation at which the learned scale rests, equation (avo-fixed-scale), while tau is below 1.

    Args:
        curvature: h of the mean loss.
        num_data: N.
        weight_decay: omega.
        noise_factor: kappa, 1 for draws of q and sqrt(2 + 2 beta^2) for the chain.
    """
    return 1.0 / math.sqrt(num_data * (noise_factor * curvature + weight_decay))


def expected_curvature(
    gradients: Tensor, noise: Tensor | None = None, scale: Number | None = None, estimator: str = "squared"
) -> Tensor:
    """Estimate of the mean curvature E[-d^2 log p(D | w) / dw^2] over the draws, equation (avo-curvature).

    "squared" is (1 / S) sum g_i^2: not negative, and right where the Fisher information stands for the curvature.
    "stein" is (1 / S) sum g_i eps_i / sigma with w_i = mu + sigma eps_i: unbiased, and of either sign.

    Args:
        gradients: g_i of -log p, shape (S, ...); gradients of a mean loss give the curvature of that loss.
        noise: eps_i, shape (S, ...), and scale: sigma, of the draws; needed by "stein" alone.
        estimator: "squared" or "stein".

    Raises:
        ValueError: unknown estimator, or "stein" without noise and scale.

    Example:
        >>> expected_curvature(torch.tensor([[1.0], [3.0]]))
        tensor([5.])
    """
    if estimator not in ESTIMATORS:
        raise ValueError(f"estimator is {estimator!r}, but it must be one of {', '.join(map(repr, ESTIMATORS))}.")
    if estimator == "squared":
        return gradients.square().mean(dim=0)
    if noise is None or scale is None:
        raise ValueError("estimator 'stein' needs noise and scale: the eps and sigma with which the draws were made.")
    return (gradients * noise).mean(dim=0) / scale


def elbo_variance_gradient(curvature: Tensor, variance: Tensor, prior_precision: Number) -> Tensor:
    """Estimate of the ELBO's gradient in Sigma = diag(sigma^2), equation (avo-variance-gradient), (2) of the paper.

    Args:
        curvature: of -log p in nats, from `expected_curvature`.
        variance: sigma^2.
        prior_precision: delta.

    Returns:
        -curvature / 2 + 1 / (2 sigma^2) - delta / 2, to be climbed; 0 at 1 / sigma^2 = curvature + delta.

    Example:
        >>> elbo_variance_gradient(torch.tensor([4.0]), torch.tensor([0.2]), prior_precision=1.0)
        tensor([0.])
    """
    return 0.5 * (variance.reciprocal() - curvature - prior_precision)


def elbo_mean_hessian(curvature: Tensor, prior_precision: Number) -> Tensor:
    """Diagonal of the Hessian of the ELBO in mu, -curvature - delta, equation (avo-hessian).

    The paper prints it without the minus, which is the Hessian of -ELBO.

    Example:
        >>> elbo_mean_hessian(torch.tensor([4.0]), prior_precision=1.0)
        tensor([-5.])
    """
    return -curvature - prior_precision


def mean_step(mean: Tensor, variance: Tensor, gradient: Tensor, lr: Number, alpha: float = 0.5) -> Tensor:
    """mu - lr (sigma^2)^alpha gradient, the proximal step of equation (avo-mean-step), section 2.2 of the paper.

    It minimizes <gradient, mu'> + (mu' - mu)^2 / (2 lr (sigma^2)^alpha) over mu'.

    Args:
        mean, variance: mu and sigma^2.
        gradient: of -ELBO, to be descended, or its momentum.
        lr: l_t, positive.
        alpha: 0.5 or 1.

    Raises:
        ValueError: alpha is outside the family.

    Example:
        >>> mean_step(torch.tensor([1.0]), torch.tensor([0.04]), torch.tensor([2.0]), lr=0.1)
        tensor([0.9600])
    """
    if alpha not in ALPHAS:
        raise ValueError(
            f"alpha is {alpha!r}, but the family has 0.5, the square root of an adaptive optimizer such as Adam, and "
            "1, the natural gradient."
        )
    return mean - lr * variance**alpha * gradient


def precision_step(
    precision: Tensor,
    curvature: Tensor,
    prior_precision: Number,
    num_data: Number,
    rate: float,
    forgetting: float = 1.0,
) -> Tensor:
    """1 / s_t^2 = (1 - lambda gamma) / s_(t-1)^2 + gamma (curvature + delta / N), equation (avo-precision-step).

    Its fixed point is (curvature + delta / N) / lambda. With the curvature of a mean loss lambda = 1 gives the
    precision of one observation's share, and lambda = 1 / N that of the posterior.

    Args:
        precision: 1 / s^2 before the step.
        curvature: of the mean loss; the paper writes [g g], the estimator "squared" of `expected_curvature`.
        prior_precision: delta, and num_data: N.
        rate: gamma, between 0 and 1.
        forgetting: lambda.

    Example:
        >>> precision_step(torch.tensor(1.0), torch.tensor(3.0), 1.0, num_data=100, rate=0.5)
        tensor(2.0050)
    """
    return (1.0 - forgetting * rate) * precision + rate * (curvature + prior_precision / num_data)


def posterior_scale(tau: Tensor, lr: Number, temperature: float) -> Tensor:
    """sigma = tau T l^(3/4), the standard deviation that the code's noise stands for, equation (avo-scale).

    Example:
        >>> posterior_scale(torch.tensor(0.5), lr=0.01, temperature=1.0)
        tensor(0.0158)
    """
    return tau * (temperature * lr**0.75)


def scale_gradient(
    tau: Tensor,
    gradient: Tensor,
    noise: Tensor,
    lr: float,
    temperature: float,
    weight_decay: Number,
    num_data: float,
) -> Tensor:
    """Gradient in tau of the objective that the code descends for its scale, equation (avo-scale-gradient).

    T^2 l^(3/2) wd tau + T l^(3/4) noise * gradient - 1 / (N tau): of E[loss + wd w^2 / 2] - (1 / N) log tau under
    w = mu + tau T l^(3/4) noise, with one draw.

    Args:
        tau: in (0, 1).
        gradient: of the mean loss at the drawn weights.
        noise: standard normal, with which they were drawn.
        lr: l; the code's C is its square root.
        temperature: T; weight_decay: wd = delta / N; num_data: N.

    Example:
        >>> tau = torch.tensor(0.5)
        >>> scale_gradient(tau, tau, tau, lr=0.01, temperature=1.0, weight_decay=5e-4, num_data=1000).shape
        torch.Size([])
    """
    spread = temperature * lr**0.75
    return spread**2 * weight_decay * tau + spread * noise * gradient - 1.0 / (num_data * tau)


def scale_step(dual: Tensor, gradient: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """Mirror descent rho <- rho - eta gradient, tau = sigmoid(rho), equation (avo-mirror-step).

    The gradient is in tau and moves its dual variable rho = log(tau / (1 - tau)), so that tau stays inside (0, 1).

    Returns:
        The new rho and tau.

    Example:
        >>> dual, tau = scale_step(torch.tensor(0.0), torch.tensor(1.0), rate=0.1)
        >>> tau
        tensor(0.4750)
    """
    dual = dual - rate * gradient
    return dual, torch.sigmoid(dual)


def momentum_step(
    momentum: Tensor,
    gradient: Tensor,
    weight: Tensor,
    noise: Tensor,
    lr: float,
    decay: float,
    weight_decay: Number,
    temperature: float,
) -> Tensor:
    """beta m - l (gradient + wd w) + sqrt(2 + 2 beta^2) l^(3/4) T noise, equation (avo-momentum-step).

    The weight then moves by tau m (alpha = 1 / 2).

    Args:
        momentum: m before the step.
        gradient: of the mean loss at `weight`.
        noise: standard normal.
        lr: l; decay: beta; weight_decay: wd; temperature: T.

    Example:
        >>> zero, one = torch.tensor(0.0), torch.tensor(1.0)
        >>> momentum_step(zero, one, one, zero, lr=0.1, decay=0.9, weight_decay=0.5, temperature=1.0)
        tensor(-0.1500)
    """
    force = gradient + weight_decay * weight
    return decay * momentum - lr * force + injected_scale(lr, decay, temperature) * noise
