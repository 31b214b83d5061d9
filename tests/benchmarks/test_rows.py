"""The benchmarks' contract: the rows' fields, JSON alone on stdout, every layer of the library in the table."""

import json
import os

import pytest
import torch

from benchmarks import draws, memory, replicates, stacks, step_time, workers
from benchmarks.step_time import pairs
from benchmarks.unit_noise import NETWORKS
from bnnlib import _native
from bnnlib import nn as bnn


@pytest.mark.slow
def test_step_time_rows(capsys):
    step_time.main(["--json", "--batch", "8", "--rounds", "1", "--steps", "1", "--device", "cpu"])
    rows = json.loads(capsys.readouterr().out)
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


def test_step_time_measures_complete_steps():
    for (library, layer), build in step_time.contenders().items():
        if library != "bnnlib":
            continue
        step = step_time.Step(build, torch.device("cpu"))
        before = [p.detach().clone() for p in step.model.parameters()]
        step.seconds(torch.rand(4, 784), torch.randint(0, 10, (4,)), 2)
        # every parameter has been moved by the optimizer, those with only a divergence too
        assert all(not torch.equal(p, q) for p, q in zip(step.model.parameters(), before, strict=True)), layer


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


def test_memory_rows(capsys):
    memory.main(["--json", "--batch", "8", "--device", "cpu", "--layers", "gaussian", "sghmc-sa"])
    rows = {(row["library"], row["layer"]): row for row in json.loads(capsys.readouterr().out)}
    fields = {"library", "layer", "batch", "device", "standing", "peak"}
    assert all(set(row) == fields and row["peak"] >= row["standing"] for row in rows.values())
    # parameters, gradients and two moments of 4 bytes; two of each under a posterior; Adam's counts are next to nothing
    assert rows["torch", "deterministic"]["standing"] == pytest.approx(16.0, abs=0.1)
    assert rows["bnnlib", "gaussian"]["standing"] == pytest.approx(32.0, abs=0.1)
    # weights, gradients, velocities, and three latent variables for each of the first layer's; kernels keep no noise
    expected = (12.0 if _native.available() else 16.0) + 12.0 * 784 * 400 / 478_410
    assert rows["bnnlib", "sghmc-sa"]["standing"] == pytest.approx(expected, abs=0.1)


def test_replicate_rows(capsys):
    replicates.main(["--json", "--replicates", "2", "--epochs", "1", "--device", "cpu"])
    (row,) = json.loads(capsys.readouterr().out)
    assert set(row) == {"work", "replicates", "stacked_s", "loop_s", "speedup"}
    assert row["replicates"] == 2 and row["stacked_s"] > 0 and row["loop_s"] > 0


@pytest.mark.slow
def test_a_store_in_a_folder_holds_one_draw_at_most(capsys):
    draws.main(["--json", "--draws", "3", "--batch", "16"])
    memory_row, folder = json.loads(capsys.readouterr().out)
    assert memory_row["kept_mb"] == pytest.approx(3 * memory_row["draw_mb"], rel=0.01)
    assert folder["kept_mb"] < 0.01
    assert folder["used_mb"] - memory_row["used_mb"] < 1.2 * folder["draw_mb"]  # the file is a little larger
    assert folder["offer_ms"] > 0 and folder["predict_ms"] > 0


@pytest.mark.slow
def test_stack_rows(capsys):
    options = ["--widths", "7", "--replicates", "1", "2", "3", "--rounds", "2", "--largest", "4000", "--device", "cpu"]
    stacks.main(["--json", *options])
    rows = json.loads(capsys.readouterr().out)
    assert [(row["width"], row["replicates"], row["weights"]) for row in rows] == [(7, 1, 1_527), (7, 2, 1_527)]
    assert all(row["ms"] > 0 and len(row["quartiles"]) == 2 for row in rows)


def test_worker_rows_compare_one_process_with_two(capsys, monkeypatch):
    monkeypatch.setattr(workers, "seconds", lambda experiment, only, jobs: {1: 100.0, 2: 62.5}[jobs])
    workers.main(["--json", "--only", "cell"])
    rows = json.loads(capsys.readouterr().out)
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
        for step in pairs(name, 4, torch.device("cpu"))[:2]:
            x, y = pairs(name, 4, torch.device("cpu"))[2:]
            before = [p.detach().clone() for p in step.model.parameters()]
            step.seconds(x, y, 2)
            assert all(not torch.equal(p, q) for p, q in zip(step.model.parameters(), before, strict=True)), name
