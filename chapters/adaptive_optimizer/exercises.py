"""Exercises of the chapter on the adaptive variational optimizer."""

import math

import torch
from torch import Tensor

from book.display.exercises.registry import Case, Exercise

# the first example of the paper: observations, decays of spike and slab for the stated noise, half of those of its
# mean squared error, weights of a group, the code's threshold
_N, _SPIKE, _SLAB, _SIZE, _CODE = 10_240, 0.5e-2, 1e-4, 5, 1e-2
_RATE, _TAU, _BETA = 0.01, 0.5, 0.9  # learning rate and scale of its first step, and the usual momentum


def _threshold(spike: float = _SPIKE, slab: float = _SLAB, num_data: int = _N) -> float:
    from bnnlib.functional import group_threshold

    return group_threshold(spike, slab, num_data)


def _prior_odds(size: int = _SIZE) -> float:
    return math.exp(0.5 * size * (math.log(_SPIKE / _SLAB) - _N * (_SPIKE - _SLAB) * _CODE))


def _temperature(beta: float = _BETA) -> float:
    return _TAU * math.sqrt(_RATE) * (1 + beta**2) / (1 - beta)


def _escape() -> float:
    return (1 + 1.0) * math.sqrt(_threshold(1.0, 1e-3, 500))


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(20)


def _draws(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=_generator(), dtype=torch.float64)


def _stein():
    from chapters.adaptive_optimizer.formulas import expected_curvature

    return lambda gradients, noise, scale: expected_curvature(gradients, noise, scale, "stein")


def _stein_cases() -> list[tuple[Tensor, Tensor, Tensor]]:
    noise = _draws(40, 3)
    scale = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64)
    bent = torch.tensor([3.0, -2.0, 1.0], dtype=torch.float64)  # one curvature is negative
    return [(3.0 * scale * noise + noise.flip(0), noise, scale), (bent * scale * noise + noise.flip(0), noise, scale)]


def _mirror():
    from chapters.adaptive_optimizer.formulas import scale_step

    def step(tau: Tensor, gradient: Tensor, rate: float) -> Tensor:
        return scale_step(torch.logit(tau), gradient, rate)[1]

    return step


def _mirror_cases() -> list[tuple[Tensor, Tensor, float]]:
    return [(torch.sigmoid(_draws(6)), _draws(2, 6)[1], 0.7)]


def _small_cases() -> list[tuple[Tensor, Tensor, float]]:
    return [
        (torch.tensor([1e-4, 0.9999], dtype=torch.float64), torch.tensor([900.0, -900.0], dtype=torch.float64), 1.0)
    ]


def _in_slab():
    from bnnlib.functional import group_mean_square

    def kept(weight: Tensor, spike: float, slab: float, num_data: int) -> Tensor:
        return (group_mean_square(weight, "input")[0] >= _threshold(spike, slab, num_data)).double()

    return kept


def _rule(reduce) -> object:
    """The E-step with another statistic of the weights than the mean square of a column."""
    return lambda weight, spike, slab, num_data: (reduce(weight) >= _threshold(spike, slab, num_data)).double()


def _weight_cases() -> list[tuple[Tensor, float, float, int]]:
    """Columns and rows of all sizes and of both signs, so that no other rule than that of columns keeps the same.

    Thresholds of 0.014, 0.0035 and 0.0007, each with columns a tenth above and below it: no constant passes, nor
    another formula of the decays.
    """
    columns = torch.tensor([0.005, 0.03, 0.4, 0.07, 1.0, 0.15], dtype=torch.float64)
    rows = torch.tensor([1.0, 0.05, 0.8, 0.7, 0.02, 0.6], dtype=torch.float64)[:, None]
    signs = torch.tensor([1.0, 1.0, -1.0, -1.0, 1.0, 1.0], dtype=torch.float64)[:, None]
    weight = (1.0 + 0.1 * _draws(6, 6)) * rows * columns
    weight[:, 2:3] *= signs  # only this column cancels
    cases = []
    for flipped, spike, slab, num_data in (
        (weight, 1.0, 1e-3, 500),
        (weight.flip(1), 0.2, 0.1, 2_000),
        (weight, 0.5, 1e-2, 11_400),
    ):
        near = flipped[:, :2] / flipped[:, :2].square().mean(dim=0).sqrt()
        near = near * (_threshold(spike, slab, num_data) * torch.tensor([0.9, 1.1], dtype=torch.float64)).sqrt()
        cases.append((torch.cat([flipped, near], dim=1), spike, slab, num_data))
    return cases


