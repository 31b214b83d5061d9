"""What real mini-batches add, is it more than a temperature? And three controls of the noise. LeNet-5 on MNIST.

Written down before the run. In `sbn-batches` whole batches, and the statistics of real mini-batches, find clothes
better than ordinary batch norm, decided by t after one epoch and after five. A reader retrained three networks of one
epoch and found it near what a temperature does. The networks are those of `sbn-batches` (the same seeds, trained again
on another machine, so not to the last digit), moments matched on the same 1,000 mini-batches, and its 500 + 500 images:

BN                the running averages of training
BN, arithmetic    the averages of the 1,000 mini-batches: m_mu and the root of the mean variance
BN, matched       the same with the geometric mean, m_mu and exp m_sigma
SBN               50 draws from r(mu) r(sigma)
Real mini-batches 50 draws of the statistics of one of the 1,000 mini-batches

A first run measured the fit (5 below) with moments of the 1,000 mini-batches and 2,000 fresh ones; this one has numbers
of its own for it, and is otherwise the same.

There are five networks of one epoch and three of five (those of five are `sbn-noise-five`, run when
the results of one epoch were known). Each way has a temperature of its own, fitted by likelihood on 1,000
training images that were held out ("_scaled"), and is measured at the temperatures 2 and 4 too ("auroc_T2",
"auroc_T4"), which nobody fitted; but both had been looked at on three of these networks and the same test images before
this was written, and 4 had won.

What an outcome means, over the networks of a setting, by t of their number:

1. *A temperature.* "auroc_scaled" of real mini-batches minus that of BN decided above zero: real mini-batches find
   clothes by more than a temperature. Decided below zero: by less. Otherwise it is open, and the text says that the
   gain without temperatures is no evidence for the model against a temperature. Where BN at T = 2 or 4 has decidedly
   more than real mini-batches without a temperature, a warmer plug-in does at least as much for this purpose, at the
   price that its likelihood tells.
2. *The spread.* "spread_*", the standard deviation of the distance of the two leading logits: the factorization takes
   away the share by which SBN's median is below that of real mini-batches; mini-batches shake unknown images more
   where the logarithm of the ratio of unknown to known is decided above zero, with real mini-batches.
3. *The exchange.* Deviations of other images, aligned by the rank of the mean logits so that the spread along the two
   leading classes is kept, averaged over 20 permutations: where "auroc_ranked" minus "auroc_own" is decided below zero,
   an image's own draws know something of it; above zero, they know less than nothing; otherwise nothing is seen.
4. *The averages.* What BN, arithmetic changes against BN is freshness, and from there to BN, matched the mean; each is
   named as a cause of a change in NLL, error or entropy alone where its own step is decided.
5. *The fit.* Kolmogorov-Smirnov distances to 10,000 fresh mini-batches of the law whose moments are those of 10,000
   others, for each layer the value that 90 % of the units stay below: the law fits the layer where the mean over
   networks is decided below 0.05, five points of probability, and does not where it is decided above; otherwise it is
   open. (A perfect law has 0.015 with these numbers.) Of one network of one epoch 0.052 was known before the bound for
   the dense layer's sigma, and from the first run a mean of 0.058; but by simulation a perfect law would have had 0.037
   there, and laws that are 0.03 to 0.04 away as much as 0.058. The bound is kept.
"""

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from bnnlib import metrics
from bnnlib.nn import match_moments, mean_weights, predict_virtual_batch
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of
from chapters.batch_statistics import noise
from chapters.batch_statistics.experiments.images import (
    PARTS,
    TINY,
    _distance,
    measure,
    reads,
    schedules,
    training_batches,
)
from chapters.batch_statistics.experiments.matched import MATCHED
from chapters.batch_statistics.experiments.mnist import _COMMON, _MNIST
from chapters.batch_statistics.experiments.whole_batches import EPOCHS, PART, Stored, trained
from chapters.batch_statistics.naive import predict_stored_batches
from chapters.batch_statistics.statistics import collect_statistics

