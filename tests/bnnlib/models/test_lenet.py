"""LeNet-5: its names, and equality with the layers written out."""

import torch
import torch.nn.functional as F

from bnnlib.models import lenet5_caffe
from tests.seeded import seeded


def images(n=6):
    return torch.rand(n, 1, 28, 28, generator=seeded(7))


def test_names_can_be_read():
    layers = ("conv1", "conv2", "fc1", "fc2")
    assert list(dict(lenet5_caffe().named_parameters())) == [f"{n}.{k}" for n in layers for k in ("weight", "bias")]


def test_lenet5_is_the_layers_written_out():
    model, x = lenet5_caffe(generator=seeded()).double(), images().double()
    # ReLU before the pooling, as the literature draws it: the order does not matter
    h = F.max_pool2d(F.relu(F.conv2d(x, model.conv1.weight, model.conv1.bias)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, model.conv2.weight, model.conv2.bias)), 2)
    assert h.shape == (6, 50, 4, 4)
    expected = model.fc2(F.relu(model.fc1(h.flatten(1))))
    torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)  # the same sums in float64
