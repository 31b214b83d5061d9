"""Rivals that prune while they train: the ramp of Zhu and Gupta (2018), the group lasso of Wen et al. (2016)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from bnnlib._callbacks import Callback
from bnnlib._checks import check_count, check_non_negative
from bnnlib.pruning.masks import Masks
from bnnlib.pruning.schedules import agp_sparsity


class _Ramp(TypedDict):
    final_sparsity: float
    initial_sparsity: float
    begin_step: int
    end_step: int


class AGPPruner(Masks):
    """Masks that follow the cubic ramp of equation (svbnn-agp); a callback of `bnnlib.train.fit`.

        pruner = AGPPruner(model, final_sparsity=0.95, begin_step=500, end_step=3000)
        fit(model, data, epochs=40, batch_size=512, callbacks=[pruner])

    Args:
        model: deterministic; weights of linear and convolutional layers are pruned, biases are not.
        final_sparsity: share of weights that are 0 in the end.
        begin_step, end_step: optimizer steps at which the ramp starts and ends; training goes on after the end, so that
            the weights that are left can recover.
        frequency: steps between updates of the masks.
        initial_sparsity: share at the start.
        scope: "layer" as published, or "global".

    Raises:
        ValueError: a share is outside [0, 1], a count below 1, or end_step not after begin_step.

    Example:
        >>> from bnnlib.train import fit
        >>> model, data = torch.nn.Linear(10, 4), (torch.randn(64, 10), torch.randint(4, (64,)))
        >>> pruner = AGPPruner(model, final_sparsity=0.5, begin_step=1, end_step=8, frequency=1)
        >>> run = fit(model, data, epochs=5, batch_size=32, callbacks=[pruner])
        >>> float((model.weight == 0).float().mean())
        0.5
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        final_sparsity: float,
        begin_step: int,
        end_step: int,
        frequency: int = 100,
        initial_sparsity: float = 0.0,
        scope: str = "layer",
    ) -> None:
        super().__init__(model, scope)
        self.ramp = _Ramp(
            final_sparsity=final_sparsity, initial_sparsity=initial_sparsity, begin_step=begin_step, end_step=end_step
        )
        agp_sparsity(0, **self.ramp)  # complains now rather than after the first hundred steps
        self.frequency = check_count("frequency", frequency)

    def on_step(self, run: Any) -> None:
        """Update the masks when it is time, and hold them."""
        begin, end = self.ramp["begin_step"], self.ramp["end_step"]
        if begin <= run.step <= end and ((run.step - begin) % self.frequency == 0 or run.step == end):
            self.update(agp_sparsity(run.step, **self.ramp))
        self.apply()


