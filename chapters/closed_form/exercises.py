"""Exercises of the chapter on closed-form inclusion probabilities."""

import math
from collections.abc import Callable
from functools import cache

import torch

from book.display.exercises.registry import Case, Exercise

_SET_TWO = {"slab_scale": math.exp(-1.0), "spike_scale": math.exp(-3.0)}  # of LeNet-5
_SPIKE, _MEAN, _SCALE = math.exp(-5.0), 0.03, 0.005  # Lindley: tau_0 of LeNet-5's set 1, and one weight
_SLAB_HERE, _SPIKE_HERE, _WIDE_START = 1.0, 0.05, 0.3  # of the lesson's example, and a start beyond the border
_FOUR = ((1.0, 0.07), (0.035, 0.042), (0.0, 1.0), (0.3, 0.07))  # (m, sigma) of the example's weights, and a fourth
_NETWORK = (((0.6, 0.1), (0.9, 0.3), (0.2, 0.7)), ((0.5, 0.8, 0.3),))  # P of a 2-3-1 network, inputs first


def _tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _closed_form():
    from bnnlib.functional import closed_form_inclusion, mixture_prior

    return lambda mean, scale, *prior: closed_form_inclusion(mean, scale, mixture_prior(*prior))


def _log_odds():
    from bnnlib.functional import inclusion_log_odds, mixture_prior

    return lambda mean, scale, *prior: inclusion_log_odds(mean.square() + scale.square(), mixture_prior(*prior))


def _gradient():
    from bnnlib.functional import mixture_prior, spike_slab_profile_grad

    return lambda mean, scale, *prior: torch.stack(spike_slab_profile_grad(mean, scale, mixture_prior(*prior)))


def _posteriors(*priors: tuple[float, float, float], reach: float = 3.0) -> list[tuple]:
    """(mean, scale, tau_1, tau_0, pi) for each prior, with means up to a few times the spike's scale."""
    generator = torch.Generator().manual_seed(40)
    cases = []
    for slab, spike, probability in priors:
        mean = reach * spike * torch.randn(6, generator=generator, dtype=torch.float64)
        scale = spike * torch.rand(6, generator=generator, dtype=torch.float64) + 0.1 * spike
        cases.append((mean, scale, slab, spike, probability))
    return cases


def _misodds(
    moment: Callable = lambda mean, scale: mean**2 + scale**2,
    precision: Callable = lambda tau: tau**-2,
    half: float = 0.5,
    price: float = 1.0,
    prior: Callable = lambda pi: math.log(pi / (1 - pi)),
) -> Callable:
    """The log-odds with something changed."""

    def odds(mean, scale, slab, spike, pi):
        evidence = half * moment(mean, scale) * (precision(spike) - precision(slab))
        return prior(pi) - price * math.log(slab / spike) + evidence

    return odds


def _misprint(mean, scale, slab, spike, pi):
    """Line 9 of Algorithm 1 as printed: m + sigma^2 in A."""
    return _misodds()(mean, scale, slab, spike, pi) + (mean**2 - mean) / (2 * slab**2)


