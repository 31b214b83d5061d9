"""What a real cell has and its probe has not: the arrays that it reads, and the far ends of its schedules.

A probe takes digits in place of photographs and three steps in place of thirty thousand: code that hands over the test
images for training, or a step size that stops falling, leaves its rows as they are. So an experiment declares two
things of its real cells, and a probe keeps both in numbers:

- ``Experiment.reads``: calls of the functions by which the cell itself loads, splits and scales its data. They are made
  with the parameters of the real cell, and of every array that comes back, named by its place in what comes back (train
  or test), its shape, its size and two sums are kept, in which each row has a weight of its own: one of the first batch
  and one of all rows. Other rows, or the same ones in another order, have other sums.
- ``Experiment.schedules``: what changes on the way, as functions with the steps that the real cell asks them for. Their
  values at 0, 25, 50, 75, 99 and 100 % of these steps are kept.

Numbers and not hashes, because the last bits of a mean differ between processors.

Probes say this since November 2026. For cells that are older it is what the code of that day made of them, which equals
the code that computed them as far as certificates say so, by rows alone. Of the data sets as they are loaded it was
shown: at the commits of these cells that the history has, `bnnlib.datasets.load` gave the arrays of that day. Of how a
cell splits and scales them, and of schedules, the certificates are all there is.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bnnlib import datasets
from bnnlib.datasets.registry import data_root
from book.lab import keys
from book.lab.cells import Cell, Experiment

SHARES = (0.0, 0.25, 0.5, 0.75, 0.99, 1.0)  # of a schedule's steps
BATCH = 128  # rows whose order counts apart
TOLERANCE = 1e-5  # relative; float32 sums of images agree to 1e-6
# and absolute: standardized columns move by the last bit of their mean, and a cosine does not quite end at 0
FLOOR = {"reads": 1e-4, "schedules": 1e-15}

Numbers = dict[str, list[float]]
Kept = dict[str, dict[str, Numbers | str]]  # "reads" and "schedules" by a cell's label, or the label of an equal cell


@dataclass(frozen=True)
class Unlike:
    """Why a real cell is not what its probe says, or that the probe does not say it."""

    text: str
    known: bool


def keep(kept: Kept, experiment: Experiment, cell: Cell, profile: str) -> bool:
    """Write down what is declared of a real cell and not kept yet; whether there was something."""
    new = False
    for part, ask in _parts(experiment, cell, profile).items():
        others = kept.setdefault(part, {})
        if cell.label not in others:
            numbers = ask()
            firsts = ((name, one) for name, one in others.items() if not isinstance(one, str))
            same = (name for name, one in firsts if not difference(numbers, one, FLOOR[part]))
            others[cell.label], new = next(same, numbers), True
    return new


def forget(kept: Kept, labels: set[str]) -> None:
    """Take out what is kept of some cells, and of those that are said to be equal to one."""
    for numbers in kept.values():
        gone = [name for name, one in numbers.items() if name in labels or (isinstance(one, str) and one in labels)]
        for label in gone:
            del numbers[label]


def unlike(kept: Kept, experiment: Experiment, cell: Cell, profile: str) -> Unlike | None:
    """What of a real cell differs from what is kept of it; None where nothing does, as far as its data are at hand."""
    for part, ask in _parts(experiment, cell, profile).items():
        found = kept.get(part, {})
        before = found.get(cell.label)
        before = found[before] if isinstance(before, str) else before
        if before is None:
            return Unlike(f"the stored probe does not say its {part}", False)
        if why := difference(ask(), before, FLOOR[part]):
            return Unlike(f"its {part}: {why}", True)
    return None


def _parts(experiment: Experiment, cell: Cell, profile: str) -> dict[str, Callable[[], Numbers]]:
    parts: dict[str, Callable[[], Numbers]] = {}
    if experiment.reads is not None and at_hand(experiment, cell, profile):
        parts["reads"] = lambda: {
            f"{number}.{part}": values
            for number, call in enumerate(experiment.reads(cell))
            for part, values in read(call, str(data_root())).items()
        }
    if experiment.schedules is not None and experiment.schedules(cell):
        parts["schedules"] = lambda: {name: _ends(*one) for name, one in sorted(experiment.schedules(cell).items())}
    return parts


def at_hand(experiment: Experiment, cell: Cell, profile: str) -> bool:
    """Whether the data that a cell itself reads are here."""
    return all(map(datasets.available, keys.own_data(experiment, cell, profile)))


def difference(today: Numbers, before: Numbers, floor: float = 0.0) -> str:
    """Where two cells' numbers differ by more than rounding, in words; "" where they do not."""
    if today.keys() != before.keys():
        return f"there are {', '.join(sorted(today))}, there were {', '.join(sorted(before))}"

    def near(one: float, other: float) -> bool:
        return one == other or abs(one - other) <= max(floor, TOLERANCE * max(abs(one), abs(other)))

    for name, now in today.items():
        then = before[name]
        if len(now) != len(then) or not all(map(near, now, then)):
            return f"{name} is {_shown(now)}, was {_shown(then)}"
    return ""


def _shown(values: list[float]) -> str:
    return "(" + ", ".join(f"{value:.6g}" for value in values[:6]) + (", ...)" if len(values) > 6 else ")")


READ: dict[tuple, Numbers] = {}


def read(call: partial, root: str = "") -> Numbers:
    """The arrays that a call gives with the data of a folder; equal calls are made once."""
    name = (call.func, repr(call.args), repr(sorted(call.keywords.items())), root)
    if name not in READ:
        READ[name] = {name: summary(array) for name, array in arrays_of(call())}
    return READ[name]


def arrays_of(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor within dicts, sequences and dataclasses, under the names on the way to it."""
    if isinstance(value, Tensor):
        yield name.removeprefix("."), value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from arrays_of(one, f"{name}.{key}")
    elif is_dataclass(value):
        for one in fields(value):
            yield from arrays_of(getattr(value, one.name), f"{name}.{one.name}")
    elif isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", range(len(value)))
        for key, one in zip(names, value, strict=True):
            yield from arrays_of(one, f"{name}.{key}")


@torch.no_grad()
def summary(array: Tensor) -> list[float]:
    """Shape, root mean square, and two sums in units of it, of the first rows and of all rows."""
    rows = array.detach().reshape(len(array), -1) if array.dim() and len(array) else array.detach().reshape(1, -1)
    if not rows.numel():
        return [*map(float, array.shape)]
    rows = rows if rows.is_floating_point() else rows.float()
    scale = float(rows.square().mean(dtype=torch.float64).sqrt())
    first, means = rows[:BATCH].double(), rows.mean(dim=1, dtype=torch.float64)
    both = _weights(len(first))[:, None] * _weights(first.shape[1])
    sums = (both * first).sum(), (_weights(len(means)) * means).sum()
    # each a number around 1, which one other row of a thousand moves by a thirtieth
    sizes = (first.numel(), len(means))
    parts = (float(one) / count**0.5 / (scale or 1.0) for one, count in zip(sums, sizes, strict=True))
    return [*map(float, array.shape), *map(_rounded, (scale, *parts))]


def _weights(count: int) -> Tensor:
    # of mean square 1, without a period that could be one of the data
    return 2.0**0.5 * torch.cos(2.399963 * torch.arange(count, dtype=torch.float64))


def _ends(function, steps: range) -> list[float]:
    values = []
    for share in SHARES:
        value = function(steps[round(share * (len(steps) - 1))])
        if isinstance(value, Tensor) and value.numel() > 1:
            value = value.detach().double().flatten()
            value = (_weights(len(value)) * value).mean()
        values.append(_rounded(float(value)))
    return values


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")
