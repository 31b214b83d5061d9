"""Exercises of the chapter on variational spike-and-slab networks."""

import math
from collections.abc import Callable

import numpy as np
import torch

from book.display.exercises.registry import Case, Exercise

# A weight in doubt (phi = 1/2) with mean 1 and scale 0.1, under lambda = 0.1 and prior variance 2.
_PHI, _MEAN, _SCALE, _LAMBDA, _PRIOR_SCALE = 0.5, 1.0, 0.1, 0.1, math.sqrt(2)
# The sparse network 20-6-6-1 of the simulations, biases included, with n = 3000 observations.
_NET = {"num_parameters": 175, "num_hidden_layers": 2, "width": 6, "num_samples": 3000, "num_inputs": 20}


def _tensor(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _kl(phi: float = _PHI, prior_scale: float = _PRIOR_SCALE) -> float:
    from bnnlib.functional import spike_slab_kl

    logit = torch.logit(_tensor(phi))
    return float(spike_slab_kl(_tensor(_MEAN), _tensor(_SCALE), logit, _LAMBDA, prior_scale))


def _slab() -> float:
    from bnnlib.functional import gaussian_kl

    return float(gaussian_kl(_tensor(_MEAN), _tensor(_SCALE), _PRIOR_SCALE))


def _gate_part() -> float:
    from chapters.spike_slab.formulas import bernoulli_kl

    return float(bernoulli_kl(torch.logit(_tensor(_PHI)), _LAMBDA))


def _reversed_gate() -> float:
    return float(_reversed_coin(torch.logit(_tensor(_PHI)), _LAMBDA))


def _reversed_slab() -> float:
    from bnnlib.functional import gaussian_kl

    return float(gaussian_kl(_tensor(_MEAN), _tensor(_PRIOR_SCALE), _SCALE))


def _inclusion(**changes: float) -> float:
    from bnnlib.functional import theoretical_inclusion_probability

    return theoretical_inclusion_probability(**{**_NET, **changes})


def _hard_gate():
    from bnnlib.functional import logistic_noise
    from chapters.spike_slab.formulas import gumbel_softmax_gate

    return lambda logit, uniform: gumbel_softmax_gate(logit, logistic_noise(uniform))[0]


def _gate_cases() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(20)
    shapes = [(7,), (4, 5), (1000,), ()]
    return [
        (
            3 * torch.randn(shape, generator=generator, dtype=torch.float64),
            torch.rand(shape, generator=generator, dtype=torch.float64).clamp(1e-12, 1 - 1e-12),
        )
        for shape in shapes
    ]


def _empty_network() -> float:
    from bnnlib.functional import inclusion_probability_for, num_network_parameters

    sizes = (784, 512, 512, 10)
    return (1.0 - inclusion_probability_for(sizes, 60_000)) ** num_network_parameters(sizes)


def _break_even() -> float:
    from bnnlib.functional import log_odds

    return _slab() - log_odds(_LAMBDA)


def _stable_coin():
    from chapters.spike_slab.formulas import bernoulli_kl

    return bernoulli_kl


def _logits(*ends: float) -> torch.Tensor:
    return torch.linspace(*ends, 21, dtype=torch.float64)


def _coin_cases() -> list[tuple[torch.Tensor, float]]:
    return [(_logits(-9, 9), 0.1), (_logits(-9, 9), 1e-3), (_logits(-9, 9).reshape(3, 7), 0.8)]


def _saturated_cases() -> list[tuple[torch.Tensor, float]]:
    return [(_logits(-100, 100), 0.1), (_logits(-100, 100), 0.9)]


def _rare_cases() -> list[tuple[torch.Tensor, float]]:
    # the divergence is log(1 / (1 - lambda)): 1 - 1e-12 has four digits of lambda left
    return [(_logits(-100, -40), 1e-12)]


def _sure_cases() -> list[tuple[torch.Tensor, float]]:
    # both terms are about 1e-12: 1 - phi, computed as such, has an error of 1e-16
    return [(_logits(28, 34), 1 - 1e-12)]


def _miscoin(probability: Callable = torch.sigmoid, on: bool = True, off: bool = True) -> Callable:
    """The divergence of svbnn-6, directly and with something changed."""

    def wrong(logit, inclusion):
        phi = probability(logit)
        opened, closed = phi * torch.log(phi / inclusion), (1 - phi) * torch.log((1 - phi) / (1 - inclusion))
        return on * opened + off * closed

    return wrong


def _reversed_coin(logit: torch.Tensor, inclusion: float) -> torch.Tensor:
    """KL of the prior's coin from the posterior's."""
    phi = torch.sigmoid(logit)
    return inclusion * torch.log(inclusion / phi) + (1 - inclusion) * torch.log((1 - inclusion) / (1 - phi))


def _missing_input(num_samples: int = 3000) -> float:
    """n/2 times the variance that x1 explains in 7 x2 / (1 + x1^2) for x uniform, by Gauss-Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    curve, weights = 1.0 / (1.0 + nodes**2), weights / 2.0
    variance = weights @ curve**2 - (weights @ curve) ** 2
    return float(num_samples / 2 * 49 * (weights @ nodes**2) * variance)


_CLOSED = "it opens with probability 1 - phi: phi is 1 / (1 + e^-logit), where the paper prints the other sign."

EXERCISES = [
    Exercise(
        id="svbnn-1",
        kind="number",
        reference=_empty_network,
        hint="Every coin must show tails, weights and biases alike.",
        mistakes={
            lambda: 0.05: "0.05 is close to the chance of the opposite.",
            lambda: 1 - 669_706 * 6.807625e-8: "1 - T lambda is only the beginning of the series of (1 - lambda)^T.",
            lambda: 0.5: "the prior expects far less than one edge in the whole network.",
        },
        stub="inclusion, parameters = 6.808e-8, 669_706\nanswer = ...  # probability of a network without any edge",
    ),
    Exercise(
        id="svbnn-2",
        kind="number",
        reference=_inclusion,
        hint="T counts weights and biases of all three layers, L the hidden layers, and delta is 0.1.",
        mistakes={
            lambda: _inclusion(num_parameters=162): "T has to count the biases too.",
            lambda: _inclusion(num_hidden_layers=1): "the width's exponent is L + 1, here with two hidden layers.",
            lambda: _inclusion(num_hidden_layers=3): "the net has two hidden layers; the output layer is not one.",
            lambda: _inclusion(num_samples=3000**2): "the sample size enters by its square root.",
            lambda: _inclusion(num_samples=150): "p stands outside the root: log(sqrt(n) p), as in the code.",
            lambda: _inclusion(num_inputs=1): "the number of inputs p is missing.",
            lambda: _inclusion(delta=1.0): "the constant delta = 0.1 is missing.",
            lambda: 1 / _NET["num_parameters"]: "this is 1/T: the term with delta is missing.",
        },
        samples=_NET["num_samples"],
        stub="inputs, width, hidden_layers, samples, delta = 20, 6, 2, 3000, 0.1\nanswer = ...  # lambda_opt",
    ),
    Exercise(
        id="svbnn-3",
        kind="number",
        reference=_kl,
        hint="The gates' divergence counts always, the slabs' divergence only as often as the slab is chosen.",
        mistakes={
            _slab: "this is the divergence of the slabs alone.",
            _gate_part: "this is the divergence of the gates alone.",
            lambda: _PHI * _slab(): "this is the slabs' part alone: the gates' divergence is missing.",
            lambda: _gate_part() + _slab(): "the slabs' divergence has to be weighted by phi.",
            lambda: (
                _PHI * (_gate_part() + _slab())
            ): "the gates' divergence counts always: only the slabs' is weighted by phi.",
            lambda: _PHI * math.log(_PHI / _LAMBDA) + _PHI * _slab(): "the term of the closed gate is missing.",
            lambda: _gate_part() + _PHI * (_slab() + 0.5): "the -1/2 of the slabs' divergence is missing.",
            lambda: (
                _reversed_gate() + _PHI * _slab()
            ): "the coins' divergence is reversed: it is from the prior, weighted by phi.",
            lambda: _gate_part() + _PHI * _reversed_slab(): "the slabs' divergence is reversed: it is from the prior.",
            lambda: _kl(prior_scale=2.0): "sigma0 = 2 was used: 2 is the variance, sigma0 its root.",
            lambda: _kl(prior_scale=2**0.25): "the prior's scale was taken for its variance.",
        },
        stub="phi, mean, scale = 0.5, 1.0, 0.1\n"
        "prior_phi, prior_scale = 0.1, 2**0.5\n"
        "answer = ...  # divergence from the prior in nats",
    ),
    Exercise(
        id="svbnn-4",
        kind="number",
        reference=_break_even,
        hint="Set phi to one half: the left side of the equation for the best phi is then zero.",
        mistakes={
            _slab: "this is the price of the slab; the coin's price is missing.",
            lambda: _break_even() - _slab(): "this is the price of the coin; the slab's price is missing.",
            lambda: 2 * _slab() - _break_even(): "the coin's price is a cost too: check its sign.",
            lambda: _gate_part() + _slab(): "the coin's price is its log-odds under lambda, not its divergence.",
            _kl: "this is the divergence at phi = 1/2, not the gain at which phi = 1/2 is best.",
            lambda: _break_even() - 2 * _slab(): "the slab's divergence is a cost: check its sign.",
            lambda: _slab() - math.log(_LAMBDA): "the coin's price is log((1 - lambda) / lambda), not log(1 / lambda).",
        },
        stub="mean, scale = 1.0, 0.1\n"
        "prior_phi, prior_scale = 0.1, 2**0.5\n"
        "answer = ...  # gain in log-likelihood in nats at which phi = 1/2 is best",
    ),
    Exercise(
        id="svbnn-5",
        kind="function",
        reference=_hard_gate,
        hint="The sign of eta decides; or: u lies below phi with probability phi.",
        digits=math.inf,
        accepted=[lambda logit, u: u < torch.sigmoid(logit)],
        mistakes={
            lambda logit, u: u > torch.sigmoid(logit): _CLOSED,
            lambda logit, u: u < torch.sigmoid(-logit): _CLOSED,
            lambda logit, u: torch.sigmoid(logit + torch.logit(u)): "this is the soft gate: the hard one is 0 or 1.",
            lambda logit, u: torch.sigmoid(2 * (logit + torch.logit(u))): "this is the soft gate at temperature 1/2: "
            "the hard one is 0 or 1.",
            lambda logit, u: torch.sigmoid(logit): "this is phi itself: a gate is a draw, 0 or 1.",
            lambda logit, u: logit > 0: "u is not used: this gate is not random.",
            lambda logit, u: u < logit: "u was compared with the logit: compare like with like.",
            lambda logit, u: logit - torch.log(-torch.log(u)) > 0: "one Gumbel variable was added: it takes the "
            "difference of two.",
            lambda logit, u: (
                logit + torch.log(u) + torch.log1p(-u) > 0
            ): "the logarithms of u and 1 - u are subtracted, not added.",
        },
        by_hand=Case(
            "the four gates, 0 or 1, for the logits -2, -1, 0.5 and 1 with u = 0.1, 0.7, 0.7 and 0.2",
            ([-2.0, -1.0, 0.5, 1.0], [0.1, 0.7, 0.7, 0.2]),
        ),
        cases=_gate_cases,
        stub="def answer(logit, u):\n"
        "    # logit, u: tensors of one shape, u uniform on (0, 1)\n"
        "    ...  # 1 with probability sigmoid(logit), else 0, for each entry",
    ),
    Exercise(
        id="svbnn-6",
        kind="function",
        reference=_stable_coin,
        hint="log phi is logsigmoid(logit); the logarithm of 1 - phi has the same form with another sign.",
        digits=9,
        mistakes={
            _reversed_coin: "phi and lambda are exchanged: the divergence is from the prior, weighted by phi.",
            _miscoin(off=False): "the term of the closed gate is missing.",
            _miscoin(on=False): "the term of the open gate is missing.",
            _miscoin(
                lambda logit: torch.sigmoid(-logit)
            ): "phi is 1 / (1 + e^-logit); the paper prints the other sign.",
            lambda logit, inclusion: (
                _miscoin()(logit, 0.5) - math.log(2)
            ): "the prior's logarithms are missing: this is minus the entropy.",
        },
        by_hand=Case("the divergence in nats for the logit 1 and lambda = 0.1", ([1.0], 0.1), (0,)),
        cases=_coin_cases,
        stress={
            _saturated_cases: "at logits of 100 phi rounds to 0 or 1: take its logarithms with logsigmoid.",
            _rare_cases: "1 - lambda or 1 - phi rounds away the digits of a small one: log1p(-lambda) and "
            "logsigmoid(-logit) keep them.",
            _sure_cases: "where phi and lambda are both near 1, a difference of nearly equal numbers lost its digits: "
            "1 - phi is sigmoid(-logit), and log phi is logsigmoid(logit), no difference.",
        },
        stub="def answer(logit, inclusion):\n"
        "    # logit: a tensor; inclusion: a float in (0, 1), also near its ends\n"
        "    ...  # KL(Bern(sigmoid(logit)) || Bern(inclusion)) in nats, one for each logit",
    ),
    Exercise(
        id="svbnn-7",
        kind="number",
        reference=_missing_input,
        hint="The gain of a Gaussian model with unit noise is n / 2 times the mean squared error that is saved.",
        mistakes={
            lambda: 3 * _missing_input(): "the mean of x2 squared is 1/3, not 1.",
            lambda: 2 * _missing_input(): "a squared error e costs n e / 2 nats: the 1/2 is missing.",
            lambda: _missing_input(2): "this is the mean squared error that is saved: what is it in nats, for all n?",
            lambda: _missing_input() + 3000 / 2 * 49 / 3 * (math.pi / 4) ** 2: "the best prediction without x1 keeps "
            "the mean pi/4 of the curve: only the variance around it is lost.",
            lambda: _missing_input() / 49: "the factor 49 of 7 x2, squared, is missing.",
            lambda: _missing_input() / 7: "7 x2 enters the squared error with its square, 49.",
        },
        samples=3000,
        stub="samples = 3000  # x uniform on (-1, 1), noise of variance 1\n"
        "answer = ...  # log-likelihood that is lost without x1, in nats",
    ),
]
