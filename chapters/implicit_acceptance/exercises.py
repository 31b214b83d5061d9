"""Exercises of the chapter on the implicit Metropolis-Hastings algorithm."""

import math
from collections.abc import Callable

import torch

from book.display.exercises.registry import Case, Exercise

# Three states: what is wanted, and what the generator draws.
_TARGET, _RAW = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)
# A point that the discriminator is sure of, among points at even odds; chains of the length that MH-GAN takes.
_SURE, _STEPS = 0.998, 640
_LOWER = 0.2


def _rate(at: tuple[float, ...] = _TARGET, confidence: float = 1.0) -> float:
    """Acceptance rate of the independent chain with the best discriminator to the power `confidence`, at a law."""
    weight = [(p / q) ** confidence for p, q in zip(_TARGET, _RAW, strict=True)]
    left, offered = list(zip(at, weight, strict=True)), list(zip(_RAW, weight, strict=True))
    return sum(law * q * min(1.0, here / there) for law, there in left for q, here in offered)


def _accepted(weight: Callable[[float, float], float]) -> float:
    """As `_rate` at the target, with some weight of a state in place of p / q."""
    states = list(zip(_TARGET, _RAW, strict=True))
    return sum(at[0] * to[1] * min(1.0, weight(*to) / weight(*at)) for at in states for to in states)


def _threshold(lower: float = _LOWER) -> float:
    from chapters.implicit_acceptance.formulas import implicit_bound_constant

    return 1.0 / implicit_bound_constant(lower)


def _accept():
    from bnnlib.functional import acceptance_probability

    return lambda proposed, present: acceptance_probability(proposed - present)


def _logits(*ends: float) -> torch.Tensor:
    return torch.linspace(*ends, 21, dtype=torch.float64)


def _accept_cases() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(_logits(-4, 4), _logits(3, -2)), (_logits(-1, 6).reshape(3, 7), _logits(2, 2.5).reshape(3, 7))]


def _sure_cases() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(_logits(40, 60), _logits(50, 55)), (_logits(-900, 900), _logits(-800, 880))]


def _implied():
    return lambda q, logit: torch.softmax(q.log() + logit, dim=-1)


def _implied_cases() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(8)
    cases = []
    for size in (3, 6, 40):
        q = torch.rand(size, generator=generator, dtype=torch.float64) + 0.05
        cases.append((q / q.sum(), 2 * torch.randn(size, generator=generator, dtype=torch.float64)))
    return cases


