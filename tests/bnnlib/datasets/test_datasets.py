"""Names, folders, errors, the container, and the sets that need no files."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from bnnlib import datasets
from bnnlib.datasets import registry
from tests.refused import refusals
from tests.seeded import seeded as generator

PROJECT = Path(__file__).resolve().parents[3]
UCI = ("boston", "concrete", "energy", "energy_cooling", "kin8nm", "naval", "power", "protein", "wine", "yacht")


def toy(rows=10, task="regression"):
    x = torch.arange(2.0 * rows).reshape(rows, 2)
    y = x[:, :1] * 3 if task == "regression" else torch.arange(rows) % 2
    return datasets.Dataset("toy", x, y, x[:3] + 0.5, y[:3], task)


def test_every_set_of_the_book_is_there():
    wanted = {"mnist", "fashion_mnist", "cifar10", *UCI, "year", "heart", "australian", "german"}
    assert wanted | {"digits", "diabetes", "breast_cancer"} == set(datasets.names())


def test_registry_is_complete():
    for name in datasets.names():
        entry = registry.entry(name)
        assert entry.title and entry.license and entry.citation and entry.homepage.startswith("http"), name
        if entry.reader == "bundled":
            continue
        for spec in entry.files:
            urls = entry.urls(spec)
            assert len(urls) >= 2 and all(url.startswith("http") and "{" not in url for url in urls), urls
            assert spec.size > 0
            # The one set without a published checksum is recognized by its own CRC-32 and its number of rows.
            assert spec.sha256 or spec.md5 or spec.content_sha256 or name == "year", name


def test_addresses_are_the_published_ones():
    mnist, boston, heart = registry.entry("mnist"), registry.entry("boston"), registry.entry("heart")
    assert mnist.urls(mnist.files[0])[0] == (
        "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz"
    )
    assert boston.urls(boston.files[0])[0].endswith(
        "6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets/bostonHousing/data/data.txt"
    )
    assert heart.urls(heart.files[1])[0].endswith("618d3aa033e1dd97c926f8813082c617d1d484ea/data/heart/labels.npy")


@pytest.mark.parametrize(
    ("typo", "guess"), [("MNIST", "mnist"), ("fashion-mnist", "fashion_mnist"), ("bostn", "boston")]
)
def test_unknown_name_lists_the_names_and_guesses(typo, guess):
    with pytest.raises(datasets.UnknownDatasetError) as caught:
        datasets.load(typo)
    assert f"Did you mean {guess!r}?" in str(caught.value)
    assert all(name in str(caught.value) for name in datasets.names())
    for function in (datasets.available, datasets.fetch, datasets.fingerprint):
        with pytest.raises(datasets.UnknownDatasetError):
            function(typo)


def test_a_broken_or_missing_registry_is_a_clear_error(use_registry):
    use_registry("[mnist\n")
    with pytest.raises(datasets.DatasetError, match="not valid TOML"):
        datasets.names()
    registry.REGISTRY.unlink()
    with pytest.raises(datasets.DatasetError, match=r"registry\.toml does not exist.*not whole"):
        datasets.names()


def test_folder_is_argument_then_environment_then_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_DATA", str(tmp_path / "environment"))
    assert registry.data_root(tmp_path / "argument") == tmp_path / "argument"
    assert registry.data_root() == tmp_path / "environment"
    monkeypatch.delenv("BNNLIB_DATA")
    assert registry.data_root() == PROJECT / "data" / "cache" / "sets"


def test_absent_set_without_download_says_what_to_do(tmp_path):
    assert not datasets.available("mnist", root=tmp_path)
    with pytest.raises(datasets.NotAvailableError) as caught:
        datasets.load("mnist", root=tmp_path, download=False)
    for words in ("train-images-idx3-ubyte.gz", "python -m bnnlib data mnist", "11.6 MB", "BNNLIB_DATA", str(tmp_path)):
        assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "task", "train", "test", "shape"),
    [
        ("digits", "classification", 1438, 359, (1, 8, 8)),
        ("diabetes", "regression", 354, 88, (10,)),
        ("breast_cancer", "classification", 455, 114, (30,)),
    ],
)
def test_bundled_sets_need_no_files(name, task, train, test, shape, tmp_path):
    pytest.importorskip("sklearn")
    assert datasets.available(name, root=tmp_path)
    assert datasets.fetch(name, root=tmp_path) is None
    data = datasets.load(name, root=tmp_path, download=False)
    assert (data.task, len(data.train_x), len(data.test_x), data.train_x.shape[1:]) == (task, train, test, shape)
    assert data.train_x.dtype == torch.float32
    if task == "classification":
        assert data.train_y.dtype == torch.int64 and data.train_y.shape == (train,)
        assert data.train_y.unique().tolist() == list(range(data.info["classes"]))
    else:
        assert data.train_y.dtype == torch.float32 and data.train_y.shape == (train, 1)
    if name == "digits":
        assert data.train_x.min() == 0 and data.train_x.max() == 1
    assert datasets.fingerprint(name) == data.info["fingerprint"]
    assert list(tmp_path.iterdir()) == []


def test_bundled_set_without_scikit_learn(monkeypatch):
    monkeypatch.setattr("bnnlib.datasets.bundled.installed", lambda: False)
    assert not datasets.available("digits")
    with pytest.raises(datasets.DatasetError, match="pip install scikit-learn"):
        datasets.load("digits")


@pytest.mark.parametrize("size", [3, 0.3, np.int64(3)])
def test_validation_split_divides_the_training_rows_alone(size):
    data = toy()
    train, validation = data.validation_split(size, generator=generator())
    assert len(train.train_x) == 7 and len(validation.test_x) == 3
    assert torch.equal(train.train_x, validation.train_x)
    assert train.test_x is data.test_x and train.test_y is data.test_y
    rows = torch.cat([train.train_x, validation.test_x])
    assert torch.equal(rows.sort(0).values, data.train_x)
    # Inputs and targets were moved together.
    assert torch.equal(train.train_y, train.train_x[:, :1] * 3)
    assert torch.equal(validation.test_y, validation.test_x[:, :1] * 3)
    assert validation.info["validation_split"] == {"held_out": 3, "kept": 7, "role": "validation"}


def test_validation_split_depends_on_its_generator_alone():
    data = toy(100)
    first, again, other = (data.validation_split(20, generator=generator(seed))[1].test_x for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_standardize_uses_training_rows_alone():
    data = toy()
    scaled = datasets.standardize(data)
    # Population moments of 0, 2, ..., 18 by hand: mean 9, variance 33.
    assert scaled.scaling.x_mean[0] == 9 and scaled.scaling.x_scale[0] == pytest.approx(math.sqrt(33), rel=1e-6)
    # float32 sums of ten numbers of size one: a few units in the last place.
    assert scaled.train_x.mean(0).abs().max() < 1e-6
    assert (scaled.train_x.std(0, correction=0) - 1).abs().max() < 1e-6
    assert torch.allclose(scaled.test_x, (data.test_x - scaled.scaling.x_mean) / scaled.scaling.x_scale)
    assert torch.allclose(scaled.scaling.unscale_y(scaled.test_y), data.test_y, atol=1e-5)
    shifted = datasets.Dataset("toy", data.train_x, data.train_y, data.test_x + 100, data.test_y + 100, "regression")
    assert torch.equal(datasets.standardize(shifted).train_x, scaled.train_x)
    assert torch.equal(datasets.standardize(shifted).train_y, scaled.train_y)


def test_standardize_leaves_labels_and_only_centers_constants():
    data = toy(task="classification")
    # 0.998 has no exact binary form: its mean over many rows is off by rounding, which must not be scaled up.
    constant = torch.full((10, 1), 0.998)
    data = datasets.Dataset(
        "toy", torch.cat([data.train_x, constant], 1), data.train_y, *[torch.zeros(0, 3)] * 2, data.task
    )
    scaled = datasets.standardize(data)
    assert torch.equal(scaled.train_y, data.train_y) and scaled.scaling.y_mean is None
    assert scaled.train_x[:, 2].abs().max() < 1e-6 and scaled.scaling.x_scale[2] == 1


EMPTY, X, SCALED = torch.zeros(0, 2), torch.zeros(4, 2), datasets.standardize(toy())
LABELS = datasets.standardize(toy(task="classification"))
REFUSED = [
    (lambda: datasets.load("digits", split=1), "only one split"),
    (lambda: datasets.Dataset("bad", X, X[:3, :1], X, X, "regression"), "train_x has 4 rows and train_y has 3"),
    (lambda: datasets.Dataset("bad", X, X, X, X, "ranking"), "task is 'ranking'"),
    *[(lambda s=s: toy().validation_split(s, generator=generator()), "not a part of 10 training rows")
      for s in (0, 10, -1, 0.0, 1.0, 1.5, 0.01, True, math.nan)],
    (lambda: datasets.standardize(SCALED), "standardized already"),
    (lambda: SCALED.validation_split(3, generator=generator()), "Split first"),
    (lambda: datasets.standardize(datasets.Dataset("empty", *[EMPTY] * 4, "regression")), "no training rows"),
    (lambda: LABELS.scaling.unscale_y(LABELS.train_y), "class labels"),
]  # fmt: skip
test_bad_input_is_refused = refusals(REFUSED)
