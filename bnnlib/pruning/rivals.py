"""Rivals that prune while they train: the ramp of Zhu and Gupta (2018), the group lasso of Wen et al. (2016)."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib._callbacks import Callback
from bnnlib._checks import check_count, check_non_negative
from bnnlib.pruning.masks import Masks, prunable_layers
from bnnlib.pruning.schedules import agp_sparsity


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
        ValueError: a share is outside [0, 1], the last below the first, a step or count is none, or end_step not after
            begin_step.

    Example:
        >>> from bnnlib.train import fit
        >>> model, data = torch.nn.Linear(10, 4), (torch.randn(64, 10), torch.randint(4, (64,)))
        >>> pruner = AGPPruner(model, final_sparsity=0.5, begin_step=1, end_step=8, frequency=1)
        >>> run = fit(model, data, epochs=5, batch_size=32, callbacks=[pruner])
        >>> int(model.weight.count_nonzero())
        20
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
        self.begin_step, self.end_step = begin_step, end_step
        self.shares = {"final_sparsity": final_sparsity, "initial_sparsity": initial_sparsity}
        self._target(0)  # complains now rather than after the first hundred steps
        self.frequency = check_count("frequency", frequency)

    def _target(self, step: int) -> float:
        return agp_sparsity(step, begin_step=self.begin_step, end_step=self.end_step, **self.shares)

    def on_step(self, run: Any) -> None:
        """Update the masks when it is time, and hold them."""
        due = (run.step - self.begin_step) % self.frequency == 0 or run.step == self.end_step
        if due and self.begin_step <= run.step <= self.end_step:
            self.update(self._target(run.step))
        self.apply()


def _groups(
    model: nn.Module, layers: Iterable[str] | None, outputs: str | None, scale_by_size: bool
) -> Iterator[tuple[Tensor, int, float]]:
    """Weights, the dimension whose indices are groups, and the factor of their lengths.

    All indices but the outputs of the last layer and single inputs are groups.
    """
    prunable: dict[str, Any] = prunable_layers(model)
    last = next(reversed(prunable)) if outputs is None else outputs
    chosen = list(dict.fromkeys(prunable if layers is None else [layers] if isinstance(layers, str) else layers))
    if not chosen:
        raise ValueError("layers is empty, so there is nothing to shrink. Leave the argument out for all layers.")
    for argument, names in (("layers", chosen), ("outputs", [last])):
        if unknown := [name for name in names if name not in prunable]:
            raise ValueError(
                f"{argument} has {', '.join(map(repr, unknown))}, but the linear and convolutional layers are "
                f"{', '.join(prunable)}. Name some of them, or leave the argument out."
            )
    for layer, weight in ((prunable[name], prunable[name].weight) for name in chosen):
        if getattr(layer, "transposed", False):
            raise ValueError(f"GroupLasso does not know the units of a {type(layer).__name__}. Leave it out of layers.")
        for dim in (0, 1):
            # what reads one channel of a grouped convolution is no slice of its weight
            if (weight.shape[1] > 1 and getattr(layer, "groups", 1) == 1) if dim else layer is not prunable[last]:
                yield weight, dim, math.sqrt(weight.numel() // weight.shape[dim]) if scale_by_size else 1.0


def _norms(weight: Tensor, dim: int) -> Tensor:
    return torch.linalg.vector_norm(weight, dim=[d for d in range(weight.dim()) if d != dim], keepdim=True)


def _denominators(state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """What Adam divides a weight's mean gradient by, as large as the weight."""
    square = state["max_exp_avg_sq" if group["amsgrad"] else "exp_avg_sq"]
    step = state["step"].to(square.dtype)  # a float32 step would round the correction of float64 weights
    return (square / (1.0 - group["betas"][1] ** step)).sqrt_().add_(group["eps"])


def _shrunk(weight: Tensor, dim: int, amount: float, metric: Tensor) -> Tensor:
    """Minimum w of sum metric (w - weight)^2 / 2 + amount |w| over each group.

    A group ends at 0 if its length in the metric is at most `amount`. Otherwise w is metric weight t / (metric t +
    amount) with t = |w|, the root of 1 / |w / t| = 1; the left side is concave in t, so that Newton's steps after the
    first come from below. One is exact where the metric is even. Two are enough for steps as short as an optimizer's;
    a group that is about to vanish ends up to 6 % shorter than at the minimum.
    """
    inner, dims = metric * weight, [d for d in range(weight.dim()) if d != dim]
    length = _norms(weight, dim)
    for _ in range(2):
        below = metric * length + amount
        unit = inner / below
        size = _norms(unit, dim).clamp_min(1e-30)
        slope = (metric * unit.square() / below).sum(dim=dims, keepdim=True).clamp_min(1e-30)
        length = (length - (1.0 - size) * size.square() / slope).clamp_min_(0.0)
    gone = _norms(inner, dim) <= amount  # in this direction, so that a NaN stays one
    return torch.where(gone, 0.0, inner * length / (metric * length + amount))


