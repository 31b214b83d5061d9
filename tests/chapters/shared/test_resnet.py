"""Residual networks: names, the spread at the start, equality with the layers written out."""

import math
from fnmatch import fnmatch

import pytest
import torch
import torch.nn.functional as F

from chapters.shared.networks import resnet, resnet18, resnet20
from tests.chapters.shared.test_networks import images, normalized
from tests.seeded import seeded


def test_names_and_what_the_paper_prunes():
    weights = dict(resnet20().named_parameters())
    published = [n for n in weights if n.endswith("weight") and "conv" in n and n != "conv1.weight"]
    assert len(published) == 18 and sum(weights[n].numel() for n in published) == 267_264
    assert published == [n for n in weights if fnmatch(n, "layer*.conv*.weight")]
    assert {"conv1.weight", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight", "fc.bias"} <= set(weights)
    assert "layer1.0.downsample.0.weight" not in weights


def test_depth_width_and_classes():
    model = resnet(32, width=4, classes=7)
    assert [len(stage) for stage in (model.layer1, model.layer2, model.layer3)] == [5, 5, 5]
    assert model.conv1.out_channels == 4 and model(images()).shape == (4, 7)


def test_the_start():
    model = resnet20(generator=seeded())
    for name, weight in model.named_parameters():
        if weight.dim() == 4:
            spread = math.sqrt(2 / (weight.shape[2] * weight.shape[3] * weight.shape[0]))
            # four standard errors, 1/sqrt(2 n) each, relative
            assert float(weight.detach().std()) == pytest.approx(spread, rel=4 / math.sqrt(2 * weight.numel())), name
    assert torch.equal(model.layer3[2].bn2.weight, torch.ones(64))
    assert float(model.fc.weight.detach().abs().max()) <= 1 / 8


def test_forward_is_the_layers_written_out():
    model, x = resnet(8, width=4, generator=seeded()).double().eval(), images().double()

    h = F.relu(normalized(F.conv2d(x, model.conv1.weight, padding=1)))
    for stage, stride in ((model.layer1, 1), (model.layer2, 2), (model.layer3, 2)):
        block = stage[0]
        inner = F.relu(normalized(F.conv2d(h, block.conv1.weight, stride=stride, padding=1)))
        inner = normalized(F.conv2d(inner, block.conv2.weight, padding=1))
        shortcut = h if stride == 1 else normalized(F.conv2d(h, block.downsample[0].weight, stride=stride))
        h = F.relu(inner + shortcut)
    assert h.shape == (4, 16, 8, 8)
    expected = model.fc(F.avg_pool2d(h, 8).flatten(1))
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)  # float64, another order of the sums


def test_resnet18_has_four_stages():
    model = resnet18(generator=torch.Generator().manual_seed(0))
    assert [getattr(model, f"layer{k}")[1].conv2.out_channels for k in range(1, 5)] == [64, 128, 256, 512]
    small = resnet18(4, 3, generator=torch.Generator().manual_seed(0)).eval()
    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    h = torch.relu(small.bn1(small.conv1(x)))
    for stage in (small.layer1, small.layer2, small.layer3, small.layer4):
        h = stage(h)
    torch.testing.assert_close(small(x), small.fc(h.mean(dim=(2, 3))))


def test_no_convolution_of_single_positions_has_a_stride():
    """oneDNN's weight gradient of such a one breaks the heap on AVX2, below eight channels in channels_last."""
    models = (resnet(depth=8, width=4), resnet18(width=4))
    convolutions = [one for model in models for one in model.modules() if isinstance(one, torch.nn.Conv2d)]
    assert all(one.stride == (1, 1) for one in convolutions if one.kernel_size == (1, 1))