EXERCISES = [
    Exercise(
        id="avo-1",
        kind="number",
        reference=_threshold,
        hint="Where the E-step is even, spike and slab give the group the same density; its number of weights cancels.",
        mistakes={
            lambda: _threshold(2 * _SPIKE, 2 * _SLAB): "this is for the decays of the mean squared error: halve them.",
            lambda: _threshold(2 * _SPIKE, 2 * _SLAB) / 2: "a smaller difference of the decays makes it larger.",
            lambda: _threshold() * _N: "this is N times the threshold: decays of a mean loss count N-fold.",
            lambda: math.sqrt(_threshold()): "this is a root mean square: the rule compares the mean square.",
            lambda: math.log(_SPIKE / _SLAB) / (_N * _SPIKE): "the slab decays too: divide by the difference.",
            lambda: math.log(_SPIKE / _SLAB) / (_N * (_SPIKE + _SLAB)): "divide by the difference, not by the sum.",
        },
        stub="N, spike, slab = 10_240, 1e-2 / 2, 2e-4 / 2\nanswer = ...  # mean square at which the E-step is even",
    ),
    Exercise(
        id="avo-2",
        kind="number",
        reference=_prior_odds,
        hint="Set the log odds of the slab to zero at the code's threshold, and solve for the prior's.",
        mistakes={
            lambda: math.exp(2.5 * (math.log(_SPIKE / _SLAB) - 2 * _N * (_SPIKE - _SLAB) * _CODE)): "this is for the "
            "decays of the mean squared error: halve them.",
            lambda: 1 / _prior_odds(): "the sign: a lower threshold needs a prior that favors the slab.",
            lambda: _prior_odds(2): "a group of five weights has five densities: k / 2 is missing.",
            lambda: _prior_odds(10): "the half is missing: each weight has the root of a precision.",
            lambda: math.exp(2.5 * (math.log(_SPIKE / _SLAB) - _N * _SPIKE * _CODE)): "the slab decays too: take the "
            "difference of the decays.",
            lambda: _prior_odds() / (1 + _prior_odds()): "this is pi: the odds pi / (1 - pi) are asked.",
            lambda: math.log(_prior_odds()): "these are log odds.",
        },
        stub="N, spike, slab, k = 10_240, 1e-2 / 2, 2e-4 / 2, 5\n"
        "threshold = 1e-2  # of the code\n"
        "answer = ...  # prior odds pi / (1 - pi) of the slab that make it exact",
    ),
    Exercise(
        id="avo-3",
        kind="function",
        reference=_stein,
        hint="Stein's identity trades a derivative for a product with the noise: with which power of the scale?",
        mistakes={
            lambda gradients, noise, scale: gradients.square().mean(dim=0): "this is the squared estimate.",
            lambda gradients, noise, scale: (gradients * noise).mean(dim=0): "the division by the scale is missing.",
            lambda gradients, noise, scale: (gradients * noise).mean(dim=0) * scale: "divide by the scale.",
            lambda gradients, noise, scale: (gradients * noise).mean(dim=0) / scale**2: "divide by the scale once.",
            lambda gradients, noise, scale: (gradients * noise).sum(dim=0) / scale: "take the mean of the draws.",
            lambda gradients, noise, scale: ((gradients * noise).mean(dim=0) / scale).clamp_min(0.0): "a curvature can "
            "be negative: what is cut at zero is biased.",
        },
        by_hand=Case(
            "the estimate from gradients 3, -1 and 2 at noise 1, -1 and 0.5, with scale 2",
            ([[3.0], [-1.0], [2.0]], [[1.0], [-1.0], [0.5]], [2.0]),
            (0,),
        ),
        cases=_stein_cases,
        stub="def answer(gradients, noise, scale):\n"
        "    # gradients (S, p): of -log p at w = mean + scale * noise\n"
        "    # noise (S, p): standard normal; scale (p,): posterior standard deviations\n"
        "    ...  # unbiased estimate of the curvature, (p,)",
    ),
    Exercise(
        id="avo-4",
        kind="function",
        reference=_mirror,
        hint="What moves is the logit of tau, by the gradient in tau as it is given: no change of variables.",
        mistakes={
            lambda tau, gradient, rate: tau - rate * gradient: "this is plain gradient descent: it leaves (0, 1).",
            lambda tau, gradient, rate: torch.sigmoid(torch.logit(tau) + rate * gradient): "the sign: descend.",
            lambda tau, gradient, rate: torch.logit(tau) - rate * gradient: "this is rho: map it back.",
            lambda tau, gradient, rate: torch.sigmoid(torch.logit(tau) - rate * gradient * tau * (1 - tau)): "this is "
            "gradient descent in rho: in mirror descent the gradient in tau moves rho without the chain rule.",
            lambda tau, gradient, rate: torch.sigmoid(tau - rate * gradient): "start from the logit of tau.",
        },
        by_hand=Case("the new tau from tau = 0.8 with gradient 2 and eta = 0.5", ([0.8], [2.0], 0.5), (0,)),
        cases=_mirror_cases,
        stress={_small_cases: "a large step must end at 0 or 1, without NaN: take the sigmoid of one number."},
        stub="def answer(tau, gradient, rate):\n"
        "    # tau in (0, 1); gradient of the objective in tau; rate: eta\n"
        "    ...  # the new tau",
    ),
    Exercise(
        id="avo-5",
        kind="number",
        reference=_temperature,
        hint="With T = N^(-1/2), N T^2 is one.",
        mistakes={
            lambda: _TAU * _RATE * (1 + _BETA**2) / (1 - _BETA): "the root of the learning rate is needed.",
            lambda: _temperature() * _N: "N T^2 is one: the noise already shrinks with N.",
            lambda: _TAU**2 * math.sqrt(_RATE) * (1 + _BETA**2) / (1 - _BETA): "tau counts once: it scales the step "
            "of the sampler as well as its noise.",
            lambda: _TAU * math.sqrt(_RATE): "the momentum is missing.",
            lambda: _temperature(0.1): "this is for beta = 0.1, the paper's: take 0.9.",
            lambda: _TAU * math.sqrt(_RATE) / (1 - _BETA): "the noise has the variance of two steps: 1 + beta^2 is "
            "missing.",
        },
        stub="N, T = 10_240, 10_240**-0.5\n"
        "tau, lr, beta = 0.5, 0.01, 0.9\n"
        "answer = ...  # temperature at which the chain samples the posterior",
    ),
    Exercise(
        id="avo-6",
        kind="function",
        reference=_in_slab,
        hint="Column j holds the weights that read input j; compare its mean square with the threshold.",
        mistakes={
            _rule(lambda weight: weight.square().mean(dim=1)): "rows are the weights of an output: an input is a "
            "column.",
            _rule(lambda weight: weight.square().sum(dim=0)): "the rule takes the mean square, not the sum.",
            _rule(lambda weight: weight.square().mean(dim=0).sqrt()): "the root of the mean square is compared.",
            _rule(lambda weight: weight.mean(dim=0).square()): "square first, then average: signs may cancel.",
            lambda *case: 1 - _in_slab()(*case): "these are the groups of the spike.",
            lambda weight, spike, slab, num_data: (
                weight.square().mean(dim=0) >= 0.01
            ).double(): "this is the fixed number of the published code: compute the threshold from the decays.",
            lambda weight, spike, slab, num_data: (
                weight.square().mean(dim=0) >= math.log(spike / slab) / (num_data * spike)
            ).double(): "the slab decays too: divide by the difference.",
        },
        by_hand=Case(
            "1 for each of five inputs that stays in the slab and 0 for the others, for the weights "
            "[[0.05, 0.3, 0.02, 0.08, 0.04], [0.05, -0.3, 0.02, 0.08, 0.04], [0.05, 0, 0.02, 0.08, 0.03]] with the "
            "decays 0.2 and 0.1 and 2000 observations",
            (
                [[0.05, 0.3, 0.02, 0.08, 0.04], [0.05, -0.3, 0.02, 0.08, 0.04], [0.05, 0.0, 0.02, 0.08, 0.03]],
                0.2,
                0.1,
                2000,
            ),
        ),
        cases=_weight_cases,
        stub="def answer(weight, spike, slab, num_data):\n"
        "    # weight (out, in); spike > slab: decays of a mean loss; equal prior odds\n"
        "    ...  # (in,): 1.0 for inputs in the slab, else 0.0",
    ),
    Exercise(
        id="avo-7",
        kind="number",
        reference=_escape,
        hint="In the spike the weight rests at b h / (h + spike); its square must exceed the threshold.",
        mistakes={
            lambda: _escape() / 2: "this is enough to stay in the slab; out of the spike it takes more.",
            lambda: (_escape() / 2) ** 2: "this is the threshold itself: a mean square, and without the decay.",
            lambda: 2 * (_escape() / 2) ** 2: "the threshold is a mean square: take its root.",
            lambda: _escape() ** 2: "this is the square of b.",
            lambda: _escape() * 1.001 / 2: "this is enough to stay in the slab; out of the spike it takes more.",
        },
        stub="N, spike, slab, h = 500, 1.0, 1e-3, 1.0\n"
        "answer = ...  # least estimate b that leaves the spike by itself",
    ),
]
