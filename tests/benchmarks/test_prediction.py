"""The rows of the benchmark of prediction."""

import json

import pytest
import torch

from benchmarks import prediction


def test_json_alone_is_on_standard_output_and_a_row_says_what_was_timed(capsys):
    options = ["--networks", "13-50-1", "--samples", "3", "--batch", "2", "--rounds", "1", "--device", "cpu"]
    rows = prediction.main(["--json", *options])
    captured = capsys.readouterr()
    assert json.loads(captured.out) == rows and "13-50-1" in captured.err
    ours = {(row["layer"], row["way"]) for row in rows if row["library"] == "bnnlib"}
    assert ours == {(layer, way) for layer in ("gaussian", "spike-slab") for way in prediction.WAYS}
    fields = {"network", "batch", "samples", "device", "library", "layer", "way", "seconds", "ratio"}
    assert all(set(row) == fields and row["seconds"] > 0 and row["ratio"] > 0 for row in rows)


def test_all_ways_give_draws_of_one_shape():
    for network, (_, shape) in prediction.NETWORKS.items():
        x = torch.rand(2, *shape)
        outputs = 1 if network == "13-50-1" else 10
        for key, draws in prediction.contenders(network, torch.device("cpu")).items():
            found = draws(x, 3)
            assert found.shape == (3, 2, outputs) and not torch.equal(found[0], found[1]), key


@pytest.mark.slow
def test_the_peak_is_that_of_a_process_of_its_own():
    row = {"network": "13-50-1", "batch": 2, "samples": 3, "library": "bnnlib", "layer": "gaussian", "way": "calls"}
    found = prediction.peak(row)
    assert found["peak_mb"] >= 0.0 and found["copies_mb"] == round(3 * 4 * 751 / 2**20, 2)
