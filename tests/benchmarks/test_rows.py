"""The benchmarks' contract: the rows' fields, JSON alone on stdout, every layer of the library in the table."""

import json
import os

import pytest
import torch

from benchmarks import (
    compression,
    costs,
    csr,
    draws,
    memory,
    prediction,
    replicates,
    stacks,
    step_time,
    store,
    time_to_answer,
    virtual_batch,
    workers,
)
from benchmarks.step_time import pairs
from benchmarks.unit_noise import NETWORKS
from bnnlib import _native
from bnnlib import nn as bnn
from bnnlib.pruning import compress, to_csr


@pytest.mark.slow
def test_step_time_rows(printed):
    rows = printed(step_time, "--batch", "8", "--rounds", "1", "--steps", "1", "--device", "cpu")
    fields = {"library", "layer", "batch", "device", "ratio", "quartiles", "ms", "base_ms"}
    assert all(set(row) == fields for row in rows)
    ours = {row["layer"] for row in rows if row["library"] == "bnnlib"}
    samplers = {"sgld", "sghmc", "sghmc-euler", "sghmc-sa", "avo", "avo-natural", "ivon"}
    mixtures = {"gaussian-spike-slab", "scale-mixture"}
    others = {"gaussian", "gaussian-local", "gaussian-flipout", "spike-slab", "sparse-vd", "horseshoe"}
    assert ours == samplers | mixtures | others | set(NETWORKS)
    assert all(row["ratio"] > 0 and row["batch"] == 8 and row["device"] == "cpu" for row in rows)


def test_the_quick_form_has_128_rows_on_one_thread_and_the_goals(capsys):
    before = torch.get_num_threads()
    try:
        step_time.main(["--quick", "--layers", "gaussian", "sgld", "--rounds", "1", "--steps", "1"])
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    lines = [line for line in capsys.readouterr().out.splitlines() if "bnnlib" in line]
    assert ["goal 1.25" in line for line in lines] == [True, False]
    assert all(line.startswith("batch   128") for line in lines)


def moves_everything(step, x, y) -> bool:
    """Whether a step moves every parameter, those with only a divergence too."""
    before = [p.detach().clone() for p in step.model.parameters()]
    step.seconds(x, y, 2)
    return all(not torch.equal(p, q) for p, q in zip(step.model.parameters(), before, strict=True))


def test_step_time_measures_complete_steps():
    for (library, layer), build in step_time.contenders().items():
        if library == "bnnlib":
            step = step_time.Step(build, torch.device("cpu"))
            assert moves_everything(step, torch.rand(4, 784), torch.randint(0, 10, (4,))), layer


def test_ratios_are_over_the_deterministic_step_whoever_goes_first(monkeypatch):
    went = []

    class Timed:
        def __init__(self, build, device, keyed=True):
            self.ms = 1.0 if build is step_time.deterministic else 2.0

        def seconds(self, x, y, steps):
            went.append(self.ms)
            return self.ms / 1e3

    monkeypatch.setattr(step_time, "Step", Timed)
    (row,) = step_time.measure(4, torch.device("cpu"), ["gaussian-local"], rounds=2, steps=1)
    assert (row["ratio"], row["ms"], row["base_ms"]) == (2.0, 2.0, 1.0)
    assert went[2:] == [1.0, 2.0, 2.0, 1.0]  # after both have warmed up


def test_a_sampler_moves_every_parameter():
    for (library, layer), build in step_time.samplers().items():
        if library != "bnnlib":
            pytest.importorskip(library)
        step = build(step_time.deterministic()[0], num_data=step_time.NUM_DATA)
        state = dict(step.model.named_parameters()) if library != "posteriors" else step.state.params
        before = {name: state[name].detach().clone() for name in state.keys()}
        step.seconds(torch.rand(4, 784), torch.randint(0, 10, (4,)), 3)
        state = state if library != "posteriors" else step.state.params
        assert all(not torch.equal(state[name], value) for name, value in before.items()), (library, layer)
        assert all(torch.isfinite(state[name]).all() for name in before), (library, layer)


