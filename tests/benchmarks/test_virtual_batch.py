"""The benchmark of the virtual batch: its rows, and that it is faster than naive Monte Carlo by far."""

import json

import pytest
import torch

from benchmarks import virtual_batch


@pytest.mark.slow
def test_fifty_draws_are_at_least_five_times_faster():
    """Mini-batches of 16 are the smallest in use, and the measured ratio there is above 15."""
    torch.manual_seed(0)
    row = virtual_batch.measure("LeNet-5", [50], 16, 1, torch.device("cpu"))[0]
    assert set(row) == {"network", "samples", "batch", "device", "naive_s", "virtual_s", "ratio", "fit_s"}
    assert (row["network"], row["samples"], row["batch"]) == ("LeNet-5", 50, 16)
    assert 0 < row["virtual_s"] < row["naive_s"] and row["ratio"] >= 5.0


def test_json_alone_is_on_standard_output(capsys):
    rows = virtual_batch.main(
        ["--json", "--networks", "LeNet-5", "--samples", "2", "--batch", "2", "--rounds", "1", "--device", "cpu"]
    )
    captured = capsys.readouterr()
    assert json.loads(captured.out) == rows and len(rows) == 1 and "times faster" in captured.err
