"""Numbers of a layer that can be assigned at any time: one state each, checked."""

from __future__ import annotations

from collections.abc import Callable

from bnnlib._checks import check_probability
from bnnlib.nn.draws import forget


def setting(name: str, check: Callable[[str, float], float]) -> property:
    """A number of a layer that is checked whenever it is assigned; a token of the value before is dropped.

    `_check_setting(name, value)` of the layer holds what several settings must keep to together.
    """

    def get(layer) -> float:
        return getattr(layer, f"_{name}")

    def put(layer, value: float) -> None:
        value = float(check(name, value))
        layer._check_setting(name, value)
        setattr(layer, f"_{name}", value)
        forget(layer)

    return property(get, put)


def check_open(name: str, value: float) -> float:
    """`check_probability` on the open interval."""
    return check_probability(name, value, open_interval=True)
