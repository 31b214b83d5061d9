"""Reference answers of the exercises on foundations, against brute force."""

import torch

from book.display import exercises
from book.display.exercises.judge import judge


def test_a_determinant_does_not_survive_hundreds_of_weights():
    def by_determinant(covariance):
        precision = torch.linalg.inv(covariance)
        return 0.5 * (precision.diagonal().log().sum() + torch.det(covariance).log())

    verdict = judge(exercises.get("fnd-3"), by_determinant)
    assert not verdict.right and "use torch.logdet" in verdict.message
