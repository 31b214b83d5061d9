"""The finite chains of the implicit chapter: what they are drawn with, and the ladder's own numbers."""

import pytest
import torch

from chapters.implicit_acceptance import chains
from chapters.shared import finite


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(2)


@pytest.mark.parametrize(("lower", "minorization"), [(0.01, 0.05), (0.5, 0.5), (1.0, 1.0)])
def test_random_chains_keep_their_constants(lower, minorization, generator):
    many = chains.random_chains(500, 5, generator, lower=lower, minorization=minorization, error=3.0)
    assert many.discriminator.min() >= lower and many.discriminator.max() <= 1.0
    assert many.proposal.min(1).values.sum(-1).min() >= minorization - 1e-12
    assert torch.allclose(many.proposal.sum(-1), torch.ones((), dtype=torch.float64))
    assert (many.target > 0).all()


def test_without_error_and_with_room_the_chain_is_exact(generator):
    many = chains.random_chains(200, 5, generator, lower=1e-9, error=0.0)
    found = chains.ladder(many)
    assert found["measured"].max() < 1e-8 and found["one step"].max() < 1e-10
    exact = finite.metropolis_hastings_kernel(many.target, many.proposal)
    assert torch.allclose(finite.implicit_kernel(many.proposal, many.discriminator), exact, atol=1e-10)


def test_a_discriminator_of_a_ratio_has_this_ratio():
    ratio = torch.tensor([[0.0, 0.7], [-0.7, 0.0]], dtype=torch.float64)
    d = chains.discriminator_of(ratio, 0.1)
    assert torch.allclose((d / d.T).log(), ratio) and d.max() == 1.0
    cut = chains.discriminator_of(10 * ratio, 0.1)
    assert float(cut.min()) == pytest.approx(0.1, rel=1e-12)


def test_the_ladder_by_hand_on_two_states():
    target = torch.tensor([0.8, 0.2], dtype=torch.float64)
    proposal = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    even = chains.Chains(target, proposal, torch.ones(2, 2, dtype=torch.float64), 1.0, 1.0)
    found = {name: float(value) for name, value in chains.ladder(even).items()}
    assert found["measured"] == pytest.approx(0.3) and found["one step"] == pytest.approx(0.3)
    assert found["(22), ours"] == pytest.approx(0.3) and found["(22)"] == pytest.approx(0.6)
    divergence = 0.5 * (0.8 - 0.2) * torch.tensor(4.0).log().item()
    assert found["(28)"] ** 2 == pytest.approx(2 * divergence)
    assert float(chains.gap(even)) == pytest.approx(divergence)
