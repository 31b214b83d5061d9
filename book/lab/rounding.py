"""Whether the rows of two probes are the same numbers up to rounding.

A kernel may add in another order: in float32 numbers then move by about 1e-7 a step and grow on their way, in float64
by 1e-16. So numbers are equal up to a share that goes with the precision of the arithmetic (`SHARE`). Percentages are
counts, of test images above all, which jump where a number hardly moves: they may differ by two of the 359 test digits
of a probe (`JUMP`), as long as the rows of the same probe that are no percentages agree, the size of its last gradients
among them (`book.lab.probes.GRADIENT`). Where there is no such row, counts must be equal.
"""

import math
from collections.abc import Iterable

from book.lab.cells import Cell, Experiment
from book.lab.metrics import metrics

SHARE = {"float64": 1e-9, "float32": 1e-4, "bfloat16": 1e-3}
JUMP = 100.0 * 2.0 / 359.0  # points
_COUNTED = ("accuracy", "error", "validation_error")  # beginnings of names that stand in no table

Row = list
Place = tuple


def share_of(experiment: Experiment, cell: Cell) -> float:
    """How far apart, relatively, equal numbers of a small cell may be."""
    return SHARE["bfloat16" if _says(cell.params, "bfloat16") else experiment.precision]


def _says(value: object, word: str) -> bool:
    if isinstance(value, dict):
        return any((key == word and one is True) or one == word or _says(one, word) for key, one in value.items())
    return isinstance(value, list) and any(_says(one, word) for one in value)


def farthest(rows: Iterable[Row], before: Iterable[Row], share: float) -> tuple[bool, float, str]:
    """Whether rows are equal up to rounding, their largest relative difference, and where that is, in words."""
    now, old = _by_place(rows), _by_place(before)
    if now.keys() != old.keys():
        return False, math.inf, "other rows"
    counts = {place for place in now if is_count(place[3])}
    apart = {place: _apart(now[place], old[place]) for place in now}
    steady = any(place not in counts and now[place] != 0.0 and math.isfinite(now[place]) for place in now)
    jumps = {place for place in counts if steady and abs(now[place] - old[place]) <= JUMP}
    bad = [place for place, far in apart.items() if far > share and place not in jumps]
    # a number that is wrong is named before a count that only jumps
    place = max(bad or apart, key=apart.__getitem__, default=None)
    if place is None or not apart[place]:
        return True, 0.0, ""
    return not bad, apart[place], f"{place[3]} is {now[place]:.9g}, was {old[place]:.9g}"


def _by_place(rows: Iterable[Row]) -> dict[Place, float]:
    return {tuple(row[:4]): math.nan if row[4] is None else float(row[4]) for row in rows}


def is_count(metric: str) -> bool:
    """Whether a metric is a percentage."""
    known = metrics().get(metric)
    return known.unit == "%" if known else metric.startswith(_COUNTED)


def _apart(one: float, other: float) -> float:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    apart = abs(one - other) / max(abs(one), abs(other))
    return math.inf if math.isnan(apart) else apart
