"""Numbers that know from which stored runs they are, also after some arithmetic.

A mean of a cell of the store, a difference of two, a share of replicates: what is computed with numpy or by Python's
operators carries the cells (experiment, setting, method, metric) of all that went into it. What goes through `float`,
`list` or other libraries is an ordinary number again.
"""

from typing import Any

import numpy as np

Cells = tuple[tuple[str, ...], ...]


def cells_of(*values: Any) -> Cells:
    """The cells behind some values, each once; () for those that know none."""
    return tuple(dict.fromkeys(cell for value in values for cell in getattr(value, "cells", ())))


def knowing(value: Any, cells: Cells) -> Any:
    """The value with the cells it was computed from; arrays, floats and whole numbers can carry them."""
    if isinstance(value, np.ndarray):
        known = value.view(Values)
    elif isinstance(value, float | np.floating):
        known = Mean(value)
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        known = Count(value)
    else:
        return value
    known.cells = cells
    return known


class Count(int):
    """A whole number, such as of replicates, with the cells that it was counted in."""

    cells: Cells = ()


class Mean(np.float64):
    """A number with the cells that it was computed from.

    Where it is the mean of a cell, also over how many runs (`runs`), and which cell that is (`cell`).
    """

    runs: int | None = None
    cell: tuple[str, ...] = ()
    cells: Cells = ()


def _operator(name: str):
    plain = getattr(np.float64, name)

    def operate(self, *others):
        return knowing(plain(self, *others), cells_of(self, *others))

    return operate


for _name in ("add", "sub", "mul", "truediv", "pow"):
    for _side in ("", "r"):
        setattr(Mean, f"__{_side}{_name}__", _operator(f"__{_side}{_name}__"))
for _name in ("neg", "abs"):
    setattr(Mean, f"__{_name}__", _operator(f"__{_name}__"))


class Values(np.ndarray):
    """The values of a cell's replicates (`cell`), or what was computed from such (`cells`)."""

    cell: tuple[str, ...] = ()
    cells: Cells = ()

    def __array_finalize__(self, source: Any) -> None:
        self.cells = getattr(source, "cells", ())

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(one) if isinstance(one, Values) else one for one in inputs]
        if out := options.get("out"):
            options["out"] = tuple(np.asarray(one) if isinstance(one, Values) else one for one in out)
        found = getattr(ufunc, method)(*plain, **options)
        return found if isinstance(found, tuple) else knowing(found, cells_of(*inputs))

    def mean(self, *arguments: Any, **options: Any) -> Any:
        mean = knowing(np.asarray(self).mean(*arguments, **options), self.cells)
        if self.cell and not arguments and not options:
            mean.runs, mean.cell = self.size, self.cell
        return mean

    def __getitem__(self, place: Any) -> Any:
        return knowing(super().__getitem__(place), self.cells)
