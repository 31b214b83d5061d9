"""ResNet-18 of pre-activation blocks: sizes, names, dropout, the start, the layers written out, that it trains."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import Dropout
from bnnlib.nn import use_generator
from chapters.batch_statistics.networks import preact_resnet18
from tests.seeded import seeded


def count(model):
    return sum(p.numel() for p in model.parameters())


def images(n=4):
    return torch.randn(n, 3, 32, 32, generator=seeded(7))


@pytest.mark.parametrize(("width", "classes", "known"), [(1.0, 10, 11_171_274), (0.25, 10, 700_794), (0.5, 5, None)])
def test_sizes(width, classes, known):
    channels = [int(width * c) for c in (64, 128, 256, 512)]
    expected = 27 * channels[0] + 2 * channels[0] + channels[-1] * classes + classes
    before = channels[0]
    for c in channels:
        first = 2 * before + 9 * before * c + 2 * c + 9 * c * c + (before * c if before != c else 0)
        expected += first + 2 * (2 * c + 9 * c * c)
        before = c
    assert count(preact_resnet18(width, classes)) == expected
    assert known in (None, expected)


def test_names_and_layers():
    model = preact_resnet18(0.1)
    names = dict(model.named_parameters())
    assert {"conv1.weight", "bn1.weight", "layer1.0.bn1.weight", "layer2.0.shortcut.weight", "fc.bias"} <= set(names)
    assert "layer1.0.shortcut.weight" not in names and "layer2.1.shortcut.weight" not in names
    assert sum(type(module) is nn.BatchNorm2d for module in model.modules()) == 17
    assert sum(isinstance(module, nn.Conv2d) for module in model.modules()) == 20  # 17 of them 3 x 3


def test_the_start():
    torch.manual_seed(3)  # the global generator is left out
    model, again, other = (preact_resnet18(0.25, generator=seeded(s)) for s in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert not torch.equal(model.layer3[1].conv2.weight, other.layer3[1].conv2.weight)
    bound = 1 / math.sqrt(9 * 128)
    assert 0.99 * bound < float(model.layer4[1].conv2.weight.detach().abs().max()) <= bound
    assert torch.equal(model.layer4[1].bn2.weight, torch.ones(128))


def test_forward_is_the_layers_written_out():
    model, x = preact_resnet18(0.0625, generator=seeded()).double().eval(), images().double()

    def active(h):  # running mean 0 and variance 1 before any training
        return F.relu(h / math.sqrt(1 + 1e-5))

    h = active(F.conv2d(x, model.conv1.weight, padding=1))
    for stage, stride in ((model.layer1, 1), (model.layer2, 2), (model.layer3, 2), (model.layer4, 2)):
        for index, block in enumerate(stage):
            step = stride if index == 0 else 1
            before = active(h)
            inner = active(F.conv2d(before, block.conv1.weight, stride=step, padding=1))
            inner = F.conv2d(inner, block.conv2.weight, padding=1)
            h = inner + (h if step == 1 else F.conv2d(before, block.shortcut.weight, stride=step))
    assert h.shape == (4, 32, 4, 4)
    expected = model.fc(F.avg_pool2d(h, 4).flatten(1))
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)  # float64, another order of the sums


def test_dropout_stands_between_the_convolutions_and_repeats_its_noise():
    model, plain = (preact_resnet18(0.0625, 5, p, generator=seeded()).train() for p in (0.3, 0.0))
    drops = [module for module in model.modules() if isinstance(module, Dropout)]
    assert [drop.probability for drop in drops] == [0.3] * 8
    block, x = model.layer1[0], torch.ones(2, 4, 8, 8)
    seen = []
    block.dropout.register_forward_hook(lambda _, given, made: seen.append(made))
    block.conv2.register_forward_hook(lambda _, given, made: seen.append(given[0]))
    block(x)
    assert seen[0] is seen[1]
    with use_generator(seeded(5)):
        first = model(images())
    with use_generator(seeded(5)):
        assert torch.equal(model(images()), first)
    with use_generator(seeded(6)):
        assert not torch.equal(model(images()), first)
    assert torch.equal(plain(images()), plain(images()))
    assert torch.equal(model.eval()(images()), copy.deepcopy(model)(images()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0.0,), "width is 0"), ((1.0, 0), "classes is 0"), ((0.1, 10, 1.0), "probability is 1")],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        preact_resnet18(*arguments)


def test_a_shortcut_has_no_stride_of_its_own():
    """Why: `bnnlib.models.layers.every`."""
    model = preact_resnet18(width=0.1)
    convolutions = [one for one in model.modules() if isinstance(one, nn.Conv2d)]
    assert all(one.stride == (1, 1) for one in convolutions if one.kernel_size == (1, 1))
