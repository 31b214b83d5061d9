"""The rows of the benchmark of the virtual batch."""

import json

import torch

from benchmarks import virtual_batch


def test_a_row_says_what_was_timed():
    row = virtual_batch.measure("LeNet-5", [5], 16, 1, torch.device("cpu"))[0]
    assert set(row) == {"network", "samples", "batch", "device", "naive_s", "virtual_s", "ratio", "fit_s"}
    assert (row["network"], row["samples"], row["batch"]) == ("LeNet-5", 5, 16)
    assert row["virtual_s"] > 0 < row["naive_s"]


def test_json_alone_is_on_standard_output(capsys):
    rows = virtual_batch.main(
        ["--json", "--networks", "LeNet-5", "--samples", "2", "--batch", "2", "--rounds", "1", "--device", "cpu"]
    )
    captured = capsys.readouterr()
    assert json.loads(captured.out) == rows and len(rows) == 1 and "times faster" in captured.err
