"""Exercises of the chapter on Structured Bayesian Pruning."""

import math
from collections.abc import Callable
from functools import cache

import torch

from book.display.exercises.registry import Case, Exercise

# units of LeNet-5 before and after, as published for MNIST: channels, channels, inputs of both linear layers
_DENSE, _PRUNED = (20, 50, 800, 500), (3, 18, 284, 283)


_Phi = torch.special.ndtr


def _posteriors(generator: torch.Generator, low: float, high: float) -> tuple[torch.Tensor, torch.Tensor]:
    """mean from low / 2 to 0 and log scale from low to high, eight of each."""
    uniform = torch.rand(2, 8, generator=generator, dtype=torch.float64)
    return 0.5 * low * uniform[0], torch.exp(low + (high - low) * uniform[1])


def _ratio():
    def ratio(gain: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        g = gain / weight
        return (g - 1 + (g.square() - 2 * g).sqrt()).sqrt()

    return ratio


def _smaller_root(g: torch.Tensor) -> torch.Tensor:
    return (g - 1 - (g.square() - 2 * g).sqrt()).sqrt()


def _ratio_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(50)
    weight = 0.5 + 3 * torch.rand(3, 8, generator=generator, dtype=torch.float64)
    over = 2.2 + 40 * torch.rand(3, 8, generator=generator, dtype=torch.float64).square()
    return list(zip(over * weight, weight, strict=True))


def _narrow(ratio: float) -> float:
    """Price in nats of narrow noise inside [-20, 0]."""
    return math.log(20) - 0.5 * math.log(2 * math.pi * math.e) + math.log(ratio)


def _mean():
    from chapters.unit_noise.formulas import truncated_log_normal_mean

    return lambda mean, scale: truncated_log_normal_mean(mean, scale)


def _mismean(
    power: Callable = lambda mean, scale: mean + scale**2 / 2,
    ends: Callable = lambda alpha, beta, scale: _Phi(scale - alpha) - _Phi(scale - beta),
    mass: Callable = lambda alpha, beta: _Phi(beta) - _Phi(alpha),
) -> Callable:
    """The mean of theta as the chapter prints it, with something changed."""

    def wrong(mean, scale):
        alpha, beta = (-20 - mean) / scale, -mean / scale
        return torch.exp(power(mean, scale)) * ends(alpha, beta, scale) / mass(alpha, beta)

    return wrong


def _narrow_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(51)
    return [_posteriors(generator, -3.0, high) for high in (-1.0, 0.5)]


def _wide_cases() -> list[tuple]:
    # log scale up to 5: exp(s^2 / 2) is beyond 1e4000, and Phi(s - alpha) - Phi(s - beta) is 0
    generator = torch.Generator().manual_seed(54)
    return [_posteriors(generator, -3.0, high) for high in (3.0, 5.0)]


def _prior_snr(width: float = 10.0) -> float:
    from chapters.unit_noise.formulas import truncated_log_uniform_snr

    return truncated_log_uniform_snr(-width, 0.0)


def _second_over_first() -> float:
    from chapters.unit_noise.formulas import truncated_log_uniform_moment

    return truncated_log_uniform_moment(1, -10.0) / math.sqrt(truncated_log_uniform_moment(2, -10.0))


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
        snr[0], snr[1] = 1.0, 1.0 + 1e-6  # the threshold itself does not pass
        cases.append((weight, mean, snr))
    return cases


def _operations(units: tuple[int, int, int, int]) -> int:
    """Multiply-adds of LeNet-5 with these units; the images have 28 x 28 pixels, both convolutions are valid."""
    first, second, inputs, hidden = units
    return 24**2 * 25 * first + 8**2 * 25 * first * second + inputs * hidden + 10 * hidden


def _with_biases(units: tuple[int, int, int, int]) -> int:
    first, second, _, hidden = units
    return _operations(units) + 24**2 * first + 8**2 * second + hidden + 10


def _padded(units: tuple[int, int, int, int]) -> int:
    first, second, inputs, hidden = units
    return 28**2 * 25 * first + 14**2 * 25 * first * second + inputs * hidden + 10 * hidden


def _weights(units: tuple[int, int, int, int]) -> int:
    first, second, inputs, hidden = units
    return 25 * first + 25 * first * second + inputs * hidden + 10 * hidden


@cache
def _scale_at_threshold(threshold: float = 1.0) -> float:
    """sigma at mu = 0 where the signal-to-noise ratio falls to the threshold, by bisection of its logarithm."""
    from chapters.unit_noise.formulas import truncated_log_normal_snr

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
        reference=_ratio,
        hint="Maximize the gain minus the price in z = SNR^2: a quadratic equation, and one of its roots is a minimum.",
        mistakes={
            lambda gain, weight: _ratio()(gain, torch.ones_like(weight)): "the weight kappa is missing.",
            lambda gain, weight: _ratio()(gain * weight, torch.ones_like(weight)): "a larger weight makes precision "
            "dearer: the gain is divided by kappa.",
            lambda gain, weight: _ratio()(gain, weight).square(): "this is the square of the ratio.",
            lambda gain, weight: _smaller_root(gain / weight): "this root is the minimum between two maxima.",
            lambda gain, weight: (2 * gain / weight).sqrt(): "this is the t-statistic over the root of kappa: the "
            "ratio only tends to it.",
            lambda gain, weight: (2 * gain / weight - 2).sqrt(): "this is the approximation for large gains: solve the "
            "quadratic equation.",
        },
        by_hand=Case("the ratio for a gain of 10 nats and kappa = 2", ([10.0], [2.0]), (0,)),
        cases=_ratio_cases,
        stub="def answer(gain, weight):\n"
        "    # both of one shape; gain in nats, above 2 * weight\n"
        "    ...  # the signal-to-noise ratio that is learned",
    ),
    Exercise(
        id="sbp-2",
        kind="function",
        reference=_mean,
        hint="erfc(x) = erfcx(x) exp(-x^2): write both ends with erfcx, and the large exponents cancel on paper.",
        mistakes={
            lambda mean, scale: torch.exp(mean + scale**2 / 2): "this is the log-normal without truncation.",
            lambda mean, scale: torch.exp(
                mean
            ): "this is e^mu: the mean of theta is not theta at the mean of log theta.",
            _mismean(mass=lambda alpha, beta: 1.0): "the probability Z of the interval does not divide.",
            _mismean(
                ends=lambda alpha, beta, scale: _Phi(scale**2 - alpha) - _Phi(scale**2 - beta)
            ): "alpha and beta are in units of sigma already: both ends are shifted by sigma, not by its square.",
            _mismean(
                ends=lambda alpha, beta, scale: _Phi(scale + beta) - _Phi(scale + alpha)
            ): "the ends are shifted the wrong way: sigma - alpha and sigma - beta.",
            _mismean(
                power=lambda mean, scale: mean + scale**2
            ): "the exponent is mu + sigma^2 / 2: the 1/2 is missing.",
            _mismean(power=lambda mean, scale: mean + scale / 2): "the exponent has the variance sigma^2.",
            _mismean(power=lambda mean, scale: scale**2 / 2): "mu is missing in the exponent.",
        },
        by_hand=Case("E theta on [-20, 0] for mu = -1 and sigma = 0.5", ([-1.0], [0.5]), (0,)),
        cases=_narrow_cases,
        stress={
            _wide_cases: "for wide noise e^(sigma^2 / 2) overflows while Phi(sigma - alpha) - Phi(sigma - beta) "
            "is 0: let both cancel on paper."
        },
        stub="def answer(mean, scale):\n    ...  # E theta on [-20, 0], one for each unit, for scales from e^-3 to e^5",
    ),
    Exercise(
        id="sbp-3",
        kind="choice",
        reference=lambda: "b",
        options={
            "a": "minus the entropy of log theta falls as -log sigma: the divergence does not grow.",
            "b": "the data term of a classifier stays finite while -log sigma falls without end.",
            "c": "that is what truncation brings: there is a proper prior to fall back to.",
            "d": "the entropy of log theta is log sigma plus a constant, so the divergence moves with sigma.",
        },
        hint="KL(q || p) is minus the entropy of log theta plus a constant that is not defined. Let sigma grow.",
        stub='answer = ...  # of the four statements in the text: "a", "b", "c" or "d"',
    ),
    Exercise(
        id="sbp-4",
        kind="number",
        reference=_prior_snr,
        hint="For theta = exp(v), v uniform on [-10, 0], both moments are integrals of an exponential.",
        mistakes={
            _second_over_first: "E theta over the root of E theta^2: the variance still lacks -(E theta)^2.",
            lambda: _prior_snr(20.0): "E theta^2 lacks the factor 1/2 of the integral of e^(2v), or the interval is "
            "[-20, 0] in place of [-10, 0]: both give this.",
            lambda: math.sqrt(3.0): "theta itself is not uniform: its logarithm is.",
            lambda: _prior_snr() ** 2: "this is the square of the ratio: divide by the standard deviation.",
        },
        stub="lower, upper = -10.0, 0.0\nanswer = ...  # E theta / sqrt(Var theta) of the log-uniform prior",
    ),
    Exercise(
        id="sbp-5",
        kind="number",
        reference=_scale_at_threshold,
        hint="At mu = 0 log theta is minus the absolute value of a normal, cut at -20: search where Var = (E theta)^2.",
        mistakes={
            lambda: math.log(_scale_at_threshold()): "this is log sigma; sigma is asked.",
            lambda: math.sqrt(math.log(2)): "that is the log-normal without truncation: theta is at most 1 here.",
        },
        stub="mu = 0.0\nanswer = ...  # sigma at which E theta = sqrt(Var theta)",
    ),
    Exercise(
        id="sbp-6",
        kind="function",
        reference=_fold,
        hint="A factor of an input can as well stand in the weights that read it; only then leave out what is pruned.",
        mistakes={
            lambda weight, mean, snr: weight[:, snr > 1]: "the units' means are missing: scale the columns by them.",
            lambda weight, mean, snr: (weight * mean)[
                :, snr >= 1
            ]: "a ratio of exactly one does not pass the threshold.",
            lambda weight, mean, snr: (weight * mean)[:, snr <= 1]: "these are the pruned units; the others are kept.",
            lambda weight, mean, snr: weight * mean * (snr > 1): "zeroed is not removed: leave the columns out.",
            lambda weight, mean, snr: weight * mean: "nothing was removed: leave out the units with a ratio up to one.",
            lambda weight, mean, snr: (weight / mean)[:, snr > 1]: "the noise multiplies its unit: so does its mean.",
            lambda weight, mean, snr: (weight * mean)[:, snr > 1].T: "rows are outputs: it is transposed.",
        },
        by_hand=Case(
            "the one weight left of (2, 3), with means (0.5, 0.8) and ratios (0.9, 2)",
            ([[2.0, 3.0]], [0.5, 0.8], [0.9, 2.0]),
            (0, 0),
        ),
        cases=_fold_cases,
        stub="def answer(weight, mean, snr):\n"
        "    # weight (out, units) of the layer that reads the units; a ratio above 1 is kept\n"
        "    ...  # (out, kept units)",
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
            lambda: 10.49: "this is the printed number; the printed units do not give it.",
            lambda: _with_biases(_DENSE) / _with_biases(_PRUNED): "leave biases out, which are added; the linear layer "
            "reads 284 inputs, not all 16 places of 18 maps.",
            lambda: (
                _padded(_DENSE) / _padded(_PRUNED)
            ): "there is no padding: the outputs have 24 x 24 and 8 x 8 pixels.",
            lambda: _operations(_DENSE) / _operations((3, 18, 800, 500)): "the linear layers have fewer inputs, too.",
            lambda: math.prod(a / b for a, b in zip(_DENSE, _PRUNED, strict=True)): "each layer counts for itself.",
        },
        stub="dense, pruned = (20, 50, 800, 500), (3, 18, 284, 283)\n"
        "answer = ...  # multiply-adds of the dense network over those of the pruned one",
    ),
    Exercise(
        id="sbp-8",
        kind="choice",
        reference=lambda: "c",
        options={
            "a": "the weights multiply a zero: the data never see them.",
            "b": "the data term has no gradient, but the divergence has one.",
            "c": "only the divergence acts, and it is zero at the prior, whose ratio is one third.",
            "d": "the weights have no prior that would pull on them, and no gradient: they stay.",
        },
        hint="Set x = 0 in the data term: what still depends on mu and sigma?",
        stub='answer = ...  # of the four statements in the text: "a", "b", "c" or "d"',
    ),
    Exercise(
        id="sbp-9",
        kind="number",
        reference=lambda: 2 * _narrow(20 / math.sqrt(2)) - _narrow(20),
        hint="Which ratio has each of two equal units whose sum has ratio 20? Compare two prices with one.",
        mistakes={
            lambda: _narrow(20) - 2 * _narrow(20 / math.sqrt(2)): "two units cost more than one: the sign.",
            lambda: 2 * _narrow(10) - _narrow(20): "standard deviations of independent units do not add: each needs a "
            "ratio of 20 / sqrt(2).",
            lambda: _narrow(20): "that is the price of a second unit with the whole ratio; each of two needs less.",
            lambda: math.log(20) - math.log(2): "the constant C is paid by every unit: it does not cancel.",
        },
        stub="ratio = 20\nanswer = ...  # nats by which one unit is cheaper than two with that ratio together",
    ),
]
