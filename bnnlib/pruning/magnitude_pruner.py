"""Magnitude pruning while a chain runs, by any schedule (Deng, Zhang, Liang and Lin, 2019, Algorithm 1)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from bnnlib._checks import check_count, matching
from bnnlib.nn.base import BayesianLayer
from bnnlib.pruning.masks import Masks, check_prunable, prunable_weights


class MagnitudePruner(Masks):
    """Sets the smallest weights to 0 after sampling steps; a callback of `bnnlib.train.sample` and `train.fit`.

        pruner = MagnitudePruner(model, lambda k: smooth_sparsity(k, 0.917), names=["layer*.conv*.weight"])
        sample(model, data, sampler=sampler, prior=prior, callbacks=[pruner], ...)

    The number of zeros is exact; the published code finds a threshold by bisection to 0.1 % of the weights.

    Args:
        model: a network, or a dict of parameters by name such as the `weights` of a prior.
        schedule: called with the number of steps done, from 1; returns the share of weights to be 0, in [0, 1).
            Without one, call `prune`.
        names: which parameters, as names or patterns such as "layer*.conv*.weight"; by default the weights of all
            linear and convolutional layers, or the whole dict.
        persistent: True keeps a pruned weight at 0 for good. False is as published: no mask is kept, so the noise and
            the gradient move a pruned weight until the next pruning, and it stays if it has grown large by then.
        frequency: steps between prunings; a persistent mask is held after every step.
        scope: "layer" prunes the same share of every parameter as published, "global" the smallest weights of all.

    Raises:
        ValueError: no parameter is selected, a name or pattern fits none or one with a posterior, or a setting is out
            of range; while running, the schedule would remove all weights of a parameter, or with `persistent` fewer
            than are pruned already.

    Example:
        >>> weights = {"weight": torch.nn.Parameter(torch.tensor([3.0, -1.0, 2.0, 0.5]))}
        >>> MagnitudePruner(weights).prune(0.5)
        >>> (weights["weight"] == 0).tolist()
        [False, True, False, True]
    """

    def __init__(
        self,
        model: nn.Module | Mapping[str, nn.Parameter],
        schedule: Callable[[int], float] | None = None,
        *,
        names: Sequence[str] | None = None,
        persistent: bool = True,
        frequency: int = 1,
        scope: str = "layer",
    ) -> None:
        super().__init__(_selected(model, names), scope)
        self.schedule, self.persistent = schedule, persistent
        self.frequency = check_count("frequency", frequency)

    def prune(self, sparsity: float) -> None:
        """Set the smallest weights to 0 now, a share of `sparsity` in [0, 1).

        Raises:
            ValueError: sparsity is outside [0, 1], would remove all weights of a parameter (with scope "global" all
                weights), or with `persistent` is below what is pruned already.
        """
        counts = {name: mask.numel() for name, mask in self.masks.items()}
        if self.scope == "global":
            counts = {"all parameters together": sum(counts.values())}
        for name, count in counts.items():
            if 0.0 <= sparsity <= 1.0 and round(sparsity * count) == count:
                raise ValueError(
                    f"sparsity is {sparsity:g}, which prunes all {count} weights of {name}: nothing would be left to "
                    "carry the signal. Give a smaller sparsity, or leave that parameter out of `names`."
                )
        if not self.persistent:
            self._open()
        self.update(sparsity)

    def on_step(self, run: Any) -> None:
        """Prune when it is time; hold a persistent mask."""
        if self.schedule is not None and run.step % self.frequency == 0:
            self.prune(self.schedule(run.step))
        elif self.persistent:
            self.apply()

    def state_dict(self) -> dict[str, Tensor]:
        """The masks by the names of their weights; empty where none is kept."""
        return super().state_dict() if self.persistent else {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over masks and apply them.

        Raises:
            ValueError: they are of another network, or of a pruner with another `persistent`.
        """
        if bool(state) != self.persistent:
            raise ValueError(
                f"persistent is {self.persistent}, but this state is of a pruner with persistent={bool(state)}. "
                "Make the pruner as the first time."
            )
        if self.persistent:
            super().load_state_dict(state)


def _selected(model: nn.Module | Mapping[str, nn.Parameter], names: Sequence[str] | None) -> dict[str, nn.Parameter]:
    if names is None:
        chosen = dict(model) if isinstance(model, Mapping) else prunable_weights(model)
    else:
        named = dict(model) if isinstance(model, Mapping) else dict(model.named_parameters())
        chosen = {name: named[name] for name in matching("names", names, named)}
        owners = {name.rpartition(".")[0] for name in chosen}
        for name, layer in () if isinstance(model, Mapping) else model.named_modules():
            if name in owners and isinstance(layer, BayesianLayer):  # whose draws would fill the zeros again
                check_prunable(name, layer)
    if not chosen:
        raise ValueError("no parameter is selected, so there is nothing to prune. Name at least one in `names`.")
    return chosen