def test_memory_rows(printed):
    found = printed(memory, "--batch", "8", "--device", "cpu", "--layers", "gaussian", "sghmc-sa")
    rows = {(row["library"], row["layer"]): row for row in found}
    fields = {"library", "layer", "batch", "device", "standing", "peak"}
    assert all(set(row) == fields and row["peak"] >= row["standing"] for row in rows.values())
    # parameters, gradients and two moments of 4 bytes; two of each under a posterior; Adam's counts are next to nothing
    assert rows["torch", "deterministic"]["standing"] == pytest.approx(16.0, abs=0.1)
    assert rows["bnnlib", "gaussian"]["standing"] == pytest.approx(32.0, abs=0.1)
    # weights, gradients, velocities, and three latent variables for each of the first layer's; kernels keep no noise
    expected = (12.0 if _native.available() else 16.0) + 12.0 * 784 * 400 / 478_410
    assert rows["bnnlib", "sghmc-sa"]["standing"] == pytest.approx(expected, abs=0.1)


def test_replicate_rows(printed):
    (row,) = printed(replicates, "--replicates", "2", "--epochs", "1", "--device", "cpu")
    assert set(row) == {"work", "replicates", "stacked_s", "loop_s", "speedup"}
    assert row["replicates"] == 2 and row["stacked_s"] > 0 and row["loop_s"] > 0


@pytest.mark.slow
def test_a_store_in_a_folder_holds_one_draw_at_most(printed):
    memory_row, folder = printed(draws, "--draws", "3", "--batch", "16")
    assert memory_row["kept_mb"] == pytest.approx(3 * memory_row["draw_mb"], rel=0.01)
    assert folder["kept_mb"] < 0.01
    assert folder["used_mb"] - memory_row["used_mb"] < 1.2 * folder["draw_mb"]  # the file is a little larger
    assert folder["offer_ms"] > 0 and folder["predict_ms"] > 0


@pytest.mark.slow
def test_stack_rows(printed):
    options = ["--widths", "7", "--replicates", "1", "2", "3", "--rounds", "2", "--largest", "4000", "--device", "cpu"]
    rows = printed(stacks, *options)
    assert [(row["width"], row["replicates"], row["weights"]) for row in rows] == [(7, 1, 1_527), (7, 2, 1_527)]
    assert all(row["ms"] > 0 and len(row["quartiles"]) == 2 for row in rows)


def test_worker_rows_compare_one_process_with_two(printed, monkeypatch):
    monkeypatch.setattr(workers, "seconds", lambda experiment, only, jobs: {1: 100.0, 2: 62.5}[jobs])
    rows = printed(workers, "--only", "cell")
    assert [row["efficiency"] for row in rows] == [0.8]


def test_a_worker_run_computes_its_cells_in_an_empty_home(monkeypatch):
    seen = {}

    def run(command, env, check, **_):
        seen.update(command=command, home=os.listdir(env["BNNLIB_HOME"]), check=check)

    monkeypatch.setattr(workers.subprocess, "run", run)
    assert workers.seconds("mh-lenet", "HMC", 2) > 0
    assert seen["home"] == [] and seen["check"]
    assert seen["command"][2:] == "book run mh-lenet --profile book --jobs 2 --only HMC".split()


def test_loop_and_stack_do_the_same_work():
    stack, x, y = replicates.problem(2, torch.device("cpu"))
    loop = replicates.Loop(stack, x, y)
    for r, network in enumerate(loop.networks):
        # their first means are draws of two uniform laws, which a divergence of mostly shut gates hardly knows
        assert bnn.kl_divergence(network).item() == pytest.approx(stack.posterior.kl_divergence()[r].item(), rel=0.01)
        assert sum(map(torch.numel, network.parameters())) == sum(p[r].numel() for p in stack.parameters())
        assert torch.equal(loop.data[r][0], x[:, r])


@pytest.mark.slow
def test_noise_on_units_is_measured_on_complete_steps():
    for name in NETWORKS:
        *steps, x, y = pairs(name, 4, torch.device("cpu"))
        assert all(moves_everything(step, x, y) for step in steps), name


@pytest.mark.slow
def test_rows_of_compression(printed):
    rows = printed(compression, "--batch", "1", "2", "--rounds", "1", "--device", "cpu")
    keys = ["network", "runtime", "batch", "device", "dense_ms", "compressed_ms", "ratio", "bytes_ratio"]
    assert all(list(row) == keys and row["dense_ms"] > 0 < row["compressed_ms"] for row in rows)
    assert [row["batch"] for row in rows if row["runtime"] == "eager"] == [1, 2]
    assert rows[0]["bytes_ratio"] > 4


def test_the_units_are_those_of_the_paper():
    small = compress(compression.pruned_lenet(), torch.rand(2, 1, 28, 28))
    assert [tuple(small.get_submodule(name).weight.shape) for name in ("conv1", "conv2", "fc1", "fc2")] == [
        (3, 1, 5, 5), (18, 3, 5, 5), (283, 288), (10, 283)
    ]  # fmt: skip


