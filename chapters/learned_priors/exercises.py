"""Exercises of the chapter on sampling with learned priors."""

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
import torch

from book.display.exercises.registry import Case, Exercise

_STEP = 0.4  # of SGLD on N(0, 1)
_TEXTBOOK = {"spike_scale": 0.1, "slab_variance": 10.0}
_MNIST = {"spike_scale": 1.0, "slab_variance": 0.1}
_RHO, _BETA = (0.9, 0.8, 0.1, 0.05, 0.05), {"a": 1.0, "b": 5.0}
_SLOPE = 0.36  # of the mean suggestion at the fixed point
_WEIGHT = 0.1  # the constant step of the stochastic approximation in the published regression code
_FINAL, _REACHED = 0.9, 0.8  # of the pruning schedule
_CHAINS = ((0.0, 2.0, 4.0, 6.0), (3.0, 5.0, 1.0, 3.0))


def _tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _who() -> str:
    from bnnlib.functional import slab_probability

    small, large = slab_probability(_tensor(0.1, 2.0), 0.5, 1.0, **_MNIST).tolist()
    return {(True, False): "a", (False, True): "b", (True, True): "c", (False, False): "d"}[small > 0.5, large > 0.5]


def _crossover(low: float = 0.0, high: float = 5.0, **changes: float) -> float:
    """The weight between low and high at which the log-odds change sign."""
    from scipy.optimize import brentq

    from bnnlib.functional import slab_log_odds

    prior = {"inclusion": 0.5, "sigma": 1.0, **_TEXTBOOK, **changes}
    return brentq(lambda weight: float(slab_log_odds(_tensor(weight), **prior)), low, high)


def _chain_variance(step: float = _STEP) -> float:
    """Fixed point of the variance under one step on the energy w^2 / 2."""
    from chapters.learned_priors.formulas import sgld_step

    one, zero = _tensor(1.0), _tensor(0.0)
    factor, noise = float(sgld_step(one, one, zero, step)), float(sgld_step(zero, zero, one, step))
    return noise**2 / (1 - factor**2)


def _stationary():
    def reference(step, curvature, temperature, gradient_variance):
        return (2 * step * temperature + step**2 * gradient_variance) / (1 - (1 - step * curvature) ** 2)

    return reference


def _stationary_cases() -> list[tuple]:
    rows = ((0.4, 1.0, 1.0, 0.0), (0.1, 3.0, 0.5, 2.0), (0.02, 40.0, 2.0, 9.0), (0.3, 1.5, 1.0, 0.7))
    return [tuple(_tensor(*row)) for row in rows]


def _misbalance(
    noise: Callable = lambda step, heat: 2 * step * heat,
    brought: Callable = lambda step, spread: step**2 * spread,
    kept: Callable = lambda step, curvature: (1 - step * curvature) ** 2,
) -> Callable:
    """The variance of aeb-4 with something changed."""

    def wrong(step, curvature, temperature, gradient_variance):
        return (noise(step, temperature) + brought(step, gradient_variance)) / (1 - kept(step, curvature))

    return wrong


def _growth(
    ratio: Callable = lambda slab, spike: (slab - spike).exp(),
    count: Callable = lambda weight, b: b + weight.numel() - 1,
) -> Callable:
    """The factor of aeb-5, or with something changed."""

    def factor(weight, sigma, spike_scale, slab_variance, b):
        from bnnlib.functional import slab_log_odds

        odds = slab_log_odds(weight, 0.5, sigma, spike_scale, slab_variance)
        return ratio(odds, torch.zeros_like(odds)).sum() / count(weight, b)

    return factor


def _signed(weight, sigma, spike_scale, slab_variance, b):
    """aeb-5 without the absolute value in the spike's exponent."""
    from bnnlib.functional import slab_log_odds

    odds = slab_log_odds(weight, 0.5, sigma, spike_scale, slab_variance) - (weight.abs() - weight) / sigma / spike_scale
    return odds.exp().sum() / (b + weight.numel() - 1)


def _growth_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(31)
    weight = torch.randn(40, generator=generator, dtype=torch.float64)
    return [
        (0.05 * weight, 1.0, 0.01, 10.0, 40.0),
        (0.3 * weight, 2.0, 0.1, 5.0, 7.0),
        (weight[:6], 0.7, 0.25, 2.0, 1.0),
    ]


