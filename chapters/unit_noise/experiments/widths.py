"""How much faster are the networks that SBP with its exact divergence leaves on MNIST? Times of their widths alone.

`sbp-mnist` does not time them. A time depends on the widths and not on the weights, so that networks of the stored
widths will do: random weights, noise that is wide for as many units as went, and `compress`. Features in front of the
dense layer of LeNet-5 are spread evenly over the maps that are left. "published widths" are those of the authors'
table, timed here. Dense and compressed network take turns on one thread of a CPU, and each counts by its least
processor time over the repeats, so that other work on the machine counts little. It is not nothing: the trial below and
the run have the same widths, and ratios of LeNet-500-300 that differ by up to a quarter.

Written down before the run, after a trial (LeNet-5 2.7, 2.6 and 3.2 times at a batch of 256, LeNet-500-300 6.3, 6.0 and
7.2, published widths of LeNet-5 5.7): if the ratio at a batch of 256 is above 1, decided by t over the three networks,
the exact price makes the network faster. How near it is to the published ratio says nothing: other hardware. Batch 1 is
measured, too; nothing was written down of it.
"""

from functools import partial
from itertools import islice

import torch
from torch import nn

from bnnlib.nn import StructuredBayesianPruning
from bnnlib.pruning import compress
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.unit_noise.experiments.networks import UNITS, add_noise, network, units_left
from chapters.unit_noise.experiments.overhead import least

NAME = "sbp-mnist-times"
WIDTHS = {  # units that "SBP" of `sbp-mnist` keeps in replicates 0, 1, 2; numbers.py holds them against the store
    "LeNet-500-300": [[216, 109, 55], [255, 119, 53], [219, 111, 49]],
    "LeNet-5": [[12, 13, 95, 44], [12, 19, 95, 47], [10, 13, 88, 55]],
}
PUBLISHED = {"LeNet-500-300": [245, 160, 55], "LeNet-5": [3, 18, 284, 283]}


def _kept(widths: list[int]) -> list[list[int]]:
    """Which units stay: the first of each layer, and of the features of LeNet-5 the first of each map in turn."""
    kept = [list(range(width)) for width in widths]
    if len(widths) == 4:
        places = (16 * channel + place for place in range(16) for channel in range(widths[1]))
        kept[2] = list(islice(places, widths[2]))
    return kept


@torch.no_grad()
def of_widths(name: str, widths: list[int], seed: int) -> tuple[nn.Module, nn.Module]:
    """The dense network with random weights, and the compressed one that has so many units left."""
    dense = network({"network": name}, seed).eval()
    noisy = add_noise(dense, name, [1.0] * len(UNITS[name]))
    noises = [module for module in noisy.modules() if isinstance(module, StructuredBayesianPruning)]
    for noise, units in zip(noises, _kept(widths), strict=True):
        noise.log_scale.fill_(3.0)
        noise.log_scale[units] = -5.0
    small = compress(noisy, torch.zeros(2, 1, 28, 28))
    if units_left(small, name) != widths:
        raise RuntimeError(f"{name} was to have {widths} units left, and has {units_left(small, name)}.")
    return dense, small


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """One network and its widths after the other."""
    params, rows = cell.params, []
    for replicate in cell.replicates:
        pair = dict(enumerate(of_widths(cell.setting, params["widths"], 96_000 + replicate)))
        values = {}
        for batch in (1, 256):
            x = torch.rand(batch, 1, 28, 28, generator=torch.Generator().manual_seed(96_500 + replicate))
            with torch.no_grad():
                times = least({key: partial(model, x) for key, model in pair.items()}, params["repeats"])
            values[f"cpu_batch_{batch}"] = times[0] / times[1]
        rows += rows_of(cell, values, replicate=replicate)
    return CellResult(rows)


def _cells(replicates: int, repeats: int) -> list[Cell]:
    found = []
    for setting, stored in WIDTHS.items():
        found += [
            Cell(setting, "SBP", (replicate,), {"widths": widths, "repeats": repeats})
            for replicate, widths in enumerate(stored[:replicates])
        ]
        every = tuple(range(replicates))
        found.append(Cell(setting, "published widths", every, {"widths": PUBLISHED[setting], "repeats": repeats}))
    return found


EXPERIMENTS = [
    Experiment(
        name=NAME,
        summary="LeNet-500-300 and LeNet-5 of the widths that SBP with its exact divergence leaves: times",
        profiles=profiles(_cells, smoke=(1, 2), book=(3, 200)),
        run_cell=run_cell,
        measured=("cpu",),
        tiny={"repeats": 1},
        value=8.0,
    )
]
