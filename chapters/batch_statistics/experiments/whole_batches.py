"""Does the factorized approximation of the statistics work beside whole batches of training data? LeNet-5 on MNIST.

Written down before the run. Networks are those of `sbn-mnist` after one epoch, moments matched on 1,000 mini-batches.
The same images, the first of MNIST's test set and of Fashion-MNIST's, are predicted by

BN              the running averages of training
SBN             50 draws from r(mu) r(sigma)
Whole batches   the model that is approximated, equation (sbn-predictive), by its definition: 50 mini-batches of the
                image and 15 training images, with the batch's own statistics in all layers

"tv_whole" is the total variation between the averaged probabilities of a method and of whole batches, in percent,
averaged over the images of Fashion-MNIST, where statistics matter most: 0 is the same prediction.

What an outcome means. The approximation works well where, decided by t over five networks, SBN and whole batches differ

1. by less than 0.006 nats of likelihood, a fifth of the NLL that such networks have, the share which the verdicts take
   for the least that matters;
2. by less than 0.3 points of accuracy;
3. by less than 0.05 nats of the mean entropy on unknown images, where 2.3 is the most that there is;
4. and SBN is nearer to whole batches than the plain network is, by "tv_whole".

It works in part where only some of these hold. Where SBN has the lower NLL, it fails as an approximation and still is
the better predictor; the text says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bnnlib import metrics
from bnnlib.nn import match_moments, predict_virtual_batch, to_stochastic_batch_norm
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of
from chapters.batch_statistics.experiments.images import (
    TINY,
    _train,
    load_images,
    network,
    reads,
    schedules,
    training_batches,
)
from chapters.batch_statistics.experiments.mnist import _COMMON, _MNIST
from chapters.batch_statistics.naive import predict_naive_batches
from chapters.shared.stages import Stages

WHOLE = "Whole batches"


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Train one network and predict by it in three ways."""
    (replicate,), params = cell.replicates, cell.params
    images = load_images(params, device)
    model = network(params, replicate).to(device)
    _train(model, images, params, device, replicate, Stages(checkpoint))
    model.to(memory_format=torch.contiguous_format).eval()
    random = torch.Generator(device).manual_seed(94_000 + replicate)
    stochastic = to_stochastic_batch_norm(model)
    match_moments(stochastic, training_batches(images, params, params["batches"], random))
    x = torch.cat([images["test"][: params["known_rows"]], images["unknown"][: params["other_rows"]]])
    draws, size = params["draws"], params["batch_size"]
    with torch.no_grad():
        outputs = {
            "BN": model(x)[None],
            "SBN": predict_virtual_batch(stochastic, x, draws, generator=random),
            WHOLE: predict_naive_batches(model, x, images["train"], draws, size, random),
        }
    found = {name: one.double().softmax(-1).mean(0).cpu() for name, one in outputs.items()}
    labels = images["test_y"][: params["known_rows"]].cpu()
    rows = []
    for name, one in found.items():
        rows += rows_of(cell, _measured(one, found[WHOLE], labels), method=name)
    return CellResult(rows)


def _measured(probabilities: Tensor, whole: Tensor, labels: Tensor) -> dict[str, float]:
    known, unknown = probabilities[: len(labels)], probabilities[len(labels) :]
    entropies = [metrics.predictive_entropy(part) for part in (known, unknown)]
    return {
        "accuracy": metrics.accuracy(known, labels),
        "nll": metrics.nll(known, labels),
        "entropy_known": float(entropies[0].mean()),
        "entropy_unknown": float(entropies[1].mean()),
        "auroc": metrics.auroc(entropies[1], entropies[0]),
        "tv_whole": float(50.0 * (unknown - whole[len(labels) :]).abs().sum(1).mean()),
    }


def _cells(given: dict, replicates: int) -> list[Cell]:
    params = _COMMON | {"dropout": 0.0} | given
    return [Cell("LeNet-5", "BN", (replicate,), params) for replicate in range(replicates)]


_BOOK = _MNIST | {"bfloat16": True, "epochs": 1, "batches": 1_000, "known_rows": 250, "other_rows": 100}
_SMOKE = {"data": "digits", "held_out": 300, "classes": 10, "unknown": "digits", "unknown_rows": 100, "draws": 3}
_SMOKE |= {"bfloat16": False, "epochs": 1, "batches": 40, "known_rows": 20, "other_rows": 10}

EXPERIMENTS = [
    Experiment(
        name="sbn-batches",
        paper="004",
        summary="MNIST with LeNet-5: draws of factorized statistics beside whole batches of training data",
        profiles=profiles(_cells, smoke=(_SMOKE, 1), book=(_BOOK, 5)),
        run_cell=run_cell,
        sources={"SBN": "BN", WHOLE: "BN"},
        reads=reads,
        schedules=schedules,
        unavailable={"paper": "not in the paper; the book profile is our own experiment"},
        tiny=TINY | {"known_rows": 20, "other_rows": 10},
        budget=epochs_of,
    )
]
