"""Exercises of the chapter on Stochastic Batch Normalization."""

from __future__ import annotations

import math

import torch

from book.display.exercises.registry import Exercise

_LIKELIHOODS = (0.9, 0.4)  # of the right label under two equally likely batches
_X, _VARIANCE = 2.0, 3.0
_DRAWS, _BATCH = 50, 128


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _matched():
    from bnnlib.functional import matched_moments

    return lambda means, log_scales: torch.stack(matched_moments(means, log_scales, unbiased=False))


def _matched_cases() -> list[tuple]:
    generator = _generator(60)
    shapes = ((20, 3), (5, 1), (200, 4))
    return [tuple(torch.randn(2, *shape, generator=generator, dtype=torch.float64)) for shape in shapes]


def _gap() -> float:
    average = sum(_LIKELIHOODS) / 2
    return math.log(average) - sum(map(math.log, _LIKELIHOODS)) / 2


def _phi(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _averaged() -> float:
    """The average over r(mu) by Gauss-Hermite quadrature, which is not how the reader is asked to find it."""
    node, weight = _hermite()
    return sum(w * _phi(_X - math.sqrt(_VARIANCE) * z) for z, w in zip(node, weight, strict=True))


def _hermite() -> tuple[list[float], list[float]]:
    """Nodes and weights for the standard normal, exact up to degree 119."""
    import numpy as np

    node, weight = np.polynomial.hermite_e.hermegauss(60)
    return node.tolist(), (weight / math.sqrt(2 * math.pi)).tolist()


def _followed():
    from bnnlib.functional import moment_weights, welford_update_

    def follow(values: torch.Tensor, momentum: float) -> torch.Tensor:
        mean, variance = torch.zeros_like(values[0]), torch.zeros_like(values[0])
        for count, value in enumerate(values, start=1):
            welford_update_(mean, variance, value, moment_weights(count, momentum))
        return torch.stack([mean, variance])

    return follow


def _followed_cases() -> list[tuple]:
    generator = _generator(61)
    small, long = (torch.randn(number, generator=generator, dtype=torch.float64) for number in (3, 60))
    # with an offset of 1e8, E[m^2] and E[m]^2 agree in all their digits
    return [(small, 0.1), (long, 0.1), (long, 0.5), (long + 1e8, 0.1)]


def _copies():
    from bnnlib.functional import StatisticMoments, batch_norm, sample_statistics

    def copies(x: torch.Tensor, moments: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, scale = sample_statistics(StatisticMoments(*moments), noise)
        return batch_norm(x.expand_as(mean), mean, scale)

    return copies


def _copies_cases() -> list[tuple]:
    generator = _generator(62)
    cases = []
    for draws, features in ((4, 3), (50, 2)):
        x = 2 * torch.randn(features, generator=generator, dtype=torch.float64)
        moments = torch.rand(4, features, generator=generator, dtype=torch.float64) - torch.tensor(
            [[0.5], [0], [1], [0]]
        )
        cases.append((x, moments, torch.randn(2, draws, features, generator=generator, dtype=torch.float64)))
    return cases


def _area():
    from bnnlib.metrics import auroc

    return lambda unknown, known: torch.tensor(auroc(unknown, known), dtype=torch.float64)


def _area_cases() -> list[tuple]:
    generator = _generator(63)
    scores = torch.rand(30, generator=generator, dtype=torch.float64)
    coarse = torch.randint(4, (40,), generator=generator).double()  # many ties
    return [(scores[:20] + 0.3, scores[20:]), (coarse[:25] + 1, coarse[25:]), (torch.ones(3), torch.ones(5))]


EXERCISES = [
    Exercise(
        id="sbn-1",
        kind="function",
        reference=_matched,
        tolerance=1e-9,
        hint="KL(sample || r) is minus the mean of log r(mu) r(sigma); set its four derivatives to zero.",
        cases=_matched_cases,
        stub="def answer(means, log_scales):\n"
        "    ...  # (batches, C) each -> torch.stack([m_mu, s_mu, m_sigma, s_sigma]), the least KL for this sample",
    ),
    Exercise(
        id="sbn-2",
        kind="number",
        reference=_gap,
        hint="p(y | x) averages the probabilities; the bound averages their logarithms.",
        mistakes={
            lambda: math.log(0.65): "this is log p(y | x) itself: subtract the bound.",
            lambda: (math.log(0.9) + math.log(0.4)) / 2: "this is the bound itself: subtract it from log p(y | x).",
            lambda: 0.65 - 0.6: "take the difference of the logarithms.",
        },
        stub="p = (0.9, 0.4)  # of the right label, under two equally likely batches\n"
        "answer = ...  # log p(y | x) less its lower bound, in nats",
    ),
    Exercise(
        id="sbn-3",
        kind="number",
        reference=_averaged,
        hint="Phi(x - mu) is the probability that a standard normal stays below x - mu: add the two normals.",
        mistakes={
            lambda: _phi(_X): "this is the plug-in, p at the mean of mu.",
            lambda: _phi(_X / (1 + _VARIANCE)): "divide by the standard deviation of the sum, not by its variance.",
            lambda: _phi(_X / math.sqrt(_VARIANCE)): "the standard normal inside Phi has a variance of its own.",
        },
        stub="x, variance = 2.0, 3.0  # p(y = 1 | x, mu) = Phi(x - mu), mu ~ N(0, variance)\n"
        "answer = ...  # p(y = 1 | x)",
    ),
    Exercise(
        id="sbn-4",
        kind="function",
        reference=_followed,
        tolerance=1e-5,
        hint="Give value i of t the weight (1 - momentum)^(t - i), divided by their sum; 1 - sum w^2 unbiases.",
        cases=_followed_cases,
        stub="def answer(values, momentum):\n"
        "    ...  # torch.stack([mean, variance]) of all values, the newest with the most weight",
    ),
    Exercise(
        id="sbn-5",
        kind="choice",
        reference=lambda: "c",
        options={
            "a": "log sigma^2 = 2 log sigma: if one is normal, so is the other.",
            "b": "the square of a log-normal variable is log-normal: neither has heavier tails as a divisor.",
            "c": "log sigma^2 = 2 log sigma; only what is added to the variance, before or after, differs.",
            "d": "both are positive by construction, whatever is drawn.",
        },
        hint="Write the logarithm of sigma^2 with that of sigma.",
        stub='answer = ...  # "a", "b", "c" or "d"',
    ),
    Exercise(
        id="sbn-6",
        kind="function",
        reference=_copies,
        tolerance=1e-9,
        hint="Each copy has its own mu and sigma; sigma is the exponential of a normal draw.",
        cases=_copies_cases,
        stub="def answer(x, moments, noise):\n"
        "    ...  # x (C,), moments (4, C), noise (2, K, C) -> normalized copies (K, C), gamma = 1 and beta = 0",
    ),
    Exercise(
        id="sbn-7",
        kind="number",
        reference=lambda: float(_DRAWS * _BATCH) / _DRAWS,
        tolerance=1e-9,
        hint="A naive draw passes a whole batch, a draw of the virtual batch is one row of it.",
        mistakes={
            lambda: float(_DRAWS): "this is the ratio of passes; count the rows.",
            lambda: float(_DRAWS * _BATCH): "this is the number of naive rows: divide by those of the virtual batch.",
        },
        stub="draws, batch_size = 50, 128\nanswer = ...  # rows, naive over virtual batch, for one object",
    ),
    Exercise(
        id="sbn-8",
        kind="function",
        reference=_area,
        tolerance=1e-9,
        hint="Compare every unknown score with every known one; a tie is half a win.",
        cases=_area_cases,
        stub="def answer(unknown, known):\n    ...  # area under the ROC curve in percent, ties count half",
    ),
]
