"""Lottery tickets (Frankle and Carbin, 2018): prune a trained network, rewind what is left, train it again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import nn

from bnnlib._checks import check_non_negative
from bnnlib.pruning.masks import Masks
from bnnlib.pruning.schedules import lottery_ticket_sparsities


class _Ticket(Masks):
    """Masks that also remember the network as it was after `rewind_step` steps of the first round."""

    def __init__(self, model: nn.Module, scope: str, rewind_step: int) -> None:
        super().__init__(model, scope)
        self.model, self.rewind_step = model, rewind_step
        self.start = copy.deepcopy(model.state_dict()) if rewind_step == 0 else None

    def on_step(self, run: Any) -> None:
        super().on_step(run)
        if self.start is None and run.step == self.rewind_step:
            self.start = copy.deepcopy(self.model.state_dict())

    def rewind(self) -> None:
        if self.start is None:
            raise ValueError(
                f"rewind_step is {self.rewind_step}, but the first round of training had fewer steps. Train longer or "
                "rewind to an earlier step."
            )
        self.model.load_state_dict(self.start)
        self.apply()

    def state_dict(self) -> dict[str, Any]:
        return {"masks": super().state_dict(), "start": self.start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state["masks"])
        self.start = state["start"]


def lottery_ticket(
    model: nn.Module,
    train: Callable[[nn.Module, Masks], Any],
    *,
    final_sparsity: float,
    rounds: int = 5,
    rewind_step: int = 0,
    scope: str = "layer",
) -> Masks:
    """Find a lottery ticket by iterative pruning with rewinding, equation (svbnn-lottery), and train it.

        def train(model, masks):
            fit(model, data, epochs=40, batch_size=512, callbacks=[masks])

        masks = lottery_ticket(model, train, final_sparsity=0.95)

    Args:
        model: deterministic; on return it is the trained ticket.
        train: called as train(model, masks) rounds + 1 times; must make a new optimizer each time and hold the masks
            after every step, for which `masks` is a callback of `bnnlib.train.fit`.
        final_sparsity: share of weights that are 0 in the end, strictly between 0 and 1.
        rounds: prunings on the way; each removes the same share of what is left.
        rewind_step: 0 rewinds to the initial weights, k > 0 to those after k steps of the first round, which larger
            networks need (Frankle et al., 2019).
        scope: "layer" or "global".

    Returns:
        The masks of the ticket.

    Raises:
        ValueError: a setting is out of range, or the first round has fewer than rewind_step steps.

    Example:
        >>> from bnnlib.train import fit
        >>> model, data = torch.nn.Linear(10, 4), (torch.randn(64, 10), torch.randint(4, (64,)))
        >>> def train(model, masks):
        ...     fit(model, data, epochs=2, batch_size=32, callbacks=[masks])
        >>> masks = lottery_ticket(model, train, final_sparsity=0.75, rounds=2)
        >>> float((model.weight == 0).float().mean())
        0.75
    """
    check_non_negative("rewind_step", rewind_step)
    ticket = _Ticket(model, scope, rewind_step)
    for sparsity in lottery_ticket_sparsities(final_sparsity, rounds):
        train(model, ticket)
        ticket.update(sparsity)
        ticket.rewind()
    train(model, ticket)
    return ticket
