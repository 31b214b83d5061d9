"""The adaptive variational optimizer: what cells draw, select, take out and resume, its dynamics, CIFAR-10."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from bnnlib.optim import AdaptiveVariational, GroupSpikeSlab
from bnnlib.train.checkpoint import Checkpoint
from book import lab
from chapters.adaptive_optimizer import networks, problems
from chapters.adaptive_optimizer.experiments import baselines, cifar10, dynamics, examples, measures, training
from chapters.adaptive_optimizer.problems import CYCLES, cyclic_lr
from chapters.shared.memory import peak_bytes
from tests.chapters import cells
from tests.chapters.cells import CPU, needs_digits

smoke = partial(cells.smoke, "avo-example-1")


def unmeasured(result) -> list[dict]:
    return [row for row in result.rows if not row["metric"].startswith("minutes")]


def run(cell, checkpoint=None):
    return lab.get("avo-example-1").function(cell)(cell, CPU, checkpoint)


@pytest.mark.parametrize("method", [*examples.ABLATIONS, "group lasso", "SVBNN", "SA-EM"])
def test_a_killed_training_resumes_bit_for_bit(method, tmp_path, dies, monkeypatch):
    monkeypatch.setattr(training, "SAVE_EVERY", 7)
    cell = cells.smoke("avo-example-3", method)  # which has all methods
    whole = run(cell)
    with pytest.raises(dies.Killed):
        run(cell, dies(tmp_path / "cell.pt", 2 if "grid" in cell.params else 1))
    resumed = run(cell, Checkpoint(tmp_path / "cell.pt"))
    assert unmeasured(resumed) == unmeasured(whole)
    assert resumed.arrays.keys() == whole.arrays.keys()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(resumed.arrays[name], array)


def test_a_replicate_has_data_of_its_own_that_do_not_depend_on_the_stack():
    params = smoke("AVO").params
    both, second = training.data_of(params, (0, 1)), training.data_of(params, (1,))
    assert torch.equal(both["x"][:, 1:], second["x"]) and torch.equal(both["test_y"][1:], second["test_y"])
    assert not torch.equal(both["x"][:, 0], both["x"][:, 1])
    assert len(both["x"]) == params["num_train"] and both["test_x"].shape == (2, params["num_inputs"], 1024)


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_only_the_relevant_inputs_decide_the_target(name):
    problem = problems.PROBLEMS[name]
    x = problems.design(50, 20, torch.Generator().manual_seed(1))
    f, other = problem.function(x), x.clone()
    other[:, problem.relevant :] = 0.0
    assert torch.equal(problem.function(other), f)
    for j in range(problem.relevant):
        other = x.clone()
        other[:, j] += 0.5
        assert not torch.equal(problem.function(other), f)


def test_a_stack_is_its_networks():
    model = networks.StackedReLU((6, 4, 3, 1), 3, torch.Generator().manual_seed(2))
    x = torch.randn(3, 6, 20, generator=torch.Generator().manual_seed(3))
    for r in range(3):
        h = x[r]
        for layer, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
            h = weight[r] @ h + bias[r]
            h = torch.relu(h) if layer < 2 else h
        torch.testing.assert_close(model(x)[r], h[0])


def test_taking_inputs_out_changes_no_output_and_no_later_step():
    params = smoke("AVO", temperature=0.0, epochs=8).params
    data = training.data_of(params, (0, 1))
    small, whole = (training.Training(params, data, CPU, 0) for _ in range(2))
    original, training.compact = training.compact, lambda *given: False
    try:
        whole.run()
    finally:
        training.compact = original
    small.run()
    assert small.kept().shape[1] < whole.kept().shape[1] == params["num_inputs"]
    assert torch.equal(small.inputs(), whole.inputs())
    # the same sums with and without the zeros
    torch.testing.assert_close(small.outputs(small.test_x), whole.outputs(whole.test_x), rtol=1e-4, atol=1e-5)


def test_magnitude_keeps_as_many_inputs_as_matter():
    result = examples.run_cell(smoke("magnitude"), CPU)
    found = {(row["metric"], row["replicate"]): row["value"] for row in result.rows}
    for r in range(2):
        assert found["false_positives", r] == found["false_negatives", r]
        assert found["zeros", r] == pytest.approx(100 * 25 * 5 / (31 * 5 + 6 * 3 + 4))


def test_selection_is_counted():
    problem = problems.PROBLEMS["example 3"]  # four inputs matter
    selected = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]]).bool()
    found = measures.selection(problem, selected)
    assert found["exact_selection"].tolist() == [100.0, 0.0, 0.0]
    assert found["false_positives"].tolist() == [0.0, 2.0, 0.0]
    assert found["false_negatives"].tolist() == [0.0, 1.0, 4.0]


def test_the_published_method_finds_the_inputs_of_a_small_problem():
    """Thirty inputs instead of a thousand, forty epochs instead of three thousand."""
    cell = smoke("AVO", epochs=40, num_train=10_240, warm_up=20, hard=1e-3, lr=0.05)
    found = {(row["metric"], row["replicate"]): row["value"] for row in examples.run_cell(cell, CPU).rows}
    assert [found["false_negatives", r] for r in range(2)] == [0.0, 0.0]
    # predicting the mean costs 3.7, the noise alone 1
    assert all(found["mse_test", r] < 2.5 for r in range(2))


def test_the_linear_lasso_finds_linear_inputs_and_the_mean_stands_beside_it():
    pytest.importorskip("sklearn")
    cell = replace(cells.smoke("avo-example-2", "lasso"), replicates=(0,))
    rows = {(row["method"], row["metric"]): row["value"] for row in baselines.run_lasso(cell, CPU).rows}
    # x2 and x5 enter Example 2 with linear parts, the product of x3 and x4 has none
    assert rows["lasso", "false_negatives"] <= 3
    assert 1.0 < rows["lasso", "mse_test"] < rows["mean", "mse_test"]
    assert rows["lasso", "strength_chosen"] > 0


def test_strengths_are_chosen_on_held_out_rows_and_one_network_each():
    cell = smoke("group lasso", grid=[0.001, 1e6], tuning_epochs=120, lr=0.1)
    chosen = baselines._choose(training.Training, "strength", cell.params, (0,), CPU)
    assert chosen["strength"] == 0.001  # the other leaves no input


def test_the_group_lasso_removes_for_good_what_is_zero_at_half_time():
    cell = smoke("group lasso", strength=0.1, epochs=60, lr=0.1)
    trained = training.Training(cell.params, training.data_of(cell.params, (0, 1)), CPU, 0).run()
    early = next(float(entry[2, 0]) for entry in trained.trace if entry[0, 0] >= 32)
    assert 0.0 < early < 100.0
    assert float(trained.zeros()[0]) == pytest.approx(early, rel=1e-6)  # the trace is in single precision
    assert not trained.model.weights[0].detach()[~trained.kept().unsqueeze(1).expand_as(trained.model.weights[0])].any()


def test_the_epoch_that_begins_a_new_cycle_is_spared():
    cell = cells.smoke("avo-example-2", "AVO")
    assert cell.params["spare"] == smoke("AVO").params["spare"] == 1
    epochs = cell.params["epochs"]
    data = training.data_of(cell.params, (0,))
    trained = training.Training(cell.params, data, CPU, 0).run()
    assert trained.epoch == epochs - 1 == int(trained.trace[-1][0, 0])
    whole = training.Training(cell.params | {"spare": 0}, data, CPU, 0).run()
    assert int(whole.trace[-1][0, 0]) == epochs
    # the clock of the code: the last epoch is the first of a cycle
    rates = [problems.cyclic_lr(1.0, epoch, 0, epochs, 2) for epoch in (epochs - 2, epochs - 1)]
    assert rates[0] < rates[1] == 1.0


def test_a_trace_is_read_at_the_stored_epochs_nearest_to_the_published_ones():
    epochs = np.array([0, 90, 120, 480, 510, 1980])
    error = np.arange(6)[:, None] + np.array([0.0, 0.5])  # of two data sets
    parts = {"epochs": epochs, "error": error, "zeros": 10.0 * error}
    arrays = {("a", "AVO", 3, f"trace/AVO/{kind}"): part for kind, part in parts.items()}
    arrays |= {("a", "M", 3, f"trace/M/{kind}"): part for kind, part in parts.items()}
    rows = measures.near_marks(arrays)
    found = {(row["metric"], row["replicate"]): row["value"] for row in rows}
    assert {(row["setting"], row["method"]) for row in rows} == {("a", "AVO")}
    assert len(rows) == len(found) == 2 * len(measures.MARKS) * 2
    assert (found["error_near_100", 3], found["error_near_100", 4]) == (1.0, 1.5)  # of epoch 90
    assert (found["error_near_500", 3], found["zeros_near_2000", 4]) == (4.0, 55.0)  # of 510 and 1980


varied_cell = partial(cells.smoke, "avo-dynamics")


def varied(cell) -> dynamics.Varied:
    return dynamics.Varied(cell.params, training.data_of(cell.params, cell.replicates), CPU, 0)


@pytest.mark.parametrize("index", [0.7, 1.0, 3.0])
def test_the_index_of_a_pareto_tail_is_found(index):
    values = torch.rand(400_000, generator=torch.Generator().manual_seed(0)).double() ** (-1.0 / index)
    # 400 of them are used: a standard error of 5 %
    assert dynamics.hill(values, 1e-3) == pytest.approx(index, rel=0.15)


def test_the_published_cycles_begin_where_a_jump_is_looked_for():
    epochs, batches = 3000, 10
    rates = [cyclic_lr(1.0, epoch, batches - 1, epochs, batches) for epoch in range(epochs)]
    begun = [epoch + 1 for epoch in range(1, epochs) if rates[epoch] > rates[epoch - 1] + 0.5]
    assert begun == [k * epochs // CYCLES for k in range(1, CYCLES + 1)]
    jumped = [
        torch.stack([torch.tensor([float(e)]), torch.tensor([float(e >= 1000)]), torch.zeros(1)]) for e in range(3000)
    ]
    cell = next(c for c in lab.get("avo-dynamics").profiles["book"]() if c.setting == "example 1")
    rows = dynamics._jumps(cells.replace(cell, replicates=(0,)), jumped)
    assert [row["value"] for row in rows] == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_ramp_rises_to_the_published_rate():
    plain, ramp = varied(varied_cell("AVO")), varied(varied_cell("ramp"))
    ratios = []
    for epoch in range(3):
        plain.epoch = ramp.epoch = epoch
        ratios += [ramp.learning_rate(batch) / plain.learning_rate(batch) for batch in range(2)]
    assert ratios == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("method", ["natural", "momentum"])
def test_without_a_gradient_only_noise_is_left(method):
    stack = varied(varied_cell(method))
    for parameter in stack.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    stack.optimizer.param_groups[0]["weight_decay"] = 0.0
    assert torch.equal(stack._ratio(), torch.zeros(2))
    for parameter in stack.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    group = stack.optimizer.param_groups[0]
    noise = (2 + 2 * 0.1**2) ** 0.5 * group["lr"] ** 0.75 if method == "momentum" else 2**0.5
    assert stack._ratio().tolist() == pytest.approx([group["lr"] / (noise * group["temperature"])] * 2, rel=1e-5)


def test_more_draws_take_the_mean_of_their_gradients():
    """With noise of no size four draws are one; the order of the rows differs after the first step."""
    one, four = (varied(varied_cell(method, temperature=1e-9)) for method in ("1 draw", "4 draws"))
    for trained in (one, four):
        trained.optimizer.param_groups[0]["lr"] = 0.1
        trained._step(*trained.columns.batch(torch.arange(64)))
    torch.testing.assert_close(one.model.weights[0], four.model.weights[0])


def test_a_scale_from_its_dual_makes_the_same_steps():
    paths = []
    for kind in (AdaptiveVariational, dynamics.FromDual):
        own = torch.Generator().manual_seed(4)
        weight = torch.nn.Parameter(torch.randn(4, 3, generator=own))
        prior = GroupSpikeSlab({"w": weight}, 1.0, 0.1, 20)
        optimizer = kind([weight], lr=0.3, num_data=20, scale_lr=2.0, prior=prior, generator=own)
        for _ in range(30):
            prior.update()
            weight.grad = torch.tensor([5.0, 1.0, 0.1]) * weight.detach() - 1.0
            optimizer.step()
        paths.append(weight.detach())
    torch.testing.assert_close(*paths)
    assert "tau" not in optimizer.state[weight]


def test_a_scale_from_its_dual_needs_less_memory():
    sizes, peaks = [60, 300, 10], {}
    x, y = torch.rand(4, 60), torch.randint(10, (4,))
    for kind in (AdaptiveVariational, dynamics.FromDual):
        step, standing = dynamics._avo_step(sizes, kind)
        for _ in range(2):
            step(x, y)
        peaks[kind] = standing() + peak_bytes(lambda step=step: step(x, y))
    assert peaks[dynamics.FromDual] < 0.8 * peaks[AdaptiveVariational]


small = partial(cells.smoke, "avo-cifar10", epochs=3, batch_size=256)


@pytest.mark.slow
@needs_digits
def test_a_killed_cifar10_resumes_bit_for_bit_and_removes_channels(tmp_path, dies):
    cell = small("AVO")
    whole = cifar10.run_cell(cell, CPU)
    with pytest.raises(dies.Killed):
        cifar10.run_cell(cell, CPU, dies(tmp_path / "cell.pt", 4))
    assert unmeasured(cifar10.run_cell(cell, CPU, Checkpoint(tmp_path / "cell.pt"))) == unmeasured(whole)
    assert 0.0 < whole.product["zeros"] < 100.0
    assert 0 < cells.values(whole)["snapshots"] <= 12  # a cycle of four steps has fewer than three moments


@pytest.mark.slow
@needs_digits
def test_magnitude_loses_what_the_other_has_lost_at_half_of_the_epochs():
    result = cifar10.run_cell(small("magnitude"), CPU, None, ({"zeros": 25.0},))
    # the curve is stored in half precision
    assert result.arrays["curve"][:, 2].tolist() == pytest.approx([25.0, 25.0, 25.0], abs=0.1)


def test_snapshots_are_the_last_of_their_cycles():
    cycles = cifar10.Cycles((torch.zeros(1), torch.zeros(1)), {"epochs": 200, "lr": 1.0, "bfloat16": False}, 782)
    moments = sorted(cycles.moments)
    assert len(moments) == 12 and moments[-1] == 200 * 782
    # the step size has come down to where a cycle ends, but for its clock's lead of about an epoch
    late = [moment for moment in moments[:-1] if (moment / (50 * 782)) % 1 > 0.5]
    assert all(cifar10.rate(moment, cycles.params, 782) < 0.03 for moment in late)


def test_every_cell_of_magnitude_starts_from_its_own_share():
    for profile in ("smoke", "book", "paper"):
        cells = lab.get("avo-cifar10").profiles[profile]()
        for cell in cells:
            if cell.method == "magnitude":
                (need,) = cell.needs
                assert need.cell in cells and need.cell.replicates == cell.replicates
                assert need.cell.params["warm_up"] < cell.params["epochs"]
