"""The VGG-like network: layers, names, the spread at the start, equality with the layers written out."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.shared.networks import vgg_like
from tests.chapters.shared.test_networks import images, normalized
from tests.seeded import seeded


def test_layers_are_the_paper_s():
    model = vgg_like()
    convolutions = [module for module in model if isinstance(module, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [64] * 2 + [128] * 2 + [256] * 3 + [512] * 6
    assert [module.out_features for module in model if isinstance(module, nn.Linear)] == [512, 10]
    assert sum(isinstance(m, nn.MaxPool2d) for m in model) == 5
    assert sum(isinstance(m, (nn.BatchNorm2d, nn.BatchNorm1d)) for m in model) == 14


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


def test_forward_is_the_layers_written_out():
    model, x = vgg_like(0.1, generator=seeded()).double().eval(), images().double()

    h = x
    for stage, repeats in enumerate((2, 2, 3, 3, 3), 1):
        for index in range(1, repeats + 1):
            h = F.relu(normalized(F.conv2d(h, model.get_submodule(f"conv{stage}_{index}").weight, padding=1)))
        h = F.max_pool2d(h, 2)
    assert h.shape == (4, 51, 1, 1)
    expected = model.fc2(F.relu(normalized(F.linear(h.flatten(1), model.fc1.weight))))
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)  # float64, another order of the sums


def test_signals_and_gradients_reach_all_layers():
    model = vgg_like(0.1, generator=seeded()).train()
    F.cross_entropy(model(images(32)), torch.arange(32) % 10).backward()
    norms = [float(m.weight.grad.norm()) for m in model if isinstance(m, (nn.Conv2d, nn.Linear))]
    # a depth that loses the signal loses it by powers of ten; batch norm keeps the layers within two of them
    assert min(norms) > 0 and max(norms) / min(norms) < 100
