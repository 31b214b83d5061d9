"""Reference answers of the exercises on foundations, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize
from torch.distributions import MultivariateNormal, kl_divergence

from book.display import exercises
from book.display.exercises.judge import judge


def test_the_best_independent_normals_of_the_cases_by_search():
    """Both references, the scales and what they cost, without the formulas of the text."""
    for (covariance,) in exercises.get("fnd-2").cases():
        p = len(covariance)
        target = MultivariateNormal(torch.zeros(p, dtype=torch.float64), covariance)

        def divergence(values, target=target, p=p):
            scales = torch.diag((2 * torch.from_numpy(values)).exp())
            return kl_divergence(MultivariateNormal(torch.zeros(p, dtype=torch.float64), scales), target).item()

        best = optimize.minimize(divergence, np.zeros(p), method="BFGS", options={"gtol": 1e-9})
        assert np.exp(best.x) == pytest.approx(exercises.get("fnd-2").reference()(covariance).numpy(), rel=1e-4)
        assert best.fun == pytest.approx(exercises.get("fnd-3").reference()(covariance).item(), abs=1e-8)


def test_a_determinant_does_not_survive_hundreds_of_weights():
    def by_determinant(covariance):
        precision = torch.linalg.inv(covariance)
        return 0.5 * (precision.diagonal().log().sum() + torch.det(covariance).log())

    verdict = judge(exercises.get("fnd-3"), by_determinant)
    assert not verdict.right and "use torch.logdet" in verdict.message
