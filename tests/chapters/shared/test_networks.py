"""What every network promises: its size, a start by its generator alone, formats, that it trains, what it refuses."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch.nn import Linear

from bnnlib.models import mlp
from bnnlib.nn import (
    GaussianConv2d,
    GaussianLinear,
    GaussianSpikeSlabConv2d,
    GaussianSpikeSlabLinear,
    HorseshoeLinear,
    SparseVDLinear,
    SpikeSlabLinear,
    bayesian_layers,
    elbo_loss,
    mean_weights,
    use_generator,
)
from chapters.shared.networks import lenet5_caffe, resnet, resnet18, resnet20, vgg_like
from tests.seeded import seeded


def images(n=4, shape=(3, 32, 32)):
    return torch.randn(n, *shape, generator=seeded(7))


def normalized(h):
    """Batch norm before any training: running mean 0 and variance 1."""
    return h / math.sqrt(1 + 1e-5)


def drawn(make):
    """Parameters of the network of seed 0, which start by their generator alone."""
    first, again, other = (dict(make(generator=seeded(s)).named_parameters()) for s in (0, 0, 1))
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    # scales, shifts and biases of zero are the same whatever the generator
    assert all(not torch.equal(value, other[name]) for name, value in first.items() if value.dim() > 1)
    return first


@pytest.mark.parametrize(
    ("make", "published"),
    [
        (lambda: mlp((784, 512, 512, 10)), 669_706),
        (lambda: mlp((784, 300, 100, 10)), 266_610),
        (lenet5_caffe, 431_080),
        (resnet20, 272_474),
        (resnet18, 11_173_962),
        (vgg_like, 14_987_210),
        (lambda: vgg_like(0.25), 939_770),
    ],
)
def test_sizes_are_the_literature_s(make, published):
    with torch.device("meta"):
        assert sum(p.numel() for p in make().parameters()) == published


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: mlp((4, 5, 2), **k),
        lenet5_caffe,
        lambda **k: resnet(8, width=4, **k),
        lambda **k: resnet18(4, 3, **k),
        lambda **k: vgg_like(0.1, **k),
    ],
)
def test_a_network_starts_by_its_generator_alone(make):
    drawn(make)


MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.0067}


def flat(layer=Linear, **options):
    return mlp((784, 5, 2), layer=layer, flatten=True, **options)


@pytest.mark.parametrize(
    ("make", "layers", "options"),
    [
        (flat, (SpikeSlabLinear,), {"prior_inclusion_probability": 0.1}),
        (flat, (SparseVDLinear,), {}),
        (flat, (HorseshoeLinear,), {}),
        (flat, (GaussianSpikeSlabLinear,), MIXTURE),
        (lenet5_caffe, (GaussianSpikeSlabConv2d, GaussianSpikeSlabLinear), MIXTURE),
    ],
)
def test_bayesian_layers_start_where_the_deterministic_ones_do(make, layers, options):
    model, reference = make(*layers, generator=seeded(3), **options), make(generator=seeded(3))
    x, start, layers = torch.rand(6, 1, 28, 28), dict(reference.named_parameters()), bayesian_layers(model)
    assert len(layers) == len([p for p in start.values() if p.dim() > 1])
    assert all(getattr(layer, name) == value for layer in layers for name, value in options.items())
    found = dict(model.named_parameters())
    assert all(torch.equal(found[name], value) for name, value in start.items())
    with mean_weights(model):
        assert model(x).shape == reference(x).shape
    assert not torch.equal(model(x), model(x))


@pytest.mark.parametrize(("make", "slack"), [(resnet20, 1e-3), (lambda **k: vgg_like(0.1, **k), 1e-4)])
def test_channels_last_and_bfloat16(make, slack):
    model = make(generator=seeded()).eval()
    x, last = images(), copy.deepcopy(model).to(memory_format=torch.channels_last)
    expected = model(x)
    torch.testing.assert_close(last(x.contiguous(memory_format=torch.channels_last)), expected, rtol=slack, atol=slack)
    with torch.autocast("cpu", torch.bfloat16):
        low = last(x)
    assert low.dtype == torch.bfloat16
    # bfloat16 keeps 8 bits: 0.4 % a layer over 15 or 20 layers, most of it averaged out
    torch.testing.assert_close(low.float(), expected, rtol=0, atol=0.05 * float(expected.detach().abs().max()))
    low.float().logsumexp(1).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in last.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("bayesian", [False, True])
def test_it_trains(bayesian):
    if bayesian:
        model = vgg_like(0.1, GaussianSpikeSlabConv2d, GaussianSpikeSlabLinear, generator=seeded(), **MIXTURE)
        assert len(bayesian_layers(model)) == 15
    else:
        model = vgg_like(0.1, generator=seeded()).train()
    x, y, losses = images(64), torch.arange(64) % 10, []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with use_generator(seeded(2)):
        for _ in range(25):
            nll = F.cross_entropy(model(x), y)
            losses.append(float(nll.detach()))
            optimizer.zero_grad()
            (elbo_loss(nll, model, 50_000, with_value=False) if bayesian else nll).backward()
            optimizer.step()
    # noise labels can only be learned by heart: the start is log 10 = 2.3, chance stays there
    assert sum(losses[-5:]) / 5 < 1.0


def test_options_reach_convolutions_and_linear_layers():
    model = lenet5_caffe(GaussianConv2d, GaussianLinear, prior_scale=0.3, estimator="local")
    assert [(layer.prior_scale, layer.estimator) for layer in bayesian_layers(model)] == [(0.3, "local")] * 4
