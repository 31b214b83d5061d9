"""Exercises of the chapter on foundations."""

import math

import torch
from torch import Tensor

from book.display.exercises.registry import Case, Exercise

_IMAGES, _DECAY = 50_000, 5e-4
_OBSERVATIONS, _WEIGHT, _PRIOR = 100, 0.3, 0.1  # of the orthogonal input
_DENSE, _VALUES, _STARTS = 4 * 1_000**2, 4 * 100_000, 4 * 1_001  # bytes


def _covariances() -> list[tuple[Tensor]]:
    generator = torch.Generator().manual_seed(54)
    cases = []
    for p in (2, 5):
        factor = torch.randn(p, p, generator=generator, dtype=torch.float64)
        cases.append((factor @ factor.T + 0.3 * torch.eye(p, dtype=torch.float64),))
    return cases


def _known_well() -> list[tuple[Tensor]]:
    p = 300
    return [(1e-6 * (torch.eye(p, dtype=torch.float64) + 0.5),)]


def _lonely():
    from chapters.foundations.regression import Gaussian, mean_field_gaussian

    return lambda covariance: mean_field_gaussian(Gaussian(torch.zeros_like(covariance[0]), covariance)).scale


def _gap():
    def gap(covariance: Tensor) -> Tensor:
        precision = torch.linalg.inv(covariance)
        return 0.5 * (precision.diagonal().log().sum() + torch.logdet(covariance))

    return gap


def _probability(
    precision: float = _OBSERVATIONS + 1, prior: float = _PRIOR, width: bool = True, mean: float | None = None
) -> float:
    mean = _OBSERVATIONS * _WEIGHT / precision if mean is None else mean
    odds = math.log(prior / (1 - prior)) + 0.5 * mean**2 * precision
    return 1 / (1 + math.exp(-odds + 0.5 * math.log(precision) * width))


