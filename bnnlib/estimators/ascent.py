"""Sparse linear and logistic regression by coordinate ascent: spike and slab without hidden units.

Numbers: Carbonetto and Stephens (2012, Bayesian Analysis 7, 73-108). Two classes: their logistic form, with the
bound of Jaakkola and Jordan (2000). More classes: the softmax to second order around the mean, whose curvature
diag(p) - pp' is replaced by the larger diag(p). Many settings, each on rows of its own choice, are fitted at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_TOLERANCE = 1e-3  # of probabilities, between two sweeps
_STILL = 1e-2  # of outputs
_LIKELY = 1e-2  # an input below it is visited again when the others have settled
_NOISE = 1e-3  # least standard deviation of the noise
_CURVATURE = 1e-3  # least curvature of a softmax, so that a class that is certain can still move


class Ascent(NamedTuple):
    """What `ascend` found for R settings, K outputs and p inputs; every scale as a variance but the noise's."""

    inclusion: np.ndarray  # phi (R, K, p)
    mean: np.ndarray  # of the slab (R, K, p)
    variance: np.ndarray  # of the slab (R, K, p)
    bias: np.ndarray  # (R, K)
    bias_variance: np.ndarray  # (R, K)
    noise: np.ndarray  # standard deviation (R,); 1 for labels
    evidence: np.ndarray  # lower bound on log p(y), for three classes or more its estimate; nats (R,)

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the outputs at rows x (n, p), both (R, K, n)."""
        mean = self.inclusion * self.mean
        scatter = self.inclusion * (np.square(self.mean) + self.variance) - np.square(mean)
        return mean @ x.T + self.bias[:, :, None], scatter @ np.square(x).T + self.bias_variance[:, :, None]


def ascend(
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    row_weights: np.ndarray,
    probability: np.ndarray,
    slab_scale: np.ndarray,
    order: np.ndarray,
) -> Ascent:
    """Fit all settings.

    Args:
        x: (n, p), scaled.
        y: (n,), scaled numbers, or labels from 0.
        classes: 0 for numbers.
        row_weights: (R, n); a row of weight 0 is left out.
        probability, slab_scale: lambda and sigma_0 of each setting, (R,).
        order: in which the inputs are visited, (p,); it decides which one of two copies enters.
    """
    outputs, (rows, inputs), weight = (classes if classes > 2 else 1), x.shape, row_weights[:, None, :]
    columns, squares = np.ascontiguousarray(x.T), np.square(x)
    prior, slab = np.log(probability / (1.0 - probability))[:, None], np.square(slab_scale)[:, None]
    phi = np.tile(probability[:, None, None], (1, outputs, inputs))
    mu, variance = np.zeros_like(phi), np.tile(slab[:, :, None], (1, outputs, inputs))
    bias, f = np.zeros(phi.shape[:2]), np.zeros((len(phi), outputs, rows))
    spread, noise = np.zeros_like(f), np.ones(len(phi))
    named = [1] if outputs == 1 else range(outputs)
    target = (np.stack([y == k for k in named]) if classes else y[None]).astype(float)
    likely = np.clip(2.0 * probability, _LIKELY, 0.5)[:, None, None]
    full, most = True, max(24, min(200, 40_000 // inputs))
    for sweep in range(most):
        force, omega = _quadratic(f, spread, target, noise, weight, classes)
        total = omega.sum(axis=2)
        move = force.sum(axis=2) / total
        bias += move
        f += move[:, :, None]
        force -= omega * move[:, :, None]
        precision, before = omega @ squares, (phi.copy(), f.copy())
        for j in order if full else order[np.any(phi > likely, axis=(0, 1))[order]]:
            old = phi[:, :, j] * mu[:, :, j]
            var = 1.0 / (precision[:, :, j] + 1.0 / slab)
            m = var * (force @ columns[j] + precision[:, :, j] * old)
            odds = prior + 0.5 * (np.log(var / slab) + np.square(m) / var)
            p = 1.0 / (1.0 + np.exp(-np.clip(odds, -500.0, 500.0)))
            phi[:, :, j], mu[:, :, j], variance[:, :, j] = p, m, var
            change = (p * m - old)[:, :, None] * columns[j]
            f += change
            force -= omega * change
        found = Ascent(phi, mu, variance, bias, 1.0 / total, noise, noise)
        spread = found.moments(x)[1]
        if not classes:
            residual = (weight * (np.square(target - f) + spread)).sum(axis=(1, 2))
            noise = np.sqrt(np.maximum(residual / row_weights.sum(axis=1), _NOISE**2))
        settled = np.abs(phi - before[0]).max() < _TOLERANCE and np.abs(f - before[1]).max() < _STILL
        if settled and full and sweep > 1:
            break
        full = bool(settled or sweep < 2)
    likelihood = (weight * _log_likelihood(f, spread, target, noise, classes)).sum(axis=(1, 2))
    divergence = _divergence(phi, mu, variance, probability[:, None, None], slab[:, :, None])
    return found._replace(noise=noise, evidence=likelihood - divergence)


def _quadratic(f, spread, target, noise, weight, classes) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and curvature, (R, K, n) each, of the log-likelihood's quadratic bound at the outputs f."""
    if not classes:
        omega = weight / np.square(noise)[:, None, None]
        return omega * (target - f), omega
    if f.shape[1] > 1:
        p = softmax(f)
        return weight * (target - p), weight * np.maximum(p, _CURVATURE)
    xi = np.sqrt(np.square(f) + spread) + 1e-10
    omega = weight * np.tanh(xi / 2.0) / (2.0 * xi)
    return weight * (target - 0.5) - omega * f, omega


def _log_likelihood(f, spread, target, noise, classes) -> np.ndarray:
    """Its expectation or the bound on it, row by row, (R, K, n)."""
    if not classes:
        scale = noise[:, None, None]
        return -0.5 * (np.square(target - f) + spread) / np.square(scale) - np.log(scale) - 0.5 * np.log(2 * np.pi)
    if f.shape[1] > 1:
        p = softmax(f)
        return target * np.log(p) - 0.5 * p * (1.0 - p) * spread
    xi = np.sqrt(np.square(f) + spread) + 1e-10
    return (target - 0.5) * f - xi / 2.0 - np.logaddexp(0.0, -xi)


def _divergence(phi, mu, variance, probability, slab) -> np.ndarray:
    """KL of the weights to their prior, equation (svbnn-kl), in nats (R,)."""
    in_, out = np.maximum(phi, 1e-300), np.maximum(1.0 - phi, 1e-300)
    of_indicator = phi * np.log(in_ / probability) + (1.0 - phi) * np.log(out / (1.0 - probability))
    ratio = variance / slab
    of_slab = 0.5 * (ratio + np.square(mu) / slab - 1.0 - np.log(ratio))
    return (of_indicator + phi * of_slab).sum(axis=(1, 2))


def softmax(f: np.ndarray) -> np.ndarray:
    """Probabilities along the second axis, nowhere 0."""
    e = np.exp(f - f.max(axis=1, keepdims=True))
    return np.maximum(e / e.sum(axis=1, keepdims=True), 1e-12)