_MISODDS = {
    _misprint: "A has m^2 + sigma^2; the paper's Algorithm 1 prints m + sigma^2.",
    _misodds(half=1.0): "the factor 1/2 of the second moment is missing.",
    _misodds(moment=lambda mean, scale: mean**2): "sigma counts as well: the second moment is m^2 + sigma^2.",
    _misodds(
        moment=lambda mean, scale: mean**2 + scale
    ): "sigma is the standard deviation: its square is added to m^2.",
    _misodds(
        moment=lambda mean, scale: (mean + scale) ** 2
    ): "the second moment is m^2 + sigma^2, not the square of the sum.",
    _misodds(precision=lambda tau: 1 / tau): "tau_1 and tau_0 are scales: their squares divide the second moment.",
    _misodds(price=0.0): "the normalizing constants of the two normals are missing: log tau_1 - log tau_0.",
    _misodds(price=-1.0): "log tau_1 - log tau_0 is a price: it lowers the log-odds.",
    _misodds(price=0.0, prior=lambda pi: 0.0): "the logarithms are missing, of tau_1 / tau_0 and of pi / (1 - pi).",
    _misodds(price=2.0): "log tau_1 - log tau_0 was counted twice: tau is the scale, not the variance.",
    _misodds(prior=lambda pi: 0.0): "the prior's log-odds, log(pi / (1 - pi)), are missing.",
    _misodds(prior=lambda pi: math.log(pi)): "the spike's prior probability 1 - pi is missing.",
    _misodds(prior=lambda pi: math.log((1 - pi) / pi)): "pi and 1 - pi are exchanged: pi belongs to the slab.",
    lambda mean, scale, slab, spike, pi: _misodds()(
        mean, scale, spike, slab, pi
    ): "slab and spike are exchanged: the third argument is the slab's scale.",
}


def _through_sigmoid(odds: Callable) -> Callable:
    return lambda *arguments: torch.sigmoid(odds(*arguments))


def _misgradient(
    inclusion: Callable = lambda p, pi: p,
    precision: Callable = lambda tau: tau**-2,
    in_scale: Callable = lambda kappa, scale: kappa * scale - 1 / scale,
    order: tuple[int, int] = (0, 1),
) -> Callable:
    """The gradient of R* with something changed."""

    def gradient(mean, scale, slab, spike, pi):
        p = inclusion(_closed_form()(mean, scale, slab, spike, pi), pi)
        kappa = p * precision(slab) + (1 - p) * precision(spike)
        both = kappa * mean, in_scale(kappa, scale)
        return torch.stack([both[part] for part in order])

    return gradient


def _inclusion_cases() -> list[tuple]:
    return _posteriors((1.0, 0.1, 0.5), (math.exp(-1.0), math.exp(-3.0), 0.25), (3.0, 0.01, 0.9))


def _far_cases() -> list[tuple]:
    # r up to 60 spikes: log-odds of a thousand, where p* itself is 1 in float64; and a slab of e^40, where it is 0
    return _posteriors((math.e, math.exp(-6.0), 0.5), (math.exp(40.0), 0.1, 0.5), reach=20.0)


def _threshold(probability: float = 0.25, **changes: float) -> float:
    """Root second moment at which the log-odds are zero; they are linear in its square."""
    from bnnlib.functional import inclusion_log_odds, mixture_prior

    prior = mixture_prior(**{**_SET_TWO, **changes}, prior_inclusion_probability=probability)
    at_zero, at_one = inclusion_log_odds(_tensor(0.0, 1.0), prior).tolist()
    return math.sqrt(at_zero / (at_zero - at_one))


def _widest_slab(second_moment: float = _MEAN**2 + _SCALE**2) -> float:
    """tau_1 above the weight's own size at which its log-odds change sign, by bisection in the logarithm."""
    from bnnlib.functional import inclusion_log_odds, mixture_prior

    low, high = 0.5 * math.log(second_moment), 60.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        kept = float(inclusion_log_odds(_tensor(second_moment), mixture_prior(math.exp(middle), _SPIKE, 0.5))) > 0
        low, high = (middle, high) if kept else (low, middle)
    return math.exp(high)


def _importance() -> torch.Tensor:
    from bnnlib.functional import path_importance

    return path_importance([_tensor(*layer) for layer in _NETWORK])


def _halving():
    from bnnlib.nn import minibatch_weights

    return lambda num_batches: minibatch_weights(num_batches, "halving")


def _count(number: int) -> torch.Tensor:
    return torch.arange(1, number + 1, dtype=torch.float64)


def _left(score: Callable) -> list[int]:
    """Numbers, from 1, of the two weights of the exercise with the highest scores."""
    scores = [score(mean, scale) for mean, scale in _FOUR]
    return sorted(sorted(range(1, 5), key=lambda k: scores[k - 1])[2:])


