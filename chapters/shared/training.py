"""`bnnlib.train.fit` with the noise that stored results were drawn from, its schedules, and a curve for it to keep."""

from functools import partial
from typing import Any

from bnnlib import train
from bnnlib.train.fit import Callback

# Stored results, and the probes that certify them, drew the layers' noise and the order of rows from one generator, a
# sequence with a state. The default of `fit`, noise by key, has the same law and other numbers.
fit = partial(train.fit, keyed=False)


def falling(step: int, steps: int) -> float:
    """Of a learning rate: linearly down to 0."""
    return 1.0 - step / steps


def falling_late(step: int, steps: int) -> float:
    """Of a learning rate or temperature: constant for the first half, then linearly down to 0."""
    return min(1.0, 2.0 * falling(step, steps))


def rising(epoch: int, weight: float, warm_up: int) -> float:
    """Weight of the divergence: up to its own over the first epochs."""
    return weight * min(1.0, (epoch + 0.02) / warm_up) if warm_up else weight


class EpochRows(Callback):
    """Rows, one an epoch, that a resumed run goes on with; `on_epoch` appends to them."""

    def __init__(self) -> None:
        self.rows: list[list[float]] = []

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows = [list(row) for row in state["rows"]]
