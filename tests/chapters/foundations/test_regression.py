"""The closed forms of linear regression, each against a number computed another way."""

import torch

from chapters.foundations import regression as R


def problem(n=12, p=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = R.correlated_inputs((n, p), 0.7, generator)
    return x, torch.randn(n, generator=generator, dtype=torch.float64)


def test_stacks_give_what_the_problems_give_alone():
    problems = [problem(seed=seed) for seed in range(3)]
    x, y = (torch.stack(part) for part in zip(*problems, strict=True))
    together = R.linear_posterior(x, y, 0.5)
    for index, one in enumerate(problems):
        alone = R.linear_posterior(*one, 0.5)
        assert torch.allclose(together.mean[index], alone.mean)
        assert torch.allclose(together.covariance[index], alone.covariance)
        assert torch.allclose(R.linear_log_evidence(x, y)[index], R.linear_log_evidence(*one))


def test_inputs_are_as_correlated_as_they_should_be():
    x = R.correlated_inputs((20_000, 3), 0.9, torch.Generator().manual_seed(1))
    gram = x.T @ x / len(x)
    assert torch.allclose(gram.diagonal(), torch.ones(3, dtype=torch.float64))
    # the sd of a sample correlation is (1 - 0.9^2) / sqrt(20000) = 0.0013
    assert (gram[0, 1:] - 0.9).abs().max() < 6 * 0.0013
    x = R.correlated_inputs((50, 4), 0.0, torch.Generator().manual_seed(1), orthogonal=True)
    assert torch.allclose(x.T @ x, 50.0 * torch.eye(4, dtype=torch.float64), atol=1e-12)