def test_rows_of_csr(printed):
    rows = printed(csr, "--sparsity", "0.9", "0.99", "--batch", "1", "2", "--rounds", "1", "--device", "cpu")
    keys = {"network", "sparsity", "batch", "device", "dense_ms", "csr_ms", "speedup", "bytes_ratio"}
    assert all(set(row) == keys for row in rows)
    assert [(row["sparsity"], row["batch"]) for row in rows] == [(s, b) for s in (0.9, 0.99) for b in (1, 2)]
    assert all(row["network"] == "784-1200-1200-10" and row["dense_ms"] > 0 < row["csr_ms"] for row in rows)
    # 8 bytes for each weight that is left against 4 for all: about 5 and 50, less the biases and the row starts
    assert 4.5 < rows[0]["bytes_ratio"] < 5.0 and 40 < rows[2]["bytes_ratio"] < 50


def test_every_layer_has_the_share_of_zeros(monkeypatch):
    seen = []

    def convert(model):
        seen.extend(float((layer.weight == 0).float().mean()) for layer in model if hasattr(layer, "weight"))
        return to_csr(model)

    monkeypatch.setattr(csr, "to_csr", convert)
    csr.measure(0.95, [1], 1, torch.device("cpu"))
    # rounded to a whole weight in each layer
    assert len(seen) == 3 and all(abs(share - 0.95) < 1e-4 for share in seen)


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
        for key, drawn in prediction.contenders(network, torch.device("cpu")).items():
            found = drawn(x, 3)
            assert found.shape == (3, 2, outputs) and not torch.equal(found[0], found[1]), key


@pytest.mark.slow
def test_the_peak_is_that_of_a_process_of_its_own():
    row = {"network": "13-50-1", "batch": 2, "samples": 3, "library": "bnnlib", "layer": "gaussian", "way": "calls"}
    found = prediction.peak(row)
    assert found["peak_mb"] >= 0.0 and found["copies_mb"] == round(3 * 4 * 751 / 2**20, 2)


def test_a_row_of_the_virtual_batch_says_what_was_timed(capsys):
    options = ["--networks", "LeNet-5", "--samples", "5", "--batch", "16", "--rounds", "1", "--device", "cpu"]
    (row,) = virtual_batch.main(["--json", *options])
    captured = capsys.readouterr()
    assert json.loads(captured.out) == [row] and "times faster" in captured.err
    assert set(row) == {"network", "samples", "batch", "device", "naive_s", "virtual_s", "ratio", "fit_s"}
    assert (row["network"], row["samples"], row["batch"]) == ("LeNet-5", 5, 16)
    assert row["virtual_s"] > 0 < row["naive_s"]


def small(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 3, generator=generator)
    return (x, x[:, :1].clone()), (x[:16], x[:16, :1])


@pytest.mark.parametrize("target", [1e6, 0.0])
def test_a_row_says_who_arrived_and_how_near_the_others_came(monkeypatch, printed, target):
    task = time_to_answer.Task((3, 4, 1), small, target, 2, 32, 1e-2, 1e-2)
    monkeypatch.setattr(time_to_answer, "TASKS", {"mnist": task})  # the one task without estimator
    rows = printed(time_to_answer)
    assert [row["layer"] for row in rows] == list(time_to_answer.LAYERS)
    for row in rows:
        assert row["arrived"] == (row["runs"] if target else 0) and (row["seconds"] is None) == (not target)
        assert 0.0 < row["least"] < 100.0
    about = {"device": "cpu", "threads": 1, "torch": "2", "date": "today", "command": "c"}
    table = costs.tables({"time_to_answer": {"about": about, "rows": rows}})["time_to_answer"]()
    assert ("not reached" in table) == (not target) and "SGHMC" in table


def test_the_command_is_kept_without_where_its_work_lay(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    given = []
    monkeypatch.setattr(workers, "main", lambda arguments: given.append(arguments) or [{"one_s": 1.0}])
    path = store.main(["made", "workers", "--keep", "somewhere/file", "--only", "x", "--minutes", "3"])
    assert given == [["--keep", "somewhere/file", "--only", "x", "--minutes", "3", "--json"]]
    kept = json.loads(path.read_text())
    assert kept["about"]["command"] == "python -m benchmarks.workers --only x" and kept["rows"] == [{"one_s": 1.0}]
    assert store.read("made") == kept
