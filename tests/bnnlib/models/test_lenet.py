"""The LeNets: names, equality with the layers written out, Bayesian layers."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import Dropout, lenet5_batch_norm, lenet5_caffe, lenet_300_100


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


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


def test_lenet5_with_batch_norm_is_the_layers_written_out():
    model, x = lenet5_batch_norm(0.5, generator=seeded()).double().eval(), images().double()
    names = [name for name, _ in model.named_parameters()]
    assert names[:6] == ["conv1.weight", "bn1.weight", "bn1.bias", "conv2.weight", "bn2.weight", "bn2.bias"]
    assert names[6:] == ["fc1.weight", "bn3.weight", "bn3.bias", "fc2.weight", "fc2.bias"]
    assert [type(model.get_submodule(f"bn{k}")) for k in (1, 2, 3)] == [nn.BatchNorm2d, nn.BatchNorm2d, nn.BatchNorm1d]

    def normalize(h):  # running mean 0 and variance 1 before any training
        return h / math.sqrt(1 + 1e-5)

    h = F.max_pool2d(F.relu(normalize(F.conv2d(x, model.conv1.weight))), 2)
    h = F.max_pool2d(F.relu(normalize(F.conv2d(h, model.conv2.weight))), 2)
    expected = model.fc2(F.relu(normalize(F.linear(h.flatten(1), model.fc1.weight))))
    torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)  # the same sums in float64


def test_lenet5_with_batch_norm_drops_half_before_pooling():
    model, x = lenet5_batch_norm(0.5, generator=seeded()).train(), images(64)
    order = list(dict(model.named_children()))
    for k, after in ((1, "pool1"), (2, "pool2"), (3, "fc2")):
        assert order[order.index(f"dropout{k}") - 1 : order.index(f"dropout{k}") + 2] == [
            f"relu{k}",
            f"dropout{k}",
            after,
        ]
    drops = []
    model.dropout1.register_forward_hook(lambda _, given, made: drops.append((given[0], made)))
    model(x)
    given, made = drops[0]
    kept = (made != 0)[given > 0].double().mean()
    assert abs(float(kept) - 0.5) < 4 * 0.5 / math.sqrt(int((given > 0).sum()))  # four standard errors
    plain = lenet5_batch_norm(generator=seeded()).train()
    assert torch.equal(plain(x), plain(x))
    assert [module.probability for module in plain if isinstance(module, Dropout)] == [0.0] * 3
