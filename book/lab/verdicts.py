"""Published numbers, and the rule by which ours is judged against one."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from bnnlib._files import StoreError
from book.lab.store import home

REPRODUCED = "reproduced"
WITHIN_NOISE = "within noise"
BETTER = "better"
NOT_REPRODUCED = "not reproduced"
NOT_PUBLISHED = "not published"
NOT_RUN = "not run: "
"""Prefix of the sixth verdict; the reason follows."""


@dataclass(frozen=True)
class Metric:
    """How a metric is shown and which direction is better: lower, higher, nominal (closer to `nominal`) or none."""

    name: str
    label: str
    unit: str
    direction: str
    digits: int
    nominal: float | None = None


@dataclass(frozen=True)
class PaperValue:
    """One published number.

    Args:
        mean: as published.
        sd: standard deviation over the paper's replicates, None when none is given.
        rounding: half a unit of the last printed digit.
        reading: error of reading it off a curve, 0 for a printed number.
        tolerance: replaces the default tolerance of the verdict rule, None keeps it.
        replicates: number of the paper's replicates behind the mean.
        printed: mean and spread with the digits of the paper, "16.0 ± 8.14".
        setting: the setting, or "*" for every setting of the experiment.
    """

    paper: str
    table: str
    cell: str
    experiment: str
    setting: str
    method: str
    metric: str
    unit: str
    direction: str
    nominal: float | None
    mean: float
    sd: float | None
    rounding: float
    reading: float
    tolerance: float | None
    replicates: int
    note: str
    printed: str

    @property
    def where(self) -> str:
        """The cell that it was printed in, for example "Table 2: SVBNN, Test RMSE"."""
        return f"{self.table}: {self.cell}"


def verdict(value: PaperValue, mean: float, se: float | None) -> str:
    """Judge our mean against a published one; the first of these rules that holds gives the verdict.

    With d = ours - published:

    1. **reproduced**: ``|d| <= tolerance``. The tolerance is the one given for the cell in ``data/paper_values.toml``;
       by default it is half a unit of the last printed digit, plus the reading error of a curve, plus two
       combined standard errors, ``2 sqrt(se^2 + sd^2 / n)``, with our standard error se and the paper's sd and n.
    2. **within noise**: ``|d| <= sd``, the paper's standard deviation over replicates: one more of its own
       replicates could have been there.
    3. **better**: beyond that, in the metric's good direction (for a coverage: closer to its nominal level).
    4. **not reproduced**: everything else.

    The paper prints "mean ± x" and does not name x; it is the standard deviation over replicates (the head of
    ``data/paper_values.toml`` shows why it can be nothing else).

    Args:
        value: the published number.
        mean: ours, in the same unit.
        se: standard error of ours; None (a single run) counts as 0, which makes the rule stricter.
    """
    difference = mean - value.mean
    tolerance = value.tolerance
    if tolerance is None:
        paper_se = (value.sd or 0.0) / math.sqrt(value.replicates)
        tolerance = value.rounding + value.reading + 2.0 * math.hypot(se or 0.0, paper_se)
    rim = 1e-9 * max(1.0, abs(value.mean))  # decimal limits such as 0.005 are not exact in binary
    if abs(difference) <= tolerance + rim:
        return REPRODUCED
    if value.sd is not None and abs(difference) <= value.sd + rim:
        return WITHIN_NOISE
    better = {
        "lower": difference < 0,
        "higher": difference > 0,
        "nominal": value.nominal is not None and abs(mean - value.nominal) < abs(value.mean - value.nominal),
        "none": False,
    }
    return BETTER if better[value.direction] else NOT_REPRODUCED


def metrics() -> dict[str, Metric]:
    """Metrics that tables show, by name, in the order in which tables show them."""
    return {
        name: Metric(
            name=name,
            label=entry["label"],
            unit=entry["unit"],
            direction=entry["direction"],
            digits=int(entry["digits"]),
            nominal=None if "nominal" not in entry else float(entry["nominal"]),
        )
        for name, entry in _document()["metric"].items()
    }


def paper_values(experiment: str) -> tuple[list[PaperValue], dict[str, str]]:
    """The published numbers of an experiment, and the untabulated settings that they are also laid beside.

    Returns:
        The values, and ``{setting: note}``: settings that the paper's text speaks of without a table of their own.
    """
    known, values, also = metrics(), [], {}
    for source in _document()["source"]:
        if source["experiment"] != experiment:
            continue
        also |= source.get("also", {})
        values += [_value(source, entry, known) for entry in source["values"]]
    return values, also


def for_setting(value: PaperValue, setting: str, note: str = "") -> PaperValue:
    """The same published number laid beside another setting."""
    return replace(value, setting=setting, note="; ".join(part for part in (value.note, note) if part))


def _value(source: dict[str, Any], entry: dict[str, Any], known: dict[str, Metric]) -> PaperValue:
    metric = known.get(entry["metric"])
    if metric is None:
        raise StoreError(
            f"paper_values.toml: metric {entry['metric']!r} has no [metric] table; known: {', '.join(known)}"
        )
    sd, tolerance = entry.get("sd"), entry.get("tolerance")
    return PaperValue(
        paper=source["paper"],
        table=source["table"],
        cell=entry["cell"],
        experiment=source["experiment"],
        setting=entry["setting"],
        method=entry["method"],
        metric=metric.name,
        unit=metric.unit,
        direction=entry.get("direction", metric.direction),
        nominal=metric.nominal,
        mean=float(entry["mean"]),
        sd=None if sd is None else float(sd),
        rounding=0.5 * 10.0 ** Decimal(entry["mean"]).as_tuple().exponent,
        reading=float(entry.get("reading", 0.0)),
        tolerance=None if tolerance is None else float(tolerance),
        replicates=int(entry.get("replicates", source["replicates"])),
        note=entry.get("note", source.get("note", "")),
        printed=f"{entry['mean']}" + ("" if sd is None else f" ± {sd}"),
    )


def _document() -> dict[str, Any]:
    path = home() / "paper_values.toml"
    if not path.exists():  # BNNLIB_HOME may hold results only; the published numbers belong to the source tree
        path = Path(__file__).resolve().parents[2] / "data" / "paper_values.toml"
    if not path.exists():
        raise StoreError(
            "data/paper_values.toml is missing; take it from the repository, or set BNNLIB_HOME to its data/"
        )
    return _parse(path, path.stat().st_mtime_ns)


@cache
def _parse(path: Path, _changed: int) -> dict[str, Any]:
    # Decimal keeps the printed digits: 1.00 was rounded to 0.01, 1 would have been rounded to 1
    return tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
