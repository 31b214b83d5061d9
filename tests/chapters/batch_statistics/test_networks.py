"""The chapter's three networks: sizes, names, the start, the layers written out, dropout, and what they refuse."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import Dropout
from bnnlib.nn import use_generator
from chapters.batch_statistics.lenet import lenet5_batch_norm
from chapters.batch_statistics.networks import preact_resnet18
from chapters.batch_statistics.vgg import vgg11
from tests.chapters.shared.test_networks import drawn, images, normalized
from tests.seeded import seeded

VGG_PLACES = ("1_1", "2_1", "3_1", "3_2", "4_1", "4_2", "5_1", "5_2")


# --- sizes, names and places ---


@pytest.mark.parametrize(
    ("make", "known"),
    [
        (preact_resnet18, 11_171_274),
        (lambda: preact_resnet18(0.25), 700_794),
        (vgg11, 9_228_362),
        (lambda: vgg11(0.5), 2_310_186),
        (lenet5_batch_norm, 431_650),
    ],
)
def test_the_published_numbers_of_parameters(make, known):
    assert sum(p.numel() for p in make().parameters()) == known


def test_names_and_layers():
    resnet, vgg, lenet = preact_resnet18(0.1), vgg11(0.1), lenet5_batch_norm()
    names = dict(resnet.named_parameters())
    assert {"conv1.weight", "bn1.weight", "layer1.0.bn1.weight", "layer2.0.shortcut.weight", "fc.bias"} <= set(names)
    assert "layer1.0.shortcut.weight" not in names and "layer2.1.shortcut.weight" not in names
    convolutions = [one for one in resnet.modules() if isinstance(one, nn.Conv2d)]
    assert len(convolutions) == 20  # 17 of them 3 x 3
    # a shortcut has no stride of its own; why: `every`
    assert all(one.stride == (1, 1) for one in convolutions if one.kernel_size == (1, 1))
    parts = (("conv", "weight"), ("bn", "weight"), ("bn", "bias"))
    expected = [f"{kind}{place}.{key}" for place in VGG_PLACES for kind, key in parts]
    assert list(dict(vgg.named_parameters())) == [*expected, "fc.weight", "fc.bias"]
    assert sum(isinstance(module, nn.MaxPool2d) for module in vgg) == 5
    names = [name for name, _ in lenet.named_parameters()]
    assert names[:6] == ["conv1.weight", "bn1.weight", "bn1.bias", "conv2.weight", "bn2.weight", "bn2.bias"]
    assert names[6:] == ["fc1.weight", "bn3.weight", "bn3.bias", "fc2.weight", "fc2.bias"]
    assert [type(lenet.get_submodule(f"bn{k}")) for k in (1, 2, 3)] == [nn.BatchNorm2d, nn.BatchNorm2d, nn.BatchNorm1d]
    assert [sum(type(one) is nn.BatchNorm2d for one in model.modules()) for model in (resnet, vgg)] == [17, 8]


def test_where_dropout_stands():
    resnet, vgg, lenet = preact_resnet18(0.0625, 5, 0.3), vgg11(0.1, 5, (0.5, 0.4)), lenet5_batch_norm(0.5)
    assert [one.probability for one in resnet.modules() if isinstance(one, Dropout)] == [0.3] * 8
    seen = []
    resnet.layer1[0].dropout.register_forward_hook(lambda _, given, made: seen.append(made))
    resnet.layer1[0].conv2.register_forward_hook(lambda _, given, made: seen.append(given[0]))
    resnet.layer1[0](torch.ones(2, 4, 8, 8))
    assert seen[0] is seen[1]
    places = {name: module.probability for name, module in vgg.named_children() if isinstance(module, Dropout)}
    assert places == {"dropout3_1": 0.4, "dropout4_1": 0.4, "dropout5_1": 0.4, "dropout": 0.5}
    between = [(vgg, "relu3_1", "dropout3_1", "conv3_2")]
    between += [(lenet, f"relu{k}", f"dropout{k}", after) for k, after in ((1, "pool1"), (2, "pool2"), (3, "fc2"))]
    for model, *expected in between:
        order = list(dict(model.named_children()))
        at = order.index(expected[1])
        assert order[at - 1 : at + 2] == expected
    assert [module.probability for module in lenet5_batch_norm() if isinstance(module, Dropout)] == [0.0] * 3


# --- what all of them promise ---

MADE = {  # by a generator, plain and with dropout, and the shape of an image
    "resnet18": (preact_resnet18, (0.0625, 5), 0.3, (3, 32, 32)),
    "vgg11": (vgg11, (0.1, 5), (0.5, 0.4), (3, 32, 32)),
    "lenet5": (lenet5_batch_norm, (), 0.5, (1, 28, 28)),
}


@pytest.mark.parametrize("name", MADE)
def test_the_noise_comes_from_the_generator_and_in_training_alone(name):
    make, size, drop, shape = MADE[name]
    model, plain = make(*size, drop, generator=seeded()).train(), make(*size, generator=seeded()).train()
    x, found = images(16, shape), []
    for seed in (5, 5, 6):
        with use_generator(seeded(seed)):
            found.append(model(x))
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    assert torch.equal(plain(x), plain(x))
    assert torch.equal(model.eval()(x), copy.deepcopy(model)(x))


@pytest.mark.parametrize(
    ("make", "last", "fan_in"),
    [
        (lambda **k: preact_resnet18(0.25, **k), "layer4.1.conv2.weight", 9 * 128),
        (lambda **k: vgg11(0.25, **k), "conv5_2.weight", 9 * 128),
        (lenet5_batch_norm, "fc1.weight", 800),
    ],
)
def test_a_network_starts_by_its_generator_alone(make, last, fan_in):
    model = drawn(make)
    bound = 1 / math.sqrt(fan_in)
    assert 0.99 * bound < float(model[last].detach().abs().max()) <= bound
    for name, value in model.items():
        if ".bn" in f".{name}":
            assert torch.equal(value, torch.full_like(value, float(name.endswith("weight"))))


def test_resnet18_is_the_layers_written_out():
    model, x = preact_resnet18(0.0625, generator=seeded()).double().eval(), images().double()
    h = F.relu(normalized(F.conv2d(x, model.conv1.weight, padding=1)))
    for stage, stride in ((model.layer1, 1), (model.layer2, 2), (model.layer3, 2), (model.layer4, 2)):
        for index, block in enumerate(stage):
            step = stride if index == 0 else 1
            before = F.relu(normalized(h))
            inner = F.relu(normalized(F.conv2d(before, block.conv1.weight, stride=step, padding=1)))
            inner = F.conv2d(inner, block.conv2.weight, padding=1)
            h = inner + (h if step == 1 else F.conv2d(before, block.shortcut.weight, stride=step))
    assert h.shape == (4, 32, 4, 4)
    torch.testing.assert_close(model(x), model.fc(F.avg_pool2d(h, 4).flatten(1)), rtol=1e-10, atol=1e-10)
