"""Published values beside ours: the one table that every chapter shows."""

import math
from typing import Any

from bnnlib.datasets.registry import entry
from book.lab import catalog, verdicts
from book.lab.causes import Runs, Shown
from book.lab.intervals import deviation, spread
from book.lab.metrics import metrics
from book.lab.plan import stored_parts
from book.lab.published import PaperValue, for_setting, paper_values
from book.lab.store import NotStoredError, load_arrays
from book.lab.validity import cell_of, state_of_rows
from book.lab.verdicts import Verdict, at_what_price, beside_error, budget_obstacle, survivors, verdict

Row = dict[str, Any]
Key = tuple[str, str, str]  # setting, method, metric
SIMULATED = "simulated"


def compare(name: str, profile: str | None = None) -> list[Row]:
    """Published values beside ours, with verdicts; the rule is `book.lab.verdicts.verdict`.

    Published numbers come first, in the paper's order, then what only we have. A published number without one of
    ours stays in the table with the verdict "not run: " and the reason. The smoke profile shows its
    means but is never judged: its sizes are too small for any claim.

    Args:
        name: the experiment.
        profile: smoke, book or paper; None takes each row from the best one that is stored, `stored_parts`.

    Returns:
        Rows with experiment, setting, method, metric, unit, paper, cell, published, published_sd, published_se (over
        replicates and of a test set of theirs) with its degrees of freedom published_df, printed, mean, se, sd, n,
        values of the single replicates and their numbers, replicates; profile; kind, one of
        `book.lab.published.KINDS`, "" where nothing is published; universal, of a claim about every data set;
        difference, error (its standard error s), quantile (t) and margin; budget, published_budget and budget_unit;
        data, the title of the data set; verdict, note; cause and tried, of a worse or different number, see
        `book.lab.causes.Shown`; state, what a reader must know of the row's validity, "" if it is good. Numbers that do
        not exist are None: the sd and se of one replicate, the mean of what was not run.

    Raises:
        ExperimentError: there is no experiment of that name, or it has no such profile.
        StoreError: the published numbers are missing or damaged, or the stored result is damaged.
    """
    experiment = catalog.get(name)
    if profile is not None and profile not in {**experiment.profiles, **experiment.unavailable}:
        raise catalog.unknown("profile", profile, experiment.profiles)
    try:
        parts, missing = stored_parts(name, profile), ""
    except NotStoredError:
        parts, missing = [{"profile": profile, "rows": []}], _why_not(experiment, profile)
    first, *better = [_rows(name, part, missing) for part in parts]
    found = {(row["setting"], row["method"], row["metric"]): row for rows in better for row in rows if row["n"]}
    rows = [found.pop((row["setting"], row["method"], row["metric"]), row) for row in first]
    return [*rows, *found.values()]


def _rows(name: str, result: dict[str, Any], missing: str) -> list[Row]:
    """The rows of one stored result, or of none."""
    experiment = catalog.get(name)
    if experiment.derived and not missing:
        result["rows"] += experiment.derived(load_arrays(name, result["profile"]))
    if result["profile"] == "smoke":
        missing = "only the smoke profile, too small for a verdict"
    ours = Ours(experiment, result)
    known, runs = metrics(), Runs()
    published = _expand(name, ours.values)
    judged = [_judge(value, ours, missing) for value in published]
    by_key = {_key(value): found for value, found in zip(published, judged, strict=True)}
    rows = []
    for value, found in zip(published, judged, strict=True):
        beside = next((one for one in value.with_error if (value.setting, value.method, one) in by_key), None)
        if value.with_error:
            label = known[beside].label if beside else ""
            found = beside_error(found, label, by_key.get((value.setting, value.method, beside)))
        rows.append(_row(_key(value), value, ours, found, missing, runs))
    order = list(known)
    extra = [key for key in ours.values if key not in by_key and key[2] in known]
    places = list(dict.fromkeys(key[:2] for key in ours.values))
    for key in sorted(extra, key=lambda key: (places.index(key[:2]), order.index(key[2]))):
        found = Verdict(verdicts.NOT_RUN, missing) if missing else ours.unpublished(key)
        rows.append(_row(key, None, ours, found, missing, runs))
    for where in ours.failures:
        if not any((row["setting"], row["method"]) == where for row in rows):
            key = (*where, "error")
            rows.append(_row(key, None, ours, ours.unpublished(key), missing, runs))
    state = state_of_rows(experiment, result)
    for row in rows:
        row |= {"experiment": name, "unit": known[row["metric"]].unit, "paper": catalog.paper_of(name)}
        row["state"] = state(row) if row["n"] else ""
    return rows


