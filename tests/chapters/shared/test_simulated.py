"""The simulated data of Saha et al. (2024): functions by hand, moments, common random numbers, refused input."""

import pytest
import torch

from chapters.shared import simulated
from tests.seeded import seeded as _generator


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


def test_share_of_active_inputs_and_nested_sets():
    shares, before = [], torch.zeros(2_000, dtype=torch.bool)
    for activity in (0.0, 0.2, 0.5, 0.95, 1.0):
        *_, effects = simulated.graded_regression(3, 2_000, 1.0, _generator(), activity=activity)
        active = effects != 0
        assert bool((before <= active).all())
        before = active
        shares.append(active.double().mean().item())
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert simulated.graded_regression(10, 5, 2.0, _generator())[3].tolist() == [0.5, 1.0, 1.5, 2.0, 2.5]
    # the standard error of a share of 2,000 is at most 0.011; four of them
    assert shares[1:4] == pytest.approx([0.2, 0.5, 0.95], abs=0.045)
