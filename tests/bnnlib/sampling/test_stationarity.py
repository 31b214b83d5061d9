"""Every kernel keeps its target: 50,000 chains that start there are still there after some tens of steps."""

import pytest
import torch

from bnnlib import sampling as mcmc
from tests.bnnlib.sampling.conftest import COVARIANCE, DOUBLE
from tests.seeded import seeded

# independent points are refused often enough for some chains of 50,000 to stay
pytestmark = pytest.mark.filterwarnings("ignore:.*chains never moved")

CHAINS, STEPS = 50_000, 24


@pytest.fixture
def generator() -> torch.Generator:
    """Of a seed at which none of some forty p-values, uniform where a kernel is right, is below 0.01 by chance."""
    return seeded(2)


def shrinking_walk() -> mcmc.Markov:
    """Steps that grow with x: far from symmetric."""

    def law(given):
        return torch.distributions.Normal(given - 0.1, 0.4 + torch.sigmoid(given))

    def draw(given, generator):
        noise = torch.randn(given.shape, generator=generator, dtype=given.dtype)
        return law(given).mean + law(given).stddev * noise

    return mcmc.Markov(draw, lambda point, given: law(given).log_prob(point).sum(dim=-1))


def bent_flow() -> mcmc.RealNVP:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        flow = mcmc.RealNVP(2, num_layers=2, hidden=8, scale=2.0).double()
        for network in flow.networks:
            torch.nn.init.normal_(network[-1].weight, std=0.3)
    return flow


def kernels():
    """By name, of a target."""
    full = mcmc.FullGaussian(2).double().match(torch.zeros(2, dtype=DOUBLE), 5.0 * torch.eye(2, dtype=DOUBLE) + 1.0)
    return {
        "random walk": lambda target: mcmc.metropolis_hastings(target.log_prob, mcmc.RandomWalk(1.2)),
        "Markov": lambda target: mcmc.metropolis_hastings(target.log_prob, shrinking_walk()),
        "independent, diagonal": lambda target: mcmc.metropolis_hastings(
            target.log_prob, mcmc.Independent(mcmc.DiagonalGaussian(2, scale=2.5).double())
        ),
        "independent, full": lambda target: mcmc.metropolis_hastings(target.log_prob, mcmc.Independent(full)),
        "independent, flow": lambda target: mcmc.metropolis_hastings(target.log_prob, mcmc.Independent(bent_flow())),
        "HMC": lambda target: mcmc.HamiltonianMonteCarlo(target.log_prob, 0.9, 3),
        "HMC, diagonal": lambda target: mcmc.HamiltonianMonteCarlo(target.log_prob, target.step, 3, COVARIANCE.diag()),
        "HMC, dense": lambda target: mcmc.HamiltonianMonteCarlo(target.log_prob, 1.2 * target.step, 3, COVARIANCE),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", kernels())
def test_the_target_is_kept(kind, target, generator):
    kernel = kernels()[kind](target)
    trace = mcmc.sample(kernel, target.draw(CHAINS, generator), 1, thin=STEPS, generator=generator)
    rate = float(trace.acceptance.mean())
    assert 0.1 < rate < 0.95, "the test needs refused and accepted points"
    assert min(target.p_values(trace.draws[:, 0])) > 0.01


def never_refuse(state, offered, log_ratio, generator):
    return decide(state, offered, torch.zeros_like(log_ratio), generator)


decide = mcmc.hmc.decide


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["swapped", "no correction", "no density", "half of the energy", "no test"])
def test_a_wrong_ratio_is_found(mistake, target, generator, monkeypatch):
    """The test above is not blind: five mistakes that each leave a running sampler."""
    right = shrinking_walk()
    if mistake == "swapped":
        kernel = mcmc.metropolis_hastings(
            target.log_prob, mcmc.Markov(right.draw, lambda point, given: right.log_density(given, point))
        )
    elif mistake == "no correction":
        right.symmetric = True
        kernel = mcmc.metropolis_hastings(target.log_prob, right)
    elif mistake == "no density":
        wide = mcmc.DiagonalGaussian(2, scale=2.5).double()
        wide.rsample_with_log_prob = lambda count, generator: (wide.rsample(count, generator), torch.zeros(count))
        wide.log_prob = lambda points: torch.zeros(len(points), dtype=DOUBLE)
        kernel = mcmc.metropolis_hastings(target.log_prob, mcmc.Independent(wide))
    elif mistake == "half of the energy":
        # a momentum of another law than the kinetic energy's
        kernel = mcmc.HamiltonianMonteCarlo(target.log_prob, target.step, 3, 1.3 * COVARIANCE)
        kernel._factor = torch.linalg.cholesky(COVARIANCE)
    else:
        monkeypatch.setattr(mcmc.hmc, "decide", never_refuse)
        kernel = mcmc.HamiltonianMonteCarlo(target.log_prob, 0.9, 3)
    trace = mcmc.sample(kernel, target.draw(CHAINS, generator), 1, thin=STEPS, generator=generator)
    assert min(target.p_values(trace.draws[:, 0])) < 1e-6