def _least_scale(slope: float = _SLOPE) -> float:
    """1 / (2 c) with c the distance of the eigenvalues of the mean field from zero."""
    matrix = _tensor(-1.0, slope, 1.0, -1.0).view(2, 2)
    return 1 / (2 * float(-torch.linalg.eigvals(matrix).real.max()))


def _inclusion(a: float = _BETA["a"], b: float = _BETA["b"]) -> float:
    from bnnlib.functional import optimal_inclusion

    return float(optimal_inclusion(_tensor(*_RHO).sum(), len(_RHO), a, b))


def _average_variance(weight: float = _WEIGHT) -> float:
    """Variance of theta <- (1 - w) theta + w x for independent x of variance one, iterated to its fixed point."""
    variance = 0.0
    for _ in range(2000):
        variance = (1 - weight) ** 2 * variance + weight**2
    return variance


def _schedule_step(sparsity: float = _REACHED, final: float = _FINAL, steps: int = 50) -> float:
    """First step at which the schedule, which only rises, has reached the sparsity."""
    from bnnlib.pruning import smooth_sparsity

    return float(bisect_left(range(50_000), sparsity, key=lambda step: smooth_sparsity(step, final, steps=steps)))


def _split_r_hat() -> float:
    from bnnlib.sampling.diagnostics import split_r_hat

    return float(split_r_hat(torch.tensor(_CHAINS, dtype=torch.float64)))


def _whole_r_hat() -> float:
    """The same ratio without splitting: chains whose halves are whole chains."""
    chains = _tensor(*_CHAINS)
    between, within = chains.mean(dim=1).var(), chains.var(dim=1).mean()
    return math.sqrt((0.75 * within + between) / within)


