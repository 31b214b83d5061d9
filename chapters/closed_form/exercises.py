"""Exercises of the chapter on closed-form inclusion probabilities."""

from __future__ import annotations

import math

import torch

from book.display.exercises.registry import Exercise

_SET_TWO = {"slab_scale": math.exp(-1.0), "spike_scale": math.exp(-3.0)}  # of LeNet-5
_SPIKE, _MEAN, _SCALE = math.exp(-5.0), 0.03, 0.005  # Lindley: tau_0 of LeNet-5's set 1, and one weight
_NETWORK = (((0.9, 0.2), (0.5, 0.1)), ((0.8, 0.4),))  # P of a 2-2-1 network, inputs first


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


def _inclusion_cases() -> list[tuple]:
    return _posteriors((1.0, 0.1, 0.5), (math.exp(-1.0), math.exp(-3.0), 0.25), (3.0, 0.01, 0.9))


def _far_cases() -> list[tuple]:
    # r up to 60 spikes: log-odds of a thousand, where p* itself is 1 in float64; and a slab of e^40, where it is 0
    return [*_inclusion_cases(), *_posteriors((math.e, math.exp(-6.0), 0.5), (math.exp(40.0), 0.1, 0.5), reach=20.0)]


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


def _ranked():
    from bnnlib.pruning import rank_mask

    return lambda first, second, share: rank_mask(torch.cat([first.flatten(), second.flatten()]), share)


def _ranked_cases() -> list[tuple]:
    generator = torch.Generator().manual_seed(41)

    def scores(*shape: int, center: float = 0.0) -> torch.Tensor:
        return center + 5 * torch.randn(shape, generator=generator, dtype=torch.float64)

    # in the last case p* is 1 in float64 for nearly all
    return [
        (scores(3, 4), scores(8), 0.25),
        (scores(5, 6, center=4.0), scores(10, center=-4.0), 0.95),
        (scores(4, 5, center=60.0), scores(5, 4, center=50.0), 0.5),
    ]


EXERCISES = [
    Exercise(
        id="sbnn-1",
        kind="function",
        reference=_closed_form,
        tolerance=1e-9,
        hint="The derivative of R in p is A - B + log(p / (1 - p)): every other term cancels.",
        cases=_inclusion_cases,
        stub="def answer(mean, scale, slab, spike, prior):\n    ...  # the p at which the derivative of R is zero",
    ),
    Exercise(
        id="sbnn-2",
        kind="function",
        reference=_log_odds,
        tolerance=1e-9,
        hint="Do not go through p: logit p* is B - A, which is linear in the second moment.",
        cases=_far_cases,
        stub="def answer(mean, scale, slab, spike, prior):\n    ...  # logit p*, also where p* rounds to 0 or 1",
    ),
    Exercise(
        id="sbnn-3",
        kind="number",
        reference=_threshold,
        hint="Set the log-odds to zero: the evidence r^2 (1/tau_0^2 - 1/tau_1^2) / 2 pays for log(tau_1/tau_0) and pi.",
        mistakes={
            lambda: _threshold(0.5): "pi is 1/4 here; with 1/2 its log-odds would vanish.",
            lambda: _threshold(0.75): "pi and 1 - pi are swapped: a small prior probability raises the threshold.",
            lambda: math.sqrt(2 * (2 + math.log(3)) * math.exp(-6)): "the slab's precision 1/tau_1^2 was left out.",
            lambda: _threshold() * math.sqrt(2): "a factor 1/2 or 2 is missing under the root.",
        },
        stub="log_slab, log_spike, prior = -1.0, -3.0, 0.25\nanswer = ...  # the r with p* = 1/2",
    ),
    Exercise(
        id="sbnn-4",
        kind="function",
        reference=_gradient,
        tolerance=1e-9,
        hint="By the envelope theorem p may be held at p* while R is differentiated in m and in sigma.",
        cases=_inclusion_cases,
        stub="def answer(mean, scale, slab, spike, prior):\n"
        "    ...  # torch.stack([derivative of R* in m, derivative of R* in sigma])",
    ),
    Exercise(
        id="sbnn-5",
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
        id="sbnn-6",
        kind="array",
        reference=_importance,
        tolerance=1e-9,
        hint="Two paths lead from each input to the output; psi is the mean of their products.",
        stub="P1, P2 = [[0.9, 0.2], [0.5, 0.1]], [[0.8, 0.4]]  # rows: units, columns: what they read\n"
        "answer = ...  # [psi_1, psi_2]",
    ),
    Exercise(
        id="sbnn-7",
        kind="function",
        reference=_halving,
        tolerance=1e-9,
        hint="2^M overflows for large M: divide numerator and denominator by it before you compute them.",
        cases=lambda: [(1,), (5,), (469,), (1030,)],
        stub="def answer(num_batches):\n    ...  # r_1, ..., r_M of Blundell et al. (2015) in float64, for any M",
    ),
    Exercise(
        id="sbnn-8",
        kind="function",
        reference=_ranked,
        tolerance=0.0,
        hint="One ranking over both layers, by logit p* itself: p* ties at 1 for most large weights.",
        cases=_ranked_cases,
        stub="def answer(first, second, share):\n"
        "    ...  # logit p* of two layers -> one flat mask over both, False for the lowest `share`",
    ),
]
