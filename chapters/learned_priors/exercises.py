"""Exercises of the chapter on sampling with learned priors."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import torch

from book.display.exercises.registry import Exercise

_STEP = 0.4  # of SGLD on N(0, 1)
_TEXTBOOK = {"spike_scale": 0.1, "slab_variance": 10.0}
_MNIST = {"spike_scale": 1.0, "slab_variance": 0.1}
_RHO, _BETA = (0.9, 0.8, 0.1, 0.05, 0.05), {"a": 1.0, "b": 5.0}
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
    """The weight between low and high at which the log-odds change sign, by bisection."""
    from bnnlib.functional import slab_log_odds

    prior = {"inclusion": 0.5, "sigma": 1.0, **_TEXTBOOK, **changes}
    start = float(slab_log_odds(_tensor(low), **prior))
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(slab_log_odds(_tensor(middle), **prior)) * start > 0 else (low, middle)
    return high


def _chain_variance(step: float = _STEP) -> float:
    """Fixed point of the variance under one step on the energy w^2 / 2."""
    from bnnlib.functional import sgld_step

    one, zero = _tensor(1.0), _tensor(0.0)
    factor, noise = float(sgld_step(one, one, zero, step)), float(sgld_step(zero, zero, one, step))
    return noise**2 / (1 - factor**2)


def _hamiltonian():
    from bnnlib.functional import sghmc_euler_step

    return lambda *arguments: torch.stack(sghmc_euler_step(*arguments))


def _hamiltonian_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(30)
    settings = [(0.1, 0.9, 0.0), (1e-3, 0.5, 1.0), (0.02, 0.0, 0.25)]
    return [(*torch.randn(4, 5, generator=generator, dtype=torch.float64), *setting) for setting in settings]


def _misstep(
    sign: float = -1.0,
    keep: Callable[[float], float] = lambda momentum: momentum,
    scale: Callable[[float, float, float], float] = lambda lr, momentum, heat: math.sqrt(
        2 * lr * (1 - momentum) * heat
    ),
    moved: Callable = lambda old, new, lr: new,
    order: tuple[int, int] = (0, 1),
) -> Callable:
    """The step of aeb-4 with something changed."""

    def wrong(position, velocity, gradient, noise, lr, momentum, temperature):
        new = keep(momentum) * velocity + sign * lr * gradient + scale(lr, momentum, temperature) * noise
        both = position + moved(velocity, new, lr), new
        return torch.stack([both[part] for part in order])

    return wrong


def _scale():
    from bnnlib.functional import optimal_sigma

    def reference(weight, kappa0, kappa1, nu, lam):
        linear = (kappa0 * weight.abs()).sum()
        return optimal_sigma(linear, (kappa1 * weight.square()).sum() + nu * lam, weight.numel() + nu + 2.0)

    return reference


def _misscale(
    count: Callable = lambda weight, nu: weight.numel() + nu + 2,
    linear: Callable = lambda weight, kappa0: (kappa0 * weight.abs()).sum(),
    quadratic: Callable = lambda weight, kappa1: (kappa1 * weight**2).sum(),
    prior: Callable = lambda nu, lam: nu * lam,
    four: float = 4.0,
    root: float = 1.0,
) -> Callable:
    """The scale of aeb-5 with something changed."""

    def wrong(weight, kappa0, kappa1, nu, lam):
        a, b, c = count(weight, nu), linear(weight, kappa0), quadratic(weight, kappa1) + prior(nu, lam)
        return (b + root * (b**2 + four * a * c).sqrt()) / (2 * a)

    return wrong


def _scale_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(31)
    cases = []
    for shape, nu, lam in (((7,), 1.0, 1.0), ((20, 30), 1000.0, 1000.0), ((3, 1), 2.0, 1e-6)):
        weight = torch.randn(shape, generator=generator, dtype=torch.float64)
        rho = torch.rand(shape, generator=generator, dtype=torch.float64)
        cases.append((weight, (1 - rho) / 0.1, rho / 10.0, nu, lam))
    return cases


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
    from bnnlib.pruning.schedules import smooth_sparsity

    return float(bisect_left(range(50_000), sparsity, key=lambda step: smooth_sparsity(step, final, steps=steps)))


def _split_r_hat() -> float:
    from bnnlib.optim.diagnostics import split_r_hat

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
        '# "a": Gaussian, Laplace; "b": Laplace, Gaussian; "c": Gaussian both; "d": Laplace both\n'
        "answer = ...",
    ),
    Exercise(
        id="aeb-2",
        kind="number",
        reference=_crossover,
        hint="The logarithms of the two densities differ by c + |w| / v0 - w^2 / (2 v1): a quadratic equation in |w|.",
        mistakes={
            lambda: _crossover(
                50.0, 500.0
            ): "this is the second root, where the Gaussian's tail has become the thinner.",
            lambda: _crossover(slab_variance=100.0): "v1 = 10 was taken for a standard deviation; it is the variance.",
            lambda: _crossover(slab_variance=math.sqrt(10)): "the root of v1 was taken for the variance.",
            lambda: _crossover(**_MNIST): "these are the settings of MNIST.",
        },
        stub="v0, v1, sigma, delta = 0.1, 10.0, 1.0, 0.5\nanswer = ...  # the smallest |w| > 0 with rho = 1/2",
    ),
    Exercise(
        id="aeb-3",
        kind="number",
        reference=_chain_variance,
        hint="On this energy the step is (1 - h) w plus noise of variance 2 h; equate the variances before and after.",
        mistakes={
            lambda: 1.0: "this is the variance of the target; a chain with a finite step does not reach it.",
            lambda: 1 / (1 - _STEP): "the factor 1 - h enters the variance with its square.",
            lambda: 1 + _STEP / 2: "this is the first order in h; the exact value has a closed form.",
            lambda: 2 * _STEP: "this is the variance of one step's noise alone.",
        },
        stub="h = 0.4  # SGLD on N(0, 1) at temperature 1\nanswer = ...  # variance of the chain",
    ),
    Exercise(
        id="aeb-4",
        kind="function",
        reference=_hamiltonian,
        hint="At temperature 0 this is gradient descent with momentum; the noise's variance is 2 lr (1 - momentum) T.",
        mistakes={
            _misstep(moved=lambda old, new, lr: old): "the position moves by the new velocity, not by the old one.",
            _misstep(
                moved=lambda old, new, lr: lr * new
            ): "the velocity has lr in it already: the position adds it whole.",
            _misstep(sign=1.0): "it climbs: the gradient of the energy is subtracted.",
            _misstep(keep=lambda momentum: 1 - momentum): "the velocity keeps the share `momentum`, not one less it.",
            _misstep(
                scale=lambda lr, momentum, heat: 2 * lr * (1 - momentum) * heat
            ): "2 lr (1 - momentum) T is the variance of the noise: its root multiplies the draw.",
            _misstep(
                scale=lambda lr, momentum, heat: math.sqrt(lr * (1 - momentum) * heat)
            ): "the variance of the noise lacks its factor 2.",
            _misstep(
                scale=lambda lr, momentum, heat: math.sqrt(2 * lr * heat)
            ): "this is the noise of SGLD: with a memory its variance has the factor 1 - momentum.",
            _misstep(
                scale=lambda lr, momentum, heat: math.sqrt(2 * lr * (1 - momentum)) * heat
            ): "the temperature belongs under the root.",
            _misstep(
                scale=lambda lr, momentum, heat: math.sqrt(2 * lr * (1 - momentum))
            ): "the noise lacks the temperature.",
            _misstep(order=(1, 0)): "position and velocity are swapped: the position comes first.",
        },
        cases=_hamiltonian_cases,
        stub="def answer(position, velocity, gradient, noise, lr, momentum, temperature):\n"
        "    ...  # one step with V = 0: torch.stack([new position, new velocity])",
    ),
    Exercise(
        id="aeb-5",
        kind="function",
        reference=_scale,
        hint="Set the derivative of Q1 in sigma to zero and multiply by sigma^3; of the two roots one is positive.",
        mistakes={
            _misscale(count=lambda weight, nu: weight.numel() + nu): "the count lacks + 2, which the paper drops too, "
            "but only in regression.",
            _misscale(count=lambda weight, nu: len(weight) + nu + 2): "p counts every weight, not the rows.",
            _misscale(count=lambda weight, nu: weight.numel() + 2): "the count lacks nu.",
            _misscale(prior=lambda nu, lam: 0.0): "the prior's part nu lambda is missing in C_c.",
            _misscale(prior=lambda nu, lam: lam): "the prior's part of C_c is nu lambda, not lambda.",
            _misscale(linear=lambda weight, kappa0: weight.abs().sum()): "C_b is the weighted sum: kappa_0 is missing.",
            _misscale(
                linear=lambda weight, kappa0: (kappa0 * weight).sum()
            ): "C_b adds absolute values: opposite signs must not cancel.",
            _misscale(
                quadratic=lambda weight, kappa1: ((kappa1 * weight) ** 2).sum()
            ): "kappa_1 enters C_c once: V_1^(1/2) is inside the norm.",
            _misscale(quadratic=lambda weight, kappa1: (weight**2).sum()): "kappa_1 is missing in C_c.",
            _misscale(root=-1.0): "this is the negative root of the quadratic equation.",
            _misscale(four=1.0): "the 4 under the root is missing.",
            lambda weight, kappa0, kappa1, nu, lam: _misscale()(
                weight, kappa1, kappa0, nu, lam
            ): "kappa_0 and kappa_1 are exchanged: the spike's goes with |w|, the slab's with w^2.",
        },
        cases=_scale_cases,
        stub="def answer(weight, kappa0, kappa1, nu, lam):\n"
        "    ...  # the best sigma (not sigma^2) for classification; kappas like weight",
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
        hint="In the long run the variance v is the same before and after a step: v = (1 - w)^2 v + w^2.",
        mistakes={
            lambda: 1.0: "this is EM, w = 1: it keeps all of the noise. Here the weight is 0.1.",
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
        reference=_schedule_step,
        digits=math.inf,
        hint="Solve S (1 - D^(k / U)) = 0.8 for k; the first whole step that reaches it counts.",
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
        id="aeb-9",
        kind="number",
        reference=_split_r_hat,
        hint="Four halves of two draws: R-hat^2 is 1/2 plus the variance of the four means over their mean variance.",
        mistakes={
            _whole_r_hat: "the chains were not split: both have mean 3, so the drift of the first goes unseen.",
            lambda: 13 / 6: "this is the ratio of the variances; R-hat is its root.",
        },
        stub="chains = [[0, 2, 4, 6], [3, 5, 1, 3]]\nanswer = ...  # split R-hat",
    ),
]
