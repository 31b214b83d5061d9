"""Published numbers: ``chapters/STUDY/published.toml``."""

import math
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from bnnlib._files import StoreError
from book.lab.intervals import welch
from book.lab.metrics import Metric, check, metrics, parsed, short

ROOT = Path(__file__).resolve().parents[2]
DIRECTIONS = ("lower", "higher", "nominal", "none")
KINDS = ("own", "rival", "oracle")
"""Whose number: of a method that the papers propose, of one that they quote, or a check of our own reference."""
_SAMPLING = {
    "share": lambda mean, rows: math.sqrt(max(mean * (100.0 - mean), 0.0) / rows),
    "rmse": lambda mean, rows: mean / math.sqrt(2.0 * rows),
    "mse": lambda mean, rows: mean * math.sqrt(2.0 / rows),
    "mae": lambda mean, rows: mean * math.sqrt((math.pi / 2.0 - 1.0) / rows),
}
_VALUE_KEYS = {"setting", "method", "metric", "cell", "mean", "sd", "se", "reading", "tolerance", "by_design"}
_VALUE_KEYS |= {"at_least", "at_most"}
_BOTH_KEYS = {"replicates", "note", "test_set", "interesting", "budget", "direction", "searched"}
_BOTH_KEYS |= {"not_comparable", "not_comparable_in", "other_data", "one_draw", "splits", "best_epoch"}
_SOURCE_KEYS = {"paper", "table", "experiment", "values", "also", "not_run", "cause", "own", "oracle"}


@dataclass(frozen=True)
class Cause:
    """A suspect, and the run of ours that takes it away; see `book.lab.causes`.

    Args:
        setting, method, metric: of its rows; "" for those of the published number, whose setting also stands for
            "{setting}" in a longer name.
    """

    text: str
    run: str
    # what in the paper's text or code allows this change; "" where nothing does: it then explains nothing
    allowed: str = ""
    setting: str = ""
    method: str = ""
    metric: str = ""


@dataclass(frozen=True)
class PaperValue:
    """One published number.

    Args:
        spreads: standard errors of the mean, each with the degrees of freedom that it is known with (inf where the
            paper does not say): over the paper's replicates, and of a test set that ours are not measured on.
    """

    paper: str
    table: str
    cell: str
    experiment: str
    setting: str  # the setting, or "*" for every setting of the experiment
    method: str
    metric: str
    unit: str
    direction: str
    nominal: float | None
    mean: float  # as published
    sd: float | None  # standard deviation over the paper's replicates, None when none is given
    spreads: tuple[tuple[float, float], ...]
    rounding: float  # half a unit of the last printed digit
    reading: float  # error of reading it off a curve, 0 for a printed number
    tolerance: float  # what it may differ by without a meaning, as declared
    interesting: float  # the smallest difference that would matter, at least one unit of the last printed digit
    replicates: int  # number of the paper's replicates behind the mean
    printed: str  # mean and spread with the digits of the paper, "16.0 ± 8.14"
    with_error: tuple[str, ...] = ()
    budget: float | None = None  # epochs or iterations behind it, None where they are not known
    by_design: str = ""  # why the method or its user fixes this number; "" where nothing does
    not_comparable: str = ""  # why nothing follows from a difference; "" where there is no such reason
    not_comparable_in: dict[str, str] = field(default_factory=dict)  # the same for single profiles of ours
    # the same for single copies of the data set, by their title
    other_data: dict[str, str] = field(default_factory=dict)
    note: str = ""
    # it comes from one data set or one network and has no printed spread, so that ours stands in for it
    one_draw: bool = False
    causes: tuple[Cause, ...] = ()  # why ours may be worse or differ, each with the run that tells
    not_run: str = ""  # why no profile of ours has this cell; "" where one could
    kind: str = "own"  # one of `KINDS`
    # of a claim about every data set, between which each of ours must lie; None of a mean
    limits: tuple[float, float] | None = None
    searched: str = ""  # what ours was chosen by that the paper did not search; "" where nothing is said

    @property
    def se(self) -> float:
        """Standard error of the mean, of all `spreads` together."""
        return welch(self.spreads)[0]

    @property
    def df(self) -> float:
        """Degrees of freedom of that standard error."""
        return welch(self.spreads)[1]

    @property
    def margin(self) -> float:
        """What the printed number itself leaves open."""
        return self.rounding + self.reading + self.tolerance

    @property
    def where(self) -> str:
        """The cell that it was printed in, for example "Table 2: SVBNN, Test RMSE"."""
        return f"{self.table}: {self.cell}"


