"""Generators, critics and the variational autoencoder: shapes, ranges, seeds, bad input."""

import pytest
import torch
from torch import nn

from chapters.implicit_acceptance.networks import VAE, dcgan_critic, dcgan_generator
from tests.seeded import seeded as generator


@pytest.mark.parametrize("shape", [(1, 28), (3, 32), (1, 32)])
def test_shapes_and_ranges(shape):
    channels, side = shape
    decoder = dcgan_generator(5, shape, 3, generator=generator())
    images = decoder(torch.randn(4, 5, generator=generator(1)))
    assert images.shape == (4, channels, side, side) and 0 <= images.min() < images.max() <= 1
    assert torch.equal(decoder.eval()(torch.ones(2, 5, 1, 1)), decoder(torch.ones(2, 5)))
    assert dcgan_critic(shape, 3, generator=generator())(images).shape == (4,)
    assert dcgan_critic(shape, 3, 6)(images).shape == (4, 6)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in dcgan_critic(shape, 3).modules())


def test_the_width_scales_the_channels():
    assert [m.in_channels for m in dcgan_generator(5, (1, 28), 8) if isinstance(m, nn.ConvTranspose2d)] == [32, 16]
    assert [m.in_channels for m in dcgan_generator(5, (3, 32), 8) if isinstance(m, nn.ConvTranspose2d)] == [32, 16, 8]
    assert [m.out_channels for m in dcgan_critic((3, 32), 8) if isinstance(m, nn.Conv2d)] == [8, 16, 32]


def test_a_seed_fixes_the_first_weights():
    for build in (lambda g: dcgan_generator(5, width=2, generator=g), lambda g: dcgan_critic(width=2, generator=g)):
        one, same, other = build(generator(1)), build(generator(1)), build(generator(2))
        pairs = zip(one.state_dict().values(), same.state_dict().values(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
        assert not torch.equal(one.linear.weight, other.linear.weight)


def test_the_vae_decodes_what_it_encodes():
    vae = VAE(5, (1, 28), 3, generator=generator()).eval()
    images, noise = torch.rand(4, 1, 28, 28, generator=generator(1)), torch.randn(4, 5, generator=generator(2))
    out = vae(images, noise)
    mean, log_scale = vae.encode(images)
    assert out.mean.shape == out.log_scale.shape == (4, 5) and torch.equal(out.mean, mean)
    decoded = vae.decoder(mean + log_scale.exp() * noise)
    assert torch.allclose(out.logits.sigmoid(), decoded, atol=1e-6)
