"""Exercises of the chapter on Structured Bayesian Pruning."""

from __future__ import annotations

import math

import torch

from book.display.exercises.registry import Exercise

# units of LeNet-5 before and after, as published for MNIST: channels, channels, inputs of both linear layers
_DENSE, _PRUNED = (20, 50, 800, 500), (3, 18, 284, 283)


def _kl():
    from bnnlib.functional import truncated_log_normal_kl

    return truncated_log_normal_kl


def _kl_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(50)
    intervals = ((-20.0, 0.0), (-10.0, 0.0), (-20.0, 2.0))
    return [(*_posteriors(generator, -3.0, 0.5), lower, upper) for lower, upper in intervals]


def _posteriors(generator: torch.Generator, low: float, high: float) -> tuple[torch.Tensor, torch.Tensor]:
    """mean from low / 2 to 0 and log scale from low to high, eight of each."""
    uniform = torch.rand(2, 8, generator=generator, dtype=torch.float64)
    return 0.5 * low * uniform[0], torch.exp(low + (high - low) * uniform[1])


def _mean():
    from bnnlib.functional import truncated_log_normal_mean

    return lambda mean, scale: truncated_log_normal_mean(mean, scale)


def _wide_cases() -> list[tuple]:
    # log scale up to 5: exp(s^2 / 2) is beyond 1e4000, and Phi(s - alpha) - Phi(s - beta) is 0
    generator = torch.Generator().manual_seed(51)
    return [_posteriors(generator, -3.0, high) for high in (0.5, 3.0, 5.0)]


def _prior_snr(width: float = 10.0) -> float:
    from bnnlib.functional import truncated_log_uniform_snr

    return truncated_log_uniform_snr(-width, 0.0)


def _second_over_first() -> float:
    from bnnlib.functional import truncated_log_uniform_moment

    return truncated_log_uniform_moment(1, -10.0) / math.sqrt(truncated_log_uniform_moment(2, -10.0))


def _sample():
    from bnnlib.functional import truncated_log_normal_sample

    # bnnlib reads levels as those of the upper tail, which keeps their digits where theta is near 1
    return lambda mean, scale, uniform: truncated_log_normal_sample(mean, scale, 1.0 - uniform)


def _sample_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(52)
    return [
        (*_posteriors(generator, -3.0, high), torch.rand(8, generator=generator, dtype=torch.float64))
        for high in (-1.0, 1.0, 4.0)
    ]


def _fold():
    from bnnlib.nn import StructuredBayesianPruning

    def fold(weight: torch.Tensor, mean: torch.Tensor, snr: torch.Tensor) -> torch.Tensor:
        """What the layer's own threshold keeps of a weight that reads its units."""
        keep = snr > StructuredBayesianPruning(len(mean)).threshold
        return (weight * mean)[:, keep]

    return fold


def _fold_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(53)
    cases = []
    for outputs, units in ((3, 5), (10, 8), (2, 30)):
        weight = torch.randn(outputs, units, generator=generator, dtype=torch.float64)
        mean = torch.rand(units, generator=generator, dtype=torch.float64)
        snr = 0.33 + 3 * torch.rand(units, generator=generator, dtype=torch.float64).square()
        snr[0], snr[1] = 1.0, 1.0 + 1e-9  # the threshold itself does not pass
        cases.append((weight, mean, snr))
    return cases


def _operations(units: tuple[int, int, int, int]) -> int:
    """Multiply-adds of LeNet-5 with these units; the images have 28 x 28 pixels, both convolutions are valid."""
    first, second, inputs, hidden = units
    return 24**2 * 25 * first + 8**2 * 25 * first * second + inputs * hidden + 10 * hidden


def _weights(units: tuple[int, int, int, int]) -> int:
    first, second, inputs, hidden = units
    return 25 * first + 25 * first * second + inputs * hidden + 10 * hidden


def _scale_at_threshold(threshold: float = 1.0) -> float:
    """sigma at mu = 0 where the signal-to-noise ratio falls to the threshold, by bisection of its logarithm."""
    from bnnlib.functional import truncated_log_normal_snr

    low, high = -5.0, 5.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        values = torch.tensor([0.0, math.exp(middle)], dtype=torch.float64)
        above = float(truncated_log_normal_snr(values[:1], values[1:])) > threshold
        low, high = (middle, high) if above else (low, middle)
    return math.exp(low)


