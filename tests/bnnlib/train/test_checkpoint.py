"""A checkpoint brings back what it was given, and nothing stops because of one."""

import errno
import os

import numpy as np
import pytest
import torch

from bnnlib.train.checkpoint import Checkpoint


def test_a_checkpoint_is_there_until_it_is_deleted(tmp_path):
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    assert checkpoint.load() is None
    checkpoint.save({"epoch": 4, "note": None})
    assert Checkpoint(tmp_path / "cell.pt").load() == {"epoch": 4, "note": None}
    checkpoint.delete()
    checkpoint.delete()
    assert checkpoint.load() is None


def test_a_checkpoint_refuses_what_it_could_not_read_back(tmp_path):
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    for value in (np.ones(2), np.datetime64("2020"), torch.nn.Linear(1, 1)):
        with pytest.raises(TypeError, match=r"state\['deep'\]\[0\] is a .*Convert it first"):
            checkpoint.save({"deep": [value]})
    assert not checkpoint.path.exists()


def test_numbers_of_numpy_become_those_of_python(tmp_path):
    checkpoint, model = Checkpoint(tmp_path / "cell.pt"), torch.nn.BatchNorm1d(2).state_dict()
    checkpoint.save({"rates": [np.float64(0.1), (np.int64(3), np.bool_(True))], "model": model, "of": {np.int64(3): 1}})
    loaded = checkpoint.load()
    assert loaded["of"] == {3: 1} and type(next(iter(loaded["of"]))) is int
    assert loaded["rates"] == [0.1, (3, True)] and type(loaded["rates"][0]) is float
    assert loaded["model"]._metadata == model._metadata  # by which PyTorch knows the versions of layers


def test_a_damaged_checkpoint_starts_over_with_a_warning(tmp_path):
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    checkpoint.save({"step": 1})
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:50])
    with pytest.warns(UserWarning, match="the work starts over"):
        assert checkpoint.load() is None


def test_a_full_disk_costs_the_checkpoint_not_the_cell(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    checkpoint.save({"step": 1})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match=r"no checkpoint could be saved.*the disk is full"):
        checkpoint.save({"step": 2})
    assert checkpoint.load() == {"step": 1} and [path.name for path in tmp_path.iterdir()] == ["cell.pt"]


def test_due_counts_from_the_last_save(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("bnnlib.train.checkpoint.time.monotonic", lambda: now[0])
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    assert not checkpoint.due(60)
    now[0] += 61
    assert checkpoint.due(60)
    checkpoint.save({"step": 1})
    assert not checkpoint.due(60)