ARITHMETIC, REAL = "BN, arithmetic", "Real mini-batches"
HEATS = (2.0, 4.0)
PERMUTATIONS = 20


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Train one network, predict by it in five ways, and measure the noise of two of them."""
    (replicate,), params = cell.replicates, cell.params
    images, model, stochastic, stored, random = trained(cell, device, checkpoint)
    draws, arithmetic = params["draws"], averaged(model, stored)
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "BN": lambda part: model(part)[None],
        ARITHMETIC: lambda part: arithmetic(part)[None],
        MATCHED: lambda part: _plug_in(stochastic, part),
        "SBN": lambda part: predict_virtual_batch(stochastic, part, draws, generator=random),
        REAL: partial(predict_stored_batches, model, stored=stored, num_samples=draws, generator=random),
    }
    sizes = dict(zip(PARTS, (params["warm_rows"], params["known_rows"], params["other_rows"]), strict=True))
    x = torch.cat([images[part][:size] for part, size in sizes.items()])
    labels = {part: images[f"{part}_y"][: sizes[part]].cpu() for part in ("validation", "test")}
    rows, logits = [], {}
    with torch.no_grad():
        for name, way in ways.items():
            logits[name] = torch.cat([way(part).float().cpu() for part in x.split(PART)], 1)
            found = _measured(logits[name], sizes, labels)
            if name in ("SBN", REAL):
                shown = [one[:, sizes["validation"] :] for one in (logits[name], logits[MATCHED])]
                found |= noise.measures(shown[0], shown[1][0], sizes["test"], torch.Generator().manual_seed(replicate))
                found |= {"auroc_ranked": noise.ranked(shown[0], sizes["test"], PERMUTATIONS, seed=1_000 * replicate)}
            rows += rows_of(cell, found, method=name)
        match_moments(stochastic, training_batches(images, params, params["fit_batches"], random))  # after all draws
        fresh = collect_statistics(model, training_batches(images, params, params["shown_batches"], random))
    return CellResult(rows + rows_of(cell, _fits(stochastic, fresh), method="SBN"))


def averaged(model: nn.Module, stored: Stored) -> nn.Module:
    """A copy whose running averages are those of stored statistics, with the arithmetic mean of the variances."""
    plain = copy.deepcopy(model)
    for name, (means, log_scales) in stored.items():
        layer = plain.get_submodule(name)
        layer.running_mean.copy_(means.mean(0))
        layer.running_var.copy_((2.0 * log_scales).exp().mean(0) - layer.eps)
    return plain.eval()


def _plug_in(stochastic: nn.Module, part: Tensor) -> Tensor:
    with mean_weights(stochastic):
        return stochastic.eval()(part)[None]


def _measured(logits: Tensor, sizes: dict[str, int], labels: dict[str, Tensor]) -> dict[str, float]:
    """What `images.measure` finds, and the AUROC at temperatures that nobody fitted."""
    average = logits.double().softmax(-1).mean(0)
    parts = dict(zip(PARTS, average.split(list(sizes.values())), strict=True))
    found = measure(parts, labels)
    for heat in HEATS:
        warm = [metrics.apply_temperature(parts[part], heat, given="probabilities") for part in ("test", "unknown")]
        known, unknown = (metrics.predictive_entropy(one) for one in warm)
        found[f"auroc_T{heat:.0f}"] = metrics.auroc(unknown, known)
        found[f"nll_T{heat:.0f}"] = metrics.nll(warm[0], labels["test"])
    return found


def _fits(stochastic: nn.Module, fresh: Stored) -> dict[str, float]:
    """By layer, below which distance 90 % of the units stay, for mu and sigma, and the median."""
    found = {}
    for number, (name, (means, log_scales)) in enumerate(fresh.items(), start=1):
        m = stochastic.get_submodule(name).moments()
        alive = (m.mean_spread > 0) & (m.log_scale_spread > 0)
        pairs = {"mean": (means - m.mean) / m.mean_spread, "scale": (log_scales - m.log_scale) / m.log_scale_spread}
        for what, values in pairs.items():
            distance = _distance(values[:, alive])
            found[f"ks_{what}_{number}"] = float(distance.quantile(0.9))
            found[f"ks_{what}_{number}_median"] = float(distance.median())
    return found


def _cells(setting: str, given: dict, replicates: int) -> list[Cell]:
    params = _COMMON | {"dropout": 0.0} | given | {"epochs": EPOCHS[setting]}
    return [Cell(setting, "BN", (replicate,), params) for replicate in range(replicates)]


_BOOK = _MNIST | {"bfloat16": True, "batches": 1_000, "fit_batches": 10_000, "shown_batches": 10_000}
_BOOK |= {"warm_rows": 1_000, "known_rows": 500, "other_rows": 500}
_SMOKE = {"data": "digits", "held_out": 300, "classes": 10, "unknown": "digits", "unknown_rows": 100, "draws": 3}
_SMOKE |= {"bfloat16": False, "batches": 40, "fit_batches": 40, "shown_batches": 40}
_SMOKE |= {"warm_rows": 30, "known_rows": 20, "other_rows": 10}

PLANS = {"sbn-noise": ("LeNet-5", 5), "sbn-noise-five": ("LeNet-5, 5 epochs", 3)}

EXPERIMENTS = [
    Experiment(
        name=name,
        summary=f"MNIST with {setting}: what real mini-batches add to a temperature, and controls of the noise",
        profiles=profiles(partial(_cells, setting), smoke=(_SMOKE, 1), book=(_BOOK, number)),
        run_cell=run_cell,
        sources=dict.fromkeys(("SBN", REAL, ARITHMETIC, MATCHED), "BN"),
        reads=reads,
        schedules=schedules,
        tiny=TINY | {"fit_batches": 10, "warm_rows": 30, "known_rows": 20, "other_rows": 10},
        budget=epochs_of,
    )
    for name, (setting, number) in PLANS.items()
]
