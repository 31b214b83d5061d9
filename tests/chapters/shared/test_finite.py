"""Kernels on finite spaces: detailed balance, Theorem 1 and the stationary law, to rounding."""

import numpy as np
import pytest
import torch

from bnnlib.sampling import Independent, Markov, RandomWalk, metropolis_hastings
from bnnlib.sampling.kernels import State
from chapters.shared.finite import (
    acceptance_kernel,
    acceptance_rate,
    check_kernel,
    metropolis_hastings_kernel,
    stationary_law,
    total_variation,
)

SEED = 7
DOUBLE = torch.float64


def laws(*shape, generator):
    """Distributions over the last dimension, with entries of very different sizes."""
    return torch.softmax(2.0 * torch.randn(*shape, generator=generator, dtype=DOUBLE), dim=-1)


def sparse(kernel, generator):
    """The kernel without a third of its moves, most of them possible one way only."""
    kept = kernel * (torch.rand(kernel.shape, generator=generator) > 1 / 3) + 0.1 * torch.eye(kernel.shape[-1])
    return kept / kept.sum(-1, keepdim=True)


def proposals(size, count, generator):
    dense = laws(count, size, size, generator=generator)
    symmetric = dense + dense.transpose(-1, -2)
    symmetric = symmetric / (1.01 * symmetric.sum(-1).amax(-1)[..., None, None])
    return {
        "any": dense,
        "sparse": sparse(dense, generator),
        "symmetric": symmetric + torch.diag_embed(1.0 - symmetric.sum(-1)),
        "independent": laws(count, 1, size, generator=generator).expand(count, size, size),
    }


KINDS = ["any", "sparse", "symmetric", "independent"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_detailed_balance_and_theorem_1(kind, size, generator):
    target = laws(200, size, generator=generator)
    proposal = proposals(size, 200, generator)[kind]
    kernel = check_kernel(metropolis_hastings_kernel(target, proposal))
    flow = target[:, :, None] * kernel
    assert (flow - flow.transpose(-1, -2)).abs().max() < 1e-12
    assert (target[:, None] @ kernel - target[:, None]).abs().max() < 1e-12
    # 1 - TV of the joint laws of (x, x') and (x', x)
    joint = target[:, :, None] * proposal
    expected = 1.0 - total_variation(joint, joint.transpose(-1, -2), dims=2)
    assert (acceptance_rate(target, proposal) - expected).abs().max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_sampled_kernels_accept_as_the_matrix_says(kind, generator):
    """All pairs (y, x) as chains, so that what `step` computes is the whole matrix of acceptance."""
    size = 6
    target, proposal = laws(size, generator=generator), proposals(size, 1, generator)[kind][0]
    given, offered = torch.cartesian_prod(torch.arange(size), torch.arange(size)).T
    log_q = proposal.log()

    class Walk(RandomWalk):
        def draw(self, given, generator=None):
            return offered

    class Law:
        def rsample(self, count, generator=None):
            return offered

        def log_prob(self, points):
            return log_q[0, points]

    steps = {"symmetric": Walk(1.0), "independent": Independent(Law())}
    ways = [Markov(lambda given, generator: offered, lambda point, given: log_q[given, point])]
    for way in ways + ([steps[kind]] if kind in steps else []):
        kernel = metropolis_hastings(lambda points: target.log()[points], way)
        move = kernel.step(kernel.start(given), generator)
        possible = proposal > 0
        accepted = torch.where(possible, move.probability.reshape(size, size), 0.0)
        sampled = acceptance_kernel(proposal, accepted)
        assert (sampled - metropolis_hastings_kernel(target, proposal)).abs().max() < 1e-12
        assert torch.equal(move.state.position, torch.where(move.accepted, offered, given))
        assert isinstance(move.state, State)


@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_the_stationary_law_is_the_eigenvector(size, generator):
    kernels = laws(20, size, size, generator=generator)
    if size > 2:  # fewer states without some moves are easily cut in two
        kernels = sparse(kernels, generator)
    for kernel, law in zip(kernels, stationary_law(kernels), strict=True):
        values, vectors = np.linalg.eig(kernel.numpy().T)
        vector = np.real(vectors[:, np.argmax(np.real(values))])
        assert np.abs(law.numpy() - vector / vector.sum()).max() < 1e-10


def test_periodic_and_reducible_kernels():
    cycle = torch.eye(4, dtype=DOUBLE).roll(1, dims=1)
    assert torch.allclose(stationary_law(cycle), torch.full((4,), 0.25, dtype=DOUBLE))
    # two states that are left for ever, and one that keeps: one law all the same
    transient = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    assert torch.allclose(stationary_law(transient), torch.tensor([0.0, 0.0, 1.0], dtype=DOUBLE))
    for dtype in (DOUBLE, torch.float32):
        third = torch.full((3, 3), 1 / 3, dtype=dtype)
        with pytest.raises(ValueError, match="more than one stationary law"):
            stationary_law(torch.block_diag(third, third))


def test_rounding_leaves_no_negative_probability():
    """A uniform target accepts all; the probability to stay is then 1 minus a sum that may exceed 1 by rounding."""
    proposal = (1 - torch.eye(50, dtype=DOUBLE)) / 49
    target = torch.full((50,), 1 / 50, dtype=DOUBLE)
    kernel = metropolis_hastings_kernel(target, proposal)
    assert (kernel >= 0).all()
    assert torch.allclose(stationary_law(kernel), target)


def test_single_precision_will_do(generator):
    target, proposal = laws(9, generator=generator).float(), laws(9, 9, generator=generator).float()
    assert torch.allclose(stationary_law(metropolis_hastings_kernel(target, proposal)).float(), target, atol=1e-5)
