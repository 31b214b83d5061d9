"""Densities of proposals, against autograd and torch.distributions; what proposals draw, and how they are learned."""

import copy
import math

import pytest
import torch
from scipy import stats
from torch.distributions import MultivariateNormal, Normal

from bnnlib import sampling as mcmc
from bnnlib._checks import DivergedError
from bnnlib.sampling import DiagonalGaussian, FullGaussian, Independent, RealNVP, learn_proposal
from bnnlib.sampling.learn import OBJECTIVES
from bnnlib.sampling.proposals import Proposal
from chapters.acceptance.formulas import acceptance_rate_of
from tests.saved import saved

DOUBLE = torch.float64


@pytest.fixture(autouse=True)
def _first_weights():
    """Those of a flow come from PyTorch's own generator, which other tests have moved on."""
    torch.manual_seed(0)


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


MEAN = torch.tensor([1.0, -1.0], dtype=DOUBLE)
COVARIANCE = torch.tensor([[1.0, 0.8], [0.8, 2.0]], dtype=DOUBLE)
LAW = torch.distributions.MultivariateNormal(MEAN, COVARIANCE)


def log_prob(points):
    return LAW.log_prob(points) + 7.0  # the constant does not matter


def points_of(count, generator):
    return MEAN + torch.randn(count, 2, generator=generator, dtype=DOUBLE) @ torch.linalg.cholesky(COVARIANCE).T


def rate_of(density, generator):
    return acceptance_rate_of(log_prob, Independent(density), points_of(20_000, generator), generator)


# "vi" needs no points of the target
@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "given"),
    [(name, given) for name in OBJECTIVES for given in (False, True) if not (name == "vi" and given)],
)
def test_a_gaussian_target_is_reached(objective, given, generator):
    density = FullGaussian(2, scale=1.5).double()
    samples = points_of(5000, generator) if given else None
    settings = {"num_steps": 350, "batch_size": 64, "learning_rate": 0.02, "generator": generator}
    learned = learn_proposal(log_prob, density, objective, samples=samples, **settings)
    assert rate_of(density, generator).mean > 0.97
    # from 5,000 points the moments are known to about 2 %
    assert torch.allclose(density.mean, MEAN, atol=0.06)
    assert torch.allclose(density.factor @ density.factor.T, COVARIANCE, atol=0.12)
    assert learned.loss.shape == learned.acceptance.shape == (350,)
    assert (learned.state is None) == (given or objective == "vi")
    if objective == "vi":
        assert learned.acceptance.isnan().all()
        assert abs(float(learned.loss[-50:].mean()) + 7.0) < 0.02  # KL(q || p) is 0: minus the constant is left
    else:
        assert float(learned.acceptance[-50:].mean()) == pytest.approx(rate_of(density, generator).mean, abs=0.02)
    if objective == "symmetric_kl":
        assert abs(float(learned.loss[-50:].mean())) < 0.05


def estimate(objective, density, samples, noise):
    """The loss as a plain double loop over pairs, or over points."""
    points, log_det = density.push(noise)
    log_q = -0.5 * noise.square().sum(-1) - math.log(2 * math.pi) - log_det
    samples_p, samples_q = log_prob(samples).tolist(), density.log_prob(samples).tolist()
    terms = []
    for i, (p, q) in enumerate(zip(samples_p, samples_q, strict=True)):
        for j, (new_p, new_q) in enumerate(zip(log_prob(points).tolist(), log_q.tolist(), strict=True)):
            log_xi = new_p - p + q - new_q
            if objective == "acceptance":
                terms.append(-min(1.0, math.exp(log_xi)))
            elif i == j:
                terms.append(-log_xi if objective == "symmetric_kl" else new_q - new_p)
    return sum(terms) / len(terms)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("build", [FullGaussian, lambda dim: RealNVP(dim, 2, 3)])
