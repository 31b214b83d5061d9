"""Measures of generated samples by their features: how near in law, how lifelike, how complete.

The features are those of a classifier of one's own. A Fréchet distance of them is no "FID", which is one of a certain
Inception network, and numbers of different classifiers do not compare. Each measure comes with a bootstrap standard
error: that of the samples, with the classifier held fixed.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bnnlib._checks import check_count
from bnnlib.metrics._arguments import check_distributions, check_finite

_ROWS = 1000  # of a block of distances: 1,000 x 10,000 of float64 are 80 MB


class Estimate(NamedTuple):
    """A measure and its bootstrap standard error; None where no resampling was asked for."""

    value: float
    standard_error: float | None


def bootstrap_error(
    statistic: Callable[..., float], *samples: Tensor, repeats: int = 100, generator: torch.Generator | None = None
) -> float | None:
    """Standard deviation of a statistic over samples that are drawn again from their own rows, each independently.

    Args:
        statistic: of as many tensors as there are samples.
        samples: rows first.
        repeats: at least 2, or 0 for None.
        generator: on the CPU; None means PyTorch's global one.
    """
    if not check_count("repeats", repeats, 0):
        return None
    check_count("repeats", repeats, 2)
    values = []
    for _ in range(repeats):
        rows = [torch.randint(len(one), (len(one),), generator=generator).to(one.device) for one in samples]
        values.append(statistic(*(one[index] for one, index in zip(samples, rows, strict=True))))
    return float(torch.tensor(values, dtype=torch.float64).std())


def frechet_distance(
    real: Tensor, generated: Tensor, *, repeats: int = 100, generator: torch.Generator | None = None
) -> Estimate:
    """Squared Wasserstein distance of two Gaussians with the features' moments, equation (imh-frechet).

    |m - m'|^2 + tr(S + S' - 2 (S S')^(1/2)). From few samples it comes out too large: compare equal numbers.

    Args:
        real, generated: features, shapes (n, d) and (m, d), both more than one row.
        repeats, generator: of the bootstrap, see `bootstrap_error`.

    Raises:
        ValueError: the shapes do not fit, or an entry is not finite.
    """
    _check_features(real, generated, 2)
    real, generated = real.double(), generated.double()
    return Estimate(
        _frechet(real, generated), bootstrap_error(_frechet, real, generated, repeats=repeats, generator=generator)
    )


def _frechet(real: Tensor, generated: Tensor) -> float:
    root = _root(_covariance(real))
    other = _covariance(generated)
    shift = (real.mean(dim=0) - generated.mean(dim=0)).square().sum()
    product = torch.linalg.eigvalsh(root @ other @ root).clamp_min(0.0).sqrt().sum()
    return float(shift + root.square().sum() + other.trace() - 2.0 * product)


def _covariance(features: Tensor) -> Tensor:
    return torch.cov(features.T).reshape(features.shape[1], features.shape[1])


def _root(covariance: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.clamp_min(0.0).sqrt()) @ vectors.T


def classifier_score(
    probabilities: Tensor, *, repeats: int = 100, generator: torch.Generator | None = None
) -> Estimate:
    """exp of the mean of KL(p(c | x) || p(c)), equation (imh-score): the inception score of another classifier.

    From 1, where the classifier says the same of every sample, to the number of classes. Real samples miss that number
    by what the classifier is unsure of, and a generator of one sure image a class reaches it.

    Args:
        probabilities: shape (n, classes), rows sum to 1.
        repeats, generator: of the bootstrap, see `bootstrap_error`.

    Raises:
        ValueError: the shape is not (n, classes), or a row is not a distribution.
    """
    check_distributions(probabilities)
    table = probabilities.double()
    return Estimate(_score(table), bootstrap_error(_score, table, repeats=repeats, generator=generator))


def _score(table: Tensor) -> float:
    marginal = torch.special.entr(table.mean(dim=0)).sum()
    return float((marginal - torch.special.entr(table).sum(dim=1).mean()).exp())


def precision_recall(
    real: Tensor,
    generated: Tensor,
    neighbors: int = 3,
    *,
    repeats: int = 100,
    generator: torch.Generator | None = None,
) -> tuple[Estimate, Estimate]:
    """Improved precision and recall (Kynkäänniemi et al., 2019), in percent, equation (imh-precision).

    Precision is the share of generated samples in a ball around some real one that reaches to its k-th neighbor among
    the real ones; recall the same with the parts exchanged: what the generator leaves out lowers it.

    Args:
        real, generated: features, shapes (n, d) and (m, d), more than `neighbors` rows each. Compare equal numbers.
        neighbors: k; 3 in the paper.
        repeats, generator: of the bootstrap of the shares, with the balls held fixed.

    Raises:
        ValueError: the shapes do not fit, or an entry is not finite.
    """
    _check_features(real, generated, check_count("neighbors", neighbors) + 1)
    real, generated = real.double(), generated.double()
    inside = _counts(generated, real, _radii(real, neighbors)) > 0
    found = _counts(real, generated, _radii(generated, neighbors)) > 0
    return _share(inside, repeats, generator), _share(found, repeats, generator)


def density_coverage(
    real: Tensor,
    generated: Tensor,
    neighbors: int = 5,
    *,
    repeats: int = 100,
    generator: torch.Generator | None = None,
) -> tuple[Estimate, Estimate]:
    """Density, a ratio, and coverage, in percent (Naeem et al., 2020), equation (imh-density).

    Density is how many real balls a generated sample lies in, divided by k: 1 on the average if both have one law, and
    more where samples crowd. Coverage is the share of real balls with a generated sample.

    Args:
        real, generated, repeats, generator: as for `precision_recall`.
        neighbors: k; 5 in the paper.

    Raises:
        ValueError: the shapes do not fit, or an entry is not finite.
    """
    _check_features(real, generated, check_count("neighbors", neighbors) + 1)
    real, generated = real.double(), generated.double()
    radii = _radii(real, neighbors)
    density = _counts(generated, real, radii).double() / neighbors
    reached = _nearest(real, generated) <= radii
    return _average(density, repeats, generator), _share(reached, repeats, generator)


def _share(inside: Tensor, repeats: int, generator: torch.Generator | None) -> Estimate:
    return _average(100.0 * inside.double(), repeats, generator)


def _average(values: Tensor, repeats: int, generator: torch.Generator | None) -> Estimate:
    return Estimate(
        float(values.mean()),
        bootstrap_error(lambda rows: float(rows.mean()), values, repeats=repeats, generator=generator),
    )


def _blocks(rows: Tensor, others: Tensor):
    center = others.mean(dim=0)  # distances by products lose digits far from the origin
    others = others - center
    for part in rows.split(_ROWS):
        yield torch.cdist(part - center, others, compute_mode="use_mm_for_euclid_dist")


def _radii(features: Tensor, neighbors: int) -> Tensor:
    radii, start = [], 0
    for distances in _blocks(features, features):
        count = len(distances)
        itself = torch.arange(count, device=features.device)
        distances[itself, start + itself] = float("inf")
        radii.append(distances.kthvalue(neighbors, dim=1).values)
        start += count
    return torch.cat(radii)


def _counts(points: Tensor, centers: Tensor, radii: Tensor) -> Tensor:
    """In how many balls each point lies."""
    return torch.cat([(distances <= radii).sum(dim=1) for distances in _blocks(points, centers)])


def _nearest(points: Tensor, others: Tensor) -> Tensor:
    return torch.cat([distances.min(dim=1).values for distances in _blocks(points, others)])


def _check_features(real: Tensor, generated: Tensor, least: int) -> None:
    if real.dim() != 2 or generated.dim() != 2 or real.shape[1] != generated.shape[1]:
        raise ValueError(
            f"real has shape {tuple(real.shape)} and generated {tuple(generated.shape)}, but they must be (n, d) and "
            "(m, d): features of one classifier. Flatten what is left of images."
        )
    if min(len(real), len(generated)) < least or real.shape[1] == 0:
        raise ValueError(
            f"there are {len(real)} real and {len(generated)} generated rows of {real.shape[1]} features, but at least "
            f"{least} rows of one feature are needed. Generate more."
        )
    check_finite("real", real)
    check_finite("generated", generated)