class Ours:
    """Our numbers of one profile, and what its cells say of them."""

    def __init__(self, experiment: Any, result: dict[str, Any]) -> None:
        self.experiment, self.profile = experiment, result["profile"]
        self.fingerprints = result.get("provenance", {}).get("data", {})
        cells = experiment.profiles[self.profile]() if self.profile in experiment.profiles else []
        self.planned = {(cell.setting, cell.method) for cell in cells}
        stored = [cell_of(about["cell"]) for about in result.get("cells", [])]  # as they were run
        self.cells = stored or cells
        self.values: dict[Key, list[float]] = {}
        self.replicates: dict[Key, list[int]] = {}
        self.failures: dict[tuple[str, str], dict[int, str]] = {}
        for row in result["rows"]:
            where = (row["setting"], row["method"])
            if row["metric"] == "error":  # one row for every measure that failed: a replicate has several
                self.failures.setdefault(where, {}).setdefault(row["replicate"], row.get("note", "failed"))
            else:
                key = (*where, experiment.renamed.get(row["metric"], row["metric"]))
                self.values.setdefault(key, []).append(row["value"])
                self.replicates.setdefault(key, []).append(row["replicate"])

    def failed(self, key: Key) -> list[str]:
        """What the replicates said that failed before they had this measure, one entry each."""
        done = self.replicates.get(key, ())
        return [note for replicate, note in self.failures.get(key[:2], {}).items() if replicate not in done]

    def unpublished(self, key: Key) -> Verdict:
        """What a number is called that only we have: not published, or diverged as a published one would be."""
        reason = survivors(len(self.values.get(key, [])), len(self.failed(key)))
        return Verdict(verdicts.DIVERGED, reason) if reason else Verdict(verdicts.NOT_PUBLISHED)

    def facts(self, setting: str, method: str) -> tuple[tuple[float, str] | None, str]:
        """The budget and the data set behind a row; of several cells the smallest budget."""
        cells = self._cells(setting, method)
        budget = self.experiment.budget
        budgets = [budget(cell) for cell in cells] if budget else []
        titles = dict.fromkeys(self._title(cell.params) for cell in cells)
        return min(budgets, default=None), ", ".join(titles)

    def _cells(self, setting: str, method: str) -> list[Any]:
        """The cells that a row comes from: a cell can hold several settings or methods."""
        names = (method, self.experiment.sources.get(method, method))
        cells = next((some for one in names if (some := [c for c in self.cells if c.method == one])), self.cells)
        exact = [cell for cell in cells if cell.setting == setting]
        return exact or [cell for cell in cells if setting.startswith(cell.setting)] or cells

    def _title(self, params: dict[str, Any]) -> str:
        """The title of the data set in a cell's parameters, or of the copy of it that the result was computed from."""
        nested = [part for part in params.values() if isinstance(part, dict)]
        name = next((part["data"] for part in (params, *nested) if "data" in part), SIMULATED)
        if name == SIMULATED:
            return SIMULATED
        about = entry(name)
        used = self.fingerprints.get(name)
        return next((one.title for one in about.variants if one.fingerprint == used), about.title)


def _key(value: PaperValue) -> Key:
    return value.setting, value.method, value.metric