def test_the_gradient_is_that_of_the_estimate(objective, build):
    """By central differences with the noise held; one step of learning leaves its gradient on the parameters."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        density = build(2).double()
        for network in getattr(density, "networks", []):
            torch.nn.init.normal_(network[-1].weight, std=0.3)
    before = {name: parameter.detach().clone() for name, parameter in density.named_parameters()}
    generator = torch.Generator().manual_seed(11)
    # a single sample, so that which rows are drawn does not matter
    samples = points_of(1, generator)
    begin = generator.get_state()
    settings = {"num_steps": 1, "batch_size": 6, "clip": 1e9, "generator": generator}
    learned = learn_proposal(log_prob, density, objective, samples=None if objective == "vi" else samples, **settings)
    gradients = {name: parameter.grad.clone() for name, parameter in density.named_parameters()}
    density.load_state_dict({**density.state_dict(), **before})
    generator.set_state(begin)
    noise = torch.randn(6, 2, generator=generator, dtype=DOUBLE)
    rows = samples.expand(6, 2)
    with torch.no_grad():
        assert float(learned.loss) == pytest.approx(estimate(objective, density, rows, noise), abs=1e-10)
        for name, parameter in density.named_parameters():
            flat = parameter.view(-1)
            for k in range(min(len(flat), 3)):
                ends = []
                for shift in (1e-6, -2e-6):
                    flat[k] += shift
                    ends.append(estimate(objective, density, rows, noise))
                flat[k] += 1e-6
                found = (ends[0] - ends[1]) / 2e-6
                assert float(gradients[name].view(-1)[k]) == pytest.approx(found, abs=1e-6), name


def test_the_chain_goes_on_from_its_state(generator):
    """With a density that stays, the chain of learning is an independent Metropolis-Hastings chain of the target."""
    density = FullGaussian(2, scale=2.0).double()
    learned = learn_proposal(log_prob, density, num_steps=40, batch_size=600, learning_rate=1e-12, generator=generator)
    error = (COVARIANCE.diagonal() / 600).sqrt()
    assert ((learned.state.position.mean(0) - MEAN).abs() < 4.0 * error).all()
    assert torch.allclose(learned.state.log_prob, log_prob(learned.state.position))
    again = learn_proposal(
        log_prob, density, num_steps=1, batch_size=600, learning_rate=1e-12, state=learned.state, generator=generator
    )
    stayed = (again.state.position == learned.state.position).all(dim=1).double().mean()
    assert float(stayed) == pytest.approx(1.0 - float(again.acceptance), abs=0.08)
    # and a kernel goes on from it too
    trace = mcmc.sample(
        mcmc.metropolis_hastings(log_prob, Independent(density)), learned.state, 50, generator=generator
    )
    assert trace.draws.shape == (600, 50, 2)


@pytest.mark.slow
def test_a_flow_learns_two_modes(generator):
    """Acceptance covers both; the rate is beyond what one Gaussian can reach."""

    def two(points):
        return (
            torch.logsumexp(-0.5 * (points[:, :1] - points.new_tensor([-2.0, 2.0])).square(), dim=1)
            - 0.5 * points[:, 1].square()
        )

    with torch.random.fork_rng():
        torch.manual_seed(1)
        flow = RealNVP(2, 6, 32, scale=2.0)
    learned = learn_proposal(two, flow, num_steps=400, batch_size=64, learning_rate=0.01, generator=generator)
    assert float(learned.acceptance[-50:].mean()) > 0.8  # the best Gaussian comes to 0.69
    share = float((flow.rsample(4000, generator)[:, 0] > 0).float().mean())
    assert 0.4 < share < 0.6


def test_the_same_generator_learns_the_same():
    found = []
    for _ in range(2):
        density = FullGaussian(2).double()
        learn_proposal(log_prob, density, num_steps=5, batch_size=8, generator=torch.Generator().manual_seed(0))
        found.append(density.factor.detach())
    assert torch.equal(*found)


def test_divergence_is_reported(generator):
    def broken(points):
        return torch.where(points[:, 0] > 2.0, torch.nan, log_prob(points))

    for objective in ("vi", "symmetric_kl"):
        with pytest.raises(DivergedError, match=f"the loss '{objective}' is nan at step") as caught:
            samples = None if objective == "vi" else torch.zeros(3, 2, dtype=DOUBLE)
            settings = {"num_steps": 200, "batch_size": 16, "samples": samples, "generator": generator}
            learn_proposal(broken, FullGaussian(2).double(), objective, **settings)
        assert math.isnan(caught.value.value)
