"""`sample`: what is kept and reported, and that no step waits for the device."""

import math
import warnings

import pytest
import torch
from scipy import stats
from torch._subclasses.fake_tensor import FakeTensorMode

from bnnlib import sampling as mcmc
from bnnlib.sampling.kernels import _BLOCK, State
from tests.bnnlib.sampling.conftest import DOUBLE
from tests.seeded import seeded

# short runs: some independent chains stay where they are
pytestmark = pytest.mark.filterwarnings("ignore:.*chains never moved")


def log_prob(points):
    return -0.5 * (points - 1.0).square().sum(-1)


def autoregressive():
    def mean(given):
        return 0.5 * given

    def draw(given, generator):
        return mean(given) + torch.randn(given.shape, generator=generator, device=given.device, dtype=given.dtype)

    return mcmc.Markov(draw, lambda point, given: -0.5 * (point - mean(given)).square().sum(-1))


KERNELS = {
    "random walk": lambda: mcmc.metropolis_hastings(log_prob, mcmc.RandomWalk(1.5)),
    "Markov": lambda: mcmc.metropolis_hastings(log_prob, autoregressive()),
    "independent": lambda: mcmc.metropolis_hastings(
        log_prob, mcmc.Independent(mcmc.FullGaussian(2, scale=2.0).double())
    ),
    "independent, flow": lambda: mcmc.metropolis_hastings(
        log_prob, mcmc.Independent(mcmc.RealNVP(2, 2, 8, scale=2.0).double())
    ),
    "HMC": lambda: mcmc.HamiltonianMonteCarlo(log_prob, 1.2, 3),
    "HMC, dense": lambda: mcmc.HamiltonianMonteCarlo(log_prob, 1.2, 3, torch.eye(2, dtype=DOUBLE) + 0.5),
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]()


def start(chains=16):
    return torch.randn(chains, 2, generator=seeded(5), dtype=DOUBLE)


def test_thin_and_burn_in_only_choose_what_is_kept(kernel):
    """Steps that are kept are those of the plain run, and so are the counts over all steps after burn-in."""
    full = mcmc.sample(kernel, start(), 29, generator=seeded(1))
    kept = mcmc.sample(kernel, start(), 4, burn_in=5, thin=6, generator=seeded(1))
    assert full.draws.shape == (16, 29, 2) and kept.draws.shape == (16, 4, 2) and kept.log_prob.shape == (16, 4)
    assert torch.equal(kept.draws, full.draws[:, [10, 16, 22, 28]])
    assert torch.equal(kept.log_prob, full.log_prob[:, [10, 16, 22, 28]])
    assert torch.equal(kept.state.position, full.draws[:, -1])
    moved = (full.draws[:, 5:] != full.draws[:, 4:-1]).any(dim=-1).sum(dim=1)
    assert torch.equal(kept.moves, moved)
    assert not kept.never_moved.any()
    assert ((kept.acceptance >= 0) & (kept.acceptance <= 1)).all()
    assert float(kept.acceptance.mean()) == pytest.approx(float(moved.double().mean()) / 24, abs=0.12)


def test_the_log_density_is_that_of_the_draws_and_the_start_is_left_alone(kernel, generator):
    begin = start()
    with warnings.catch_warnings(action="error"):  # chains that move are not warned of
        trace = mcmc.sample(kernel, begin, 30, generator=generator)
    assert torch.equal(begin, start()) and not trace.draws.requires_grad and not trace.state.position.requires_grad
    for k in range(30):
        assert torch.allclose(trace.log_prob[:, k], log_prob(trace.draws[:, k]))
    assert torch.allclose(trace.state.log_prob, trace.log_prob[:, -1])


