"""Sparse linear and logistic regression by coordinate ascent: spike and slab without hidden units.

Numbers: Carbonetto and Stephens (2012, Bayesian Analysis 7, 73-108). Two classes: their logistic form, with the
bound of Jaakkola and Jordan (2000). More classes: the softmax to second order around the mean, whose curvature
diag(p) - pp' is replaced by the larger diag(p). Inputs of a group share one indicator, and their weights, given it, are
found together. Many settings are fitted at once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from bnnlib.estimators.rows import Rows

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
    noise: np.ndarray  # standard deviation (R, K); 1 for labels
    evidence: np.ndarray  # lower bound on log p(y), for three classes or more its estimate; nats (R,)

    def moments(self, x: np.ndarray, groups: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the outputs at rows x (n, p), both (R, K, n), with the columns of the groups."""
        mean = self.inclusion * self.mean
        scatter = self.inclusion * (np.square(self.mean) + self.variance) - np.square(mean)
        spread = scatter @ np.square(x).T + self.bias_variance[:, :, None]
        for some in groups:
            if len(some) > 1:  # one indicator: the slab's means vary together
                phi, mu = self.inclusion[:, :, some[:1]], self.mean[:, :, some]
                apart = np.square(mu) @ np.square(x[:, some]).T
                spread = spread + phi * (1.0 - phi) * (np.square(mu @ x[:, some].T) - apart)
        return mean @ x.T + self.bias[:, :, None], spread


def ascend(
    given: Rows, probability: np.ndarray, slab_scale: np.ndarray, order: np.ndarray, groups: Sequence[np.ndarray]
) -> Ascent:
    """Fit R settings, lambda and sigma_0 (R,), to scaled rows.

    Args:
        order: in which the groups are visited, (groups,); it decides which one of two copies enters.
        groups: columns of each group, every column in one.
    """
    (x, y, classes, weight), outputs, (rows, inputs) = given, given.outputs, given.x.shape
    columns, squares = np.ascontiguousarray(x.T), np.square(x)
    prior, slab = np.log(probability / (1.0 - probability))[:, None], np.square(slab_scale)[:, None]
    phi = np.tile(probability[:, None, None], (1, outputs, inputs))
    mu, variance = np.zeros_like(phi), np.tile(slab[:, :, None], (1, outputs, inputs))
    bias, f = np.zeros(phi.shape[:2]), np.zeros((len(phi), outputs, rows))
    spread, noise = np.zeros_like(f), np.ones(phi.shape[:2])
    named = [1] if outputs == 1 else range(outputs)
    target = (np.stack([y == k for k in named]) if classes else y.reshape(rows, outputs).T).astype(float)
    likely = np.clip(2.0 * probability, _LIKELY, 0.5)[:, None, None]
    full, most = True, max(24, min(200, 40_000 // inputs))
    first = np.array([some[0] for some in groups])
    for sweep in range(most):
        force, omega = _quadratic(f, spread, target, noise, weight, classes)
        total = omega.sum(axis=2)
        move = force.sum(axis=2) / total
        bias += move
        f += move[:, :, None]
        force -= omega * move[:, :, None]
        precision, before = omega @ squares, (phi.copy(), f.copy())
        for number in order if full else order[np.any(phi > likely, axis=(0, 1))[first[order]]]:
            j = first[number]
            if len(groups[number]) > 1:
                some = groups[number]
                old = phi[:, :, some] * mu[:, :, some]
                p, mu[:, :, some], variance[:, :, some] = _joint(x[:, some], force, omega, old, prior, slab)
                phi[:, :, some] = p[:, :, None]
                change = (p[:, :, None] * mu[:, :, some] - old) @ x[:, some].T
                f += change
                force -= omega * change
                continue
            old = phi[:, :, j] * mu[:, :, j]
            var = 1.0 / (precision[:, :, j] + 1.0 / slab)
            m = var * (force @ columns[j] + precision[:, :, j] * old)
            odds = prior + 0.5 * (np.log(var / slab) + np.square(m) / var)
            p = 1.0 / (1.0 + np.exp(-np.clip(odds, -500.0, 500.0)))
            phi[:, :, j], mu[:, :, j], variance[:, :, j] = p, m, var
            change = (p * m - old)[:, :, None] * columns[j]
            f += change
            force -= omega * change
        fit = Ascent(phi, mu, variance, bias, 1.0 / total, noise, noise)
        spread = fit.moments(x, groups)[1]
        if not classes:
            residual = (weight * (np.square(target - f) + spread)).sum(axis=2)
            noise = np.sqrt(np.maximum(residual / weight.sum(), _NOISE**2))
        settled = np.abs(phi - before[0]).max() < _TOLERANCE and np.abs(f - before[1]).max() < _STILL
        if settled and full and sweep > 1:
            break
        full = bool(settled or sweep < 2)
    likelihood = (weight * _log_likelihood(f, spread, target, noise, classes)).sum(axis=(1, 2))
    divergence = _divergence(phi, mu, variance, probability[:, None, None], slab[:, :, None], first)
    return fit._replace(noise=noise, evidence=likelihood - divergence)


def _joint(x, force, omega, old, prior, slab) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """phi (R, K) of the group of columns x (n, q), and the slab's means and variances (R, K, q).

    Given the indicator, the factorized normal distribution of the q weights has the mean of the exact one.
    """
    precision = np.stack([(omega * column) @ x for column in x.T], axis=-2)
    linear = (force @ x) + (precision @ old[..., None])[..., 0]
    posterior = precision + np.eye(x.shape[1]) / slab[..., None, None]
    m = np.linalg.solve(posterior, linear[..., None])[..., 0]
    var = 1.0 / np.diagonal(posterior, axis1=-2, axis2=-1)
    odds = prior + 0.5 * (np.log(var / slab[..., None]) + m * linear).sum(axis=-1)
    return 1.0 / (1.0 + np.exp(-np.clip(odds, -500.0, 500.0))), m, var


def _quadratic(f, spread, target, noise, weight, classes) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and curvature, (R, K, n) each, of the log-likelihood's quadratic bound at the outputs f."""
    if not classes:
        omega = weight / np.square(noise)[:, :, None]
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
        scale = noise[:, :, None]
        return -0.5 * (np.square(target - f) + spread) / np.square(scale) - np.log(scale) - 0.5 * np.log(2 * np.pi)
    if f.shape[1] > 1:
        p = softmax(f)
        return target * np.log(p) - 0.5 * p * (1.0 - p) * spread
    xi = np.sqrt(np.square(f) + spread) + 1e-10
    return (target - 0.5) * f - xi / 2.0 - np.logaddexp(0.0, -xi)


def _divergence(phi, mu, variance, probability, slab, first) -> np.ndarray:
    """KL of the weights to their prior, equation (svbnn-kl), in nats (R,); a group has one indicator."""
    in_, out = np.maximum(phi, 1e-300), np.maximum(1.0 - phi, 1e-300)
    of_indicator = phi * np.log(in_ / probability) + (1.0 - phi) * np.log(out / (1.0 - probability))
    ratio = variance / slab
    of_slab = 0.5 * (ratio + np.square(mu) / slab - 1.0 - np.log(ratio))
    counted = np.zeros(phi.shape[2])
    counted[first] = 1.0
    return (counted * of_indicator + phi * of_slab).sum(axis=(1, 2))


def softmax(f: np.ndarray) -> np.ndarray:
    """Probabilities along the second axis, nowhere 0."""
    return np.maximum(special.softmax(f, axis=1), 1e-12)
