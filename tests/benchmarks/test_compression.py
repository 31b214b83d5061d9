"""The rows of the compression benchmark, and that the network it times is the paper's."""

import json

import pytest
import torch

from benchmarks import compression
from bnnlib.pruning import compress


@pytest.mark.slow
def test_rows(capsys):
    rows = compression.main(["--json", "--batch", "1", "2", "--rounds", "1", "--device", "cpu"])
    assert json.loads(capsys.readouterr().out) == rows
    keys = ["network", "runtime", "batch", "device", "dense_ms", "compressed_ms", "ratio", "bytes_ratio"]
    assert all(list(row) == keys and row["dense_ms"] > 0 < row["compressed_ms"] for row in rows)
    assert [row["batch"] for row in rows if row["runtime"] == "eager"] == [1, 2]
    assert rows[0]["bytes_ratio"] > 4


def test_the_units_are_those_of_the_paper():
    small = compress(compression.pruned_lenet(), torch.rand(2, 1, 28, 28))
    assert [tuple(small.get_submodule(name).weight.shape) for name in ("conv1", "conv2", "fc1", "fc2")] == [
        (3, 1, 5, 5), (18, 3, 5, 5), (283, 288), (10, 283)
    ]  # fmt: skip
