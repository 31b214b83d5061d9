"""A control: the same networks with the matched moments and without noise.

What SBN changes has two parts, statistics that are estimated anew after training, and noise in them. The networks of
the method BN have their moments matched on the same batches, and are used in mean mode: with m_mu and the geometric
mean of the variances. What is left between this and SBN is the noise.

With the parameter "noise_draws", the noise itself is measured too (`chapters.batch_statistics.noise`), on the first
"noise_rows" known test images and as many unknown ones.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from bnnlib import metrics
from bnnlib.nn import match_moments, mean_weights, predict, to_stochastic_batch_norm
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, rows_of
from chapters.batch_statistics import noise
from chapters.batch_statistics.experiments.images import (
    PARTS,
    SOURCES,
    TINY,
    Images,
    _cast,
    _train,
    load_images,
    measure,
    network,
    reads,
    run_cell,
    schedules,
    training_batches,
)
from chapters.batch_statistics.experiments.readings import cdf_readings
from chapters.shared.stages import Stages

MATCHED = "BN, matched"


def run_matched(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]] = ()
) -> CellResult:
    """Score the networks of the cell BN with matched moments; no ensemble.

    A cell without needs trains its networks again, from the same seeds. `error_running` is the error with the running
    statistics of training: that of the method BN, as a check that the networks are the same.
    """
    images, stages = load_images(cell.params, device), Stages(checkpoint)
    for replicate in cell.replicates[len(stages.finished) :]:
        # the layout of training, in which sums are added in the same order
        model = network(cell.params, replicate).to(device, memory_format=torch.channels_last)
        if products:
            model.load_state_dict(products[0]["models"][replicate])
        else:
            _train(model, images, cell.params, device, replicate, stages)
        stages.finish(_score_matched(model, images, cell.params, device, replicate))
    finished = zip(cell.replicates, stages.finished, strict=True)
    return CellResult([row for replicate, found in finished for row in rows_of(cell, found, replicate=replicate)])


@torch.no_grad()
def _score_matched(model: nn.Module, images: Images, params: dict[str, Any], device, replicate: int) -> dict:
    random = torch.Generator(device).manual_seed(92_000 + replicate)
    x = torch.cat([images[part] for part in PARTS]).contiguous(memory_format=torch.channels_last)
    stochastic = to_stochastic_batch_norm(model)
    labels = {part: images[f"{part}_y"].cpu() for part in ("validation", "test")}
    found = []
    with _cast(params, device):
        match_moments(stochastic, training_batches(images, params, params["batches"], random))
        with mean_weights(stochastic):
            for one in (stochastic.eval(), model.eval()):
                scores = torch.cat([one(rows).float().softmax(-1) for rows in x.split(params["chunk"])]).cpu()
                found.append(dict(zip(PARTS, scores.split([len(images[part]) for part in PARTS]), strict=True)))
        moved = _noise(stochastic, images, params, random) if "noise_draws" in params else {}
    plain = 100.0 - metrics.accuracy(found[1]["test"], labels["test"])
    return measure(found[0], labels) | {"error_running": plain} | moved


def _noise(stochastic: nn.Module, images: Images, params: dict[str, Any], random: torch.Generator) -> dict[str, float]:
    """`noise.measures` of some known and some unknown images."""
    some = [images[part][: params["noise_rows"]] for part in ("test", "unknown")]
    x = torch.cat(some).contiguous(memory_format=torch.channels_last)
    with mean_weights(stochastic):
        averages = torch.cat([stochastic(rows).float() for rows in x.split(params["chunk"])])
    draws = predict(stochastic, x, params["noise_draws"], params["chunk"], random).float()
    return noise.measures(draws.cpu(), averages.cpu(), len(some[0]), torch.Generator().manual_seed(0))


experiment = partial(
    Experiment,
    run_cell=run_cell,
    tiny=TINY,
    reads=reads,
    schedules=schedules,
    methods={MATCHED: run_matched},
    derived=cdf_readings,
    budget=epochs_of,
    sources=SOURCES,
)
