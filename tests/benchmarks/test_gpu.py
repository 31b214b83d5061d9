"""Benchmarks on a GPU: their rows where there is one, and the table that ends them."""

import json

import pytest
import torch

from benchmarks import memory, noise, step_time
from bnnlib._native import gpu

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def row(layer, batch, mode, ms):
    told = {"library": "bnnlib", "layer": layer, "batch": batch, "mode": mode}
    return told | {"ratio": ms / 0.5, "ms": ms, "base_ms": 0.5}


def test_the_table_has_a_line_for_each_step_and_a_column_for_each_batch_and_mode():
    rows = [row("gaussian", 128, "eager", 1.5), row("sgld", 128, "eager", 0.75), row("gaussian", 128, "graphs", 1.0)]
    lines = [line.split() for line in step_time.table(rows).splitlines()]
    assert lines[0] == "ms and ratio 128 rows, eager 128 rows, graphs".split()
    assert ["bnnlib", "gaussian", "1.500", "3.00", "1.000", "2.00"] in lines
    assert ["bnnlib", "sgld", "0.750", "1.50", "-"] in lines
    assert ["deterministic", "0.500", "1.00", "0.500", "1.00"] in lines


def test_quick_takes_the_device_that_is_asked_for():
    before = torch.get_num_threads()
    try:
        there = step_time._options(["--quick", "--device", "cuda"])
        assert (there.device, there.batch, there.steps) == ("cuda", [128, 1024], 20)
        here = step_time._options(["--quick"])
        assert (here.device, here.batch, here.steps) == ("cpu", [128], 4)
    finally:
        torch.set_num_threads(before)


@needs_gpu
def test_steps_are_measured_as_they_are_and_recorded(capsys):
    layers = ["gaussian", "spike-slab", "gaussian-local", "sghmc"]
    step_time.main(["--json", "--device", "cuda", "--batch", "8", "--rounds", "1", "--steps", "2", "--layers", *layers])
    rows = [row for row in json.loads(capsys.readouterr().out) if row["library"] == "bnnlib"]
    assert {(row["layer"], row["mode"]) for row in rows} == {(a, b) for a in layers for b in ("eager", "graphs")}
    assert all(row["ratio"] > 0 and row["device"] == "cuda" for row in rows)


@needs_gpu
def test_a_fused_step_keeps_nothing_but_parameters_gradients_and_moments(capsys):
    if gpu.kernels() is None:
        pytest.skip("Triton is not installed")
    memory.main(["--json", "--batch", "8", "--device", "cuda", "--layers", "gaussian", "spike-slab"])
    rows = {row["layer"]: row for row in json.loads(capsys.readouterr().out) if row["library"] in ("bnnlib", "torch")}
    for layer, parameters in (("gaussian", 2), ("spike-slab", 3)):
        assert rows[layer]["standing"] == pytest.approx(16.0 * parameters, abs=0.1)
        # the weights and their gradients, 4 bytes each; workspaces of products are the deterministic step's too
        more = [row["peak"] - row["standing"] for row in (rows[layer], rows["deterministic"])]
        assert more[0] - more[1] < 9.0


@needs_gpu
def test_passes_over_memory_have_times_and_rates(capsys):
    rows = noise.on_gpu(5_000, 2, torch.device("cuda"), calls=2)
    fields = {"way", "count", "device", "ns", "ns_quartiles", "per_second", "gb_s", "of_copy"}
    assert all(set(row) == fields and row["ns"] > 0 for row in rows)
    assert rows[0]["way"] == "copy" and rows[0]["of_copy"] == 1.0
    assert len(rows) == 4 + 9 * (gpu.kernels() is not None)
