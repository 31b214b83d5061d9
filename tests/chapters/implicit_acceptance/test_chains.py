"""The finite chains of the implicit chapter: what they are drawn with, and the ladder's own numbers."""

import pytest
import torch

from chapters.implicit_acceptance import chains

SEED = 2


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


def test_near_the_target_the_bound_speaks_and_the_minorization_is_kept(generator):
    many = chains.random_chains(50, 6, generator, lower=0.9, minorization=0.9, error=0.1, near=0.99)
    assert many.minorization == pytest.approx(0.999)
    # what all proposals have in common has at least the mass epsilon
    assert (many.proposal.amin(-2).sum(-1) >= many.minorization - 1e-9).all()
    found = chains.ladder(many)
    assert (found["measured"] <= found["(28)"]).all() and found["(28)"].max() < 1
    far = chains.random_chains(50, 6, generator, lower=0.2, minorization=0.3)
    assert far.minorization == pytest.approx(0.3) and chains.ladder(far)["(28)"].min() > 1
