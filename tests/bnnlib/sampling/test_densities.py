"""Densities of proposals, against autograd and torch.distributions; what proposals draw."""

import copy

import pytest
import torch
from scipy import stats
from torch.distributions import MultivariateNormal, Normal

from bnnlib import sampling as mcmc
from bnnlib.sampling import DiagonalGaussian, FullGaussian, Independent, RealNVP
from bnnlib.sampling.proposals import Proposal
from tests.bnnlib.sampling.conftest import DOUBLE
from tests.saved import saved


def bent(density, seed=0, couplings=0.3):
    """The density with every parameter moved, and a flow with clear couplings."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in density.named_parameters():
            size = couplings if name.startswith("networks") else 0.7
            parameter.add_(size * torch.randn(parameter.shape, generator=generator).to(parameter))
    return density


BUILD = {
    "diagonal": lambda dim=3: DiagonalGaussian(dim, 0.7),
    "full": lambda dim=3: FullGaussian(dim, 0.7),
    "flow": lambda dim=3: RealNVP(dim, num_layers=4, hidden=16),
    "flow, one layer": lambda dim=3: RealNVP(dim, num_layers=1, hidden=16),
}


@pytest.fixture(params=BUILD)
def density(request):
    return bent(BUILD[request.param]().double())


def test_pull_is_the_inverse_of_push(density, generator):
    noise = torch.randn(200, 3, generator=generator, dtype=DOUBLE)
    point, log_det = density.push(noise)
    back, same = density.pull(point)
    assert log_det.shape == (200,)
    assert (back - noise).abs().max() < 1e-10
    assert (same - log_det).abs().max() < 1e-10


def test_the_determinant_is_that_of_the_jacobian(density, generator):
    for noise in torch.randn(8, 3, generator=generator, dtype=DOUBLE):
        jacobian = torch.autograd.functional.jacobian(lambda z: density.push(z[None])[0][0], noise)
        assert abs(density.push(noise[None])[1] - torch.linalg.slogdet(jacobian)[1]) < 1e-10


def test_draws_carry_their_density_and_gradients(density, generator):
    points, log_q = density.rsample_with_log_prob(50, generator)
    assert (log_q - density.log_prob(points)).abs().max() < 1e-10
    (points.sum() + log_q.sum()).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in density.parameters())


def test_the_same_generator_draws_the_same_points(density):
    draws = [density.rsample(5, torch.Generator().manual_seed(2)) for _ in range(2)]
    with_density = density.rsample_with_log_prob(5, torch.Generator().manual_seed(2))[0]
    assert torch.equal(*draws) and torch.equal(draws[0], with_density)


def test_gaussians_are_those_of_torch(generator):
    points = 3.0 * torch.randn(100, 3, generator=generator, dtype=DOUBLE)
    diagonal, full = bent(BUILD["diagonal"]().double()), bent(BUILD["full"]().double())
    expected = Normal(diagonal.mean, diagonal.scale).log_prob(points).sum(-1)
    assert (diagonal.log_prob(points) - expected).abs().max() < 1e-10
    expected = MultivariateNormal(full.mean, scale_tril=full.factor).log_prob(points)
    assert (full.log_prob(points) - expected).abs().max() < 1e-10


@pytest.mark.parametrize("kind", BUILD)
def test_they_begin_as_the_gaussian_of_their_scale(kind, generator):
    points = torch.randn(20, 3, generator=generator)
    density = {"diagonal": DiagonalGaussian, "full": FullGaussian}.get(kind, RealNVP)(3, scale=0.7)
    expected = Normal(0.0, 0.7).log_prob(points).sum(-1)
    assert torch.allclose(density.log_prob(points), expected, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_match_takes_moments_over(scale, dtype, generator):
    root = torch.randn(4, 4, generator=generator, dtype=DOUBLE)
    covariance = scale**2 * (root @ root.T + torch.eye(4, dtype=DOUBLE))
    mean = scale * torch.randn(4, generator=generator, dtype=DOUBLE)
    full = FullGaussian(4).to(dtype)
    assert full.match(mean, covariance) is full
    expected = MultivariateNormal(mean, covariance)
    points = expected.sample((20,))
    rounding = 1e-3 if dtype == torch.float32 else 1e-6
    assert torch.allclose(full.log_prob(points.to(dtype)).double(), expected.log_prob(points), atol=rounding, rtol=1e-4)


def test_copies_and_states(density, generator):
    points = torch.randn(10, 3, generator=generator, dtype=DOUBLE)
    expected = density.log_prob(points)
    twin, state = copy.deepcopy(density), saved(density.state_dict())
    with torch.no_grad():
        for parameter in density.parameters():
            parameter.add_(1.0)
    assert torch.equal(twin.log_prob(points), expected)
    assert not torch.equal(density.log_prob(points), expected)
    density.load_state_dict(state)
    assert torch.equal(density.log_prob(points), expected)
    single = density.float()
    assert single.log_prob(points.float()).dtype == torch.float32
    assert torch.allclose(single.log_prob(points.float()).double(), expected, rtol=1e-3, atol=1e-2)
    assert single.double().log_prob(points).dtype == DOUBLE
    assert single.rsample(2, generator).dtype == DOUBLE


def test_a_random_walk_steps_by_its_scale(generator):
    scale = torch.tensor([0.5, 3.0], dtype=DOUBLE)
    given = torch.tensor([10.0, -10.0], dtype=DOUBLE).expand(100_000, 2)
    points = mcmc.RandomWalk(scale).draw(given, generator)
    for i in range(2):
        assert stats.kstest((points - given)[:, i].numpy(), stats.norm(0.0, float(scale[i])).cdf).pvalue > 0.01


def test_a_random_walk_on_points_of_any_shape(generator):
    kernel = mcmc.metropolis_hastings(lambda x: -0.5 * x.square().sum(dim=(1, 2)), mcmc.RandomWalk(0.5))
    move = kernel.step(kernel.start(torch.zeros(4, 2, 3)), generator)
    assert move.state.position.shape == (4, 2, 3) and move.accepted.shape == (4,)


@pytest.mark.parametrize("build", [DiagonalGaussian, FullGaussian, RealNVP])
def test_independent_passes_draws_and_densities_on(build, generator):
    law = build(3)
    proposal = Independent(law)
    given = torch.zeros(50, 3)
    points, log_q = proposal.draw_with_log_prob(50, generator)
    assert points.shape == (50, 3)
    assert torch.allclose(log_q, law.log_prob(points), atol=1e-4)
    assert torch.equal(proposal.log_density(points, given), proposal.log_prob(points))
    assert proposal.draw(given, generator).shape == (50, 3)


def test_a_law_without_both_at_once(generator):
    class Uniform:
        def rsample(self, count, generator=None):
            return torch.rand(count, 1, generator=generator)

        def log_prob(self, point):
            return torch.where((point >= 0) & (point <= 1), 0.0, -torch.inf).sum(-1)

    points, log_q = Independent(Uniform()).draw_with_log_prob(7, generator)
    assert points.shape == (7, 1) and torch.equal(log_q, torch.zeros(7))


def test_base_classes_say_what_is_missing():
    point = torch.zeros(1, 1)
    for missing in (lambda: Proposal().draw(point), lambda: Proposal().log_density(point, point),
                    lambda: mcmc.sample(mcmc.Kernel(lambda x: x[:, 0]), point, 2)):  # fmt: skip
        with pytest.raises(NotImplementedError):
            missing()