EXERCISES = [
    Exercise(
        id="sbp-1",
        kind="function",
        reference=_kl,
        tolerance=1e-9,
        hint="log(b - a) is the prior's part; the rest is minus the entropy of a normal cut to [a, b].",
        cases=_kl_cases,
        stub="def answer(mean, scale, lower, upper):\n    ...  # KL(LogN_[a,b] || LogU_[a,b]), one for each unit",
    ),
    Exercise(
        id="sbp-2",
        kind="function",
        reference=_mean,
        tolerance=1e-7,
        hint="erfc(x) = erfcx(x) exp(-x^2): write both ends with erfcx, and the large exponents cancel on paper.",
        cases=_wide_cases,
        stub="def answer(mean, scale):\n    ...  # E theta on [-20, 0] for scales from e^-3 to e^5",
    ),
    Exercise(
        id="sbp-3",
        kind="number",
        reference=_prior_snr,
        hint="For theta = exp(v), v uniform on [-10, 0], both moments are integrals of an exponential.",
        mistakes={
            _second_over_first: "E theta over the root of E theta^2: the variance still lacks -(E theta)^2.",
            lambda: _prior_snr(20.0): "this is the published interval [-20, 0]; here it is [-10, 0].",
            lambda: math.sqrt(3.0): "theta itself is not uniform: its logarithm is.",
        },
        stub="lower, upper = -10.0, 0.0\nanswer = ...  # E theta / sqrt(Var theta) of the log-uniform prior",
    ),
    Exercise(
        id="sbp-4",
        kind="function",
        reference=_sample,
        tolerance=1e-6,
        hint="Move the level into the part of Phi that the interval leaves: Phi(alpha) + u Z.",
        cases=_sample_cases,
        stub="def answer(mean, scale, uniform):\n    ...  # theta at the levels `uniform`, on [-20, 0]",
    ),
    Exercise(
        id="sbp-5",
        kind="choice",
        reference=lambda: "b",
        options={
            "a": "minus the entropy of log theta falls as -log sigma: the divergence does not grow.",
            "b": "the data term of a classifier stays finite while -log sigma falls without end.",
            "c": "that is what truncation brings: there is a proper prior to fall back to.",
            "d": "the entropy of log theta is log sigma plus a constant, so the divergence moves with sigma.",
        },
        hint="KL(q || p) is minus the entropy of log theta plus a constant that is not defined. Let sigma grow.",
        stub='answer = ...  # "a", "b", "c" or "d"',
    ),
    Exercise(
        id="sbp-6",
        kind="function",
        reference=_fold,
        tolerance=1e-9,
        hint="W (theta * x) = (W diag(theta)) x: scale the columns first, then leave out those of pruned units.",
        cases=_fold_cases,
        stub="def answer(weight, mean, snr):\n"
        "    ...  # weight (out, units) of the layer that reads the units -> (out, kept units)",
    ),
    Exercise(
        id="sbp-7",
        kind="number",
        reference=lambda: _operations(_DENSE) / _operations(_PRUNED),
        hint="A weight of a convolution is used at every position of its output: 24 x 24 and 8 x 8 of them.",
        mistakes={
            lambda: (
                _weights(_DENSE) / _weights(_PRUNED)
            ): "this is the ratio of weights; a convolution uses each often.",
            lambda: _operations(_DENSE) / _operations((3, 18, 800, 500)): "the linear layers have fewer inputs, too.",
            lambda: math.prod(a / b for a, b in zip(_DENSE, _PRUNED, strict=True)): "each layer counts for itself.",
        },
        stub="dense, pruned = (20, 50, 800, 500), (3, 18, 284, 283)\n"
        "answer = ...  # multiply-adds of the dense network over those of the pruned one",
    ),
    Exercise(
        id="sbp-8",
        kind="number",
        reference=_scale_at_threshold,
        hint="At mu = 0 log theta is minus the absolute value of a normal, cut at -20. Search where Var = (E theta)^2.",
        mistakes={
            lambda: math.log(_scale_at_threshold()): "this is log sigma; sigma is asked.",
            lambda: math.sqrt(math.log(2)): "that is the log-normal without truncation: theta is at most 1 here.",
        },
        stub="mu = 0.0\nanswer = ...  # sigma at which E theta = sqrt(Var theta), to three digits",
    ),
]
