"""How proposals are learned: what is minimized, what is reached, and the chain that goes along."""

import math

import pytest
import torch

from bnnlib import sampling as mcmc
from bnnlib._checks import DivergedError
from bnnlib.sampling import FullGaussian, Independent, RealNVP, learn_proposal
from bnnlib.sampling.learn import OBJECTIVES
from chapters.acceptance.formulas import acceptance_rate_of
from tests.bnnlib.sampling.conftest import DOUBLE

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
