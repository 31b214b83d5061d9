"""VGG-11: names, places of dropout, the start, equality with the layers written out."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import Dropout, vgg11

PLACES = ("1_1", "2_1", "3_1", "3_2", "4_1", "4_2", "5_1", "5_2")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def images(n=4):
    return torch.randn(n, 3, 32, 32, generator=seeded(7))


def test_names_and_layers():
    model = vgg11(0.1)
    names = [
        f"{kind}{place}.{key}"
        for place in PLACES
        for kind, key in (("conv", "weight"), ("bn", "weight"), ("bn", "bias"))
    ]
    assert list(dict(model.named_parameters())) == [*names, "fc.weight", "fc.bias"]
    assert sum(type(module) is nn.BatchNorm2d for module in model) == 8
    assert sum(isinstance(module, nn.MaxPool2d) for module in model) == 5
    assert vgg11(0.1, 5).fc.out_features == 5


def test_dropout_stands_between_convolutions_and_before_the_last_layer():
    model = vgg11(0.1, 5, (0.5, 0.4))
    places = {name: module.probability for name, module in model.named_children() if isinstance(module, Dropout)}
    assert places == {"dropout3_1": 0.4, "dropout4_1": 0.4, "dropout5_1": 0.4, "dropout": 0.5}
    order = list(dict(model.named_children()))
    assert order[order.index("dropout3_1") - 1 : order.index("dropout3_1") + 2] == ["relu3_1", "dropout3_1", "conv3_2"]


def test_the_start():
    model = vgg11(0.25, generator=seeded())
    bound = 1 / math.sqrt(9 * 128)
    assert 0.99 * bound < float(model.conv5_2.weight.detach().abs().max()) <= bound
    assert torch.equal(model.bn4_1.weight, torch.ones(128)) and torch.equal(model.bn4_1.bias, torch.zeros(128))


def test_forward_is_the_layers_written_out():
    model, x = vgg11(0.1, generator=seeded()).double().eval(), images().double()
    h = x
    for stage, repeats in enumerate((1, 1, 2, 2, 2), 1):
        for index in range(1, repeats + 1):
            convolved = F.conv2d(h, model.get_submodule(f"conv{stage}_{index}").weight, padding=1)
            h = F.relu(convolved / math.sqrt(1 + 1e-5))  # running mean 0 and variance 1 before any training
        h = F.max_pool2d(h, 2)
    assert h.shape == (4, 51, 1, 1)
    torch.testing.assert_close(model(x), model.fc(h.flatten(1)), rtol=1e-10, atol=1e-10)  # float64
