"""Every kernel keeps its target: 50,000 chains that start there are still there after some tens of steps."""

import pytest
import torch

from bnnlib.sampling import (
    DiagonalGaussian,
    FullGaussian,
    HamiltonianMonteCarlo,
    Independent,
    Markov,
    RandomWalk,
    RealNVP,
    hmc,
    metropolis_hastings,
    sample,
)
from tests.seeded import seeded

# independent points are refused often enough for some chains of 50,000 to stay
pytestmark = pytest.mark.filterwarnings("ignore:.*chains never moved")

DOUBLE = torch.float64
CHAINS, STEPS = 50_000, 24
COVARIANCE = torch.tensor([[1.0, 1.4], [1.4, 4.0]], dtype=DOUBLE)


@pytest.fixture
def generator() -> torch.Generator:
    """Of a seed at which none of some forty p-values, uniform where a kernel is right, is below 0.01 by chance."""
    return seeded(2)


def shrinking_walk() -> Markov:
    """Steps that grow with x: far from symmetric."""

    def law(given):
        return torch.distributions.Normal(given - 0.1, 0.4 + torch.sigmoid(given))

    def draw(given, generator):
        noise = torch.randn(given.shape, generator=generator, dtype=given.dtype)
        return law(given).mean + law(given).stddev * noise

    return Markov(draw, lambda point, given: law(given).log_prob(point).sum(dim=-1))


def bent_flow() -> RealNVP:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        flow = RealNVP(2, num_layers=2, hidden=8, scale=2.0).double()
        for network in flow.networks:
            torch.nn.init.normal_(network[-1].weight, std=0.3)
    return flow


def kernels():
    """By name, of a target."""
    full = FullGaussian(2).double().match(torch.zeros(2, dtype=DOUBLE), 5.0 * torch.eye(2, dtype=DOUBLE) + 1.0)
    covariance = COVARIANCE
    return {
        "random walk": lambda target: metropolis_hastings(target.log_prob, RandomWalk(1.2)),
        "Markov": lambda target: metropolis_hastings(target.log_prob, shrinking_walk()),
        "independent, diagonal": lambda target: metropolis_hastings(
            target.log_prob, Independent(DiagonalGaussian(2, scale=2.5).double())
        ),
        "independent, full": lambda target: metropolis_hastings(target.log_prob, Independent(full)),
        "independent, flow": lambda target: metropolis_hastings(target.log_prob, Independent(bent_flow())),
        "HMC": lambda target: HamiltonianMonteCarlo(target.log_prob, 0.9, 3),
        "HMC, diagonal": lambda target: HamiltonianMonteCarlo(target.log_prob, target.step, 3, covariance.diagonal()),
        "HMC, dense": lambda target: HamiltonianMonteCarlo(target.log_prob, 1.2 * target.step, 3, covariance),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", kernels())
def test_the_target_is_kept(kind, target, generator):
    kernel = kernels()[kind](target)
    trace = sample(kernel, target.draw(CHAINS, generator), 1, thin=STEPS, generator=generator)
    rate = float(trace.acceptance.mean())
    assert 0.1 < rate < 0.95, "the test needs refused and accepted points"
    assert min(target.p_values(trace.draws[:, 0])) > 0.01


def never_refuse(state, offered, log_ratio, generator):
    return decide(state, offered, torch.zeros_like(log_ratio), generator)


decide = hmc.decide


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["swapped", "no correction", "no density", "half of the energy", "no test"])
def test_a_wrong_ratio_is_found(mistake, target, generator, monkeypatch):
    """The test above is not blind: five mistakes that each leave a running sampler."""
    right = shrinking_walk()
    if mistake == "swapped":
        kernel = metropolis_hastings(
            target.log_prob, Markov(right.draw, lambda point, given: right.log_density(given, point))
        )
    elif mistake == "no correction":
        right.symmetric = True
        kernel = metropolis_hastings(target.log_prob, right)
    elif mistake == "no density":
        wide = DiagonalGaussian(2, scale=2.5).double()
        wide.rsample_with_log_prob = lambda count, generator: (wide.rsample(count, generator), torch.zeros(count))
        wide.log_prob = lambda points: torch.zeros(len(points), dtype=DOUBLE)
        kernel = metropolis_hastings(target.log_prob, Independent(wide))
    elif mistake == "half of the energy":
        # a momentum of another law than the kinetic energy's
        kernel = HamiltonianMonteCarlo(target.log_prob, target.step, 3, 1.3 * COVARIANCE)
        kernel._factor = torch.linalg.cholesky(COVARIANCE)
    else:
        monkeypatch.setattr(hmc, "decide", never_refuse)
        kernel = HamiltonianMonteCarlo(target.log_prob, 0.9, 3)
    trace = sample(kernel, target.draw(CHAINS, generator), 1, thin=STEPS, generator=generator)
    assert min(target.p_values(trace.draws[:, 0])) < 1e-6
