"""The LeNets: names, equality with the layers written out, Bayesian layers."""

import torch
import torch.nn.functional as F

from chapters.shared.networks import lenet5_caffe, lenet_300_100
from tests.seeded import seeded


def images(n=6):
    return torch.rand(n, 1, 28, 28, generator=seeded(7))


def test_names_can_be_read():
    layers = ("conv1", "conv2", "fc1", "fc2")
    assert list(dict(lenet5_caffe().named_parameters())) == [f"{n}.{k}" for n in layers for k in ("weight", "bias")]


def test_lenet_300_100_is_the_layers_written_out():
    model, x = lenet_300_100(generator=seeded()).double(), images().double()
    layers = [module for module in model if isinstance(module, torch.nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in layers] == [(300, 784), (100, 300), (10, 100)]
    h = F.relu(layers[0](x.flatten(1)))
    expected = layers[2](F.relu(layers[1](h)))
    torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)  # the same sums in float64


def test_lenet5_is_the_layers_written_out():
    model, x = lenet5_caffe(generator=seeded()).double(), images().double()
    # ReLU before the pooling, as the literature draws it: the order does not matter
    h = F.max_pool2d(F.relu(F.conv2d(x, model.conv1.weight, model.conv1.bias)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, model.conv2.weight, model.conv2.bias)), 2)
    assert h.shape == (6, 50, 4, 4)
    expected = model.fc2(F.relu(model.fc1(h.flatten(1))))
    torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)  # the same sums in float64
