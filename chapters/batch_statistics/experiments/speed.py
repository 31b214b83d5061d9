"""Is a virtual batch of K copies K times faster than K batches of training data? Both for one image with LeNet-5.

Written down before the run. One image is predicted K times, by K passes of a mini-batch of m rows (`naive`) and by one
pass of K copies with statistics of their own (`bnnlib.nn.predict_virtual_batch`), on one thread of a CPU. The published
K is 50, the published mini-batches have 16 rows, those of the authors' research code mostly 32. The two take turns;
each counts by its least processor time over the repeats, so that other work on the machine does not. Random images and
weights do: no time depends on their values.

"speedup" is the ratio. A network has five weights for five replicates.

What an outcome means, at K = 50:

1. The ratio lies within 10 of 50 for 16 and for 32 rows: K times faster, as claimed.
2. It does not: the claim counts passes, and not time, on such a machine. If it is near "rows_ratio", the rows that
   have gone through the network by the one way over those by the other, it follows the mini-batch and not the copies;
   K = 10 and m = 128, which no claim reads, tell so too.

Where a pass takes the same time whatever its rows are, as on a large idle GPU, the ratio would be K; none is at hand.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from bnnlib.nn import match_moments, predict_virtual_batch, to_stochastic_batch_norm
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.batch_statistics.lenet import lenet5_batch_norm
from chapters.batch_statistics.naive import predict_naive_batches
from chapters.shared.timing import processor_milliseconds


def _rows_of(call: Callable[[], object], model: nn.Module) -> int:
    """How many rows a call passes through a network."""
    seen: list[int] = []
    hook = model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    call()
    hook.remove()
    return sum(seen)


@torch.no_grad()
def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Both ways in turn on each network."""
    params, rows = cell.params, []
    for replicate in cell.replicates:
        generator = torch.Generator().manual_seed(93_000 + replicate)
        model = lenet5_batch_norm(generator=generator)
        images = torch.rand(1_000, 1, 28, 28, generator=generator)
        stochastic = to_stochastic_batch_norm(model)
        match_moments(stochastic, images[: 4 * params["batch_size"]].split(params["batch_size"]))
        given = (images[:1], images, params["draws"], params["batch_size"], generator)
        ways = {
            "naive": partial(predict_naive_batches, model, *given),
            "virtual": partial(predict_virtual_batch, stochastic, images[:1], params["draws"], generator=generator),
        }
        passed = {
            name: _rows_of(way, network) for (name, way), network in zip(ways.items(), (model, stochastic), strict=True)
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(params["repeats"]):
            for name, way in ways.items():
                times[name].append(processor_milliseconds(way))
        least = {f"milliseconds_{name}": min(every) for name, every in times.items()}
        ratios = {"speedup": least["milliseconds_naive"] / least["milliseconds_virtual"]}
        found = least | ratios | {"rows_ratio": passed["naive"] / passed["virtual"]}
        rows += rows_of(cell, found, replicate=replicate)
    return CellResult(rows)


def _cells(replicates: int, cases: tuple[tuple[int, int], ...], repeats: int) -> list[Cell]:
    return [
        Cell(
            f"K={draws}, {size} rows",
            "SBN",
            tuple(range(replicates)),
            {"draws": draws, "batch_size": size, "repeats": repeats},
        )
        for draws, size in cases
    ]


EXPERIMENTS = [
    Experiment(
        name="sbn-speed",
        summary="LeNet-5: the time of a virtual batch beside as many mini-batches of training data",
        profiles=profiles(_cells, smoke=(1, ((3, 16),), 2), book=(5, ((50, 16), (50, 32), (50, 128), (10, 16)), 9)),
        run_cell=run_cell,
        measured=("milliseconds", "speedup"),
        tiny={"draws": 2, "batch_size": 4, "repeats": 1},
    )
]
