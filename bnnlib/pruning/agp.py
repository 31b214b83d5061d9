"""Automated gradual pruning (Zhu and Gupta, 2018): prune while training, fast at first and slowly at the end."""

from __future__ import annotations

from typing import Any, TypedDict

from torch import nn

from bnnlib._checks import check_count
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