def _groups(model: nn.Module, layers: Iterable[str] | None, scale_by_size: bool) -> Iterator[tuple[Tensor, int, float]]:
    """Weights, the dimension whose indices are groups, and the factor of their lengths.

    All indices but the last layer's outputs and single inputs are groups.
    """
    prunable = {name: module for name, module in model.named_modules() if isinstance(module, (nn.Linear, nn.Conv2d))}
    if not prunable:
        raise ValueError(
            f"{type(model).__name__} has no linear or convolutional layer, so there are no groups of weights. Give the "
            "network whose units are to be pruned."
        )
    names = [layers] if isinstance(layers, str) else layers
    last, chosen = next(reversed(prunable)), list(prunable if names is None else names)
    if unknown := [name for name in chosen if name not in prunable]:
        raise ValueError(
            f"layers has {', '.join(map(repr, unknown))}, but the linear and convolutional layers are "
            f"{', '.join(prunable)}. Name some of them, or leave the argument out for all."
        )
    for name in chosen:
        weight = prunable[name].weight
        for dim in (0, 1):
            if weight.shape[1] > 1 if dim else name != last:
                yield weight, dim, math.sqrt(weight.numel() // weight.shape[dim]) if scale_by_size else 1.0


def _norms(weight: Tensor, dim: int) -> Tensor:
    return torch.linalg.vector_norm(weight, dim=[d for d in range(weight.dim()) if d != dim], keepdim=True)


def _denominators(state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """What Adam divides a weight's mean gradient by, as large as the weight."""
    square = state["max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"]
    return (square / (1.0 - group["betas"][1] ** state["step"])).sqrt_().add_(group["eps"])


def _shrunk(weight: Tensor, dim: int, amount: float, metric: Tensor) -> Tensor:
    """Minimum w of sum metric (w - weight)^2 / 2 + amount |w| over each group.

    A group ends at 0 if its length in the metric is at most `amount`. Otherwise w is metric weight t / (metric t +
    amount) with t = |w|, the root of 1 / |w / t| = 1; the left side is concave in t, so that Newton's steps after the
    first come from below. Two are enough for steps as short as an optimizer's; one is exact where the metric is even.
    """
    inner, dims = metric * weight, [d for d in range(weight.dim()) if d != dim]
    length = _norms(weight, dim)
    for _ in range(2):
        below = metric * length + amount
        unit = inner / below
        size = _norms(unit, dim).clamp_min(1e-30)
        slope = (metric * unit.square() / below).sum(dim=dims, keepdim=True).clamp_min(1e-30)
        length = (length - (1.0 - size) * size.square() / slope).clamp_min_(0.0)
    alive = _norms(inner, dim) > amount
    return torch.where(alive, inner * length / (metric * length + amount), 0.0)


class GroupLasso(Callback):
    """Group lasso by proximal steps, equation (sbp-group-lasso); a callback of `bnnlib.train.fit`.

        fit(model, data, epochs=20, batch_size=128, optimizer=sgd, callbacks=[GroupLasso(model, strength=1e-4)])

    It adds strength * the lengths of all groups of weights to the mean loss. A group is what makes one unit, a row of a
    linear layer or a filter of a convolution, or what reads one unit, a column or a channel, so that most weights are
    in one of each kind. The outputs of the last layer, which are classes, and the input of a layer that has only one
    are no groups; biases are in none. After each step of SGD every group is
    shrunk towards 0 by learning rate * strength / (1 - momentum), as its layer's weight has them in the optimizer
    (`param_groups[0]` where it is not in there), and is exactly 0 if it was shorter:
    `compress` then finds dead units without a threshold. (A penalty in the loss, as Wen et al. have it, leaves small
    weights that are cut off by one.) Groups of rows and of columns overlap, and are shrunk one after the other.
    After a step of Adam or AdamW the same objective has each weight's own step size: the proximal map is the one in
    the metric of Adam's denominators (Yun, Lozano and Yang, 2021), found by Newton steps in the group's new length.
    A weight that Adam has not moved yet is left alone.

    The penalty makes all weights too small, not only those that go. With `last_step` it ends there: groups that are 0
    by then are held, and the others are trained on without it.

    Args:
        model: the deterministic network that is trained.
        strength: of the penalty, next to the mean loss.
        last_step: the optimizer step after which nothing is shrunk any more; None shrinks to the end.
        layers: names of those whose weights count, as in `model.named_modules()`; None for all.
        scale_by_size: multiply the length of each group by the square root of its number of weights (Yuan and Lin,
            2006); Wen et al. do not.

    Raises:
        ValueError: strength is negative, last_step below 1, or the model has no linear or convolutional layer, or none
            of a name in `layers`.

    Example:
        >>> from bnnlib.train import fit
        >>> model, data = torch.nn.Linear(10, 4), (torch.randn(64, 10), torch.randint(4, (64,)))
        >>> sgd, lasso = torch.optim.SGD(model.parameters(), lr=0.1), GroupLasso(model, strength=0.3)
        >>> before = model.weight.detach().norm(dim=0)
        >>> run = fit(model, data, epochs=2, batch_size=32, optimizer=sgd, callbacks=[lasso])
        >>> bool((model.weight.norm(dim=0) < before).all())
        True
    """

    def __init__(
        self,
        model: nn.Module,
        strength: float,
        last_step: int | None = None,
        *,
        layers: Iterable[str] | None = None,
        scale_by_size: bool = False,
    ) -> None:
        self.groups = list(_groups(model, layers, scale_by_size))
        self.strength = float(check_non_negative("strength", strength))
        self.last_step = None if last_step is None else check_count("last_step", last_step)
        self.kept: list[Tensor] = []  # of each entry of `groups`, once the shrinking is over

    @torch.no_grad()
    def on_step(self, run: Any) -> None:
        """Shrink all groups, or after `last_step` hold those at 0.

        Raises:
            ValueError: the optimizer is none of SGD, Adam and AdamW, whose steps have another length.
        """
        if self.last_step is not None and run.step > self.last_step:
            self._hold()
            return
        optimizer = run.optimizer
        if not isinstance(optimizer, (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)):
            raise ValueError(
                f"GroupLasso needs torch.optim.SGD, Adam or AdamW, and not {type(optimizer).__name__}: its proximal "
                "step has the length of theirs."
            )
        first, own = optimizer.param_groups[0], {id(p): g for g in optimizer.param_groups for p in g["params"]}
        for weight, dim, factor in self.groups:
            group = own.get(id(weight), first)
            amount = self.strength * group["lr"]
            if isinstance(optimizer, torch.optim.SGD):
                # momentum makes the gradient's steps longer in the long run by this factor, so the lasso's must be too
                amount = amount / (1.0 - group["momentum"])
                norms = _norms(weight, dim)
                # the floor is for groups that are 0 already
                weight.mul_((1.0 - amount * factor / norms.clamp_min(1e-30)).clamp_min_(0.0))
            elif self.strength and "exp_avg_sq" in (state := optimizer.state.get(weight, {})):
                weight.copy_(_shrunk(weight, dim, amount * factor, _denominators(state, group)))
        if run.step == self.last_step:
            self.kept = [_norms(weight, dim) > 0 for weight, dim, _ in self.groups]

    def _hold(self) -> None:
        for (weight, _, _), kept in zip(self.groups, self.kept, strict=True):
            weight.mul_(kept)

    def state_dict(self) -> dict[str, Any]:
        """The groups that are kept, once the shrinking is over."""
        return {"kept": self.kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.kept = [kept.to(weight.device) for kept, (weight, _, _) in zip(state["kept"], self.groups, strict=False)]