EXERCISES = [
    Exercise(
        id="fnd-1",
        kind="number",
        reference=lambda: 1 / math.sqrt(_IMAGES * _DECAY),
        hint="The gradient of -log prior over n is theta / (n sd^2).",
        mistakes={
            lambda: 1 / math.sqrt(_DECAY): "the loss is a mean, so the prior is divided by the number of images.",
            lambda: 1 / (_IMAGES * _DECAY): "this is the variance.",
            lambda: 1 / math.sqrt(2 * _IMAGES * _DECAY): "there is no factor 2: PyTorch adds decay times theta to the "
            "gradient, which is the slope of decay times theta^2 / 2.",
            lambda: float(_IMAGES * _DECAY): "this is the precision of the prior: one over its variance.",
            lambda: math.sqrt(_IMAGES * _DECAY): "upside down: a strong decay is a narrow prior.",
        },
        stub="images, weight_decay = 50_000, 5e-4\nanswer = ...  # standard deviation of the prior",
    ),
    Exercise(
        id="fnd-2",
        kind="function",
        reference=_lonely,
        hint="Invert the covariance, and look at its diagonal.",
        mistakes={
            lambda covariance: covariance.diagonal().sqrt(): "these are the exact standard deviations.",
            lambda covariance: 1 / torch.linalg.inv(covariance).diagonal(): "these are variances.",
            lambda covariance: torch.linalg.inv(covariance).diagonal().sqrt(): "upside down: a large precision is a "
            "small standard deviation.",
            lambda covariance: covariance.diagonal().rsqrt(): "the precision matrix is the inverse of the whole "
            "covariance, not of each entry.",
        },
        by_hand=Case(
            "first standard deviation for the covariance [[4, 1.2], [1.2, 1]]", ([[4.0, 1.2], [1.2, 1.0]],), (0,)
        ),
        cases=_covariances,
        stub="def answer(covariance):\n"
        "    # covariance (p, p) of a normal posterior\n"
        "    ...  # standard deviations (p,) of the best independent normals",
    ),
    Exercise(
        id="fnd-3",
        kind="function",
        reference=_gap,
        hint="The gap compares the precision's determinant with the product of its diagonal, in logarithms.",
        mistakes={
            lambda covariance: -_gap()(covariance): "the sign: a divergence is not negative.",
            lambda covariance: 2 * _gap()(covariance): "the half is missing.",
            lambda covariance: 0.5 * (covariance.diagonal().log().sum() - torch.logdet(covariance)): "this is "
            "the divergence the other way, from the posterior to independent normals.",
            lambda covariance: (
                0.5 * (torch.linalg.inv(covariance).diagonal().log().sum() - torch.logdet(covariance))
            ): "the sign of the second term: log det of the precision is minus that of the covariance.",
            lambda covariance: (
                0.5 * (torch.linalg.inv(covariance).diagonal() * covariance.diagonal()).log().sum()
            ): "log det is not the sum of the logs of the diagonal: the weights depend on each other.",
        },
        by_hand=Case("the gap in nats for the covariance [[4, 1.2], [1.2, 1]]", ([[4.0, 1.2], [1.2, 1.0]],)),
        cases=_covariances,
        stress={
            _known_well: "the determinant of hundreds of small numbers is 0 "
            "in a computer, and that of large ones infinite: use torch.logdet."
        },
        stub="def answer(covariance):\n"
        "    # covariance (p, p) of a normal posterior\n"
        "    ...  # least KL(q || posterior) over independent normals q, in nats",
    ),
    Exercise(
        id="fnd-4",
        kind="number",
        reference=_probability,
        hint="Alone, the slab has the precision 100 + 1; its mean and variance go into the formula for logit phi.",
        mistakes={
            lambda: _probability(prior=0.5): "the coin is missing: heads were rare beforehand.",
            lambda: _probability(width=False): "log(sigma / sigma_0) is missing: the slab pays for its width.",
            lambda: _probability(mean=_WEIGHT): "the slab pulls the least-squares weight towards zero: its mean is "
            "100 * 0.3 / 101.",
            lambda: _probability(precision=_OBSERVATIONS): "the slab's own precision is missing: 100 + 1.",
            lambda: _probability(prior=_PRIOR / (1 + _PRIOR)): "the prior odds are lambda / (1 - lambda), not lambda.",
            lambda: 1 - _probability(): "this is the probability that it is not needed.",
            lambda: math.log(_probability() / (1 - _probability())): "these are the log-odds.",
        },
        stub="observations, weight = 100, 0.3  # noise and slab of variance 1\n"
        "prior = 0.1\n"
        "answer = ...  # inclusion probability",
    ),
    Exercise(
        id="fnd-5",
        kind="choice",
        reference=lambda: "b",
        hint="One of them is a strictly proper score.",
        options={
            "a": "the base rate is calibrated: it happens as often as it is stated.",
            "b": "its expectation is lowest for the true probabilities; who states the base rate alone loses by it.",
            "c": "this is calibration again, in other words.",
        },
        stub='answer = ...  # "a", "b" or "c"',
    ),
    Exercise(
        id="fnd-6",
        kind="number",
        reference=lambda: 1_000 / 9,
        hint="Sum the geometric series of 0.8, and count it twice.",
        mistakes={
            lambda: 200.0: "1 + 0.8 + 0.64 + ... counts each lag once: correlations reach into both directions.",
            lambda: 1_000 / 2.6: "lags beyond the first count too.",
            lambda: 9_000.0: "upside down: a chain with a memory is worth less than its length.",
            lambda: 800.0: "this is the autocorrelation times the number of steps.",
        },
        stub="steps, step_times_curvature = 1_000, 0.2\nanswer = ...  # effective draws",
    ),
    Exercise(
        id="fnd-7",
        kind="number",
        reference=lambda: _DENSE / (2 * _VALUES + _STARTS),
        hint="Count all three arrays of the sparse format.",
        mistakes={
            lambda: 10.0: "the positions have to be stored as well.",
            lambda: _DENSE / (_VALUES + _STARTS): "every value needs its column number.",
            lambda: _DENSE / (2 * _VALUES): "the row starts are missing.",
            lambda: (2 * _VALUES + _STARTS) / _DENSE: "upside down: the dense file is the larger one.",
        },
        stub="rows, columns, share_left = 1_000, 1_000, 0.1\nanswer = ...  # bytes dense over bytes sparse",
    ),
]