class GroupLasso(Callback):
    """Group lasso by proximal steps, equation (sbp-group-lasso); a callback of `bnnlib.train.fit`.

        fit(model, data, epochs=20, batch_size=128, optimizer=sgd, callbacks=[GroupLasso(model, strength=1e-4)])

    It adds strength * the lengths of all groups of weights to the mean loss. A group is what makes one unit, a row of a
    linear layer or a filter of a convolution, or what reads one unit, a column or a channel, so that most weights are
    in one of each kind, which are shrunk one after the other. The outputs of the last layer, which are classes, and the
    input of a layer that has only one are no groups, of a grouped convolution only the filters are; biases are in none.
    After each step of SGD every group is shrunk towards 0 by learning rate * strength / (1 - momentum), times
    1 - dampening, as its layer's weight has them in the optimizer (`param_groups[0]` where it is not in there), and is
    exactly 0 if it was shorter: `compress` then finds dead units without the threshold that a penalty in the loss
    needs. After a step of Adam or AdamW the proximal map is the one in the metric of Adam's denominators (Yun, Lozano
    and Yang, 2021), found by Newton steps in the group's new length. A weight that Adam has not moved yet, or that is
    frozen (`requires_grad` is False), is left alone.

    The penalty makes all weights too small, not only those that go. With `last_step` it ends there: groups that are 0
    by then are held, and the others are trained on without it. A run that is resumed beyond `last_step` without having
    come by it is shrunk once more first.

    Args:
        model: the deterministic network that is trained.
        strength: of the penalty, next to the mean loss.
        last_step: the optimizer step after which nothing is shrunk any more; None shrinks to the end.
        layers: names of those whose weights count, as in `model.named_modules()`; None for all.
        outputs: name of the layer that makes the outputs; None for the one that was registered last.
        scale_by_size: multiply the length of each group by the square root of its number of weights (Yuan and Lin,
            2006); Wen et al. do not.

    Raises:
        ValueError: strength is negative, last_step below 1, the model has no linear or convolutional layer, none of a
            name in `layers` or `outputs`, or one that cannot be shrunk: lazy, parametrized, Bayesian, transposed.

    Example:
        >>> from bnnlib.train import fit
        >>> model, data = torch.nn.Linear(10, 4), (torch.randn(64, 10), torch.randint(4, (64,)))
        >>> sgd, lasso = torch.optim.SGD(model.parameters(), lr=0.1), GroupLasso(model, strength=9.0)
        >>> run = fit(model, data, epochs=2, batch_size=32, optimizer=sgd, callbacks=[lasso])
        >>> int(model.weight.count_nonzero())
        0
    """

    def __init__(
        self,
        model: nn.Module,
        strength: float,
        last_step: int | None = None,
        *,
        layers: Iterable[str] | None = None,
        outputs: str | None = None,
        scale_by_size: bool = False,
    ) -> None:
        self.groups = list(_groups(model, layers, outputs, scale_by_size))
        self.strength = float(check_non_negative("strength", strength))
        self.last_step = None if last_step is None else check_count("last_step", last_step)
        self.kept: list[Tensor] = []  # of each entry of `groups`, once the shrinking is over

    @torch.no_grad()
    def on_step(self, run: Any) -> None:
        """Shrink all groups, or after `last_step` hold those at 0.

        Raises:
            ValueError: the optimizer is none of SGD, Adam and AdamW, whose steps have another length.
        """
        if self.kept and self.last_step is not None and run.step > self.last_step:
            for (weight, _, _), kept in zip(self.groups, self.kept, strict=True):
                if weight.requires_grad:
                    weight.mul_(kept)
            return
        optimizer = run.optimizer
        if not isinstance(optimizer, (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)):
            raise ValueError(
                f"GroupLasso needs torch.optim.SGD, Adam or AdamW, and not {type(optimizer).__name__}: its proximal "
                "step has the length of theirs."
            )
        first, own = optimizer.param_groups[0], {id(p): g for g in optimizer.param_groups for p in g["params"]}
        for weight, dim, factor in self.groups:
            if not weight.requires_grad:
                continue
            group = own.get(id(weight), first)
            amount = self.strength * group["lr"]
            if isinstance(optimizer, torch.optim.SGD):
                # momentum makes the gradient's steps longer in the long run by this factor, so the lasso's must be too
                if group["momentum"]:
                    amount = amount * (1.0 - group["dampening"]) / (1.0 - group["momentum"])
                norms = _norms(weight, dim)
                # the floor is for groups that are 0 already
                weight.mul_((1.0 - amount * factor / norms.clamp_min(1e-30)).clamp_min_(0.0))
            elif amount and "exp_avg_sq" in (state := optimizer.state.get(weight, {})):
                weight.copy_(_shrunk(weight, dim, amount * factor, _denominators(state, group)))
        if self.last_step is not None and run.step >= self.last_step:
            self.kept = [_norms(weight, dim) > 0 for weight, dim, _ in self.groups]

    def state_dict(self) -> dict[str, Any]:
        """The groups that are kept, once the shrinking is over."""
        return {"kept": self.kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it is of another network or other layers.
        """
        here = [tuple(_norms(weight, dim).shape) for weight, dim, _ in self.groups]
        if state["kept"] and (there := [tuple(kept.shape) for kept in state["kept"]]) != here:
            raise ValueError(f"this state has groups of shapes {there}, but those of the network here are {here}.")
        self.kept = [kept.to(weight.device) for kept, (weight, _, _) in zip(state["kept"], self.groups, strict=False)]
