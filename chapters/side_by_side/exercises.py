"""Exercises of the chapter side by side."""

import math
from collections.abc import Callable

import torch

from book.display.exercises.registry import Case, Exercise

_P = (0.001, 0.012, 0.02, 0.024, 0.4)  # of five methods beside one reference


def _tensor(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def _steps() -> Callable:
    from chapters.side_by_side.costs import bought

    return lambda one, budget, cost: torch.tensor(bought(one, budget, cost), dtype=torch.float64)


def _paired() -> Callable:
    return lambda method, reference: (method - reference).std() / math.sqrt(len(method))


def _pairs() -> list[tuple]:
    generator = torch.Generator().manual_seed(90)
    common = 3.0 * torch.randn(10, generator=generator, dtype=torch.float64)
    noise = torch.randn(2, 10, generator=generator, dtype=torch.float64)
    return [(common + noise[0], common + noise[1]), (noise[0, :5], 0.5 * noise[1, :5])]


def _balanced(selected, relevant):
    wrong = (selected * (1 - relevant)).sum() / (1 - relevant).sum()
    missed = ((1 - selected) * relevant).sum() / relevant.sum()
    return 50.0 * (wrong + missed)


def _shares() -> list[tuple]:
    relevant = (torch.arange(20) < 5).double()
    nothing, everything = torch.zeros_like(relevant), torch.ones_like(relevant)
    return [((torch.arange(20) % 3 == 0).double(), relevant), (nothing, relevant), (everything, relevant)]


def _rejected(chances: tuple[float, ...], level: float = 0.05) -> int:
    from book.lab.intervals import holm

    return holm(sorted(chances), len(chances)) if level == 0.05 else 0


def _averaged() -> Callable:
    return lambda log_densities: torch.logsumexp(log_densities, dim=0) - math.log(len(log_densities))


def _densities() -> list[tuple]:
    generator = torch.Generator().manual_seed(91)
    return [(2.0 * torch.randn(shape, generator=generator, dtype=torch.float64) - 3.0,) for shape in ((4, 3), (30, 2))]


EXERCISES = [
    Exercise(
        id="side-1",
        kind="function",
        reference=_steps,
        hint="A dear step buys fewer of them.",
        mistakes={
            lambda one, budget, cost: max(1, round(one * budget * cost)): "a dear step buys fewer steps, not more.",
            lambda one, budget, cost: max(1, round(one / cost)): "the budget B is missing.",
            lambda one, budget, cost: max(1, math.floor(one * budget / cost)): "round to the nearest number of steps, "
            "not down.",
            lambda one, budget, cost: math.ceil(one * budget / cost): "round to the nearest number of steps, not up.",
            lambda one, budget, cost: one * budget / cost: "a whole number of steps is asked, one at least.",
            lambda one, budget, cost: round(one * budget / cost): "a method that cannot afford a step gets one.",
            lambda one, budget, cost: max(1, round(one * budget)): "at equal steps a dear method would get more time.",
        },
        by_hand=Case("the steps of a method of cost 2.5 at B = 4, where one training has 500 steps", (500, 4, 2.5)),
        cases=lambda: [(500, 1, 1.0), (500, 4, 2.5), (600, 16, 3.4), (500, 1, 3.1), (3, 1, 40.0)],
        stub="def answer(one, budget, cost):\n"
        "    # one: steps k_1 of the ordinary network; budget: B; cost: c, of one step\n"
        "    return ...  # the steps k of the method, a whole number",
    ),
    Exercise(
        id="side-2",
        kind="function",
        reference=_paired,
        hint="Subtract before you take a standard deviation.",
        mistakes={
            lambda method, reference: ((method.var() + reference.var()) / len(method)).sqrt(): "this is the error of "
            "two independent samples: what both owe to the same data set has not been taken out.",
            lambda method, reference: (method - reference).std(): "this is the spread of one difference, not of the "
            "mean.",
            lambda method, reference: (method - reference).std(correction=0) / math.sqrt(len(method)): "divide by n - "
            "1: the mean was estimated too.",
            lambda method, reference: (method - reference).var() / len(method): "this is its square.",
            lambda method, reference: (method - reference).std() / math.sqrt(len(method) - 1): "the standard deviation "
            "has its n - 1 already: divide it by the root of n.",
        },
        by_hand=Case(
            "the standard error for the errors 3, 5, 7 of a method and 2, 5, 5 of the reference",
            ([3.0, 5.0, 7.0], [2.0, 5.0, 5.0]),
        ),
        cases=_pairs,
        stub="def answer(method, reference):  # tensors (n,), seed by seed\n    return ...",
    ),
    Exercise(
        id="side-3",
        kind="number",
        digits=math.inf,
        reference=lambda: _rejected(_P),
        hint="Sort them; the smallest is held against 0.05 / 5, the next against 0.05 / 4, until one fails.",
        mistakes={
            lambda: 4: "without a correction four are below 0.05; with five looks that is too easy.",
            lambda: 3: "0.024 is below its limit, 0.025, but the rule has stopped at 0.02, which is above 0.0167.",
            lambda: 1: "Bonferroni holds all of them against 0.01; Holm goes on with the next one at 0.05 / 4.",
            lambda: 5: "0.4 is not decided by any rule.",
        },
        stub="chances = [0.001, 0.012, 0.02, 0.024, 0.4]\nanswer = ...  # how many are kept",
    ),
    Exercise(
        id="side-4",
        kind="function",
        reference=lambda: _balanced,
        hint="Each rate has its own denominator: the irrelevant inputs, and the relevant ones.",
        mistakes={
            lambda selected, relevant: 100.0 * (selected != relevant).double().mean(): "this is the share of inputs "
            "that are judged wrong: who selects nothing is then right about most of them.",
            lambda selected, relevant: (
                50.0
                * (
                    (selected * (1 - relevant)).sum() / selected.sum().clamp(min=1)
                    + ((1 - selected) * relevant).sum() / relevant.sum()
                )
            ): "this has the rate of false discoveries, whose denominator is what was selected.",
            lambda selected, relevant: 2.0 * _balanced(selected, relevant): "the half is missing.",
            lambda selected, relevant: 100.0 - _balanced(selected, relevant): "this is the share that is judged right.",
            lambda selected, relevant: _balanced(selected, relevant) / 100.0: "the unit is percent.",
        },
        by_hand=Case(
            "the error in percent for the selected inputs [1, 1, 0, 0, 0, 0] and the relevant ones [1, 0, 1, 0, 0, 0]",
            ([1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
        ),
        cases=_shares,
        stub="def answer(selected, relevant):  # floats 0 and 1 (.bool() makes masks) -> percent\n    return ...",
    ),
    Exercise(
        id="side-5",
        kind="function",
        reference=_averaged,
        hint="Densities are averaged, not their logarithms.",
        mistakes={
            lambda log_densities: log_densities.mean(dim=0): "this averages logarithms: it is lower, by Jensen's "
            "inequality, and punishes draws that disagree.",
            lambda log_densities: (
                torch.logsumexp(log_densities, dim=0) - math.log(log_densities.shape[1])
            ): "divide by the number of draws, which come first, not by that of the rows.",
            lambda log_densities: log_densities.exp().mean(dim=0): "this is the density; its logarithm is asked.",
            lambda log_densities: torch.logsumexp(log_densities, dim=0): "the number of draws is missing: a sum of "
            "densities is no density.",
        },
        by_hand=Case(
            "for one row with the densities 0.1 and 0.3 under two draws", ([[math.log(0.1)], [math.log(0.3)]],), (0,)
        ),
        cases=_densities,
        stress={
            lambda: [(_tensor(-2000.0, -2001.0)[:, None],)]: "exp underflows far from the data: use torch.logsumexp."
        },
        stub="def answer(log_densities):  # (draws, rows)\n    return ...",
    ),
    Exercise(
        id="side-6",
        kind="choice",
        reference=lambda: "b",
        hint="What does the rate say of an empty selection?",
        options={
            "a": "a rate of false negatives of 100 % is the worst there is, and it is visible.",
            "b": "among no discoveries none is false: the best rate by name, and it says nothing.",
            "c": "the balanced error of an empty selection is 50 %, as bad as a coin.",
        },
        stub='answer = ...  # "a", "b" or "c"',
    ),
]