def paper_values(experiment: str) -> tuple[list[PaperValue], dict[str, dict[str, str]]]:
    """The published numbers of an experiment, and the untabulated settings that they are also laid beside.

    Returns:
        The values, and ``{setting: {"note" or "not_comparable": text}}``: settings that the paper's text speaks of
        without a table of their own.

    Raises:
        StoreError: there are no published numbers in this tree, or they are damaged.
    """
    files = sorted(ROOT.glob("chapters/*/published.toml"))
    if not files:
        raise StoreError(f"{ROOT / 'chapters'} has no */published.toml; take the published numbers from the repository")
    known, values, also = metrics(), [], {}
    for path in files:
        for source in _sources(path):
            if source["experiment"] == experiment:
                also |= source.get("also", {})
                for entry in source["values"]:
                    values += _last_and_best(_value(path, source, entry, known), source | entry, known)
    return values, also


def _last_and_best(value: PaperValue, given: dict[str, Any], known: dict[str, Metric]) -> list[PaperValue]:
    """A number of the epoch that errs least on the test images stands beside our last one and beside our best one."""
    if value.metric not in given.get("best_epoch", ()):
        return [value]
    note = "; ".join(filter(None, (value.note, "both are the best epoch on the test images")))
    best = replace(value, metric=f"{value.metric}_best_epoch", note=note)
    if best.metric not in known:
        raise StoreError(f"{value.where}: metric {best.metric!r} is not in metrics.toml")
    why = "theirs is the best epoch on the test images, ours the last"
    return [for_setting(value, value.setting, not_comparable=why), best]


def for_setting(value: PaperValue, setting: str, note: str = "", not_comparable: str = "") -> PaperValue:
    """The same published number laid beside another setting."""
    notes = "; ".join(filter(None, (value.note, note)))
    reasons = "; ".join(filter(None, (value.not_comparable, not_comparable)))
    return replace(value, setting=setting, note=notes, not_comparable=reasons)


def _value(path: Path, source: dict[str, Any], entry: dict[str, Any], known: dict[str, Metric]) -> PaperValue:
    where = f"{short(path)}: {source['table']}, {entry.get('cell', 'a value without a cell')}"
    check(where, entry, _VALUE_KEYS | _BOTH_KEYS, {"setting", "method", "metric", "cell", "mean"})
    metric = known.get(entry["metric"])
    if metric is None:
        raise StoreError(f"{where}: metric {entry['metric']!r} is not in metrics.toml; known: {', '.join(known)}")
    given = {key: source[key] for key in _BOTH_KEYS & set(source)} | entry
    mean, replicates = float(entry["mean"]), int(given["replicates"])
    direction = given.get("direction", metric.direction)
    if direction not in DIRECTIONS:
        raise StoreError(f"{where}: direction {direction!r} is none of {', '.join(DIRECTIONS)}")
    rounding = 0.5 * 10.0 ** Decimal(entry["mean"]).as_tuple().exponent
    rows, limits = given.get("test_set"), _limits(where, entry)
    sampling = _SAMPLING[metric.sampling](mean, int(rows)) if rows and metric.sampling else 0.0
    return PaperValue(
        **{key: source[key] for key in ("paper", "table", "experiment")},
        **{key: entry[key] for key in ("cell", "setting", "method")},
        **{key: given.get(key, "") for key in ("by_design", "note", "searched")},
        **{key: source.get(key, {}) | entry.get(key, {}) for key in ("not_comparable_in", "other_data")},
        **{key: float(entry.get(key, 0.0)) for key in ("reading", "tolerance")},
        **{key: None if key not in given else float(given[key]) for key in ("sd", "budget")},
        metric=metric.name,
        unit=metric.unit,
        direction=direction,
        nominal=metric.nominal,
        mean=mean,
        spreads=tuple(one for one in (_spread(given, replicates), (sampling, math.inf)) if one[0]),
        rounding=rounding,
        interesting=max(_interesting(where, source, entry, metric, mean), 2.0 * rounding),
        replicates=replicates,
        printed=_printed(entry, limits),
        with_error=metric.with_error,
        not_comparable="; ".join(filter(None, (one.get("not_comparable") for one in (source, entry)))),
        one_draw=bool(given.get("one_draw", False)),
        causes=_causes(where, source, entry),
        not_run=_reason(source.get("not_run", {}), entry),
        kind=_kind(where, source, entry),
        limits=limits,
    )


