"""Exercises of the chapter on Stochastic Batch Normalization."""

import math
from collections.abc import Callable

import torch

from book.display.exercises.registry import Case, Exercise

_LIKELIHOODS = (0.9, 0.4)  # of the right label under two equally likely batches
_X, _VARIANCE = 2.0, 3.0
_SPREAD, _BATCH = 2.0, 16


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _matched():
    from chapters.batch_statistics.formulas import matched_moments

    return lambda means, log_scales: torch.stack(matched_moments(means, log_scales, unbiased=False))


def _matched_cases() -> list[tuple]:
    generator = _generator(60)
    shapes = ((20, 3), (5, 1), (200, 4))
    return [tuple(torch.randn(2, *shape, generator=generator, dtype=torch.float64)) for shape in shapes]


def _mismatched(
    spread: Callable = lambda value: value.std(0, correction=0),
    center: Callable = lambda value: value.mean(0),
    read: Callable = lambda value: value,
    order: tuple[int, ...] = (0, 1, 2, 3),
) -> Callable:
    """The moments of sbn-5 with something changed."""

    def wrong(means, log_scales):
        scales = read(log_scales)
        found = center(means), spread(means), center(scales), spread(scales)
        return torch.stack([found[part] for part in order])

    return wrong


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


def _misfollowed(
    weigh: Callable = lambda age, momentum: (1 - momentum) ** age,
    share: Callable = lambda weight: weight / weight.sum(),
    unbias: Callable = lambda weight: 1 - (weight**2).sum(),
) -> Callable:
    """Mean and variance of sbn-7 with something changed."""

    def wrong(values, momentum):
        age = torch.arange(len(values) - 1, -1, -1, dtype=values.dtype)
        weight = share(weigh(age, momentum))
        mean = (weight * values).sum()
        return torch.stack([mean, (weight * (values - mean) ** 2).sum() / unbias(weight)])

    return wrong


def _from_zero(values: torch.Tensor, momentum: float) -> torch.Tensor:
    """Smoothing of the value and of its square as the published code has it, without correction."""
    mean = second = torch.zeros_like(values[0])
    for value in values:
        mean, second = mean.lerp(value, momentum), second.lerp(value**2, momentum)
    return torch.stack([mean, second - mean**2])


def _sequence(number: int) -> torch.Tensor:
    return torch.randn(number, generator=_generator(61), dtype=torch.float64)


def _followed_cases() -> list[tuple]:
    return [(_sequence(3), 0.1), (_sequence(60), 0.1), (_sequence(60), 0.5)]


def _offset_cases() -> list[tuple]:
    # E[v^2] and E[v]^2 agree in all their digits
    return [(_sequence(60) + 1e8, 0.1)]


