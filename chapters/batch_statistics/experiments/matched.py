"""A control: the same networks with the matched moments and without noise.

What SBN changes has two parts, statistics that are estimated anew after training, and noise in them. The networks of
the method BN have their moments matched on the same batches, and are used in mean mode: with m_mu and the geometric
mean of the variances. What is left between this and SBN is the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from bnnlib import metrics
from bnnlib.nn import match_moments, mean_weights, to_stochastic_batch_norm
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.batch_statistics.experiments.images import (
    PARTS,
    Images,
    _cast,
    load_images,
    measure,
    network,
    training_batches,
)


def run_matched(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]]
) -> CellResult:
    """Score the networks of the cell BN with matched moments; no ensemble.

    `error_running` is the error with the running statistics of training: that of the method BN, as a check that the
    networks are the same.
    """
    images, rows = load_images(cell.params, device), []
    for replicate in cell.replicates:
        # the layout of training, in which sums are added in the same order
        model = network(cell.params, replicate).to(device, memory_format=torch.channels_last)
        model.load_state_dict(products[0]["models"][replicate])
        found = _score_matched(model, images, cell.params, device, replicate)
        rows += rows_of(cell, found, replicate=replicate)
    return CellResult(rows)


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
    plain = 100.0 - metrics.accuracy(found[1]["test"], labels["test"])
    return measure(found[0], labels) | {"error_running": plain}
