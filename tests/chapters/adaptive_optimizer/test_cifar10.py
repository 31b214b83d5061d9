"""CIFAR-10 by the adaptive variational optimizer, on tiny networks and digits."""

from functools import partial

import pytest
import torch

from bnnlib.train.checkpoint import Checkpoint
from book import lab
from chapters.adaptive_optimizer.experiments import cifar10
from tests.chapters import cells
from tests.chapters.cells import CPU, needs_digits

smoke = partial(cells.smoke, "avo-cifar10", epochs=3, batch_size=256)


def unmeasured(result) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in result.rows if not row["metric"].startswith("minutes")}


@pytest.mark.slow
@needs_digits
def test_a_killed_training_resumes_bit_for_bit_and_removes_channels(tmp_path, dies):
    cell = smoke("AVO")
    whole = cifar10.run_cell(cell, CPU)
    with pytest.raises(dies.Killed):
        cifar10.run_cell(cell, CPU, dies(tmp_path / "cell.pt", 4))
    assert unmeasured(cifar10.run_cell(cell, CPU, Checkpoint(tmp_path / "cell.pt"))) == unmeasured(whole)
    assert 0.0 < whole.product["zeros"] < 100.0
    assert 0 < unmeasured(whole)["snapshots"] <= 12  # a cycle of four steps has fewer than three moments


@pytest.mark.slow
@needs_digits
def test_magnitude_loses_what_the_other_has_lost_at_half_of_the_epochs():
    result = cifar10.run_cell(smoke("magnitude"), CPU, None, ({"zeros": 25.0},))
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
