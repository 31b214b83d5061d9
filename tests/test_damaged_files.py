"""A thousand files, damaged in random places: none is read in silence."""

import contextlib
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bnnlib._files import DamagedFileError
from bnnlib.pruning import load_csr, save_csr, to_csr
from bnnlib.sampling.samples import SampleStore
from bnnlib.train.checkpoint import Checkpoint
from book.lab import StoreError
from book.lab.store import dump_result, read_result

FILES = 200  # of each of the five kinds


class Unharmed(Exception):
    """Only bytes that say nothing have changed."""


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))


def estimator(path: Path):
    estimators = pytest.importorskip("bnnlib.estimators", reason="the extra 'estimators' is not installed")
    x = np.random.default_rng(0).normal(size=(30, 3))
    model = estimators.SparseRegressor(epochs=1, hidden=(2,), refit=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, x[:, 0]).save(path)
    return lambda: estimators.SparseRegressor.load(path), DamagedFileError


def draws(path: Path):
    store = SampleStore(max_samples=4)
    for _ in range(3):
        store.offer(network())
    store.save(path)
    return lambda: SampleStore(max_samples=4).load(path), DamagedFileError


def draw_in_a_folder(path: Path):
    store = SampleStore(max_samples=4, folder=path.parent)
    store.offer(network())
    (file,) = path.parent.glob("draw-*.pt")
    path.symlink_to(file)  # its name has the checksum
    return lambda: list(store), DamagedFileError


def checkpoint(path: Path):
    Checkpoint(path).save({"model": network().state_dict(), "epoch": 3})

    def load():
        assert Checkpoint(path).load() is not None

    return load, UserWarning  # the work starts over, and says so


def rows(path: Path):
    save_csr(to_csr(network()), path)
    state = to_csr(network()).state_dict()

    def load():
        found = load_csr(path, network()).state_dict()
        # the archive is torch's own: a byte of its padding, which nobody reads, may be another
        if found.keys() == state.keys() and all(torch.equal(found[name], state[name]) for name in state):
            raise Unharmed

    return load, ValueError


def result(path: Path):
    row = {"setting": "a", "method": "b", "replicate": 0, "metric": "error"}
    content = {
        "experiment": "x",
        "profile": "book",
        "provenance": {"commit": "0" * 40, "minutes": 1.5, "cells": {"total": 1, "done": 1, "failed": 0}},
        "cells": [{"setting": "a", "method": "b", "rows": 8}],
        "probes": [],
        "certificates": [],
        "rows": [row | {"replicate": k, "value": 0.125 * k} for k in range(8)],
    }
    path.write_text(dump_result(content))
    return lambda: read_result(path), StoreError


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """Cut off, with a bit flipped, with other bytes in place of some, or with a part missing or doubled."""
    start = int(rng.integers(len(whole)))
    stop = min(len(whole), start + int(rng.integers(1, 40)))
    kind = rng.integers(5)
    if kind == 0:
        return whole[:start]
    if kind == 1:
        return whole[:start] + bytes([whole[start] ^ (1 << int(rng.integers(8)))]) + whole[start + 1 :]
    if kind == 2:
        return whole[:start] + rng.bytes(stop - start) + whole[stop:]
    return whole[:start] + whole[stop:] if kind == 3 else whole[:stop] + whole[start:]


@pytest.mark.parametrize("make", [estimator, draws, draw_in_a_folder, checkpoint, rows, result])
def test_no_damaged_file_is_read_in_silence(make, tmp_path):
    path = tmp_path / "file"
    load, error = make(path)
    with contextlib.suppress(Unharmed):
        load()
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for number in range(FILES):
        content = damaged(whole, rng)
        if content == whole:
            continue
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                load()
            except (error, Unharmed):
                continue
        pytest.fail(f"file {number} was read, though it differs from what was written")


@pytest.mark.parametrize("how", ["without the line", "without its value"])
def test_a_result_without_a_checksum_is_refused(tmp_path, how):
    """Or an altered one would pass by losing it."""
    path = tmp_path / "file"
    load, error = result(path)
    assert "sha256" not in load()
    first, line, rest = path.read_text().partition(' "sha256": ')[0], *path.read_text().split("\n", 2)[1:]
    assert line.startswith(' "sha256": "')
    path.write_text(first + rest if how == "without the line" else f'{first} "sha256": "",\n{rest}')
    with pytest.raises(error, match=r"it has no checksum.*Remove it and run"):
        load()


def test_a_checkpoint_without_a_checksum_is_read_as_before(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "file")
    assert Checkpoint(tmp_path / "file").load() == {"epoch": 3}
