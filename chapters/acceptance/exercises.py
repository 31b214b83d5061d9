"""Exercises of the chapter on the Metropolis-Hastings view."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from book.display.exercises.registry import Case, Exercise

_TARGET = (1 / 2, 1 / 3, 1 / 6)  # of the three states of the worked example
_OFFER = _TARGET[::-1]
# a race: seconds of learning and effective draws a second afterwards, of a learned proposal and of HMC
_LEARNING, _LEARNED_RATE, _WARM_UP, _HMC_RATE = 40.0, 120_000.0, 4.0, 30_000.0


def _three_states(moves_only: bool = False, offer: tuple[float, ...] = _OFFER) -> float:
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j or not moves_only]
    return sum(min(_TARGET[i] * offer[j], _TARGET[j] * offer[i]) for i, j in pairs)


def _half() -> float:
    return math.sqrt(2.0) * 0.6744897501960817  # -sqrt(2) times the quartile of the standard normal


def _crossing() -> float:
    return (_LEARNING - _WARM_UP) / (1.0 / _HMC_RATE - 1.0 / _LEARNED_RATE)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(70)


def _positive(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=_generator(), dtype=torch.float64) + 0.1


def _multiplicative():
    from bnnlib.functional import log_acceptance_ratio

    def ratio(log_p: Tensor, log_p_new: Tensor, x: Tensor, x_new: Tensor) -> Tensor:
        # densities of a lognormal step: the normal in log x' is shared, 1 / x' and 1 / x are not
        return log_acceptance_ratio(log_p, log_p_new, -x_new.log(), -x.log())

    return ratio


def _step_cases() -> list[tuple[Tensor, ...]]:
    values = torch.randn(4, 9, generator=_generator(), dtype=torch.float64)
    return [(values[0], values[1], values[2].exp(), values[3].exp())]


def _all_pairs():
    return lambda weight, offered: (offered[None, :] - weight[:, None]).clamp_max(0.0).exp().mean()


def _pair_cases() -> list[tuple[Tensor, Tensor]]:
    draws = torch.randn(2, 40, generator=_generator(), dtype=torch.float64)
    return [(draws[0], draws[1, :10] - 0.7), (2 * draws[0, :12], 2 * draws[1] + 0.4)]


def _far_cases() -> list[tuple[Tensor, Tensor]]:
    """Apart, and together where the densities are not normalized."""
    weight, offered = _pair_cases()[0]
    return [(weight - 900.0, offered), (weight + 900.0, offered + 900.0), (weight - 900.0, offered - 900.0)]


def _kernel():
    from chapters.shared.finite import metropolis_hastings_kernel

    return metropolis_hastings_kernel


def _kernel_cases() -> list[tuple[Tensor, Tensor]]:
    target, proposal = _positive(4), _positive(4, 4)
    return [(target / target.sum(), proposal / proposal.sum(dim=1, keepdim=True))]


def _wrong_kernel(accept: Callable[[Tensor], Tensor], stay: bool = True) -> Callable:
    """Kernel with another acceptance of xi, and without the chain that stays."""

    def kernel(p: Tensor, q: Tensor) -> Tensor:
        flow = p[:, None] * q
        moved = q * accept(flow.T / flow)
        return moved + torch.diag(1.0 - moved.sum(dim=1)) if stay else moved

    return kernel


def _no_stay(p: Tensor, q: Tensor) -> Tensor:
    return _kernel()(p, q).fill_diagonal_(0.0)


def _rescaled(p: Tensor, q: Tensor) -> Tensor:
    moved = _wrong_kernel(lambda xi: xi.clamp_max(1.0), stay=False)(p, q)
    return moved / moved.sum(dim=1, keepdim=True)


def _metropolis(p: Tensor, q: Tensor) -> Tensor:
    moved = q * (p / p[:, None]).clamp_max(1.0)
    return moved + torch.diag(1.0 - moved.sum(dim=1))


EXERCISES = [
    Exercise(
        id="mh-1",
        kind="number",
        reference=_three_states,
        hint="Of the two flows between a pair of states the smaller one passes, both ways; a state may propose itself.",
        mistakes={
            lambda: _three_states(moves_only=True): "the pairs x' = x are missing: such a proposal is always accepted.",
            lambda: 2 / 3: "this is 1 - TV(p, q): the distance that counts is that of the pairs.",
            lambda: _three_states(offer=(1 / 3,) * 3): "this is the rate of the uniform proposal.",
        },
        stub="target, offer = (1 / 2, 1 / 3, 1 / 6), (1 / 6, 1 / 3, 1 / 2)\n"
        "answer = ...  # acceptance rate of this independent proposal",
    ),
    Exercise(
        id="mh-2",
        kind="number",
        reference=_half,
        hint="Set the exact rate of two normals to one half; torch.special.ndtri is the inverse of Phi.",
        mistakes={
            lambda: 1 / math.sqrt(2.0): "this distance comes from the bound, which asks for more than is needed.",
            lambda: _half() / math.sqrt(2.0): "the root of 2 is missing: log xi has the variance 2 m^2.",
            lambda: _half() / 2: "Phi is taken at -m / sqrt(2), half of the standard deviation of log xi.",
            lambda: -_half(): "a distance is positive.",
        },
        stub="answer = ...  # distance m at which half of the proposals are accepted",
    ),
    Exercise(
        id="mh-3",
        kind="function",
        reference=_multiplicative,
        hint="The density of x' = x exp(s z) has the factor 1 / x'.",
        mistakes={
            lambda log_p, log_p_new, x, x_new: log_p_new - log_p: "the step is symmetric in log x, not in x: the "
            "densities of the move and of the move back differ.",
            lambda log_p, log_p_new, x, x_new: (
                log_p_new - log_p + x.log() - x_new.log()
            ): "the correction is upside down: log q(x | x') has the factor 1 / x.",
            lambda log_p, log_p_new, x, x_new: (
                log_p - log_p_new + x_new.log() - x.log()
            ): "the target's ratio is upside down: a point with more density is welcome.",
            lambda log_p, log_p_new, x, x_new: (log_p_new - log_p + x_new.log() - x.log()).exp(): "this is xi: its "
            "logarithm is asked for.",
            lambda log_p, log_p_new, x, x_new: (log_p_new - log_p + x_new.log() - x.log()).clamp_max(0.0): "this is "
            "the logarithm of the probability to accept, min{1, xi}: that of xi itself is asked for.",
            lambda log_p, log_p_new, x, x_new: log_p_new - log_p + x_new / x: "the factor x' / x enters with its "
            "logarithm.",
        },
        by_hand=Case(
            "log xi for log p(x) = -2, log p(x') = -1.5, x = 1 and x' = 2", ([-2.0], [-1.5], [1.0], [2.0]), (0,)
        ),
        cases=_step_cases,
        stub="def answer(log_p, log_p_new, x, x_new):\n"
        "    # log densities of the target at x and x_new = x * exp(s * z), z normal; x > 0\n"
        "    ...  # log of the acceptance ratio xi",
    ),
    Exercise(
        id="mh-4",
        kind="function",
        reference=_all_pairs,
        hint="Compare every point with every proposal before you average, and in logarithms as long as you can.",
        mistakes={
            lambda weight, offered: (
                (offered[: len(weight)] - weight[: len(offered)]).clamp_max(0.0).exp().mean()
            ): "each x was paired with its own x' only; every other pair is as good, and free.",
            lambda weight, offered: (
                (weight[:, None] - offered).clamp_max(0.0).exp().mean()
            ): "the sign: a proposed point with the larger weight is always accepted.",
            lambda weight, offered: (offered - weight[:, None]).exp().mean().clamp_max(1.0): "the minimum with 1 is "
            "taken of each pair, not of the mean.",
            lambda weight, offered: (offered - weight[:, None]).exp().mean(): "the minimum with 1 is missing.",
        },
        by_hand=Case(
            "the rate for log w of 0 and 1 at points of the target, of 0.5 and -1 at proposed ones",
            ([0.0, 1.0], [0.5, -1.0]),
        ),
        cases=_pair_cases,
        stress={
            _far_cases: "exp overflows or vanishes where log w is far from 0: subtract first, take the minimum with 0, "
            "then exp."
        },
        stub="def answer(weight, offered):\n"
        "    # weight (n,): log w = log p - log q at points of the target\n"
        "    # offered (m,): the same at proposed points\n"
        "    ...  # acceptance rate, estimated from all n * m pairs",
    ),
    Exercise(
        id="mh-5",
        kind="number",
        reference=lambda: 0.9 / 1.1,
        hint="The autocorrelation at lag k is the chance that k proposals in a row were refused.",
        mistakes={
            lambda: 0.9: "this is the acceptance rate: a refused proposal repeats a draw, and costs twice.",
            lambda: 1 / 1.1: "1 + 2 (0.1 + 0.01 + ...) is not 1.1: sum the whole series, twice.",
            lambda: 1 / 1.2: "the lags beyond the first count too.",
            lambda: 0.81: "this is the chance that two proposals in a row are accepted.",
        },
        stub="acceptance = 0.9  # everywhere the same\nanswer = ...  # effective draws per draw",
    ),
    Exercise(
        id="mh-6",
        kind="function",
        reference=_kernel,
        hint="Off the diagonal a move is proposed and accepted; what is refused stays, and every row sums to one.",
        accepted=[_wrong_kernel(lambda xi: xi.clamp_max(1.0))],
        mistakes={
            _wrong_kernel(lambda xi: (1 / xi).clamp_max(1.0)): "xi is upside down: check detailed balance.",
            _wrong_kernel(lambda xi: xi.clamp_max(1.0), stay=False): "rows must sum to 1: a refused move stays.",
            _no_stay: "rows must sum to 1: what is refused stays, and what is proposed to stay, too.",
            _rescaled: "rescaled rows do not keep p: what is refused stays on the diagonal.",
            _wrong_kernel(lambda xi: xi / (1 + xi)): "this is Barker's test: it keeps p as well, but accepts less.",
            lambda p, q: _wrong_kernel(lambda xi: xi.clamp_max(1.0))(p, q).T: "rows are where the chain is.",
            _metropolis: "this takes p(x') / p(x) for xi: that is for a symmetric q, and this one is not.",
        },
        by_hand=Case(
            "how often the first of two states is kept, for p = (3/4, 1/4) and all of q 1/2",
            ([0.75, 0.25], [[0.5, 0.5], [0.5, 0.5]]),
            (0, 0),
        ),
        cases=_kernel_cases,
        stub="def answer(p, q):\n"
        "    # p (n,): target; q (n, n): q[i, j] proposes state j from i; all positive\n"
        "    ...  # Metropolis-Hastings kernel (n, n), rows for where the chain is",
    ),
    Exercise(
        id="mh-7",
        kind="number",
        reference=_crossing,
        hint="Write the seconds until n effective draws as a line in n, for both: where do the lines cross?",
        mistakes={
            lambda: _LEARNING / (1.0 / _HMC_RATE - 1.0 / _LEARNED_RATE): "HMC needs its warm-up too.",
            lambda: (
                _LEARNING * _HMC_RATE
            ): "the learned proposal needs time for its draws as well, and HMC its warm-up.",
            lambda: (_LEARNING - _WARM_UP) * _LEARNED_RATE: "this is what the learned one draws in the head start; "
            "when do the two lines meet?",
            lambda: (_LEARNING - _WARM_UP) * _HMC_RATE: "this is HMC's head start; it goes on drawing meanwhile.",
            lambda: (_LEARNING - _WARM_UP) * (_LEARNED_RATE - _HMC_RATE): "seconds a draw are subtracted, 1 / rate, "
            "not draws a second.",
            lambda: _crossing() / 1e6: "this is in millions: give the number of draws.",
        },
        stub="learning, learned_rate = 40.0, 120_000.0  # seconds; effective draws a second\n"
        "warm_up, hmc_rate = 4.0, 30_000.0\n"
        "answer = ...  # effective draws after which both have taken equally long",
    ),
]
