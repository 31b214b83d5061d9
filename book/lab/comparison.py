"""Published values beside ours: the one table that every chapter shows."""

from __future__ import annotations

import math
import statistics
from typing import Any

from bnnlib._files import StoreError
from book.lab import catalog
from book.lab.store import load_result
from book.lab.verdicts import NOT_PUBLISHED, NOT_RUN, PaperValue, for_setting, metrics, paper_values, verdict

Row = dict[str, Any]


def compare(name: str, profile: str | None = None) -> list[Row]:
    """Published values beside ours, with verdicts; the rule is `book.lab.verdicts.verdict`.

    Published numbers come first, in the paper's order, then what only we have. A published number without one of
    ours stays in the table with the verdict "not run: " and the reason. The smoke profile shows its
    means but is never judged: its sizes are too small for any claim.

    Args:
        name: the experiment.
        profile: smoke, book or paper; None takes the best one that is stored.

    Returns:
        Rows with setting, method, metric, unit, published, published_sd, printed, mean, se, sd, n, profile, verdict,
        note, cell. Numbers that do not exist are None: the sd and se of one replicate, the mean of what was not run.

    Raises:
        ExperimentError: there is no experiment of that name, or it has no such profile.
    """

    experiment = catalog.get(name)
    if profile is not None and profile not in {**experiment.profiles, **experiment.unavailable}:
        raise catalog.unknown("profile", profile, experiment.profiles)
    try:
        result, missing = load_result(name, profile), ""
    except StoreError:
        result = {"profile": profile, "rows": []}
        missing = _why_not(experiment, profile)
    if result["profile"] == "smoke":
        missing = "only the smoke profile, too small for a verdict"
    values, failures = _collect(result["rows"])
    planned = _planned(experiment, result["profile"])
    finished = {key[:2] for key in values}
    known = metrics()
    published = _expand(name, values)
    rows = []
    for value in published:
        key = (value.setting, value.method, value.metric)
        why = missing
        if not why and key not in values:
            gap = "does not compute this measure" if key[:2] in finished else "has not finished this cell"
            why = f"the {result['profile']} profile {gap if key[:2] in planned else 'leaves this cell out'}"
        rows.append(_row(key, value, values.get(key, []), failures.get(key[:2], []), result["profile"], why))
    seen = {(value.setting, value.method, value.metric) for value in published}
    order = list(known)
    extra = [key for key in values if key not in seen and key[2] in known]
    for key in sorted(extra, key=lambda key: (_position(key, values), order.index(key[2]))):
        rows.append(_row(key, None, values[key], failures.get(key[:2], []), result["profile"], missing))
    for key in failures:
        if not any((row["setting"], row["method"]) == key for row in rows):
            rows.append(_row((*key, "error"), None, [], failures[key], result["profile"], missing))
    return [row | {"unit": known[row["metric"]].unit if row["metric"] in known else ""} for row in rows]


def _planned(experiment: Any, profile: str | None) -> set[tuple[str, str]]:
    """The (setting, method) pairs that the profile computes."""
    cells = experiment.profiles[profile]() if profile in experiment.profiles else []
    return {(cell.setting, cell.method) for cell in cells}


def _position(key: tuple[str, str, str], values: dict) -> int:
    return next(index for index, other in enumerate(values) if other[:2] == key[:2])


def _collect(rows: list[Row]) -> tuple[dict[tuple[str, str, str], list[float]], dict[tuple[str, str], list[str]]]:
    values: dict[tuple[str, str, str], list[float]] = {}
    failures: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["metric"] == "error":
            failures.setdefault((row["setting"], row["method"]), []).append(row.get("note", "failed"))
        else:
            values.setdefault((row["setting"], row["method"], row["metric"]), []).append(row["value"])
    return values, failures


def _expand(name: str, values: dict) -> list[PaperValue]:
    """The published values with "*" filled in by our settings, and the settings that share another's values."""
    listed, also = paper_values(name)
    ours = list(dict.fromkeys(key[0] for key in values))
    out = []
    for value in listed:
        if value.setting == "*":
            run = [setting for setting in ours if (setting, value.method, value.metric) in values]
            out += [for_setting(value, setting) for setting in run] or [for_setting(value, "any")]
        else:
            out.append(value)
    for setting, note in also.items():
        out += [for_setting(v, setting, note) for v in listed if (setting, v.method, v.metric) in values]
    return out


def _why_not(experiment: Any, profile: str | None) -> str:
    reasons = experiment.unavailable
    reason = reasons.get(profile) if profile else reasons.get("book") or reasons.get("paper")
    reason = reason or f"no result stored; python -m book run {experiment.name} --profile {profile or 'book'}"
    return reason.removeprefix(NOT_RUN)


def _row(
    key: tuple[str, str, str],
    value: PaperValue | None,
    numbers: list[float],
    failed: list[str],
    profile: str | None,
    missing: str,
) -> Row:
    n = len(numbers)
    mean = statistics.fmean(numbers) if n else None
    sd = statistics.stdev(numbers) if n > 1 and all(map(math.isfinite, numbers)) else None
    se = None if sd is None else sd / math.sqrt(n)
    notes = [value.note] if value and value.note else []
    if n and value and n < value.replicates and not missing:
        notes.append(f"{n} of the paper's {value.replicates} replicates")
    if failed:
        notes.append(f"{len(failed)} of {n + len(failed)} replicates failed ({failed[0]})")
    if n and missing:
        decision = NOT_RUN + missing
    elif not n:
        reason = f"failed ({failed[0]})" if failed else missing
        decision = NOT_RUN + reason
    else:
        decision = verdict(value, mean, se) if value else NOT_PUBLISHED
    return {
        "setting": key[0],
        "method": key[1],
        "metric": key[2],
        "published": value.mean if value else None,
        "published_sd": value.sd if value else None,
        "printed": value.printed if value else "",
        "mean": mean,
        "se": se,
        "sd": sd,
        "n": n,
        "profile": profile,
        "verdict": decision,
        "note": "; ".join(notes),
        "cell": value.where if value else "",
    }
