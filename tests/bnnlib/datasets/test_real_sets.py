"""The real files, where BNNLIB_DATA says they are; skipped with a message otherwise. Nothing is downloaded."""

import numpy as np
import pytest
import torch

from bnnlib import datasets
from bnnlib.datasets import registry, uci


@pytest.fixture
def load(mirror):
    def load(name, **options):
        if not datasets.available(name, root=mirror):
            pytest.skip(f"{name} is not in BNNLIB_DATA")
        return datasets.load(name, root=mirror, download=False, **options)

    return load


@pytest.mark.slow
def test_mnist_is_the_published_set(load):
    data = load("mnist")
    assert data.name == "MNIST" and data.info["variant"] is False
    assert data.train_x.shape == (60_000, 1, 28, 28) and data.test_x.shape == (10_000, 1, 28, 28)
    assert data.train_y[:5].tolist() == [5, 0, 4, 1, 9] and data.test_y[:5].tolist() == [7, 2, 1, 0, 4]
    # The mean and standard deviation that everyone normalizes with, to their four published digits.
    assert round(data.train_x.mean(dtype=torch.float64).item(), 4) == 0.1307
    assert round(data.train_x.std().item(), 4) == 0.3081


def test_fashion_mnist_says_when_it_is_re_split(load):
    data = load("fashion_mnist")
    assert data.train_x.shape == (60_000, 1, 28, 28) and data.test_x.shape == (10_000, 1, 28, 28)
    if data.info["variant"]:
        assert data.name == "Fashion-MNIST, re-split" and "not the official split" in data.info["note"]
    else:
        assert data.name == "Fashion-MNIST"
    # Both the official and the re-split test set hold every class a thousand times.
    assert data.test_y.bincount().tolist() == [1000] * 10 and data.train_y.bincount().tolist() == [6000] * 10


@pytest.mark.slow
def test_cifar10_says_when_images_are_lossy(load):
    data = load("cifar10")
    assert data.train_x.shape == (50_000, 3, 32, 32) and data.test_x.shape == (10_000, 3, 32, 32)
    if data.info["variant"]:
        assert data.name == "CIFAR-10, 1.9 % lossy" and "1,136" in data.info["note"]
    else:
        assert data.name == "CIFAR-10"
    assert data.train_y.bincount().tolist() == [5000] * 10 and data.test_y.bincount().tolist() == [1000] * 10
    # The published channel means, which 1.9 % of slightly altered images move by less than the last digit or so.
    means = data.train_x.mean((0, 2, 3), dtype=torch.float64)
    assert torch.allclose(means, torch.tensor([0.4914, 0.4822, 0.4465], dtype=torch.float64), atol=2e-4)


@pytest.mark.parametrize("name", [n for n in datasets.names() if registry.entry(n).reader == "uci"])
def test_uci_files_and_all_their_splits(load, mirror, name):
    entry = registry.entry(name)
    data = load(name, split=entry.options["splits"] - 1)
    rows, features = entry.options["rows"], entry.options["features"]
    assert len(data.train_x) + len(data.test_x) == rows and data.train_x.shape[1] == features
    assert data.info["variant"] is False
    folder = mirror / entry.folder
    for k, (train, test) in enumerate(uci.standard_splits(rows, entry.options["splits"])):
        if (folder / f"index_train_{k}.txt").exists():
            assert np.array_equal(train, np.loadtxt(folder / f"index_train_{k}.txt"))
            assert np.array_equal(test, np.loadtxt(folder / f"index_test_{k}.txt"))
    scaled = datasets.standardize(data)
    assert torch.isfinite(scaled.train_x).all() and torch.isfinite(scaled.test_x).all()
    # Two inputs of the naval set are constant: they become zero and not amplified rounding.
    if name == "naval":
        assert sorted((scaled.train_x.abs().amax(0) < 1e-3).nonzero().flatten().tolist()) == [8, 11]


def test_boston_first_split_by_hand(load, mirror):
    data = load("boston", split=0)
    lines = (mirror / registry.entry("boston").folder / "data.txt").read_text().split("\n")
    # The first training index of split 0 in the published index file is 307.
    row = [float(value) for value in lines[307].split()]
    assert torch.allclose(data.train_x[0], torch.tensor(row[:13])) and data.train_y[0].item() == pytest.approx(row[13])


LOGISTIC = [("heart", (270, 13), 120), ("german", (1000, 24), 300), ("australian", (690, 14), 307)]


@pytest.mark.parametrize(("name", "shape", "positive"), LOGISTIC)
def test_logistic_sets(load, name, shape, positive):
    data = load(name)
    assert data.train_x.shape == shape and len(data.test_x) == 0
    # Published class counts: 120 patients with the disease; 300 bad credits; 307 approved ones.
    assert data.train_y.sum().item() in (positive, shape[0] - positive)


def test_year_if_it_is_here(load):
    data = load("year")
    assert data.train_x.shape == (463_715, 90) and data.test_x.shape == (51_630, 90)
