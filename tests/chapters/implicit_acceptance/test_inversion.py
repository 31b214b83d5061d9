"""Inversion of a generator."""

import pytest
import torch
from torch import nn

from chapters.implicit_acceptance.inversion import invert
from tests.seeded import seeded as generator


@pytest.mark.slow
def test_inversion_of_a_linear_generator_is_least_squares():
    torch.manual_seed(0)
    decoder = nn.Linear(3, 8)
    images = torch.randn(50, 8, generator=generator(1))
    with torch.no_grad():
        exact = torch.linalg.lstsq(decoder.weight, (images - decoder.bias).T).solution.T
    before = [p.clone() for p in decoder.parameters()]
    found = invert(decoder, images, 3, steps=800, learning_rate=0.3, batch_size=20, generator=generator(2))
    assert torch.allclose(found.latents, exact, atol=1e-3)
    with torch.no_grad():
        assert torch.allclose(found.errors, (decoder(found.latents) - images).square().mean(dim=1), atol=1e-6)
    assert all(p.grad is None and torch.equal(p, old) for p, old in zip(decoder.parameters(), before, strict=True))
    ridge = invert(decoder, images, 3, steps=300, penalty=1.0, generator=generator(2))
    assert ridge.latents.norm() < found.latents.norm()


def test_inversion_begins_where_it_is_told():
    decoder, images, start = nn.Linear(3, 8), torch.zeros(5, 8), torch.ones(5, 3)
    found = invert(decoder, images, 3, steps=1, learning_rate=1e-6, start=start)
    assert torch.allclose(found.latents, start, atol=1e-5) and torch.equal(start, torch.ones(5, 3))
