"""The knobs of an explorer: sliders, and rows of buttons for a choice."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

LEAST_STOPS = 12


@dataclass(frozen=True)
class Control:
    """One knob of an explorer: a slider, or with `choice` a row of buttons.

    Args:
        label: what the reader sees beside the knob.
        values: the grid: at least 12 distinct values on a continuous knob, at least two on another.
        default: where the knob starts; one of the values.
        format: how a value is written: a format specification such as ".0e", or a function value -> text.
        choice: True for values without an order, such as views, data sets or methods: buttons instead of a slider.
        discrete: True for a slider over all of the few values that there are, such as a number of layers.

    Raises:
        ValueError: for an empty label, too few values, repeated values, or a default outside the grid.
    """

    label: str
    values: Iterable[Any]
    default: Any
    format: str | Callable[[Any], str] | None = None
    choice: bool = False
    discrete: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not str(self.label).strip():
            raise ValueError("a control needs a label: the words that the reader sees beside the knob")
        texts, number = [self.text(value) for value in self.values], len(self.values)
        if number < 2:
            raise ValueError(f"control {self.label!r}: values has {number} entries, a knob needs at least 2")
        if number < LEAST_STOPS and not (self.choice or self.discrete):
            raise ValueError(
                f"control {self.label!r}: values has {number} entries, a continuous slider needs at least "
                f"{LEAST_STOPS}: give more values, or choice=True (buttons) for values without an order, or "
                "discrete=True if there are no values in between"
            )
        if repeated := sorted({text for text in texts if texts.count(text) > 1}):
            raise ValueError(f"control {self.label!r}: values shows {repeated} more than once; change `format`")
        if self.default not in self.values:
            raise ValueError(f"control {self.label!r}: default {self.default!r} is not among values: {texts}")

    def text(self, value: Any) -> str:
        """The value as the reader sees it."""
        if callable(self.format):
            return str(self.format(value))
        text = format(value, self.format or ("g" if isinstance(value, float) else ""))
        return text if isinstance(value, str) else re.sub("^-", "−", text)