def _orders() -> torch.Tensor:
    from bnnlib.functional import inclusion_log_odds, mixture_prior

    prior = mixture_prior(_SLAB_HERE, _SPIKE_HERE, 0.5)
    scores = (
        lambda mean, scale: float(inclusion_log_odds(_tensor(mean**2 + scale**2), prior)),
        lambda mean, scale: abs(mean) / scale,
        lambda mean, scale: abs(mean),
    )
    return _tensor(*(_left(score) for score in scores))


def _settled(rows: int, scale: float = _WIDE_START) -> float:
    """Where a weight's scale settles when so many rows of precision one say that it is zero."""
    from bnnlib.functional import expected_precision, mixture_prior

    prior, scale = mixture_prior(_SLAB_HERE, _SPIKE_HERE, 0.5), _tensor(scale)
    for _ in range(2_000):
        scale = (rows + expected_precision(scale.square(), prior)).rsqrt()
    return float(scale)


@cache
def _rows_needed(edge: float = 2 * _SPIKE_HERE) -> int:
    """The least number of rows after which the weight is found in the spike."""
    return next(rows for rows in range(1_000) if _settled(rows) < edge)


_BY_HAND = [0.2], [0.1], 1.0, 0.1, 0.25  # (m, sigma, tau_1, tau_0, pi) of one weight

