"""The table readers on small files of the published form, whole and damaged, by way of a local server."""

import io
import zipfile
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from bnnlib import datasets
from bnnlib.datasets import uci
from bnnlib.datasets.content import sha256_of_array
from tests.bnnlib.datasets.files import Malicious, entry


def uci_text(rows=40) -> tuple[bytes, np.ndarray]:
    table = np.round(np.random.RandomState(3).randn(rows, 4), 3)
    return "\n".join(" ".join(str(value) for value in row) for row in table).encode() + b"\n", table


def uci_registry(site, data: bytes, rows=40, splits=3) -> str:
    pairs = uci.standard_splits(rows, splits)
    checksum = sha256_of_array(np.stack([np.concatenate(pair) for pair in pairs]).astype("<i8"))
    options = f'features = 3, target = 3, splits = {splits}, splits_sha256 = "{checksum}"'
    return entry(site, "uci", "regression", {"data.txt": data}, options)


def test_uci_splits_are_all_different_and_complete(site, use_registry):
    data, table = uci_text()
    use_registry(uci_registry(site, data))
    seen = set()
    for split in range(3):
        small = datasets.load("small", split=split)
        assert small.train_x.shape == (36, 3) and small.test_y.shape == (4, 1) and small.train_y.dtype == torch.float32
        rows = torch.cat([torch.cat([small.train_x, small.train_y], 1), torch.cat([small.test_x, small.test_y], 1)])
        order = np.argsort(rows[:, 0].numpy())
        assert np.allclose(rows.numpy()[order], table[np.argsort(table[:, 0])], atol=1e-6)
        assert small.info["split"] == f"{split} of 3, published"
        seen.add(small.test_y.sum().item())
    assert len(seen) == 3
    assert len(site.requests) == 1
    for split in (-1, 3):
        with pytest.raises(ValueError, match="splits 0 to 2"):
            datasets.load("small", split=split)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda test: test, None),
        (lambda test: test[::-1], "not the published split 1"),
        (lambda test: test + 0.5, "not the published split 1"),
        (lambda test: ["x"], "not a table of numbers"),
    ],
)
def test_uci_index_files_are_checked_where_present(site, use_registry, change, words):
    root = use_registry(uci_registry(site, uci_text()[0]))
    datasets.fetch("small", progress=False)
    train, test = uci.standard_splits(40, 3)[1]
    for part, indices in (("train", train), ("test", change(test))):
        (root / "f" / f"index_{part}_1.txt").write_text("\n".join(map(str, indices)))
    datasets.load("small", split=0)
    with pytest.raises(datasets.IntegrityError, match=words) if words else nullcontext():
        datasets.load("small", split=1)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("index_features.txt", "0\n1\n3\n", "index_features.txt does not name"),
        ("index_target.txt", "2\n", "index_target.txt does not name"),
        ("data.txt", uci_text()[0][:-30].decode(), r"data\.txt"),
    ],
)
def test_uci_files_that_were_edited_or_name_other_columns_are_refused(site, use_registry, name, text, words):
    root = use_registry(uci_registry(site, uci_text()[0]))
    datasets.fetch("small", progress=False)
    (root / "f" / name).write_text(text)
    with pytest.raises(datasets.IntegrityError, match=words):
        datasets.load("small")


def test_changed_generator_is_noticed(site, use_registry, monkeypatch):
    use_registry(uci_registry(site, uci_text()[0]))
    swapped = [pair[::-1] for pair in uci.standard_splits(40, 3)]
    monkeypatch.setattr(uci, "standard_splits", lambda rows, count: swapped)
    with pytest.raises(datasets.DatasetError, match="legacy generator changed"):
        datasets.load("small")


def year_registry(site, rows=12, train=9, features=90, member="YearPredictionMSD.txt"):
    random = np.random.RandomState(4)
    table = np.column_stack([random.randint(1922, 2012, rows), np.round(random.randn(rows, features), 5)])
    text = "\n".join(",".join([str(int(row[0])), *(f"{value:.5f}" for value in row[1:])]) for row in table)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, text + "\n")
    options = f'member = "YearPredictionMSD.txt", features = 90, train_rows = {train}, test_rows = {12 - train}'
    registry = entry(site, "year", "regression", {"y.zip": stream.getvalue()}, options, None)
    return registry, table, text


def test_year_first_rows_train_last_rows_test(site, use_registry):
    text, table, _ = year_registry(site)
    use_registry(text)
    data = datasets.load("small")
    assert data.train_x.shape == (9, 90) and data.test_x.shape == (3, 90)
    assert data.train_y.flatten().tolist() == table[:9, 0].tolist()
    assert data.test_y.flatten().tolist() == table[9:, 0].tolist()
    # Five decimals of size one, read as float32.
    assert np.allclose(data.test_x, table[9:, 1:], atol=1e-6)


def test_year_text_may_be_unpacked(site, use_registry):
    text, _, content = year_registry(site)
    root = use_registry(text)
    (root / "f").mkdir(parents=True)
    (root / "f" / "YearPredictionMSD.txt").write_text(content)
    assert datasets.available("small")
    assert len(datasets.load("small", download=False).test_x) == 3


def test_year_of_another_size_is_refused(site, use_registry):
    text, _, _ = year_registry(site, rows=11)
    use_registry(text)
    with pytest.raises(datasets.IntegrityError, match=r"\(11, 91\), published is \(12, 91\)"):
        datasets.load("small")


def test_year_damaged_archive_is_not_accepted(site, use_registry):
    text, _, _ = year_registry(site)
    damaged = bytearray(site.pages["/y.zip"])
    damaged[200] ^= 0xFF
    site.pages["/y.zip"] = bytes(damaged)
    use_registry(text)
    with pytest.raises(datasets.DownloadError, match=r"y\.zip"):
        datasets.load("small")
    text, _, _ = year_registry(site, member="other.txt")
    with pytest.raises(datasets.DownloadError, match=r"no YearPredictionMSD\.txt"):
        datasets.load("small")


def npy(array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def logistic_registry(site, x: bytes, y: bytes) -> str:
    return entry(site, "logistic", "classification", {"data.npy": x, "labels.npy": y}, "classes = 2")


def test_logistic_has_all_rows_for_training(site, use_registry):
    x, y = np.random.RandomState(0).randn(6, 3), np.array([[0.0], [1], [1], [0], [1], [0]])
    use_registry(logistic_registry(site, npy(x), npy(y)))
    data = datasets.load("small")
    assert data.train_x.shape == (6, 3) and data.test_x.shape == (0, 3) and data.train_x.dtype == torch.float32
    assert data.train_y.tolist() == [0, 1, 1, 0, 1, 0] and data.train_y.dtype == torch.int64
    assert data.info["split"] == "none: all rows train"


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (npy(np.array([Malicious()], dtype=object)), npy(np.zeros(1)), "not a NumPy array of numbers"),
        (npy(np.zeros((3, 2))), npy(np.array([0, 1, 2])), "labels 0 and 1"),
        (npy(np.zeros((3, 2))), npy(np.array([0, 1])), "labels 0 and 1"),
        (npy(np.zeros((3, 2)))[:-8], npy(np.zeros(3)), "not a NumPy array of numbers"),
    ],
    ids=["code", "labels", "rows", "truncated"],
)
def test_bad_logistic_files_are_refused(site, use_registry, tmp_path, monkeypatch, x, y, words):
    monkeypatch.chdir(tmp_path)
    use_registry(logistic_registry(site, x, y))
    with pytest.raises(datasets.IntegrityError, match=words):
        datasets.load("small")
    assert not (tmp_path / "pickle_ran").exists()
