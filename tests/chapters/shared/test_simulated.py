"""The simulated data of Saha et al. (2024): functions by hand, moments, common random numbers, refused input."""

import math

import pytest
import torch

from chapters.shared import simulated
from tests.seeded import seeded as _generator


def test_graded_function_against_values_computed_by_hand():
    x = torch.tensor([-1.25, 0.0, 0.25, 2.0])
    # sin(2 pi x) is -1, 0, 1 and 0 there
    expected = [math.exp(1.25) + 2.5 - 1.0, 1.0, math.exp(0.25) - 0.5 + 1.0, math.exp(2.0) - 4.0]
    assert simulated.graded_function(x).tolist() == pytest.approx(expected, abs=1e-5)
    assert torch.equal(simulated.graded_function(x, "linear"), x)


def test_two_inputs_are_mixed_by_alpha_over_common_inputs_and_noise():
    x, y, f = simulated.two_inputs(4_000, 0.25, _generator())
    assert torch.allclose(f[:, 0], 0.75 * x[:, 0] + 0.25 * x[:, 1])
    # inputs and noise N(0, 1): the standard error of a mean is 0.016, that of a variance 0.022; four of them
    for part in (x[:, 0], x[:, 1], (y - f)[:, 0]):
        assert part.mean().item() == pytest.approx(0.0, abs=0.064)
        assert part.var().item() == pytest.approx(1.0, abs=0.09)
    other, other_y, other_f = simulated.two_inputs(4_000, 1.0, _generator())
    assert torch.equal(x, other)
    assert torch.allclose(y - f, other_y - other_f, atol=1e-6)


def test_graded_regression_is_the_sum_of_4_1():
    x, y, f, effects = simulated.graded_regression(4_000, 5, 2.0, _generator(), activity=0.6)
    active = effects != 0
    assert torch.equal(effects[active], (torch.arange(1, 6) / 2.0)[active])
    by_hand = sum(effects[j] * simulated.graded_function(x[:, j]) for j in range(5))
    assert torch.allclose(f[:, 0], by_hand, rtol=1e-4, atol=1e-4)
    assert (y - f).var().item() == pytest.approx(1.0, abs=0.09)  # four standard errors of 4,000 draws
    _, _, _, every = simulated.graded_regression(10, 5, 2.0, _generator())
    assert every.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5]


def test_variance_of_a_nonlinear_term():
    """Var f = Var exp|x| + 4 + 1/2 + small covariances of sin(2 pi x), which are below 1e-6 under N(0, 1)."""
    _, _, f, _ = simulated.graded_regression(200_000, 1, 1.0, _generator())
    phi = 0.5 * (1.0 + math.erf(2.0 / math.sqrt(2.0)))
    second = 2.0 * math.exp(2.0) * phi
    first = 2.0 * math.exp(0.5) * 0.5 * (1.0 + math.erf(1.0 / math.sqrt(2.0)))
    # exp|x| has heavy tails: the standard error of this variance, measured over 20 seeds, is 0.10; four of them
    assert f.var().item() == pytest.approx(second - first**2 + 4.0 + 0.5, abs=0.4)


def test_share_of_active_inputs_and_nested_sets():
    shares, before = [], torch.zeros(2_000, dtype=torch.bool)
    for activity in (0.0, 0.2, 0.5, 0.95, 1.0):
        *_, effects = simulated.graded_regression(3, 2_000, 1.0, _generator(), activity=activity)
        active = effects != 0
        assert bool((before <= active).all())
        before = active
        shares.append(active.double().mean().item())
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    # the standard error of a share of 2,000 is at most 0.011; four of them
    assert shares[1:4] == pytest.approx([0.2, 0.5, 0.95], abs=0.045)
