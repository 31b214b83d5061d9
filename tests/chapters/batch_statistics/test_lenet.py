"""LeNet-5 with batch norm: its size, equality with the layers written out, dropout and first weights."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import Dropout
from bnnlib.nn import use_generator
from chapters.batch_statistics.lenet import lenet5_batch_norm


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def count(model):
    return sum(p.numel() for p in model.parameters())


def images(n=6):
    return torch.rand(n, 1, 28, 28, generator=seeded(7))


def test_the_size():
    # weights of conv1, conv2 and fc1, scales and shifts of their batch norms, fc2
    weights = 25 * 20 + 25 * 20 * 50 + 800 * 500
    assert count(lenet5_batch_norm()) == weights + 2 * (20 + 50 + 500) + 500 * 10 + 10 == 431_650


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


def test_lenet5_with_batch_norm_drops_before_pooling_and_repeats_its_noise():
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
    with use_generator(seeded(5)):
        first = model(x)
    with use_generator(seeded(5)):
        assert torch.equal(model(x), first)
    with use_generator(seeded(6)):
        assert not torch.equal(model(x), first)
    given, made = drops[0]
    kept = (made != 0)[given > 0].double().mean()
    assert abs(float(kept) - 0.5) < 4 * 0.5 / math.sqrt(int((given > 0).sum()))  # four standard errors
    plain = lenet5_batch_norm(generator=seeded()).train()
    assert torch.equal(plain(x), plain(x))
    assert [module.probability for module in plain if isinstance(module, Dropout)] == [0.0] * 3


def test_lenet5_with_batch_norm_starts_by_its_generator():
    torch.manual_seed(3)  # the global generator is left out
    model, again = lenet5_batch_norm(generator=seeded()), lenet5_batch_norm(0.5, generator=seeded())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert not torch.equal(model.conv2.weight, lenet5_batch_norm(generator=seeded(1)).conv2.weight)
    bound = 1 / math.sqrt(800)
    assert 0.99 * bound < float(model.fc1.weight.detach().abs().max()) <= bound


def test_dropout_of_everything_is_refused():
    with pytest.raises(ValueError, match="probability is 1"):
        lenet5_batch_norm(1.0)