def _large_cases() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Logits near 1,000, where any shift helps; and two of them beside -1,000, where only the largest does."""
    apart = torch.tensor([1000.0, 999.0, -1000.0], dtype=torch.float64)
    q = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    shifted = [(q, logit + 1000.0) for q, logit in _implied_cases()]
    return [*shifted, *((q.roll(k), apart.roll(k)) for k in range(3))]


def _normal(weight: torch.Tensor) -> torch.Tensor:
    return weight / weight.sum(-1, keepdim=True)


def _settled(confidence: float = 2.0) -> float:
    """Probability of the first of two states with p = (0.7, 0.3) and q = (0.3, 0.7), logits times `confidence`."""
    first, second = 0.3 * (7 / 3) ** confidence, 0.7 * (3 / 7) ** confidence
    return first / (first + second)


def _stuck(steps: int = _STEPS) -> float:
    return (1.0 - (1.0 - _SURE) / _SURE) ** steps


EXERCISES = [
    Exercise(
        id="imh-1",
        kind="number",
        reference=_rate,
        hint="Sum over where the chain is and what is proposed; with the best discriminator it is at the target.",
        mistakes={
            lambda: _rate(_RAW): "the chain was taken to be at q: with the best discriminator it settles at p.",
            lambda: 1 - 0.5 * sum(abs(p - q) for p, q in zip(_TARGET, _RAW, strict=True)): "this is 1 - TV(p, q): "
            "Theorem 7.1 speaks of the joint laws p(x) q(y) and p(y) q(x).",
            lambda: 1 - _rate(): "this is the share of refused proposals.",
            lambda: _rate(confidence=2.0): "the ratio was squared.",
            lambda: (
                _rate() - sum(p * q for p, q in zip(_TARGET, _RAW, strict=True))
            ): "the pairs y = x are missing: such a proposal is always accepted.",
            lambda: sum(
                p * min(1.0, p / q) for p, q in zip(_TARGET, _RAW, strict=True)
            ): "this is the mean of min{1, w(x)} at p: the ratio is w(x) / w(y), and proposals come from q.",
            lambda: _accepted(lambda p, q: p): "q is missing in the ratio: it is of the weights p / q.",
            lambda: _accepted(lambda p, q: p / (p + q)): "this is with d itself: the ratio is of its odds d / (1 - d).",
            lambda: _accepted(lambda p, q: q / p): "the ratio is turned round: what is proposed stands above.",
        },
        stub="p, q = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)\nanswer = ...  # share of proposals accepted in the long run",
    ),
    Exercise(
        id="imh-2",
        kind="number",
        reference=_threshold,
        hint="Set the right side of the bound, constant times gap, to one.",
        mistakes={
            lambda: 4 * _threshold(): "this is with our constant, which is four times smaller: take the paper's.",
            lambda: math.sqrt(_threshold()): "the bound is of the squared distance: 1 squared is 1, take no root.",
            lambda: 1 / _threshold(): "this is the constant itself: the gap has to be below one over it.",
            lambda: 0.75 * _LOWER**3: "this is the form for small b: keep the 2 b of 4 + 2 b.",
            lambda: _threshold() / _LOWER: "b enters with its third power.",
            lambda: _threshold(_LOWER**2): "b is given as the least value of d(x, y) here: it is not squared again.",
        },
        stub="b, eps = 0.2, 1.0\nanswer = ...  # largest gap in nats at which the bound says less than 1",
    ),
    Exercise(
        id="imh-3",
        kind="function",
        reference=_accept,
        hint="The odds d / (1 - d) are the exponential of the logit.",
        digits=9,
        mistakes={
            lambda x, y: (torch.sigmoid(x) / torch.sigmoid(y)).clamp_max(1.0): "this is d(x) / d(y): the factor "
            "(1 - d(y)) / (1 - d(x)) is missing.",
            lambda x, y: torch.sigmoid(x) / torch.sigmoid(y): "this is d(x) / d(y): the factor (1 - d(y)) / (1 - d(x)) "
            "is missing, and a probability is at most 1.",
            lambda x, y: torch.exp(y - x).clamp_max(1.0): "proposed and present point are exchanged.",
            lambda x, y: torch.exp(x - y): "a probability is at most 1.",
            lambda x, y: torch.sigmoid(
                x - y
            ): "this is Barker's rule, 1 / (1 + e^-(x - y)): it keeps the same law, but "
            "accepts less than min{1, ratio}.",
            lambda x, y: torch.sigmoid(x): "the present point matters too.",
            lambda x, y: torch.sigmoid(x) * torch.sigmoid(-y): "this is d(x, y): divide it by d(y, x), and take the "
            "minimum with 1.",
            lambda x, y: (x / y).clamp(0.0, 1.0): "this is a ratio of logits: exponentiate their difference.",
        },
        by_hand=Case("the probability to go from the logit 0.5 to the logit -1", ([-1.0], [0.5]), (0,)),
        cases=_accept_cases,
        stress={
            _sure_cases: "where d rounds to 0 or 1 its odds are lost: work with the difference of the logits, and keep "
            "the exponential from overflowing.",
        },
        stub="def answer(proposed, present):\n"
        "    # logits of d at the proposed and at the present points, tensors of one shape\n"
        "    ...  # probability to accept, one for each entry",
    ),
    Exercise(
        id="imh-4",
        kind="function",
        reference=_implied,
        hint="The chain is an exact Metropolis-Hastings chain: for which target?",
        mistakes={
            lambda q, logit: _normal(q * torch.sigmoid(logit)): "this is q d: rejection sampling with d would give it. "
            "The chain weighs with the odds d / (1 - d).",
            lambda q, logit: torch.softmax(
                logit, dim=-1
            ): "the proposal is missing: what is never drawn is never kept.",
            lambda q, logit: torch.softmax(q.log() - logit, dim=-1): "the sign of the logit is reversed.",
            lambda q, logit: q * logit.exp(): "the masses have to sum to 1.",
            lambda q, logit: torch.softmax(q.log() + 2 * logit, dim=-1): "the odds were squared: they enter once.",
            lambda q, logit: torch.softmax(q + logit, dim=-1): "inside a softmax q enters with its logarithm.",
            lambda q, logit: q: "this is the generator's own law, of a chain that accepts everything.",
        },
        by_hand=Case(
            "the share of the first state for q = (0.5, 0.3, 0.2) and the logits 0, 1, -1",
            ([0.5, 0.3, 0.2], [0.0, 1.0, -1.0]),
            (0,),
        ),
        cases=_implied_cases,
        stress={_large_cases: "the exponential of a large logit overflows: subtract the largest, or use softmax."},
        stub="def answer(q, logit):\n"
        "    # q: probabilities of the states, shape (n,); logit: of d at each state\n"
        "    ...  # where the chain settles, probabilities of shape (n,)",
    ),
    Exercise(
        id="imh-5",
        kind="number",
        reference=_settled,
        hint="Twice the logit is the square of the odds p / q.",
        mistakes={
            lambda: _settled(1.0): "this is p itself, with the right logits.",
            lambda: 0.7**2 / (0.7**2 + 0.3**2): "this is p squared: q enters too.",
            lambda: _settled(3.0): "the logit was tripled.",
            lambda: (7 / 3) ** 2 / ((7 / 3) ** 2 + (3 / 7) ** 2): "the generator's law is missing: the weights are "
            "q times the squared odds.",
            lambda: 1 - _settled(): "this is the second state.",
        },
        stub="p, q = (0.7, 0.3), (0.3, 0.7)\nanswer = ...  # long-run share of the first state with doubled logits",
    ),
    Exercise(
        id="imh-6",
        kind="number",
        reference=_stuck,
        digits=4,  # the exponential of the mean number of moves agrees to two
        hint="Odds decide: how probable is one move? The chain has to refuse as many times as it has steps.",
        mistakes={
            lambda: 1 - _stuck(): "this is the probability that it does move.",
            lambda: 1 / 499: "this is the probability of a move in one step.",
            lambda: math.exp(-_STEPS * (1 - _SURE) / _SURE): "four digits are asked: this is exp(-n m) in "
            "place of (1 - m)^n.",
            lambda: 0.998**640: "0.002 is 1 - d(y): the odds of the proposal over those of the start are 1 / 499.",
            lambda: (
                (1 - 0.5 / 0.998) ** 640
            ): "odds decide, not probabilities: d(x) / d(y) lacks (1 - d(y)) / (1 - d(x)).",
        },
        stub="sure, even, steps = 0.998, 0.5, 640\nanswer = ...  # probability that the chain never moves",
    ),
]
