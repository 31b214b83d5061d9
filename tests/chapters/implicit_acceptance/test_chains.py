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
