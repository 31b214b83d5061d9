"""Schedules as functions of the step."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from bnnlib.sampling import SGLD, annealed, constant, cyclical, polynomial


def test_constant():
    assert constant(0.3)(1) == constant(0.3)(10**6) == 0.3


def test_polynomial_is_the_published_sequence():
    weight = polynomial(10, 1000, 0.7)
    assert weight(1) == pytest.approx(10 * 1001**-0.7)
    assert weight(500_000) == pytest.approx(10 * 501_000**-0.7)
    assert polynomial(1000, 100, 0.7)(1) == 1.0  # weights of an average end at 1
    assert polynomial(1000, 100, 0.7, ceiling=0.1)(500_000) == 0.1  # the published code's constant


def test_polynomial_weights_satisfy_the_conditions_of_stochastic_approximation():
    weight = polynomial(1, 10, 0.75)
    # sum w_k grows like 4 k^(1/4); the tail of sum w_k^2 behaves as 2 k^(-1/2)
    total = [sum(weight(k) for k in range(1, n)) for n in (100, 1600)]
    tail = sum(weight(k) ** 2 for k in range(10_000, 200_000))
    assert total[1] - total[0] == pytest.approx(4 * (1610**0.25 - 110**0.25), rel=0.01)
    assert tail < 2 * 10_000**-0.5


def test_cyclical_restarts_and_ends_at_almost_zero():
    rate = cyclical(0.2, steps=100, cycles=4, exploration=0.8)
    values = [rate(k) for k in range(1, 101)]
    assert values[0] == values[25] == values[75] == 0.2
    assert all(a > b for k, (a, b) in enumerate(pairwise(values)) if (k + 1) % 25)
    assert values[24] == pytest.approx(0.1 * (1 + math.cos(math.pi * 24 / 25)))
    assert [rate.exploring(k) for k in (1, 20, 21, 25, 26)] == [True, True, False, False, True]


def test_annealed_divides_the_temperature():
    temperature = annealed(2.0, 1.003)
    assert temperature(1) == pytest.approx(2.0 / 1.003) and temperature(1000) == pytest.approx(2.0 * 1.003**-1000)
    assert annealed(1.0, 2.0)(10**6) == 0.0  # and not an overflow
    assert annealed(0.5, 1.0)(7) == 0.5


def test_they_drive_a_sampler():
    parameter = nn.Parameter(torch.zeros(1))
    sampler = SGLD([parameter], 1.0)
    rate, temperature = cyclical(0.2, 10, 2), annealed(1.0, 2.0)
    for k in range(1, 11):
        group = sampler.param_groups[0]
        group["lr"], group["temperature"] = rate(k), temperature(k)
        parameter.grad = torch.ones(1)
        sampler.step()
    assert torch.isfinite(parameter).all()


@pytest.mark.parametrize(
    "build",
    [
        lambda: constant(-1.0),
        lambda: polynomial(0.0, 1.0, 0.5),
        lambda: polynomial(1.0, -1.0, 0.5),
        lambda: polynomial(1.0, 1.0, -0.5),
        lambda: cyclical(0.0, 10, 1),
        lambda: cyclical(0.1, 3, 4),
        lambda: cyclical(0.1, 10, 2, exploration=1.5),
        lambda: annealed(0.0, 1.1),
        lambda: annealed(1.0, 0.9),
        lambda: annealed(1.0, math.nan),
    ],
)
def test_bad_arguments_are_refused(build):
    with pytest.raises(ValueError, match=r"is -?[\d.a-z]+.*(must|needs)"):
        build()