EXERCISES = [
    Exercise(
        id="sbnn-1",
        kind="function",
        reference=_closed_form,
        hint="The derivative of R in p is A - B + log(p / (1 - p)): every other term cancels.",
        mistakes={
            lambda *arguments: (
                1 - _closed_form()(*arguments)
            ): "A and B are exchanged: this is the spike's probability.",
            lambda *arguments: _log_odds()(*arguments): "this is its logit: p* itself is asked.",
            **{_through_sigmoid(wrong): message for wrong, message in _MISODDS.items()},
        },
        by_hand=Case("p* for m = 0.2, sigma = 0.1, tau_1 = 1, tau_0 = 0.1 and pi = 1/4", _BY_HAND, (0,)),
        cases=_inclusion_cases,
        stub="def answer(mean, scale, slab, spike, prior):\n"
        "    ...  # p*; scale is sigma, slab and spike are tau_1 and tau_0, prior is pi",
    ),
    Exercise(
        id="sbnn-2",
        kind="function",
        reference=_log_odds,
        hint="Do not go through p: logit p* is B - A, which is linear in the second moment.",
        mistakes={
            lambda *arguments: -_log_odds()(*arguments): "the sign is wrong: this is A - B, the logit of 1 - p*.",
            **_MISODDS,
            lambda *arguments: _closed_form()(*arguments): "this is p* itself; its logit is asked.",
        },
        by_hand=Case("logit p* for m = 0.2, sigma = 0.1, tau_1 = 1, tau_0 = 0.1 and pi = 1/4", _BY_HAND, (0,)),
        cases=_inclusion_cases,
        stress={_far_cases: "p* rounds to 0 or 1 there: take B - A itself and never compute p."},
        stub="def answer(mean, scale, slab, spike, prior):\n    ...  # logit p*, also where p* rounds to 0 or 1",
    ),
    Exercise(
        id="sbnn-3",
        kind="array",
        reference=_orders,
        digits=math.inf,
        hint="Write r, |m| / sigma and |m| of each weight beside it; the two largest of each column are left.",
        mistakes={
            lambda: _orders().flip(1): "these are the right weights: write each pair in rising order.",
            lambda: _tensor([1, 4], [1, 4], [1, 4]): "two of the orders do agree, but p* ranks by m^2 + sigma^2.",
            lambda: _orders() - 1: "the weights are numbered from 1 to 4.",
            lambda: _tensor([1, 3], [1, 3], [1, 3]): "a large sigma helps a weight under p* alone.",
            lambda: _tensor([2, 4], [2, 3], [2, 3]): "these are the weights that go; those that are left are asked.",
            lambda: _tensor([1, 4], [1, 3], [1, 3]): "under the ratio a large sigma lowers the rank.",
        },
        stub="mean = [1.0, 0.035, 0.0, 0.3]\n"
        "scale = [0.07, 0.042, 1.0, 0.07]\n"
        "# numbers (1 to 4) of the two weights that are left, in rising order:\n"
        "answer = ...  # [[by p*], [by |m| / sigma], [by |m|]]",
    ),
    Exercise(
        id="sbnn-4",
        kind="number",
        digits=math.inf,
        reference=_rows_needed,
        hint="Iterate sigma^2 = 1 / (rows + kappa) from 0.3, with one row more each time, until it ends in the spike.",
        mistakes={
            lambda: _rows_needed() - 1: "this is the last number that leaves it in the slab.",
            lambda: math.ceil(1 / _threshold(0.5, slab_scale=_SLAB_HERE, spike_scale=_SPIKE_HERE) ** 2): "in the slab "
            "sigma is about 1 / sqrt(rows), but it tips over before it reaches the threshold: kappa rises on the way.",
            lambda: 1 / _SPIKE_HERE**2: "it need not become as narrow as the spike: the border is far above that.",
            lambda: 1: "one row halves the variance, but the weight is still far beyond the border.",
        },
        stub="slab, spike, prior = 1.0, 0.05, 0.5\n"
        "start = 0.3  # sigma; the mean is zero\n"
        "answer = ...  # the least number of rows after which it settles in the spike",
    ),
    Exercise(
        id="sbnn-5",
        kind="number",
        reference=_threshold,
        hint="Set the log-odds to zero: the evidence, quadratic in r, pays for log(tau_1/tau_0) and for pi.",
        mistakes={
            lambda: _threshold(0.5): "pi is 1/4 here; with 1/2 its log-odds would vanish.",
            lambda: _threshold(0.75): "pi and 1 - pi are swapped: a small prior probability raises the threshold.",
            lambda: math.sqrt(2 * (2 + math.log(3)) * math.exp(-6)): "the slab's precision 1/tau_1^2 was left out.",
            lambda: _threshold(
                math.exp(-math.log(4)) / (1 + math.exp(-math.log(4)))
            ): "log pi was taken for the logit of pi, log(pi / (1 - pi)).",
            lambda: _threshold() * math.sqrt(2): "a factor 1/2 or 2 is missing under the root.",
        },
        stub="log_slab, log_spike, prior = -1.0, -3.0, 0.25\nanswer = ...  # the r with p* = 1/2",
    ),
    Exercise(
        id="sbnn-6",
        kind="number",
        reference=_widest_slab,
        hint="At the border log(tau_1/tau_0) equals the evidence, in which 1/tau_1^2 hardly counts.",
        mistakes={
            lambda: _widest_slab(_MEAN**2): "sigma counts as well: the second moment is m^2 + sigma^2.",
            lambda: _widest_slab() / _SPIKE: "this is tau_1 / tau_0; tau_1 is asked.",
            lambda: math.exp(2 * (math.log(_widest_slab()) + 5) - 5): "the evidence has a factor 1/2.",
        },
        stub="m, sigma, log_spike, prior = 0.03, 0.005, -5.0, 0.5\n"
        "answer = ...  # the widest slab tau_1 with p* >= 1/2",
    ),
    Exercise(
        id="sbnn-7",
        kind="function",
        reference=_gradient,
        hint="By the envelope theorem p may be held at p* while R is differentiated in m and in sigma.",
        mistakes={
            _misgradient(
                in_scale=lambda kappa, scale: 0.5 * (kappa - scale**-2)
            ): "the second row is the derivative in sigma^2, as in the paper's (3.15): multiply it by 2 sigma.",
            _misgradient(in_scale=lambda kappa, scale: kappa * scale): "-log sigma in R has a derivative as well.",
            _misgradient(
                in_scale=lambda kappa, scale: kappa * scale + 1 / scale
            ): "the entropy's part has the wrong sign: R contains -log sigma.",
            _misgradient(
                in_scale=lambda kappa, scale: kappa * scale - scale**-2
            ): "the derivative of -log sigma is -1 / sigma.",
            _misgradient(lambda p, pi: pi): "pi stands where p* belongs: the weights' own probability counts.",
            _misgradient(lambda p, pi: 1 - p): "p* and 1 - p* are exchanged: the slab's precision goes with p*.",
            _misgradient(precision=lambda tau: 1 / tau): "tau_1 and tau_0 are scales: the precision is 1 / tau^2.",
            _misgradient(order=(1, 0)): "the rows are exchanged: the derivative in m comes first.",
        },
        by_hand=Case("in sigma, for m = 0.2, sigma = 0.1, tau_1 = 1, tau_0 = 0.1 and pi = 1/4", _BY_HAND, (1, 0)),
        cases=_inclusion_cases,
        stub="def answer(mean, scale, slab, spike, prior):\n"
        "    ...  # torch.stack([derivative of R* in m, derivative of R* in sigma])",
    ),
    Exercise(
        id="sbnn-8",
        kind="array",
        reference=_importance,
        hint="One path for each hidden unit leads from an input to the output; psi is the mean of their products.",
        mistakes={
            lambda: _importance() * 3 / 2: "the sum was divided by the number of inputs: there are three paths.",
            lambda: _tensor(1.0, 0.0): "this is phi, scaled to reach from 0 to 1; psi is asked.",
            lambda: (
                _tensor(*_NETWORK[0]).mean(0) * _tensor(*_NETWORK[1]).mean()
            ): "multiply along each path first, then average.",
            lambda: (_tensor(*_NETWORK[0]) * _tensor(*_NETWORK[1]).T).amax(
                0
            ): "this is the best path; the mean is asked.",
            lambda: _tensor(*_NETWORK[0]).mean(0): "the second layer is missing.",
            lambda: _importance().flip(0): "the inputs are exchanged: a column of P1 belongs to an input.",
        },
        samples=3,
        stub="P1 = [[0.6, 0.1], [0.9, 0.3], [0.2, 0.7]]  # a row for each hidden unit\n"
        "P2 = [[0.5, 0.8, 0.3]]\n"
        "answer = ...  # [psi_1, psi_2]",
    ),
    Exercise(
        id="sbnn-9",
        kind="function",
        reference=_halving,
        hint="2^M overflows for large M: divide numerator and denominator by it before you compute them.",
        mistakes={
            lambda num_batches: (
                0.5 ** _count(num_batches)
            ): "these do not add up to one: divide by 2^M - 1, not by 2^M.",
            lambda num_batches: 2.0 ** (1 - _count(num_batches)): "the denominator is 2^M - 1, not 2^(M - 1).",
            lambda num_batches: _halving()(num_batches).flip(0): "the order is reversed: the first batch pays most.",
            lambda num_batches: torch.full(
                (num_batches,), 1 / num_batches, dtype=torch.float64
            ): "this is the first scheme, 1/M for each.",
            lambda num_batches: (
                0 * _count(num_batches) + 2.0 ** (num_batches - 1) / (2.0**num_batches - 1)
            ): "the numerator is 2^(M - i), which falls with i.",
            lambda num_batches: (
                _count(num_batches).flip(0) / _count(num_batches).sum()
            ): "the shares halve from batch to batch; these fall in equal steps.",
        },
        by_hand=Case("the second of four shares", (4,), (1,)),
        cases=lambda: [(1,), (5,), (469,)],
        stress={lambda: [(1030,)]: "2^M overflows: divide numerator and denominator by it on paper."},
        stub="def answer(num_batches):\n    ...  # the shares of Blundell et al. (2015) in float64, for any M",
    ),
]
