"""Generators, critics and the variational autoencoder: what they are, learn and resume; inversion."""

import os
import signal

import pytest
import torch
from torch import distributions, nn

from bnnlib.train import Checkpoint
from chapters.implicit_acceptance.inversion import invert
from chapters.implicit_acceptance.networks import VAE, Encoding, dcgan_critic, dcgan_generator
from chapters.implicit_acceptance.training import evidence_lower_bound, gradient_penalty, train_vae, train_wgan_gp
from tests.seeded import seeded as generator


def images(count: int = 30) -> torch.Tensor:
    return torch.rand(count, 1, 28, 28, generator=generator(9))


def gan(steps: int, checkpoint=None, data: torch.Tensor | None = None, **options):
    decoder, critic = dcgan_generator(4, width=2, generator=generator(1)), dcgan_critic(width=2, generator=generator(2))
    options = {"batch_size": 6, "critic_steps": 2, "generator": generator(3)} | options
    data = images() if data is None else data
    training = train_wgan_gp(decoder, critic, data, 4, steps=steps, checkpoint=checkpoint, **options)
    return (decoder, critic), training


def vae(steps: int, checkpoint=None, data: torch.Tensor | None = None, **options):
    model = VAE(4, width=2, generator=generator(1))
    options = {"batch_size": 6, "generator": generator(3)} | options
    data = images() if data is None else data
    return (model,), train_vae(model, data, 4, steps=steps, checkpoint=checkpoint, **options)


def test_the_penalty_of_a_linear_critic_is_known():
    weight = torch.tensor([3.0, 4.0])
    first, second = torch.randn(8, 2, generator=generator(1)), torch.randn(8, 2, generator=generator(2))
    share = torch.rand(8, generator=generator(3))
    found = gradient_penalty(lambda x: x @ weight, first, second, share)
    assert found.item() == pytest.approx(16.0)  # (5 - 1)^2
    flat = gradient_penalty(lambda x: (0 * x).sum(dim=1), first, second, share)
    assert flat.item() == pytest.approx(1.0, abs=1e-5)
    # the points lie between the two: |x|^2 / 2 has slope |x|
    between = share[:, None] * first + (1 - share[:, None]) * second
    found = gradient_penalty(lambda x: 0.5 * x.square().sum(dim=1), first, second, share)
    assert found.item() == pytest.approx((between.norm(dim=1) - 1).square().mean().item(), rel=1e-5)


def test_the_penalty_has_the_gradient_of_finite_differences():
    first, second = (
        torch.randn(5, 3, generator=generator(1)).double(),
        torch.randn(5, 3, generator=generator(2)).double(),
    )
    share = torch.rand(5, generator=generator(3)).double()
    matrix = torch.randn(3, 3, generator=generator(4)).double().requires_grad_()

    def penalty(values):
        return gradient_penalty(lambda x: torch.tanh(x @ values).sum(dim=1), first, second, share)

    assert torch.autograd.gradcheck(penalty, (matrix,))


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_the_bound_is_that_of_torch_distributions(likelihood):
    x, logits = images(3).double(), torch.randn(3, 1, 28, 28, generator=generator(1)).double()
    mean, log_scale = torch.randn(2, 3, 4, generator=generator(2)).double()
    fit, kl = evidence_lower_bound(Encoding(logits, mean, log_scale), x, likelihood)
    normal = distributions.Normal(0.0, 1.0)
    theirs = distributions.kl_divergence(distributions.Normal(mean, log_scale.exp()), normal).sum() / 3
    assert kl.item() == pytest.approx(theirs.item())
    if likelihood == "bernoulli":
        law = distributions.Bernoulli(logits=logits, validate_args=False)
    else:
        law = distributions.Normal(logits.sigmoid(), (logits.sigmoid() - x).square().mean().sqrt())
    assert fit.item() == pytest.approx(law.log_prob(x).sum().item() / 3)


@pytest.mark.slow
def test_a_gan_learns_a_constant_image():
    """Where all data are one image, the distance falls, and what is generated comes near to it."""
    data = torch.full((20, 1, 28, 28), 0.8)
    data[..., 7:21, 7:21] = 0.1
    (decoder, _), training = gan(60, data=data, learning_rate=3e-3, batch_size=8)
    with torch.no_grad():
        made = decoder(torch.randn(50, 4, generator=generator(5)))
    assert (made.mean(dim=0) - data[0]).abs().mean() < 0.15  # 0.35 before training
    assert training.names == ("distance", "penalty", "generator") and training.history.shape == (60, 3)


def test_a_vae_raises_its_bound():
    data = (images() > 0.5).float()
    _, training = vae(60, data=data, learning_rate=3e-3)
    assert training.history[-10:, 0].mean() < training.history[:3, 0].mean() - 5.0
    assert (training.history[:, 1] >= 0).all() and training.names == ("negative_elbo", "kl")
    _, gaussian = vae(5, likelihood="gaussian")
    assert torch.isfinite(gaussian.history).all()


@pytest.mark.parametrize("run", [gan, vae])
def test_ctrl_c_saves_a_whole_step(run, tmp_path):
    """The schedule of the fourth step sends the signal; that step is completed, saved, and taken up again."""
    path = tmp_path / "one.pt"

    def stop(step):
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        run(8, Checkpoint(path), schedule=stop)
    assert Checkpoint(path).load()["steps"] == 4
    (whole, *_), _ = run(8)
    (resumed, *_), _ = run(8, Checkpoint(path))
    pairs = zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("run", [gan, vae])
def test_a_checkpoint_of_other_data_is_refused(run, tmp_path):
    run(2, Checkpoint(tmp_path / "one.pt"), schedule=lambda step: 0.0)  # a rate of 0 is one
    with pytest.raises(ValueError, match="cannot go on from there"):
        run(3, Checkpoint(tmp_path / "one.pt"), data=images(29))


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