def _kind(where: str, source: dict, entry: dict) -> str:
    if bool(source.get("oracle")) == ("own" in source):
        raise StoreError(
            f"{where}: give own, the list of methods that the paper proposes (the others are quoted), or oracle"
        )
    return "oracle" if source.get("oracle") else "own" if entry["method"] in source["own"] else "rival"


def _spread(given: dict, replicates: int) -> tuple[float, float]:
    """The standard error over the paper's replicates and its degrees of freedom.

    Splits that overlap are no independent replicates: the error over n of them, a test row to r training rows, grows by
    sqrt(1 + n / r); see `book.lab.verdicts.spread`.
    """
    splits = given.get("splits")
    number = int(splits["number"]) if splits else replicates
    wider = math.sqrt(1.0 + number * float(splits["overlap"])) if splits else 1.0
    if not {"se", "sd"} & set(given):
        return 0.0, math.inf
    error = float(given["se"]) if "se" in given else float(given["sd"]) / math.sqrt(replicates)
    return error * wider, number - 1 if number > 1 else math.inf


def _limits(where: str, entry: dict) -> tuple[float, float] | None:
    if not {"at_least", "at_most"} & set(entry):
        return None
    low, high = float(entry.get("at_least", -math.inf)), float(entry.get("at_most", math.inf))
    if not low <= high:
        raise StoreError(f"{where}: at_least {low:g} is above at_most {high:g}")
    return low, high


def _printed(entry: dict, limits: tuple[float, float] | None) -> str:
    if limits is None:
        return f"{entry['mean']}" + ("" if entry.get("sd") is None else f" ± {entry['sd']}")
    if "at_least" in entry and "at_most" in entry:
        return f"{entry['at_least']} to {entry['at_most']}"
    return f"≥ {entry['at_least']}" if "at_least" in entry else f"≤ {entry['at_most']}"


def _causes(where: str, source: dict, entry: dict) -> tuple[Cause, ...]:
    """The source's causes whose "of" holds what the setting begins with, and whose methods hold the entry's."""
    found = []
    for given in source.get("cause", ()):
        about = {key: text for key, text in given.items() if key not in ("of", "methods")}
        if unknown := set(about) - {one.name for one in fields(Cause)}:
            raise StoreError(f"{where}: a cause has no {min(unknown)!r}; it has of, methods, text, run and where it is")
        if _reason({given.get("of", "*"): "yes"}, entry) and entry["method"] in given.get("methods", [entry["method"]]):
            found.append(Cause(**about))
    return tuple(found)


def _reason(reasons: dict[str, str], entry: dict) -> str:
    """The reason for the setting: a key holds what settings begin with, "boston | yacht"; "*" is for all."""
    for key, text in reasons.items():
        if key == "*" or entry["setting"].startswith(tuple(key.split(" | "))):
            return text
    return ""


def _interesting(where: str, source: dict, entry: dict, metric: Metric, mean: float) -> float:
    given = entry.get("interesting", source.get("interesting", {}).get(metric.kind, metric.interesting))
    if given is None and metric.interesting_share is None:
        raise StoreError(
            f"{where}: no interesting difference is declared for {metric.name!r}; give its kind one in metrics.toml, "
            "or this value one of its own"
        )
    return abs(mean) * metric.interesting_share if given is None else float(given)


def _sources(path: Path) -> list[dict[str, Any]]:
    sources = parsed(path, path.stat().st_mtime_ns).get("source", [])
    for source in sources:
        where = f"{short(path)}: {source.get('table', 'a source without a table')}"
        check(where, source, _SOURCE_KEYS | _BOTH_KEYS, {"paper", "table", "experiment", "replicates", "values"})
    return sources
