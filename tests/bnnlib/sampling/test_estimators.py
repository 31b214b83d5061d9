"""Acceptance rate and total variation: two estimates of one number, and quadrature as the third."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import integrate, stats

from bnnlib.sampling import (
    FullGaussian,
    Independent,
    Markov,
    RandomWalk,
    acceptance_rate_of,
    mean_of,
)

DOUBLE = torch.float64
GRID = np.linspace(-40.0, 40.0, 1601)
COUNT = 100_000


class Mixture:
    """Two normal or logistic pieces on the line, as a target, a proposal and a function for quadrature."""

    def __init__(self, generator):
        uniform = torch.rand(6, generator=generator, dtype=DOUBLE)
        self.weights = torch.stack([uniform[0], 1.0 - uniform[0]])
        self.centers, self.scales = 6.0 * uniform[1:3] - 3.0, 0.4 + 2.0 * uniform[3:5]
        self.normal = bool(uniform[5] < 0.5)

    def log_prob(self, points):
        z = (points.reshape(-1, 1) - self.centers) / self.scales
        pieces = -0.5 * z.square() - 0.5 * math.log(2 * math.pi) if self.normal else -z - 2 * F.softplus(-z)
        return (self.weights.log() - self.scales.log() + pieces).logsumexp(dim=-1)

    def rsample(self, count, generator=None):
        which = torch.multinomial(self.weights, count, replacement=True, generator=generator)
        uniform = torch.rand(count, generator=generator, dtype=DOUBLE)
        z = torch.special.ndtri(uniform) if self.normal else uniform.logit()
        return (self.centers[which] + self.scales[which] * z)[:, None]

    def density(self, values):
        return self.log_prob(torch.as_tensor(values)).exp().numpy()


def joint_total_variation(target, q):
    """TV of p(x) q(x' | x) and its transpose by the trapezoidal rule; `q` is a matrix over the grid."""
    joint = target.density(GRID)[:, None] * q
    return 0.5 * integrate.trapezoid(integrate.trapezoid(np.abs(joint - joint.T), GRID), GRID)


@pytest.mark.parametrize("pair", range(20))
def test_the_acceptance_rate_is_one_less_total_variation(pair):
    """Equation (10) on random pairs: 12 independent proposals, 8 of a Markov kernel."""
    generator = torch.Generator().manual_seed(100 + pair)
    target, other = Mixture(generator), Mixture(generator)
    if pair < 12:
        proposal, q = Independent(other), np.broadcast_to(other.density(GRID), (len(GRID), len(GRID)))
    else:
        pull, spread = 0.2 + 0.6 * float(torch.rand((), generator=generator)), 1.0 + 0.2 * pair

        def draw(given, generator):
            return pull * given + spread * torch.randn(given.shape, generator=generator, dtype=DOUBLE)

        proposal = Markov(draw, lambda x, given: torch.distributions.Normal(pull * given, spread).log_prob(x)[:, 0])
        q = stats.norm(pull * GRID[:, None], spread).pdf(GRID[None, :])
    found = acceptance_rate_of(target.log_prob, proposal, target.rsample(COUNT, generator), generator)
    gap = (found.mean - 1.0 + joint_total_variation(target, q)) / found.standard_error
    assert found.standard_error < 0.5 / math.sqrt(COUNT)
    assert abs(gap) <= 3.0


def test_the_rate_of_a_random_walk():
    """Of a standard normal target, known in closed form: 2 / pi * atan(2 / scale)."""
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(COUNT, 1, generator=generator, dtype=DOUBLE)
    found = acceptance_rate_of(lambda x: -0.5 * x.square().sum(-1), RandomWalk(1.7), points, generator)
    assert abs(found.mean - 2 / math.pi * math.atan(2 / 1.7)) <= 3.0 * found.standard_error


def test_the_mean_and_its_error():
    values = torch.tensor([1.0, 2.0, 4.0, 9.0])
    assert mean_of(values) == (4.0, pytest.approx(stats.sem(values.numpy())))
    assert mean_of(values[:1]).mean == 1.0 and math.isnan(mean_of(values[:1]).standard_error)
    for broken, message in ((values[:0], "number of values is 0"), (torch.tensor([1.0, math.nan]), "1 of 2 values")):
        with pytest.raises(ValueError, match=message):
            mean_of(broken)


def test_bad_input():
    points, proposal = torch.randn(5, 5), Independent(FullGaussian(5))
    with pytest.raises(ValueError, match="one log density a point"):
        acceptance_rate_of(lambda x: -x.square(), proposal, points)
    with pytest.raises(ValueError, match="NaN"):
        acceptance_rate_of(lambda x: torch.full((len(x),), -torch.inf), proposal, points)
    with pytest.raises(ValueError, match="same space"):
        acceptance_rate_of(lambda x: -x.square().sum(-1), Independent(FullGaussian(3)), points)
