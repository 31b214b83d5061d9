"""The default that adapts: candidates beside each other on rows held out within training, from simple to rich.

The linear model comes first. A network predicts where held-out rows are better by more than a standard error; a dense
one, or one of the selected inputs alone, where it is better still by as much.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib.estimators.folds import Folds, Held, better, gain
from bnnlib.estimators.groups import members
from bnnlib.estimators.likelihoods import logits
from bnnlib.estimators.linear import Explored, explore, fold_losses
from bnnlib.estimators.promises import Loss, p_values
from bnnlib.estimators.rows import Rows
from bnnlib.estimators.settings import is_auto
from bnnlib.replicates import Layout

_DRAWS = 50  # of each network for held-out rows
#: A network whose weights are likelier to be in by its prior says little about which inputs matter.
SELECTING = 0.05
_READ = 0.02  # probability of a path from which on a network reads an input
_FAR = 2.0  # standard errors


class Choice(NamedTuple):
    """What is trained on all rows: settings, and how well they met the rows held out."""

    linear: bool
    probability: float  # lambda of the network that predicts
    selecting: float  # of the network of all inputs that selects
    refit: bool  # the network that predicts reads the selected inputs alone
    scale: float  # sigma_0
    explored: Explored | None = None
    held: Held | None = None
    table: tuple[dict[str, Any], ...] = ()
    p_values: np.ndarray | None = None  # of the network's inputs, where a false-discovery rate is asked for
    rows: np.ndarray | None = None  # those of `held`
    doubtful: bool = False  # the linear model is better than the network that selects, and selects in its place
    tells: bool = False  # better than the mean, or the shares of the classes
    idle: str = ""  # why there is nothing to select


def choose(estimator: Any, rows: Rows, sizes: tuple[int, ...]) -> Choice:
    """Compare the candidates, where there are several: networks of these `sizes`, and the linear model."""
    probabilities, seed = estimator._priors(sizes, len(rows.x)), estimator.seed_
    selects, scale = estimator.method != "gaussian", estimator._scale()
    linear, refits = is_auto(estimator.hidden) and selects, is_auto(estimator.refit) and selects
    held_out = estimator.fdr is not None or estimator.interval == "conformal" or estimator.noise == "heteroscedastic"
    if not (linear or refits or len(probabilities) > 1 or held_out):
        return Choice(False, probabilities[0], probabilities[0], bool(estimator.refit), scale, idle=idle(rows))
    effort = len(probabilities) * Layout(sizes, 1).num_parameters
    folds = Folds.divide(len(rows.x), rows.y if rows.classes else None, effort, seed)
    explored, groups = None, members(estimator.groups_[estimator.used_])
    if linear:
        explored = explore(rows, groups, folds, estimator._count("n_replicates"), seed)
        if estimator.fdr is None and (why := idle(rows)):
            only = _entry((), explored.probability, False, explored.held, explored.held)
            model = True, explored.probability, explored.probability, False, explored.scale
            return Choice(*model, explored, explored.held, (only,), rows=folds.test.ravel(), idle=why)
    network, helds = _trained(estimator, rows, sizes, probabilities, folds, None)
    losses = [held.loss() for held in helds]
    can = [number for number, prior in enumerate(probabilities) if prior <= SELECTING] or [0]
    least = min(can, key=losses.__getitem__)
    first = least if better(helds[least], helds[can[0]]) else can[0]
    best = int(np.argmin(losses))
    chosen = best if better(helds[best], helds[first]) else first
    held, probability, refit = helds[chosen], probabilities[chosen], estimator.refit is True
    entries = list(zip(probabilities, helds, [False] * len(helds), strict=True))
    # where the linear model is far ahead of every network, one of fewer inputs would not catch up
    hopeless = explored is not None and better(explored.held, held, _FAR)
    if refits and not hopeless:
        paths = estimator._joined(network.inclusion())[1]
        read = paths[first * folds.number :][: folds.number] > 0.5
        for candidate, entry in _refitted(estimator, rows, sizes, read, folds):
            entries.append((candidate, entry, True))
            if better(entry, held):
                held, probability, refit = entry, candidate, True
    is_linear = explored is not None and not better(held, explored.held)
    if explored is not None and is_linear:
        held, probability, scale, refit = explored.held, explored.probability, explored.scale, False
    table = [_entry(sizes[1:-1], entry, refitted, other, held) for entry, other, refitted in entries]
    if explored is not None:
        table.insert(0, _entry((), explored.probability, False, explored.held, held))
    p = None
    if estimator.fdr is not None:
        if is_linear:
            tested, loss = fold_losses(rows, groups, folds, probability, scale)
        else:
            tested, loss = _losses(estimator, network, first, rows, folds)
        p = p_values(rows.x, groups, folds, loss, tested, seed)
    index = folds.test.ravel()
    doubtful = explored is not None and not (is_linear or refit) and better(explored.held, helds[first])
    tells = better(held, _nothing(rows, index))
    model = is_linear, probability, probabilities[first], refit, scale
    return Choice(*model, explored, held, tuple(table), p, index, doubtful, tells, idle(rows))


def idle(rows: Rows) -> str:
    """Why there is nothing to select: y, or every input, is constant; empty where neither is."""
    if not np.ptp(rows.y, axis=0).any():
        return "y is constant"
    return "" if np.ptp(rows.x, axis=0).any() else "every input is constant"


def _nothing(rows: Rows, index: np.ndarray) -> Held:
    """What the mean and spread of all rows, or the shares of the classes, say of some rows."""
    y, weights = rows.y[index], rows.weights[index]
    if rows.classes:
        return Held(-np.log(np.bincount(rows.y, rows.weights) / rows.weights.sum())[y], weights)
    return Held(0.5 * (np.square(y.reshape(len(y), -1)) + math.log(2 * math.pi)).sum(axis=1), weights)


def _losses(estimator: Any, network: Any, candidate: int, rows: Rows, folds: Folds) -> tuple[np.ndarray, Loss]:
    """Which inputs the networks of a candidate read, and what they lose on held-out rows."""
    index = slice(candidate * folds.number, (candidate + 1) * folds.number)
    tested = estimator._joined([layer[index] for layer in network.inclusion()])[1].max(axis=0) > _READ
    generator = torch.Generator().manual_seed(estimator.seed_)
    draws = [
        ([tuple(part[index].float() for part in parts) for parts in layers], None if scale is None else scale[index])
        for layers, scale in network.draws(_DRAWS, generator)
    ]

    @torch.no_grad()
    def loss(fold: int, x: np.ndarray) -> np.ndarray:
        copies, inputs = len(x), torch.from_numpy(x).float()
        own = [[tuple(part[fold].expand(copies, -1, -1) for part in parts) for parts in layers] for layers, _ in draws]
        outputs = torch.stack([network.stack.propagate(layers, inputs) for layers in own])
        scale = None if draws[0][1] is None else torch.stack([scale[fold] for _, scale in draws if scale is not None])
        held_out = rows.part(folds.test[fold])
        return np.stack([judged(copy, scale, held_out).nll for copy in outputs.unbind(1)])

    return tested, loss


def _entry(hidden: Any, probability: float, refit: bool, held: Held, winner: Held) -> dict[str, Any]:
    behind, error = gain(winner, held)
    return {
        "hidden": tuple(int(width) for width in hidden),
        "prior_inclusion_probability": float(probability),
        "refit": refit,
        "temperature": held.temperature,
        "held_out_nll": held.loss(),
        "behind": behind,
        "standard_error": error,
    }


def _refitted(estimator: Any, rows: Rows, sizes: tuple[int, ...], masks: np.ndarray, folds: Folds):
    """Networks of the inputs that each fold has selected, where it has selected some and not all."""
    counts = masks.sum(axis=1)
    if not ((counts > 0) & (counts < masks.shape[1])).all():
        return []
    smaller = (int(counts.max()), *sizes[1:])
    probabilities = estimator._refit_priors(smaller, len(rows.x))
    return zip(probabilities, _trained(estimator, rows, smaller, probabilities, folds, masks)[1], strict=True)


def _trained(
    estimator: Any, rows: Rows, sizes: tuple[int, ...], probabilities: list[float], folds: Folds, masks: Any
) -> tuple[Any, list[Held]]:
    """Every candidate on every fold as one stack; with `masks` (folds, inputs) a fold reads its own inputs."""
    number = len(probabilities)
    network = estimator._build(sizes, np.repeat(probabilities, folds.number), folds.number * number)
    columns = None if masks is None else [np.flatnonzero(mask) for mask in masks]

    def stacked(which: np.ndarray) -> Any:
        x, y = rows.tensors()
        parts = [x[part] for part in which]
        if columns is not None:  # inputs of zeros up to the width
            parts = [F.pad(part[:, own], (0, sizes[0] - len(own))) for part, own in zip(parts, columns, strict=True)]
        whole = torch.stack(parts, dim=1), torch.stack([y[part] for part in which], dim=1)
        # of a single fold a view: the candidates share the rows
        return tuple(part.unsqueeze(1).expand(-1, number, -1, -1).flatten(1, 2) for part in whole)

    epochs = estimator._epochs(folds.train.shape[1], searching=True)
    told = f"{number} candidates of {sizes[0]} inputs" if estimator.verbose else False
    network.train_on(
        *stacked(folds.train), epochs, estimator._count("batch_size"), folds.train.shape[1], told, warm_up=True
    )
    with torch.no_grad():
        x, _ = stacked(folds.test)
        outputs, scales = held_outputs(network, x.transpose(0, 1), estimator.seed_)
    parts = [
        judged(outputs[:, index], None if scales is None else scales[:, index], rows.part(some))
        for index, some in enumerate([*folds.test] * number)
    ]
    firsts = range(0, len(parts), folds.number)
    return network, [Held.joined(parts[first : first + folds.number]).tempered() for first in firsts]


def held_outputs(network: Any, x: Tensor, seed: int, count: int = _DRAWS) -> tuple[Tensor, Tensor | None]:
    """Draws of the outputs (draws, R, rows, outputs) at rows ([R,] rows, inputs), and of the noise (draws, R)."""
    outputs, scales = [], []
    for layers, scale in network.draws(count, torch.Generator().manual_seed(seed)):
        outputs.append(network.stack.propagate([tuple(part.float() for part in layer) for layer in layers], x))
        scales.append(scale)
    return torch.stack(outputs), None if scales[0] is None else torch.stack(scales)


def judged(outputs: Tensor, scale: Tensor | None, rows: Rows) -> Held:
    """Held-out rows under draws of the outputs (draws, rows, outputs), noise (draws[, outputs]) or None for labels."""
    outputs, y, weights = outputs.double(), rows.y, rows.weights
    if scale is None:
        log_p = torch.log_softmax(logits(outputs), dim=-1).logsumexp(dim=0) - math.log(len(outputs))
        return Held.of_labels(log_p.numpy(), y, weights)
    f, s = (outputs[..., 0], scale[:, None]) if y.ndim == 1 else (outputs, scale[:, None, :])
    log_p = -0.5 * ((torch.from_numpy(y) - f) / s).square() - s.log() - 0.5 * math.log(2 * math.pi)
    log_p = log_p if y.ndim == 1 else log_p.sum(dim=-1)
    nll = math.log(len(f)) - torch.logsumexp(log_p, dim=0).numpy()
    function, noise = f.var(dim=0, correction=0), s.square().mean(dim=0)
    std = (function + noise).sqrt().numpy()
    return Held(nll, weights, f.mean(dim=0).numpy(), std, noise=noise.expand_as(function).numpy())
