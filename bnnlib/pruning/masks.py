"""Masks over a network's weights, and how to hold them through training."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from bnnlib._checks import check_choice, check_probability
from bnnlib.nn.base import BayesianLayer
from bnnlib.pruning.ranking import jointly, step_mask


def prunable_layers(model: nn.Module) -> dict[str, nn.Module]:
    """All linear and convolutional layers by their names, in the order in which they were registered.

    Raises:
        ValueError: there are none, or one has no plain weight that could be set to 0.
    """
    kinds = (nn.Linear, nn.modules.conv._ConvNd)
    layers: dict[str, nn.Module] = {name: layer for name, layer in model.named_modules() if isinstance(layer, kinds)}
    if not layers:
        raise ValueError(f"{type(model).__name__} has no linear or convolutional layer, so there is nothing to prune.")
    for name, layer in layers.items():
        check_prunable(name, layer)
    return layers


def check_prunable(name: str, layer: nn.Module) -> None:
    """Refuse a layer whose weight cannot be set to 0."""
    reason = (
        "its weight has no shape yet: pass it a batch first"
        if isinstance(layer, nn.modules.lazy.LazyModuleMixin)
        else "its weight is a posterior: prune that, by `prune_ranked`, or a deterministic network"
        if isinstance(layer, BayesianLayer)
        else "its weight is computed from others: remove the parametrization first"
        if not isinstance(layer.weight, nn.Parameter)
        else ""
    )
    if reason:
        raise ValueError(f"{name or 'the model'} is a {type(layer).__name__} that cannot be pruned: {reason}.")


def prunable_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of all linear and convolutional layers by their names; biases are not among them.

    Raises:
        ValueError: there are none, or one is not a plain parameter.

    Example:
        >>> list(prunable_weights(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))))
        ['0.weight', '2.weight']
    """
    weights = {f"{name}.weight".lstrip("."): layer.weight for name, layer in prunable_layers(model).items()}
    return cast("dict[str, nn.Parameter]", weights)


class Masks:
    """Boolean masks of a model's weights; a callback of `bnnlib.train.fit` that keeps pruned weights at 0.

    Zeroing after every optimizer step is what makes masks last: an optimizer with momentum moves a weight also when its
    gradient is 0.

    Args:
        model: whose weights are masked; or a dict of those weights by name.
        scope: "layer" prunes the same share of every layer, "global" the smallest weights of the whole network.

    Raises:
        ValueError: the model has no prunable weights, or the scope is unknown.

    Example:
        >>> masks = Masks(torch.nn.Linear(10, 4))
        >>> masks.sparsity
        0.0
    """

    def __init__(self, model: nn.Module | Mapping[str, nn.Parameter], scope: str = "layer") -> None:
        check_choice("scope", scope, ("layer", "global"))
        self.scope = scope
        self.weights = dict(model) if isinstance(model, Mapping) else prunable_weights(model)
        self._open()

    def _open(self) -> None:
        self.masks = {name: torch.ones_like(w, dtype=torch.bool) for name, w in self.weights.items()}
        self._pruned: int | None = 0

    @torch.no_grad()
    def update(self, sparsity: float) -> None:
        """Prune the smallest weights until `sparsity` (a share, 0 to 1) of all is 0; what is pruned already stays so.

        Raises:
            ValueError: sparsity is outside [0, 1], or fewer weights would be pruned than already are.
        """
        check_probability("sparsity", sparsity)
        total = sum(mask.numel() for mask in self.masks.values())
        if (sparsity - self.sparsity) * total < -len(self.masks):  # each layer rounds on its own
            raise ValueError(
                f"sparsity is {sparsity:g}, but a share of {self.sparsity:.4g} is pruned already, and pruned weights "
                "are not regrown. Ask for at least that, or make new masks."
            )
        # the floor ranks a live weight that happens to be 0 above the pruned ones
        ranks = {n: torch.where(mask, self.weights[n].abs().clamp_min(1e-30), 0.0) for n, mask in self.masks.items()}
        if self.scope == "layer":
            self.masks = {name: step_mask(rank, sparsity) for name, rank in ranks.items()}
            self._pruned = sum(round(sparsity * rank.numel()) for rank in ranks.values())
        else:
            self.masks = jointly(step_mask, ranks, sparsity)
            self._pruned = round(sparsity * total)
        self.apply()

    @torch.no_grad()
    def apply(self) -> None:
        """Set the pruned weights to 0."""
        for name, weight in self.weights.items():
            weight.mul_(self.masks[name])

    @property
    def sparsity(self) -> float:
        """Share of the weights that are pruned, from 0 to 1."""
        if self._pruned is None:
            self._pruned = sum(int((~mask).sum()) for mask in self.masks.values())
        return self._pruned / sum(mask.numel() for mask in self.masks.values())

    def on_step(self, run: Any) -> None:
        """Hold the masks after an optimizer step."""
        self.apply()

    def on_epoch(self, run: Any) -> None:
        """Nothing to do once an epoch."""

    def state_dict(self) -> dict[str, Tensor]:
        """The masks by the names of their weights."""
        return dict(self.masks)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over masks and apply them.

        Raises:
            ValueError: they are of another network.
        """
        shapes = {name: tuple(mask.shape) for name, mask in self.masks.items()}
        if {name: tuple(mask.shape) for name, mask in state.items()} != shapes:
            raise ValueError(f"these masks are of another network: the weights here are {shapes}.")
        self.masks = {name: mask.to(self.weights[name].device) for name, mask in state.items()}
        self._pruned = None  # to be counted once: known in advance of `update` alone, which never waits for a GPU
        self.apply()
