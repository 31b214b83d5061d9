"""The spike-and-slab group Gaussian prior of Ke and Fan (2023), section 3: a weight decay a group, and pruning."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from bnnlib._checks import check_choice, check_count, check_non_negative, check_positive, matching
from bnnlib.functional.group_spike_slab import (
    KINDS,
    group_mean_square,
    group_range,
    group_size,
    group_slab_probability,
    group_threshold,
)


class GroupSpikeSlab:
    """Chooses the weight decay of every group of weights, and removes groups for good; hard EM, (avo-threshold).

        prior = GroupSpikeSlab(model, spike=1e-2, slab=5e-4, num_data=n, names=["0.weight"], hard_threshold=1e-3)
        optimizer = AdaptiveVariational(model.parameters(), lr, n, prior=prior)

    As a callback of `bnnlib.train.fit` it updates after every epoch beyond `warm_up`. With another optimizer call
    `add_gradient_` between `backward` and `step`, and `hold_` behind it.

    `update` gives a group the slab's decay where its mean square is at least the soft threshold, else the spike's; this
    is reversible. Groups whose mean square is below the hard threshold are set to 0 and stay there.

    Args:
        parameters: a module, or weights by name (of shape (out, in, ...), behind the dimensions of a stack).
        spike, slab: weight decays wd0 > wd1 of a mean loss.
        num_data: N, number of observations.
        kind: the groups, see `functional.group_mean_square`: "input", "output" or "kernel"; or "channel", as published
            for convolutions: kernels choose their decay, and an input or output channel is removed when its weights'
            range, max - min, is below the hard threshold.
        names: with a module: names or patterns of the weights; by default all with enough dimensions.
        soft_threshold: "exact" for that of the E-step, or a mean square, as published.
        hard_threshold: mean square (range for channels) below which a group is removed; None removes none.
        prior_slab_probability: pi of the exact threshold.
        warm_up: epochs before the first update, when this is a callback.
        batch_dims: 1 for a stack of networks, each with groups of its own.
        when_empty: "raise", or "allow" a weight to lose all of its groups.

    Raises:
        ValueError: the decays are in the wrong order, no weight is selected, or a setting is out of its range.

    Example:
        >>> prior = GroupSpikeSlab(torch.nn.Linear(10, 4), spike=1e-2, slab=5e-4, num_data=1000)
        >>> prior.update()
        >>> {name: one.shape for name, one in prior.slab_probability().items()}
        {'weight': torch.Size([1, 10])}
    """

    def __init__(
        self,
        parameters: nn.Module | Mapping[str, Tensor],
        spike: float,
        slab: float,
        num_data: int,
        *,
        kind: str = "input",
        names: Sequence[str] | None = None,
        soft_threshold: float | str = "exact",
        hard_threshold: float | None = None,
        prior_slab_probability: float = 0.5,
        warm_up: int = 0,
        batch_dims: int = 0,
        when_empty: str = "raise",
    ) -> None:
        check_choice("kind", kind, (*KINDS, "channel"))
        check_choice("when_empty", when_empty, ("raise", "allow"))
        self.num_data = check_count("num_data", num_data)
        group_threshold(spike, slab, self.num_data, 1, prior_slab_probability)  # checks them
        if soft_threshold != "exact":
            check_non_negative("soft_threshold", float(soft_threshold))
        if hard_threshold is not None:
            check_positive("hard_threshold", hard_threshold)
        self.spike, self.slab, self.prior_slab_probability = float(spike), float(slab), prior_slab_probability
        self.kind, self.batch_dims, self.when_empty = kind, check_count("batch_dims", batch_dims, 0), when_empty
        self.soft_threshold, self.hard_threshold = soft_threshold, hard_threshold
        self.warm_up = check_count("warm_up", warm_up, 0)
        self._groups = "kernel" if kind == "channel" else kind
        self.weights = _selected(parameters, names, self.batch_dims + (3 if self._groups == "kernel" else 2))
        self._names = {weight: name for name, weight in self.weights.items()}
        shapes = {name: self._mean_square(weight) for name, weight in self.weights.items()}
        self.decay = {name: torch.full_like(shape, self.slab) for name, shape in shapes.items()}
        # of kernels for channels: what both of a kernel's channels decide
        self.masks = {name: torch.ones_like(shape) for name, shape in shapes.items()}

    @torch.no_grad()
    def _mean_square(self, weight: Tensor) -> Tensor:
        return group_mean_square(weight.detach(), self._groups, self.batch_dims)

    def threshold(self, name: str) -> float:
        """Mean square at which a group of this weight changes between spike and slab."""
        if self.soft_threshold != "exact":
            return float(self.soft_threshold)
        size = group_size(self.weights[name], self._groups, self.batch_dims)
        return group_threshold(self.spike, self.slab, self.num_data, size, self.prior_slab_probability)

    def slab_probability(self) -> dict[str, Tensor]:
        """P(slab | group) by weight, (avo-slab-probability), in shapes that broadcast against the weights."""
        given = self.spike, self.slab, self.num_data

        def probability(weight: Tensor) -> Tensor:
            size = group_size(weight, self._groups, self.batch_dims)
            return group_slab_probability(self._mean_square(weight), *given, size, self.prior_slab_probability)

        return {name: probability(weight) for name, weight in self.weights.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Choose every group's weight decay anew, and remove the groups below the hard threshold.

        Raises:
            ValueError: a weight is NaN or infinite, or would lose all of its groups (of one network of the stack);
                nothing has been changed then.
        """
        decay, masks, finite, left = {}, {}, {}, {}
        for name, weight in self.weights.items():
            square = self._mean_square(weight)
            finite[name] = square.isfinite().all()
            decay[name] = torch.where(square >= self.threshold(name), self.slab, self.spike).to(square.dtype)
            masks[name] = self.masks[name]
            if self.hard_threshold is not None:
                masks[name] = masks[name] * self._large(weight, self.hard_threshold)
                left[name] = masks[name].flatten(self.batch_dims).any(dim=-1)
        self._check(finite, left if self.when_empty == "raise" else {})
        self.decay, self.masks = decay, masks
        self.hold_()

    def _check(self, finite: dict[str, Tensor], left: dict[str, Tensor]) -> None:
        # one look at all of them, for which a GPU is waited for once an update
        device = next(iter(finite.values())).device
        good = torch.stack([flags.all().to(device) for flags in (*finite.values(), *left.values())])
        if bool(good.all()):
            return
        for name in finite:
            if not bool(finite[name]):
                raise ValueError(f"{name} has weights that are NaN or infinite, so its groups cannot be judged.")
            if name in left and not bool(left[name].all()):
                raise ValueError(
                    f"all groups of {name} would be removed{_where(left[name])}: they are below hard_threshold = "
                    f"{self.hard_threshold:g}. Lower it, or warm up for longer, until some groups have grown."
                )

    def _large(self, weight: Tensor, threshold: float) -> Tensor:
        if self.kind != "channel":
            return self._mean_square(weight) >= threshold
        sides = (group_range(weight, side, self.batch_dims) >= threshold for side in ("input", "output"))
        return next(sides) & next(sides)

    def decay_of(self, parameter: Tensor) -> Tensor | None:
        """Weight decays that broadcast against the parameter; None for one without this prior."""
        name = self._names.get(parameter)
        return None if name is None else self.decay[name]

    @torch.no_grad()
    def add_gradient_(self) -> None:
        """Add weight decay times weight to `.grad`, for optimizers that know no prior.

        Raises:
            ValueError: a weight has no gradient yet.
        """
        for name, weight in self.weights.items():
            if weight.grad is None:
                raise ValueError(f"{name!r} has no gradient to add to. Call loss.backward() first.")
            weight.grad.addcmul_(self.decay[name].expand_as(weight), weight)

    @torch.no_grad()
    def hold_(self) -> None:
        """Set what has been removed to 0."""
        if self.hard_threshold is not None:
            for name, weight in self.weights.items():
                weight.mul_(self.masks[name])

    def kept(self) -> dict[str, Tensor]:
        """Boolean masks of the groups that are left, in shapes that broadcast against the weights."""
        return {name: mask.bool() for name, mask in self.masks.items()}

    def sparsity(self) -> Tensor:
        """Share of these weights that have been removed, from 0 to 1, one number or one for each network."""
        stack = next(iter(self.weights.values())).shape[: self.batch_dims]
        kept = sum(
            mask.expand_as(self.weights[n]).reshape(*stack, -1).double().sum(-1) for n, mask in self.masks.items()
        )
        count = sum(weight[(0,) * self.batch_dims].numel() for weight in self.weights.values())
        return 1.0 - cast(Tensor, kept) / count

    def on_step(self, run: Any) -> None:
        """Hold what has been removed after an optimizer step."""
        self.hold_()

    def on_epoch(self, run: Any) -> None:
        """Update when the warm-up is over."""
        if run.epoch > self.warm_up:
            self.update()

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Decays and masks by the names of the weights."""
        return {"decay": dict(self.decay), "masks": dict(self.masks)}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take over decays and masks, and hold the masks.

        Raises:
            ValueError: they are of other weights or groups.
        """
        shapes = {name: tuple(value.shape) for name, value in self.decay.items()}
        if {name: tuple(value.shape) for name, value in state["decay"].items()} != shapes:
            raise ValueError(f"this state is of other weights or groups: there are {shapes}.")
        for kind, own in (("decay", self.decay), ("masks", self.masks)):
            for name, value in own.items():
                own[name] = state[kind][name].to(value.device, value.dtype).clone()
        self.hold_()


def _where(left: Tensor) -> str:
    return f" in the networks {(~left).nonzero().flatten().tolist()}" if left.dim() else ""


def _selected(
    parameters: nn.Module | Mapping[str, Tensor], names: Sequence[str] | None, least_dims: int
) -> dict[str, Tensor]:
    named = dict(parameters.named_parameters() if isinstance(parameters, nn.Module) else parameters)
    chosen = {name: named[name] for name in matching("names", "*" if names is None else names, named)}
    groups = {name: weight for name, weight in chosen.items() if weight.dim() >= least_dims and weight.numel()}
    if not groups or (names is not None and len(groups) < len(chosen)):
        short = ", ".join(sorted(set(chosen) - set(groups))) or "none"
        raise ValueError(
            f"groups need weights of at least {least_dims} dimensions, the stack's included, which these parameters "
            f"do not have: {short}. Name the weights of linear or convolutional layers."
        )
    return groups