def _copies():
    from bnnlib.functional import StatisticMoments, batch_norm, sample_statistics

    def copies(x: torch.Tensor, moments: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        mean, scale = sample_statistics(StatisticMoments(*moments), noise)
        return batch_norm(x.expand_as(mean), mean, scale)

    return copies


def _miscopied(
    spread: Callable = lambda value: value,
    scale: Callable = torch.exp,
    noise_of: tuple[int, int] = (0, 1),
    divide: Callable = lambda sigma: sigma,
    shared: bool = False,
    rows: tuple[int, ...] = (0, 1, 2, 3),
) -> Callable:
    """The copies of sbn-8 with something changed."""

    def wrong(x, moments, noise):
        draws = noise[:, :1].expand_as(noise) if shared else noise
        center, width, log_center, log_width = (moments[row] for row in rows)
        mu = center + spread(width) * draws[noise_of[0]]
        return (x - mu) / divide(scale(log_center + spread(log_width) * draws[noise_of[1]]))

    return wrong


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


def _misarea(tie: float) -> Callable:
    def wrong(unknown, known):
        difference = unknown[:, None] - known
        return 100 * ((difference > 0).double() + tie * (difference == 0)).mean()

    return wrong


def _area_cases() -> list[tuple]:
    generator = _generator(63)
    scores = torch.rand(30, generator=generator, dtype=torch.float64)
    coarse = torch.randint(4, (40,), generator=generator).double()  # many ties
    ones = torch.ones(5, dtype=torch.float64)
    return [(scores[:20] + 0.3, scores[20:]), (coarse[:25] + 1, coarse[25:]), (ones[:3], ones)]


EXERCISES = [
    Exercise(
        id="sbn-1",
        kind="number",
        reference=_gap,
        hint="p(y | x) averages the probabilities; the bound averages their logarithms.",
        mistakes={
            lambda: math.log(0.65): "this is log p(y | x) itself: subtract the bound.",
            lambda: (math.log(0.9) + math.log(0.4)) / 2: "this is the bound itself: subtract it from log p(y | x).",
            lambda: 0.65 - 0.6: "take the difference of the logarithms.",
        },
        stub="p = (0.9, 0.4)  # of the right label, under two equally likely batches\n"
        "answer = ...  # log p(y | x) minus its lower bound, in nats",
    ),
    Exercise(
        id="sbn-2",
        kind="number",
        reference=_averaged,
        hint="Phi(x - mu) is the probability that a standard normal stays below x - mu: add the two normals.",
        mistakes={
            lambda: _phi(_X): "this is the plug-in, p at the mean of mu.",
            lambda: _phi(_X / (1 + _VARIANCE)): "divide by the standard deviation of the sum, not by its variance.",
            lambda: _phi(_X / math.sqrt(_VARIANCE)): "the standard normal inside Phi has a variance of its own.",
            lambda: _phi(_X / math.sqrt(1 + _VARIANCE**2)): "3 is the variance of mu, not its standard deviation.",
            lambda: 1 / (1 + math.exp(-_X / math.sqrt(1 + math.pi * _VARIANCE / 8))): "that approximation is for the "
            "logistic sigmoid; here Phi is the normal distribution function, and the average is exact.",
        },
        stub="x, variance = 2.0, 3.0  # p(y = 1 | x, mu) = Phi(x - mu), mu ~ N(0, variance)\n"
        "answer = ...  # p(y = 1 | x)",
    ),
    Exercise(
        id="sbn-3",
        kind="choice",
        reference=lambda: "b",
        options={
            "a": "the order by entropy stays: a larger margin gives a smaller entropy under any common noise.",
            "b": "noise that all images share makes all less sure and keeps their order; the AUROC reads the order.",
            "c": "the noise does not know which images are known: it acts on the margins alone.",
            "d": "averaging over noise takes the surest probabilities down, so the entropy rises for every image.",
        },
        hint="The entropy of the average falls as the margin grows, for every spread; what does the AUROC look at?",
        stub='answer = ...  # of the four statements in the text: "a", "b", "c" or "d"',
    ),
    Exercise(
        id="sbn-4",
        kind="number",
        reference=lambda: math.sqrt(1 + math.pi * _SPREAD**2 / 8),
        hint="A temperature divides the margin: by what does the right side of the formula divide it?",
        mistakes={
            lambda: 1 + math.pi * _SPREAD**2 / 8: "the root is missing.",
            lambda: math.sqrt(1 + math.pi * _SPREAD / 8): "the spread is a standard deviation: it enters squared.",
            lambda: 1 / math.sqrt(1 + math.pi * _SPREAD**2 / 8): "a temperature divides; this multiplies.",
            lambda: math.sqrt(math.pi * _SPREAD**2 / 8): "the 1 is missing: without noise the temperature is 1.",
            lambda: _SPREAD: "the spread is compared with the width of the sigmoid, not taken as it is.",
        },
        stub="spread = 2.0  # of the distance of the two logits, the same for all images\n"
        "answer = ...  # the temperature that changes the probabilities about as much",
    ),
    Exercise(
        id="sbn-5",
        kind="function",
        reference=_matched,
        hint="KL(sample || r) is minus the mean of log r(mu) r(sigma); set its four derivatives to zero.",
        mistakes={
            _mismatched(
                spread=lambda value: value.std(0)
            ): "n - 1 divides here, which is unbiased; the least KL for this sample divides by n.",
            _mismatched(spread=lambda value: value.var(0, correction=0)): "these are variances: their roots are asked.",
            _mismatched(
                spread=lambda value: value.var(0)
            ): "these are variances, and divided by n - 1: the roots are asked, with n.",
            _mismatched(read=torch.exp): "the last two are moments of log sigma, not of sigma.",
            _mismatched(
                read=lambda value: 2 * value
            ): "the last two are moments of log sigma^2, as in the published code; here of log sigma.",
            _mismatched(order=(0, 2, 1, 3)): "the order is m_mu, s_mu, m_sigma, s_sigma: the middle two are exchanged.",
            _mismatched(order=(2, 3, 0, 1)): "the order is m_mu, s_mu, m_sigma, s_sigma: mu comes first.",
            _mismatched(center=lambda value: value.sum(0)): "a sum was given where a mean is asked.",
            _mismatched(
                spread=lambda value: value.square().mean(0).sqrt()
            ): "the mean was not subtracted: this is the root of the second moment.",
        },
        by_hand=Case(
            "s_mu for three mini-batches with means 1, 2 and 6", ([[1.0], [2.0], [6.0]], [[0.0], [1.0], [2.0]]), (1, 0)
        ),
        cases=_matched_cases,
        stub="def answer(means, log_scales):\n"
        "    # (batches, C) each -> torch.stack([m_mu, s_mu, m_sigma, s_sigma]), least KL\n"
        "    ...",
    ),
    Exercise(
        id="sbn-6",
        kind="choice",
        reference=lambda: "c",
        options={
            "a": "log sigma^2 = 2 log sigma: if one is normal, so is the other.",
            "b": "the square of a log-normal variable is log-normal: neither has heavier tails as a divisor.",
            "c": "log sigma^2 = 2 log sigma; only what is added to the variance, before or after, differs.",
            "d": "both are positive by construction, whatever is drawn.",
        },
        hint="Write the logarithm of sigma^2 with that of sigma.",
        stub='answer = ...  # of the four statements in the text: "a", "b", "c" or "d"',
    ),
    Exercise(
        id="sbn-7",
        kind="function",
        reference=_followed,
        hint="The weights fall with age and sum to one; the variance they give is too small by a factor that they say.",
        mistakes={
            _from_zero: "smoothing that starts at zero is biased towards it: the weights must add up to one.",
            _misfollowed(lambda age, momentum: (1 - momentum) ** age.flip(0)): "the oldest value has the most weight.",
            _misfollowed(lambda age, momentum: momentum**age): "momentum is the share of the newest: what is older "
            "keeps 1 - momentum.",
            _misfollowed(
                lambda age, momentum: torch.ones_like(age)
            ): "all values have the same weight: older ones fade.",
            _misfollowed(share=lambda weight: weight): "the weights do not add up to one: divide by their sum.",
            _misfollowed(unbias=lambda weight: 1.0): "the variance is biased: divide it by one minus the sum of w^2.",
            _misfollowed(
                unbias=lambda weight: (len(weight) - 1) / len(weight)
            ): "n / (n - 1) unbiases equal weights; these ask for one minus the sum of w^2.",
            _misfollowed(unbias=lambda weight: 1 / (1 - (weight**2).sum())): "divide by one minus the sum of w^2: it "
            "was multiplied.",
            lambda values, momentum: torch.stack(
                [_misfollowed()(values, momentum)[0], _misfollowed()(values, momentum)[1].sqrt()]
            ): "the second number is the standard deviation: the variance is asked.",
        },
        by_hand=Case("the variance of 1, 2, 4, the newest last, with momentum 0.5", ([1.0, 2.0, 4.0], 0.5), (1,)),
        cases=_followed_cases,
        stress={
            _offset_cases: "for values near 1e8 a difference of E[v^2] and E[v]^2 has no digits left: subtract the "
            "mean first. Neither have weights in single precision: give them dtype=values.dtype."
        },
        stub="def answer(values, momentum):\n"
        "    ...  # values (t,), oldest first -> torch.stack([mean, variance]), bias-corrected",
    ),
    Exercise(
        id="sbn-8",
        kind="function",
        reference=_copies,
        hint="Each copy has its own mu and sigma; sigma is the exponential of a normal draw.",
        mistakes={
            _miscopied(scale=lambda log_sigma: log_sigma): "sigma is the exponential of the normal draw.",
            _miscopied(divide=torch.square): "it was divided by sigma^2: sigma is the standard deviation.",
            _miscopied(
                divide=torch.sqrt
            ): "it was divided by the root of sigma: sigma is a standard deviation already.",
            _miscopied(noise_of=(1, 0)): "the noise is exchanged: the first row is for mu, the second for sigma.",
            _miscopied(noise_of=(0, 0)): "mu and sigma have the same noise: r(mu) r(sigma) draws them independently.",
            _miscopied(shared=True): "all copies have the same draw: each has its own.",
            _miscopied(spread=torch.square): "s is a standard deviation: the noise is multiplied by s, not by s^2.",
            _miscopied(spread=torch.sqrt): "s is a standard deviation: the noise is multiplied by s, not by its root.",
            _miscopied(rows=(0, 2, 1, 3)): "the rows of moments are m_mu, s_mu, m_sigma, s_sigma, in this order.",
            _miscopied(spread=torch.zeros_like): "there is no noise in it: this is the deterministic layer.",
            _miscopied(divide=torch.reciprocal): "it was multiplied by sigma: divide.",
            _miscopied(
                divide=lambda sigma: (sigma.square() + 1e-5).sqrt()
            ): "epsilon is in sigma already: from its definition on, sigma is what we divide by.",
        },
        by_hand=Case(
            "the copy of x = 2 for the moments 1, 0.5, 0, 0.5 and the noise 1 for mu, -1 for sigma",
            ([2.0], [[1.0], [0.5], [0.0], [0.5]], [[[1.0]], [[-1.0]]]),
            (0, 0),
        ),
        cases=_copies_cases,
        stub="def answer(x, moments, noise):\n"
        "    # x (C,), moments (4, C) as in sbn-5, noise (2, K, C), for mu and for sigma\n"
        "    ...  # -> normalized copies (K, C), gamma = 1 and beta = 0",
    ),
    Exercise(
        id="sbn-9",
        kind="function",
        reference=_area,
        hint="Compare every unknown score with every known one; a tie is half a win.",
        mistakes={
            _misarea(0.0): "ties do not count: they are half a win.",
            _misarea(1.0): "ties count as a whole win: they are half a win.",
            lambda unknown, known: 100 - _area()(unknown, known): "known and unknown are exchanged: an unknown score "
            "should be the higher one.",
            lambda unknown, known: _area()(unknown, known) / 100: "it is a fraction: give percent.",
            lambda unknown, known: (
                _area()(unknown, known) / 100 * len(unknown) * len(known)
            ): "this counts the pairs: divide by their number, and give percent.",
        },
        by_hand=Case(
            "the area in percent for unknown scores 3, 2, 2 and known ones 1, 2", ([3.0, 2.0, 2.0], [1.0, 2.0])
        ),
        cases=_area_cases,
        stub="def answer(unknown, known):\n    ...  # area under the ROC curve in percent, ties count half",
    ),
    Exercise(
        id="sbn-10",
        kind="number",
        reference=lambda: math.sqrt(_BATCH - 1),
        hint="Let one value be d and the 15 others 0: what are the mean and the variance of the 16?",
        mistakes={
            lambda: math.sqrt(_BATCH): "the object's own value moves the mean, too.",
            lambda: float(_BATCH - 1): "this is the square: divide by the standard deviation.",
            lambda: (
                (_BATCH - 1) / math.sqrt(_BATCH)
            ): "that is with the divisor m - 1: in training the variance has the divisor m.",
            lambda: (_BATCH - 1) / _BATCH: "this is the distance to the mean in units of d: divide by the deviation.",
        },
        stub="m = 16\nanswer = ...  # largest normalized value in a batch of m, in training",
    ),
]
