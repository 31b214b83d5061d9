"""The VGG-like network: sizes, names, the start, equality with the layers written out, that it trains."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import vgg_like
from bnnlib.nn import GaussianSpikeSlabConv2d, GaussianSpikeSlabLinear, bayesian_layers, elbo_loss, use_generator


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def count(model):
    return sum(p.numel() for p in model.parameters())


def images(n=4):
    return torch.randn(n, 3, 32, 32, generator=seeded(7))


def test_sizes_and_layers_are_the_papers():
    model = vgg_like()
    assert count(model) == 14_987_210
    convolutions = [module for module in model if isinstance(module, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [64] * 2 + [128] * 2 + [256] * 3 + [512] * 6
    assert [module.out_features for module in model if isinstance(module, nn.Linear)] == [512, 10]
    assert sum(isinstance(m, nn.MaxPool2d) for m in model) == 5
    assert sum(isinstance(m, (nn.BatchNorm2d, nn.BatchNorm1d)) for m in model) == 14
    assert count(vgg_like(0.25)) == 939_770


def test_names_can_be_read():
    names = dict(vgg_like(0.05).named_parameters())
    assert {"conv1_1.weight", "bn1_1.weight", "conv5_3.weight", "fc1.weight", "bn_fc1.bias", "fc2.bias"} <= set(names)
    assert "conv1_1.bias" not in names and "fc1.bias" not in names


def test_the_start():
    model = vgg_like(0.25, generator=seeded())
    for module in model:
        if isinstance(module, nn.Conv2d):
            spread = math.sqrt(2 / (9 * module.out_channels))
            weight = module.weight.detach()
            # four standard errors, 1/sqrt(2 n) each, relative
            assert float(weight.std()) == pytest.approx(spread, rel=4 / math.sqrt(2 * weight.numel()))
    assert float(model.fc2.weight.detach().abs().max()) <= 1 / math.sqrt(128)
    torch.manual_seed(3)  # the global generator is left out
    again, other = vgg_like(0.25, generator=seeded()), vgg_like(0.25, generator=seeded(1))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert not torch.equal(model.conv3_1.weight, other.conv3_1.weight)


def test_forward_is_the_layers_written_out():
    model, x = vgg_like(0.1, generator=seeded()).double().eval(), images().double()

    def normalize(h):  # running mean 0 and variance 1 before any training
        return h / math.sqrt(1 + 1e-5)

    h = x
    for stage, repeats in enumerate((2, 2, 3, 3, 3), 1):
        for index in range(1, repeats + 1):
            h = F.relu(normalize(F.conv2d(h, model.get_submodule(f"conv{stage}_{index}").weight, padding=1)))
        h = F.max_pool2d(h, 2)
    assert h.shape == (4, 51, 1, 1)
    expected = model.fc2(F.relu(normalize(F.linear(h.flatten(1), model.fc1.weight))))
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)  # float64, another order of the sums


def test_signals_and_gradients_reach_all_layers():
    model = vgg_like(0.1, generator=seeded()).train()
    F.cross_entropy(model(images(32)), torch.arange(32) % 10).backward()
    norms = [float(m.weight.grad.norm()) for m in model if isinstance(m, (nn.Conv2d, nn.Linear))]
    # a depth that loses the signal loses it by powers of ten; batch norm keeps the layers within two of them
    assert min(norms) > 0 and max(norms) / min(norms) < 100


def test_it_trains_with_bayesian_layers():
    options = {"slab_scale": 1.0, "spike_scale": 0.0067}
    model = vgg_like(0.1, GaussianSpikeSlabConv2d, GaussianSpikeSlabLinear, generator=seeded(), **options)
    assert len(bayesian_layers(model)) == 15
    x, y = images(64), torch.arange(64) % 10
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    with use_generator(seeded(2)):
        for _ in range(40):
            nll = F.cross_entropy(model(x), y)
            losses.append(float(nll.detach()))
            optimizer.zero_grad()
            elbo_loss(nll, model, 50_000, with_value=False).backward()
            optimizer.step()
    # noise labels can only be learned by heart: the start is log 10 = 2.3, chance stays there
    assert sum(losses[-5:]) / 5 < 1.0


def test_channels_last_and_bfloat16():
    model = vgg_like(0.1, generator=seeded()).eval()
    x, last = images(), copy.deepcopy(model).to(memory_format=torch.channels_last)
    expected = model(x)
    torch.testing.assert_close(last(x.contiguous(memory_format=torch.channels_last)), expected, rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        low = last(x)
    assert low.dtype == torch.bfloat16
    # bfloat16 keeps 8 bits: 0.4 % a layer over 15 layers, most of it averaged out
    torch.testing.assert_close(low.float(), expected, rtol=0, atol=0.03 * float(expected.detach().abs().max()) + 1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0.0,), "width is 0"), ((-1.0,), "width is -1"), ((float("nan"),), "width is nan")],
)
def test_bad_widths_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        vgg_like(*arguments)


def test_bad_classes_are_refused():
    with pytest.raises(ValueError, match="classes is 0"):
        vgg_like(0.1, classes=0)