@pytest.mark.parametrize("kind", [kind for kind in KERNELS if kind != "independent, flow"])
def test_going_on_makes_the_draws_of_one_long_run(kind):
    # independent points are drawn ahead, a block of steps at once: it goes on behind a block
    kernel, begin = KERNELS[kind](), start(_BLOCK // 8 if kind == "independent" else 16)
    whole = mcmc.sample(kernel, begin, 20, generator=seeded(1))
    generator = seeded(1)
    first = mcmc.sample(kernel, begin, 8, generator=generator)
    second = mcmc.sample(kernel, first.state, 12, generator=generator)
    assert torch.equal(torch.cat([first.draws, second.draws], dim=1), whole.draws)


def test_going_on_within_a_block_keeps_the_law():
    kernel, generator = KERNELS["independent"](), seeded(3)
    state = 1.0 + torch.randn(50_000, 2, generator=generator, dtype=DOUBLE)
    for steps in (1, 3, 2):
        state = mcmc.sample(kernel, state, steps, generator=generator).state
    assert stats.kstest(state.position[:, 0].numpy(), stats.norm(1.0, 1.0).cdf).pvalue > 0.01


def test_a_state_of_another_kernel_counts_by_its_positions():
    """A cache of another kernel, or of a proposal that has learned since, would make wrong ratios."""

    def check(kernel, state):
        traces = (mcmc.sample(kernel, begin, 5, generator=seeded(2)).draws for begin in (state, state.position))
        assert torch.equal(*traces)

    states = [mcmc.sample(KERNELS[kind](), start(2), 3, generator=seeded(1)).state for kind in KERNELS]
    for kind in KERNELS:
        for state in states:
            check(KERNELS[kind](), state)
    proposal = mcmc.DiagonalGaussian(2, scale=2.0).double()
    kernel = mcmc.metropolis_hastings(log_prob, mcmc.Independent(proposal))
    state = mcmc.sample(kernel, start(), 3, generator=seeded(1)).state
    with torch.no_grad():
        proposal.mean.add_(2.0)
    check(kernel, state)


def test_blocks_of_independent_points_are_the_steps(generator):
    """A step at a time has the same law as a block: the same first draw, and the same rate of moves."""
    kernel = KERNELS["independent"]()
    begin = kernel.start(start(2000))
    one_by_one = list(mcmc.Kernel.steps(kernel, begin, 30, generator))
    block = list(kernel.steps(begin, 30, generator))
    rates = [float(torch.stack([move.probability for move in moves]).mean()) for moves in (one_by_one, block)]
    assert rates[0] == pytest.approx(rates[1], abs=0.01)
    assert len(one_by_one) == len(block) == 30


def test_chains_that_never_move_are_warned_of_and_listed(generator):
    """Half of the chains start on a spike that every step of theirs leaves."""
    begin = start()
    begin[::2] = 60.0

    def spiked(points):
        return torch.where((points - 60.0).abs().sum(-1) < 1e-9, 1e5, 0.0) + log_prob(points)

    kernel = mcmc.metropolis_hastings(spiked, mcmc.RandomWalk(0.8))
    with pytest.warns(UserWarning, match=r"8 of 16 chains never moved in 40 steps.*never_moved") as caught:
        trace = mcmc.sample(kernel, begin, 20, thin=2, generator=generator)
    assert caught[0].filename == __file__
    assert torch.equal(trace.never_moved, (torch.arange(16) % 2) == 0)
    assert (trace.draws[::2] == 60.0).all() and (trace.moves[1::2] > 0).all()


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("when", ["burn-in", "later"])
@pytest.mark.parametrize(
    "way", [mcmc.RandomWalk(1.0), mcmc.Independent(mcmc.FullGaussian(2).double()), autoregressive(), None]
)
def test_a_density_that_turns_wrong_is_reported(value, when, way, generator):
    """At the start all is well; a few proposals fall where the density is NaN or +inf."""

    def broken(points):
        return torch.where(points[:, 0] > 2.0, value, log_prob(points))

    counts = {"burn_in": 300} if when == "burn-in" else {"thin": 10}
    kernel = mcmc.metropolis_hastings(broken, way) if way else mcmc.HamiltonianMonteCarlo(broken, 0.5, 4)
    with pytest.raises(ValueError, match=r"was NaN or \+inf within .*Outside of the support return -inf"):
        mcmc.sample(kernel, torch.zeros(8, 2, dtype=DOUBLE), 30, generator=generator, **counts)


def test_a_proposal_whose_density_is_nan_is_reported(generator):
    way = mcmc.Markov(lambda given, generator: given + 0.1, lambda point, given: point[:, 0] * torch.nan)
    with pytest.raises(ValueError, match="or the proposal's density, was NaN"):
        mcmc.sample(mcmc.metropolis_hastings(log_prob, way), start(), 5, generator=generator)


def test_a_bounded_support_is_kept(generator):
    def uniform(points):
        return torch.where(((points > 0) & (points < 1)).all(dim=-1), 0.0, -torch.inf)

    kernel = mcmc.metropolis_hastings(uniform, mcmc.RandomWalk(0.3))
    trace = mcmc.sample(kernel, torch.rand(5000, 2, generator=generator, dtype=DOUBLE), 1, thin=20, generator=generator)
    assert stats.kstest(trace.draws[:, 0, 1].numpy(), stats.uniform.cdf).pvalue > 0.01


def test_no_step_waits_for_the_device(kernel):
    """Tensors without values: whatever would ask for one, an `if` on it or its `item`, raises."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        position = torch.randn(4, 2, dtype=DOUBLE)
        cache = torch.randn(4, 2, dtype=DOUBLE) if isinstance(kernel, mcmc.HamiltonianMonteCarlo) else torch.randn(4)
        state = State(position, torch.randn(4, dtype=DOUBLE), cache)
        with pytest.raises(Exception, match=r"data-dependent|DataDependent|_local_scalar_dense"):
            kernel.start(position)  # which does look, once; so the mode is awake
        for move in kernel.steps(kernel.step(state).state, 3):
            assert move.state.position.shape == (4, 2) and move.accepted.shape == (4,)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_no_step_waits_for_a_cuda_device():
    device = torch.device("cuda")
    generator = torch.Generator(device).manual_seed(0)
    density = mcmc.FullGaussian(2, scale=2.0).to(device)
    kernels = [
        mcmc.metropolis_hastings(log_prob, mcmc.RandomWalk(1.0)),
        mcmc.metropolis_hastings(log_prob, autoregressive()),
        mcmc.metropolis_hastings(log_prob, mcmc.Independent(density)),
        mcmc.HamiltonianMonteCarlo(log_prob, 0.5, 3, torch.eye(2, device=device)),
    ]
    for kernel in kernels:
        state = kernel.step(kernel.start(torch.zeros(8, 2, device=device)), generator).state
        torch.cuda.set_sync_debug_mode("error")
        try:
            for move in kernel.steps(state, 5, generator):
                state = move.state
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert mcmc.sample(kernel, state, 5, generator=generator).draws.device.type == "cuda"
