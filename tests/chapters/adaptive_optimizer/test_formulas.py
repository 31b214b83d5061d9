"""What the adaptive variational optimizer's steps refuse; tests/equations/test_avo.py has what they compute."""

import math

import pytest
import torch

from chapters.adaptive_optimizer import formulas


def test_stein_needs_its_noise():
    with pytest.raises(ValueError, match="noise and scale"):
        formulas.expected_curvature(torch.ones(2, 3), estimator="stein")
    with pytest.raises(ValueError, match="estimator is 'hutchinson'"):
        formulas.expected_curvature(torch.ones(2, 3), estimator="hutchinson")


@pytest.mark.parametrize("alpha", [0.0, 0.75, 2.0, math.nan])
def test_alpha_outside_the_family_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha is"):
        formulas.mean_step(torch.zeros(1), torch.ones(1), torch.ones(1), 0.1, alpha)
