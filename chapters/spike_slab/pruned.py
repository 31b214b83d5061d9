"""Magnitude pruning of a stack, over all layers together and without the biases: gradual (AGP) and by lottery tickets.

How the compared paper pruned is in its supplement, not at hand. Zhu and Gupta (2018) take the same share of each layer,
which suits wide ones; of the six or seven output weights of these simulations 5 % are none, and the network a constant.
"""

from typing import TypedDict, cast

import torch
from torch import Tensor

from bnnlib.pruning import agp_sparsity, lottery_ticket_sparsities
from bnnlib.pruning.ranking import step_mask
from bnnlib.replicates.fit import fit_stacked
from bnnlib.replicates.network import StackedMLP
from bnnlib.replicates.posteriors import StackedDeterministic


@torch.no_grad()
def prune_stacked(posterior: StackedDeterministic, sparsity: float) -> None:
    """Mask the `sparsity` share of smallest weights of every replicate, in one ranking over its layers.

    Each layer keeps its largest weight, as an empty one makes a constant; a path through all of them is not guaranteed
    (on the dense teacher of Simulation I 5 % is a constant on most data sets). Removed weights become 0.

    Raises:
        ValueError: sparsity is outside [0, 1], or leaves fewer weights than there are layers.
    """
    layers = posterior.layout.layers(posterior.weight * posterior.mask)
    scores = [weight.abs().flatten(1) for weight, _ in layers]
    total = sum(score.shape[1] for score in scores)
    if total - round(sparsity * total) < len(scores):
        raise ValueError(
            f"sparsity is {sparsity:g}, which leaves fewer of {total} weights than one for each of the {len(scores)} "
            f"layers. Give at most {1.0 - len(scores) / total:.4g}."
        )
    for score in scores:
        score.scatter_(1, score.argmax(1, keepdim=True), torch.inf)
    keep = step_mask(torch.cat(scores, dim=1), sparsity, batch_dims=1).split([s.shape[1] for s in scores], dim=1)
    for (mask, _), kept in zip(posterior.layout.layers(posterior.mask), keep, strict=True):
        mask.copy_(kept.view_as(mask))
    posterior.weight.mul_(posterior.mask)


class Ramp(TypedDict):
    """What `agp_sparsity` asks beside the step."""

    final_sparsity: float
    begin_step: int
    end_step: int


def agp_ramp(steps: int, final_sparsity: float, begin: float = 0.2, end: float = 0.7) -> Ramp:
    """The ramp of `fit_agp` in a training of so many steps."""
    return Ramp(final_sparsity=final_sparsity, begin_step=int(begin * steps), end_step=int(end * steps))


def fit_agp(
    model: StackedMLP,
    x: Tensor,
    y: Tensor,
    *,
    final_sparsity: float,
    epochs: int,
    batch_size: int,
    frequency: int = 100,
    begin: float = 0.2,
    end: float = 0.7,
    **options,
) -> None:
    """Train while the automated gradual pruner (Zhu and Gupta, 2018) raises the share of zero weights.

    Args:
        model: a stack with a `StackedDeterministic` posterior.
        x, y: as for `fit_stacked`, which also takes the further `options`.
        final_sparsity: share of zero weights at the end.
        frequency: steps between two prunings.
        begin, end: shares of the training between which the cubic ramp runs.
    """
    ramp = agp_ramp(epochs * -(-len(x) // batch_size), final_sparsity, begin, end)
    begin_step, end_step = ramp["begin_step"], ramp["end_step"]

    def prune(model: StackedMLP, step: int) -> None:
        if begin_step <= step <= end_step and (step % frequency == 0 or step == end_step):
            prune_stacked(cast(StackedDeterministic, model.posterior), agp_sparsity(step, **ramp))

    fit_stacked(model, x, y, epochs=epochs, batch_size=batch_size, after_step=prune, **options)


def fit_lottery_ticket(
    model: StackedMLP, x: Tensor, y: Tensor, *, final_sparsity: float, rounds: int = 3, **options
) -> None:
    """Train, prune by magnitude, rewind the survivors to their initial values, and repeat (Frankle and Carbin, 2018).

    Args:
        model: a stack with a `StackedDeterministic` posterior.
        x, y: as for `fit_stacked`, which also takes the further `options`; each of the rounds + 1 trainings is whole.
        final_sparsity: share of zero weights of the ticket.
        rounds: prunings.
    """
    posterior = cast(StackedDeterministic, model.posterior)
    initial = posterior.weight.detach().clone()
    for sparsity in lottery_ticket_sparsities(final_sparsity, rounds):
        fit_stacked(model, x, y, **options)
        prune_stacked(posterior, sparsity)
        with torch.no_grad():
            posterior.weight.copy_(initial * posterior.mask)
    fit_stacked(model, x, y, **options)
