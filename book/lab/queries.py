"""Questions that figures and notebooks ask of the stored results: one number, one curve, the arrays of a replay."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from book.lab import catalog
from book.lab.comparison import Ours, compare
from book.lab.intervals import estimate
from book.lab.known import Mean, Values, knowing
from book.lab.metrics import metrics
from book.lab.plan import stored_parts
from book.lab.store import NotStoredError, load_arrays, load_result

Rows = Sequence[Mapping]


def compared(name: str, rows: Rows | None) -> Rows:
    """The rows given, or those of the store."""
    return compare(name) if rows is None else rows


def row_of(rows: Rows, setting: str, method: str, metric: str) -> Mapping | None:
    """The row of one cell of a comparison; None where there is none."""
    wanted = (setting, method, metric)
    return next((row for row in rows if (row["setting"], row["method"], row["metric"]) == wanted), None)


def cell(rows: Rows, setting: str, method: str, metric: str) -> tuple[float, float, float]:
    """(our mean, its standard error, published); NaN for what does not exist, and for ours at the smoke profile."""
    row = row_of(rows, setting, method, metric) or dict.fromkeys(("profile", "mean", "se", "published"))
    ours = (None, None) if row["profile"] == "smoke" else (row["mean"], row["se"])
    return tuple(np.nan if value is None else float(value) for value in (*ours, row["published"]))


def replicates(rows: Rows, setting: str, method: str, metric: str) -> Values:
    """Our single replicates in one cell of a comparison; empty for what was not run, and at the smoke profile."""
    row = row_of(rows, setting, method, metric)
    found = np.array(row.get("values", ()) if row and row["profile"] != "smoke" else (), dtype=float).view(Values)
    if len(found) and "experiment" in row:
        found.cell = (row["experiment"], setting, method, metric)
        found.cells = (found.cell,)
    return found


def series(rows: Rows, settings: Mapping[float, str], method: str, metric: str) -> np.ndarray:
    """Columns (place, our mean, its standard error, published) of one metric over the settings, shape (settings, 4)."""
    found = [(place, *cell(rows, setting, method, metric)) for place, setting in sorted(settings.items())]
    return np.array(found, dtype=float).reshape(-1, 4)


def settings_over(rows: Rows, pattern: str) -> dict[float, str]:
    """{number: setting} of all settings that the pattern matches as a whole; its first group is the number."""
    matches = [(re.fullmatch(pattern, row["setting"]), row["setting"]) for row in rows]
    return dict(sorted((float(match[1]), setting) for match, setting in matches if match))


def best_stored(name: str) -> dict[str, Any] | None:
    """The best stored result, its rows those of `stored_parts`; None without one beyond smoke."""
    parts = _parts(name)
    return parts[0] | {"rows": [row for part in parts for row in part["rows"]]} if parts else None


def _parts(name: str, profile: str | None = None) -> list[dict[str, Any]]:
    """`stored_parts`; none without a result beyond smoke."""
    try:
        parts = stored_parts(name, profile)
    except NotStoredError:
        return []
    return [] if parts[0]["profile"] == "smoke" else parts


def stored_with(
    name: str, setting: str, methods: Sequence[str], metric: str, profile: str | None = None
) -> dict[str, Any] | None:
    """The best stored result that has rows of all the methods, whole: a pair is of one profile."""
    parts = _parts(name, profile)
    if len(parts) < 2:
        return parts[0] if parts else None
    both = (part for part in reversed(parts) if all(by_replicate(part, setting, one, metric) for one in methods))
    return load_result(name, next(both, parts[0])["profile"])


def stored_arrays(name: str) -> dict[tuple[str, str, int, str], np.ndarray]:
    """Arrays beside the best stored result, keyed as by `book.lab.load_arrays`; {} without one beyond smoke."""
    result = best_stored(name)
    return load_arrays(name, result["profile"]) if result else {}


def stored_mean(rows: Sequence[Mapping], setting: str, method: str, metric: str) -> Mean | None:
    """Our mean in one cell of a comparison; None when it was not run, or only at the smoke profile's sizes.

    Args:
        rows: from `book.lab.compare`.
        setting, method, metric: the cell.
    """
    row = row_of(rows, setting, method, metric)
    if row is None or row["profile"] == "smoke" or row["mean"] is None:
        return None
    mean = Mean(row["mean"])
    mean.runs = row.get("n")
    mean.cell = (row["experiment"], setting, method, metric) if "experiment" in row else ()
    mean.cells = (mean.cell,) if mean.cell else ()
    return mean


def stored_values(name: str, setting: str, method: str, metric: str, profile: str | None = None) -> Values:
    """One metric of every replicate of the best stored result, in order; empty when none is stored beyond smoke.

    Args:
        name, setting, method, metric: the cell.
        profile: of another result than the best.
    """
    found = by_replicate(stored_with(name, setting, [method], metric, profile), setting, method, metric)
    values = np.array([found[replicate] for replicate in sorted(found)]).view(Values)
    values.cell = _cell(name, setting, method, metric, profile)
    values.cells = (values.cell,)
    return values


def _cell(name: str, setting: str, method: str, metric: str, profile: str | None) -> tuple[str, ...]:
    """As `book.lab.wording.Origin` takes it."""
    return (name, setting, method, metric, *(("", profile) if profile else ()))


def by_replicate(result: dict[str, Any] | None, setting: str, method: str, metric: str) -> dict[int, float]:
    rows = result["rows"] if result else []
    wanted = (setting, method, metric)
    return {row["replicate"]: row["value"] for row in rows if (row["setting"], row["method"], row["metric"]) == wanted}


def unlisted(name: str, metric: str) -> list[dict]:
    """Rows of a metric that no table lists, as `book.lab.compare` would have them; none of one that is listed.

    Args:
        name: the experiment.
        metric: its key, stored or derived from the arrays.
    """
    result = None if metric in metrics() else best_stored(name)
    if result is None:
        return []
    experiment = catalog.get(name)
    derived = experiment.derived(load_arrays(name, result["profile"])) if experiment.derived else []
    ours = Ours(experiment, result | {"rows": [*result["rows"], *derived]})
    about = {"experiment": name, "metric": metric, "published": None}
    return [
        about
        | {"setting": key[0], "method": key[1], "n": len(values), "values": values, "replicates": ours.replicates[key]}
        | {"verdict": str(ours.unpublished(key))}
        for key, values in ours.values.items()
        if key[2] == metric
    ]


def paired_difference(
    name: str, setting: str, method: str, other: str, metric: str, profile: str | None = None
) -> tuple[float, float, int]:
    """(mean, standard error, replicates) of a method less another over the replicates that both have.

    Replicates of one number and one profile share their data, so what the data do to both cancels. NaN, and 0 or 1
    replicates, where nothing beyond smoke is stored.
    """
    result = stored_with(name, setting, [method, other], metric, profile)
    ours, theirs = (by_replicate(result, setting, one, metric) for one in (method, other))
    gaps = [ours[replicate] - theirs[replicate] for replicate in sorted(ours.keys() & theirs.keys())]
    mean, *more = estimate(gaps, catalog.get(name).overlap)
    cells = tuple(_cell(name, setting, one, metric, profile) for one in (method, other))
    return knowing(mean, cells if gaps else ()), *more
