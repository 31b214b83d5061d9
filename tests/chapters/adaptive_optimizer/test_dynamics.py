"""What the runs on the optimizer's own dynamics count, and CIFAR-10 on tiny networks and digits."""

from functools import partial

import pytest
import torch

from bnnlib.optim import AdaptiveVariational, GroupSpikeSlab
from bnnlib.train.checkpoint import Checkpoint
from book import lab
from chapters.adaptive_optimizer.experiments import cifar10, dynamics, training
from chapters.adaptive_optimizer.problems import CYCLES, cyclic_lr
from chapters.shared.memory import peak_bytes
from tests.chapters import cells
from tests.chapters.cells import CPU, needs_digits

smoke = partial(cells.smoke, "avo-dynamics")


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
    plain, ramp = varied(smoke("AVO")), varied(smoke("ramp"))
    ratios = []
    for epoch in range(3):
        plain.epoch = ramp.epoch = epoch
        ratios += [ramp.learning_rate(batch) / plain.learning_rate(batch) for batch in range(2)]
    assert ratios == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("method", ["natural", "momentum"])
def test_without_a_gradient_only_noise_is_left(method):
    stack = varied(smoke(method))
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
    one, four = (varied(smoke(method, temperature=1e-9)) for method in ("1 draw", "4 draws"))
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


def unmeasured(result) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in result.rows if not row["metric"].startswith("minutes")}


@pytest.mark.slow
@needs_digits
def test_a_killed_training_resumes_bit_for_bit_and_removes_channels(tmp_path, dies):
    cell = small("AVO")
    whole = cifar10.run_cell(cell, CPU)
    with pytest.raises(dies.Killed):
        cifar10.run_cell(cell, CPU, dies(tmp_path / "cell.pt", 4))
    assert unmeasured(cifar10.run_cell(cell, CPU, Checkpoint(tmp_path / "cell.pt"))) == unmeasured(whole)
    assert 0.0 < whole.product["zeros"] < 100.0
    assert 0 < unmeasured(whole)["snapshots"] <= 12  # a cycle of four steps has fewer than three moments


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