EXERCISES = [
    Exercise(
        id="aeb-1",
        kind="choice",
        reference=_who,
        hint="Compare the widths: the Laplace scale v0 = 1 with the Gaussian's standard deviation sqrt(v1) = 0.32.",
        options={
            "a": "the Gaussian is narrow here: it claims the small weight, the Laplace's tail claims the large one.",
            "b": "this holds for the regression (v0 = 0.1, v1 = 10), where the Gaussian is the wide component.",
            "c": "a Gaussian with standard deviation 0.32 hardly reaches 2.",
            "d": "at 0.1 the narrow Gaussian is the taller of the two.",
        },
        stub="# who made the weights 0.1 and 2.0 under v0 = 1, v1 = 0.1, sigma = 1, delta = 1/2?\n"
        "# a: Gaussian, Laplace; b: Laplace, Gaussian; c: Gaussian both; d: Laplace both\n"
        "answer = ...",
    ),
    Exercise(
        id="aeb-2",
        kind="number",
        reference=_crossover,
        hint="The logarithms of the densities differ by c + |beta| / v0 - beta^2 / (2 v1): a quadratic in |beta|.",
        mistakes={
            lambda: _crossover(
                50.0, 500.0
            ): "the second root is near, where the Gaussian's tail is the thinner; without constants it is 200.",
            lambda: _crossover(slab_variance=100.0): "v1 = 10 was taken for a standard deviation; it is the variance.",
            lambda: _crossover(slab_variance=math.sqrt(10)): "the root of v1 was taken for the variance.",
            lambda: _crossover(**_MNIST): "these are the settings of MNIST.",
            lambda: min(
                abs(np.roots([-1 / 20, 10, math.log(0.1 / math.sqrt(20 * math.pi))]))
            ): "the Laplace density is divided by 2 v0, not by v0.",
            lambda: min(
                abs(np.roots([-1 / 20, 10, math.log(0.2 / math.sqrt(10))]))
            ): "the Gaussian density is divided by the root of 2 pi v1.",
            lambda: 0.1 * math.log(math.sqrt(20 * math.pi) / 0.2): "the square in the Gaussian's exponent is missing.",
        },
        stub="v0, v1, sigma, delta = 0.1, 10.0, 1.0, 0.5\nanswer = ...  # the smallest |beta| > 0 with rho = 1/2",
    ),
    Exercise(
        id="aeb-3",
        kind="number",
        reference=_chain_variance,
        hint="A step gives (1 - epsilon) beta plus noise of variance 2 epsilon; equate the variances before and after.",
        mistakes={
            lambda: 1.0: "this is the variance of the target; a chain with a finite step does not reach it.",
            lambda: 2 * _STEP / (1 - (1 - _STEP)): "the factor 1 - epsilon enters the variance with its square.",
            lambda: 1 + _STEP / 2: "this is the first order in epsilon; the exact value has a closed form.",
            lambda: 2 * _STEP: "this is the variance of one step's noise alone.",
            lambda: _chain_variance() - 1: "this is the excess over the target's variance.",
        },
        stub="epsilon = 0.4  # the step of SGLD on N(0, 1) at temperature 1\nanswer = ...  # variance of the chain",
    ),
    Exercise(
        id="aeb-4",
        kind="function",
        reference=_stationary,
        hint="One step multiplies the variance by (1 - step h)^2 and adds the injected noise and the gradient's.",
        accepted=[
            lambda step, h, heat, spread: (2 * heat + step * spread) / (h * (2 - step * h)),
        ],
        mistakes={
            _misbalance(brought=lambda step, spread: 0.0 * spread): "the gradient's noise is missing: each step adds "
            "step^2 V.",
            _misbalance(brought=lambda step, spread: spread): "the gradient is multiplied by the step, its variance by "
            "the step squared.",
            _misbalance(
                brought=lambda step, spread: step * spread
            ): "a variance is multiplied by the square of the step.",
            _misbalance(kept=lambda step, h: 1 - step * h): "the factor 1 - step h is squared in the variance.",
            _misbalance(
                kept=lambda step, h: (1 - step) ** 2
            ): "the gradient is h beta: the curvature is missing in the factor.",
            _misbalance(noise=lambda step, heat: step * heat): "the injected noise has the variance 2 step T.",
            _misbalance(noise=lambda step, heat: 2 * step): "the injected noise lacks the temperature.",
            _misbalance(noise=lambda step, heat: 2 * step * heat**2): "2 step T is a variance already: T enters once.",
            lambda step, h, heat, spread: heat / h / (1 - step * h / 2) + step**2 * spread: "the gradient's noise of "
            "earlier steps is in the variance too: divide both by 1 - (1 - step h)^2.",
            lambda step, h, heat, spread: heat / h: "this is the target's variance: the step's part is missing.",
            lambda step, h, heat, spread: heat / h / (1 - step * h / 2): "the gradient's noise is missing: each step "
            "adds step^2 V.",
        },
        by_hand=Case(
            "the variance for step 0.1, curvature 2, temperature 0.5 and gradient noise of variance 3",
            ([0.1], [2.0], [0.5], [3.0]),
            (0,),
        ),
        cases=_stationary_cases,
        stub="def answer(step, curvature, temperature, gradient_variance):\n"
        "    ...  # variance of SGLD's draws on the energy curvature * beta^2 / 2",
    ),
    Exercise(
        id="aeb-5",
        kind="function",
        reference=_growth,
        hint="For small delta rho is about delta times the ratio of the two densities; with a = 1 sum and divide.",
        mistakes={
            _growth(count=lambda weight, b: weight.numel()): "the mode divides by b + p - 1, with a = 1.",
            _growth(count=lambda weight, b: b + weight.numel() - 2): "a = 1 is missing: a + b + p - 2 is b + p - 1.",
            _growth(count=lambda weight, b: b + weight.numel()): "this is a mean of the Beta density, not its mode.",
            _growth(ratio=lambda slab, spike: (spike - slab).exp()): "the ratio is upside down: the slab's density is "
            "above.",
            _growth(ratio=lambda slab, spike: slab - spike): "this is the logarithm of the ratio.",
            _growth(
                ratio=lambda slab, spike: (slab - spike).sigmoid()
            ): "this is rho at delta = 1/2; near delta = 0 it is delta times the ratio of the densities.",
            _signed: "the Laplace density falls with the absolute value of the weight.",
            lambda weight, sigma, v0, v1, b: _growth()(weight, 1.0, v0, v1, b): "both densities have the scale sigma.",
            lambda weight, sigma, v0, v1, b: _growth()(weight, sigma, v0, v1**2, b): "v1 is a variance: the standard "
            "deviation is sigma times its root.",
        },
        by_hand=Case(
            "g for the weights 0 and 0.5 with sigma = 1, v0 = 0.1, v1 = 10 and b = 3", ([0.0, 0.5], 1.0, 0.1, 10.0, 3.0)
        ),
        cases=_growth_cases,
        stub="def answer(weight, sigma, spike_scale, slab_variance, b):\n"
        "    ...  # factor by which EM multiplies a small delta, a = 1",
    ),
    Exercise(
        id="aeb-6",
        kind="number",
        reference=_inclusion,
        hint="The maximum of a Beta density, its mode, counts a - 1 successes and b - 1 failures before any data.",
        mistakes={
            lambda: sum(_RHO) / len(_RHO): "this is the mean of rho: the prior Beta(1, 5) is missing.",
            lambda: (sum(_RHO) + 1) / (len(_RHO) + 6): "this is the mean of the Beta density; its mode is asked.",
            lambda: sum(_RHO) / (len(_RHO) + 6): "the denominator lacks the -2.",
            lambda: _inclusion(a=5.0, b=1.0): "a and b are swapped.",
        },
        stub="rho, a, b = [0.9, 0.8, 0.1, 0.05, 0.05], 1.0, 5.0\nanswer = ...  # the new delta",
    ),
    Exercise(
        id="aeb-7",
        kind="number",
        reference=_average_variance,
        hint="In the long run a step leaves the variance as it was: write what the step makes of it.",
        mistakes={
            lambda: 1.0: "this is EM, w = 1: it keeps all of the noise. Here the weight is 0.1.",
            lambda: 1 / (1 - (1 - _WEIGHT) ** 2): "x enters with w, and so its variance with w squared.",
            lambda: _WEIGHT: "this is the weight itself: the variance is about half of it.",
            lambda: _WEIGHT**2: "this is what the last step alone adds.",
            lambda: 0.0: "only weights that fall to zero reach it; 0.1 is constant.",
        },
        stub="w = 0.1  # theta <- (1 - w) theta + w x, with independent x of variance 1\n"
        "answer = ...  # variance of theta in the long run",
    ),
    Exercise(
        id="aeb-8",
        kind="number",
        reference=_least_scale,
        hint="For alpha = 1 condition 3 sets 1 / A against twice the drift c; how does c follow from the slope s?",
        mistakes={
            lambda: 1 / (1 - math.sqrt(_SLOPE)): "this is 1 / c: squares are forgotten at the rate 2 c.",
            lambda: 1 / (2 * (1 - _SLOPE)): "c is one less the root of s, not one less s.",
            lambda: 1 - math.sqrt(_SLOPE): "this is c; A must be above 1 / (2 c).",
            lambda: 2 * (1 - math.sqrt(_SLOPE)): "this is 2 c; A must be above its inverse.",
            lambda: 1 / (2 * (1 + math.sqrt(_SLOPE))): "the slower of the two directions decides: -1 + sqrt(s).",
        },
        stub="s = 0.36  # slope of the mean suggestion; w_k = A / (B + k)\nanswer = ...  # least A",
    ),
    Exercise(
        id="aeb-9",
        kind="number",
        reference=_schedule_step,
        digits=math.inf,
        hint="Solve the schedule for the step at which 80 % are zero; the first whole step from there counts.",
        mistakes={
            lambda: _schedule_step() - 1: "rounded down: after this step the share is still below 80 %.",
            lambda: 50 * math.log(1 - 0.8 / 0.9) / math.log(0.99): "this solves the equation, but no step has this "
            "number: round up.",
            lambda: _schedule_step(steps=1): "these are epochs of 50 steps; steps are asked.",
            lambda: _schedule_step(final=1.0): "the schedule ends at S = 0.9, not at 1.",
            lambda: math.ceil(
                0.8 / 0.9 * 50_000
            ): "the schedule is no straight line over the 50,000 steps: it starts steeply.",
        },
        stub="S, D, U = 0.9, 0.99, 50  # the published schedule, from step k = 0\n"
        "answer = ...  # the first step after which 80 % are zero, or more",
    ),
    Exercise(
        id="aeb-10",
        kind="number",
        reference=_split_r_hat,
        hint="Of four halves with two draws each, compare the variance of the means with the mean variance.",
        mistakes={
            _whole_r_hat: "the chains were not split: both have mean 3, so the drift of the first goes unseen.",
            lambda: 13 / 6: "this is the ratio of the variances; R-hat is its root.",
            lambda: math.sqrt(3): "both variances divide by one less than there are: in NumPy, ddof=1.",
            lambda: math.sqrt(23 / 6): "the variance within a half divides by one less than its draws: ddof=1.",
            lambda: math.sqrt(7 / 4): "the variance of the means divides by one less than there are: ddof=1.",
            lambda: math.sqrt(4 / 3): "the variance of the means counts whole: B, t times it, is divided by t.",
        },
        stub="chains = [[0, 2, 4, 6], [3, 5, 1, 3]]\nanswer = ...  # split R-hat",
    ),
]
