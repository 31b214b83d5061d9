"""Reference answers of the exercises on foundations, against what was worked out by hand or by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import optimize
from torch.distributions import MultivariateNormal, kl_divergence

from book.display import exercises
from book.display.exercises.judge import judge


def test_references_are_those_worked_out_by_hand():
    odds = math.log(1 / 9) - 0.5 * math.log(101) + 0.5 * 30**2 / 101  # mu^2 / (2 sigma^2) = 30^2 / (2 * 101)
    by_hand = {
        "fnd-1": 0.2,
        "fnd-4": math.exp(odds) / (1 + math.exp(odds)),
        "fnd-5": "b",
        "fnd-6": 1_000 * 0.2 / 1.8,
        "fnd-7": 4_000_000 / 804_004,
    }
    numbers = {name: value for name, value in by_hand.items() if not isinstance(value, str)}
    assert {name: exercises.get(name).reference() for name in numbers} == pytest.approx(numbers, rel=1e-12)
    assert exercises.get("fnd-5").reference() == by_hand["fnd-5"]


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
