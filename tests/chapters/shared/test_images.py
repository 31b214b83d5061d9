"""Which images a network trains on, is chosen by, and is judged by."""

import pytest
import torch

from bnnlib import datasets
from chapters.shared import images


def _numbered() -> datasets.Dataset:
    """Twelve images, whose pixels say which they are: 0 to 7 for training, 8 to 11 for testing."""
    x = torch.arange(12.0).view(-1, 1, 1, 1) / 255.0
    y = torch.arange(12) % 10
    return datasets.Dataset("numbered", x[:8], y[:8], x[8:], y[8:], task="classification")


@pytest.mark.parametrize("held_out", [0, 3])
def test_no_image_has_two_parts(monkeypatch, held_out):
    monkeypatch.setattr(datasets, "load", lambda name: _numbered())
    params = {"data": "numbered", "held_out": held_out, "scaling": "unit"}
    parts = images.load_images(params, torch.device("cpu"))
    number = {name: x.mul(255).round().long().flatten().tolist() for name, (x, _) in parts.items()}
    assert number["test"] == [8, 9, 10, 11]
    assert len(number.get("validation", [])) == held_out
    assert sorted(number["train"] + number.get("validation", [])) == list(range(8))
    for name, (_, y) in parts.items():
        assert y.tolist() == [one % 10 for one in number[name]]


def test_pixels_are_scaled_by_what_the_set_is_known_for(monkeypatch):
    """Channels of CIFAR-10 have mean 0 and standard deviation 1; Blundell et al. divide bytes by 126."""
    mean, scale = torch.tensor([125.3, 123.0, 113.9]) / 255.0, torch.tensor([63.0, 62.1, 66.7]) / 255.0
    x = torch.stack([mean, mean + scale, mean - scale])[:, :, None, None]
    data = datasets.Dataset("one", x, torch.zeros(3).long(), x, torch.zeros(3).long(), task="classification")
    monkeypatch.setattr(datasets, "load", lambda name: data)
    params = {"data": "one", "held_out": 0, "scaling": "cifar10"}
    found = images.load_images(params, torch.device("cpu"))["train"][0][:, :, 0, 0]
    assert torch.allclose(found, torch.tensor([[0.0], [1.0], [-1.0]]).expand(3, 3), atol=2e-3)
    bytes_ = images.load_images(params | {"scaling": "blundell"}, torch.device("cpu"))["train"][0][:, :, 0, 0]
    assert torch.allclose(bytes_, x[:, :, 0, 0] * 255.0 / 126.0)


def test_errors_are_counted_on_the_part_that_is_asked():
    model = torch.nn.Flatten()  # the class is the largest pixel
    x = torch.eye(4).view(4, 4, 1, 1)
    data = {"train": (x, torch.arange(4)), "test": (x, torch.tensor([0, 1, 2, 0]))}
    assert images.error_percent(model, data, "train") == 0.0
    assert images.error_percent(model, data, "test") == 25.0


@pytest.mark.skipif(not datasets.available("digits"), reason="scikit-learn is absent")
def test_enlarged_digits_are_scaled_once():
    params = {"data": "digits", "held_out": 0, "scaling": "unit", "shape": (3, 32)}
    for x, _ in images.load_images(params, torch.device("cpu")).values():
        assert x.shape[1:] == (3, 32, 32) and x.min() == 0.0 and x.max() > 0.9