def _judge(value: PaperValue, ours: Ours, missing: str) -> Verdict:
    key = _key(value)
    numbers, failed = ours.values.get(key, []), ours.failed(key)
    if missing:
        return Verdict(verdicts.NOT_RUN, missing)
    if not numbers:
        return ours.unpublished(key) if failed else Verdict(verdicts.NOT_RUN, _gap(value, ours))
    budget, data = ours.facts(*key[:2])
    obstacles = [budget_obstacle(budget, value.budget), value.not_comparable_in.get(ours.profile, "")]
    obstacles.append(value.other_data.get(data, ""))
    found = verdict(value, numbers, overlap=ours.experiment.overlap, failed=len(failed), obstacles=obstacles)
    return at_what_price(found, budget, value.budget, value.searched)


def _gap(value: PaperValue, ours: Ours) -> str:
    """Why the profile has no number beside a published one."""
    where = (value.setting, value.method)
    if value.not_run and where not in ours.planned:
        return value.not_run
    finished = {key[:2] for key in ours.values}
    gap = "does not compute this measure" if where in finished else "has not finished this cell"
    return f"the {ours.profile} profile {gap if where in ours.planned else 'leaves this cell out'}"


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
    for setting, says in also.items():
        out += [for_setting(v, setting, **says) for v in listed if (setting, v.method, v.metric) in values]
    return out


def _why_not(experiment: Any, profile: str | None) -> str:
    reasons = experiment.unavailable
    reason = reasons.get(profile) if profile else reasons.get("book") or reasons.get("paper")
    reason = reason or f"no result stored; python -m book run {experiment.name} --profile {profile or 'book'}"
    return reason.removeprefix(f"{verdicts.NOT_RUN}: ")


def _row(key: Key, value: PaperValue | None, ours: Ours, found: Verdict, missing: str, runs: Runs) -> Row:
    numbers, failed = ours.values.get(key, []), ours.failed(key)
    n = len(numbers)
    mean = math.fsum(numbers) / n if n and all(map(math.isfinite, numbers)) else sum(numbers) / n if n else None
    se = spread(numbers, ours.experiment.overlap)
    sd = None if se is None else deviation(tuple(numbers))
    notes = [value.note] if value and value.note else []
    if n and value and n < value.replicates and not missing:
        notes.append(f"{n} of the paper's {value.replicates} replicates")
    if failed:
        notes.append(f"{len(failed)} of {n + len(failed)} replicates failed ({failed[0]})")
    if "nll" in key[2] and (infinite := sum(map(math.isinf, numbers))):
        notes.append(f"infinite in {infinite} of {n} replicates: a label's probability was rounded to zero")
    shown = runs.shown(value, found) if value else Shown()
    notes += [shown.note] if shown.note else []
    budget, data = ours.facts(*key[:2]) if n else (None, "")
    row = dict(zip(("setting", "method", "metric"), key, strict=True))
    for name, field in _THEIRS.items():
        row[name] = getattr(value, field) if value else "" if field in ("printed", "kind", "where") else None
    row |= {"mean": mean, "se": se, "sd": sd, "n": n, "values": numbers, "replicates": ours.replicates.get(key, [])}
    row |= {one: getattr(found, one) for one in ("difference", "error", "quantile", "margin")}
    row |= dict(zip(("budget", "budget_unit"), budget or (None, ""), strict=True)) | {"profile": ours.profile}
    row |= {"published_se": row["published_se"] or None, "universal": bool(value and value.limits), "data": data}
    return row | {"verdict": str(found), "note": "; ".join(notes), "cause": shown.cause, "tried": shown.tried}


# a row's name for a field of a published number
_THEIRS = {"published": "mean", "published_sd": "sd", "published_se": "se", "published_df": "df"}
_THEIRS |= {"published_budget": "budget", "printed": "printed", "kind": "kind", "cell": "where"}
