"""Stored numbers as a text says them, with what stands behind each: which runs, and whether it shows an order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from book.lab import catalog, queries
from book.lab.intervals import decided, estimate
from book.lab.known import Cells, cells_of
from book.lab.store import by_cell
from book.lab.validity import cell_of

PM = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"
"""Between a number and its error, which no line parts."""
FEW = 2
"""So many cells a number tells in full."""


@dataclass(frozen=True)
class Origin:
    """The stored runs over which a number is a mean, or whose paired differences to `other`'s it is the mean of."""

    name: str
    setting: str
    method: str
    metric: str
    other: str = ""
    profile: str = ""

    def __str__(self) -> str:
        """ "svbnn-simulation-2, U(-1,1), SVBNN, rmse_test: 30 runs (seeds 0 to 29), ..."; "" if none is stored."""
        experiment, methods = catalog.get(self.name), [one for one in (self.method, self.other) if one]
        result = queries.stored_with(self.name, self.setting, methods, self.metric, self.profile or None)
        found = [queries.by_replicate(result, self.setting, one, self.metric) for one in methods]
        runs = sorted(set.intersection(*(set(one) for one in found)))
        if not runs:
            return ""
        values = [found[0][run] - (found[1][run] if self.other else 0.0) for run in runs]
        error = estimate(values, experiment.overlap)[1]
        of_both = [(about, [(one["setting"], one["method"]) for one in rows]) for about, rows in by_cell(result)]
        cells = [about for about, places in of_both if any((self.setting, one) in places for one in methods)]
        budgets = sorted({experiment.budget(cell_of(about["cell"])) for about in cells} if experiment.budget else ())
        commits = sorted({about["commit"][:7] for about in cells if about.get("commit")})
        parts = [f"{len(runs)} runs (seeds {_listed(runs)})" if len(runs) > 1 else f"one run (seed {runs[0]})"]
        parts += [f"{' and '.join(f'{budget:,g}' for budget, _ in budgets)} {budgets[0][1]}"] if budgets else []
        parts += [f"standard error {float(format(error, '.2g')):,g}"] if error == error else []
        parts += [f"profile {result['profile']}"]
        parts += [f"commit{'s' if commits[1:] else ''} {', '.join(commits)}"] if commits else []
        label = known.label if (known := queries.metrics().get(self.metric)) else self.metric
        return f"{self.name}, {self.setting}, {' minus '.join(methods)}, {label}: {', '.join(parts)}"


@dataclass(frozen=True)
class Computed:
    """The stored cells that a number was computed from: (experiment, setting, method, metric) of each."""

    cells: Cells

    @property
    def name(self) -> str:
        """The experiment of the first."""
        return self.cells[0][0]

    def __str__(self) -> str:
        """ "Computed from ...": two cells in full, of more the experiments with what differs; "" if none is stored."""
        if len(self.cells) <= FEW:
            told = [text for cell in self.cells if (text := str(Origin(*cell)))]
            return f"Computed from {'; '.join(told)}" if told else ""
        told, known = [], queries.metrics()
        for name in dict.fromkeys(cell[0] for cell in self.cells):
            columns = zip(*(cell[1:4] for cell in self.cells if cell[0] == name), strict=True)
            settings, methods, measured = map(list, map(dict.fromkeys, columns))
            settings = settings if len(settings) <= FEW else [f"{len(settings)} settings"]
            labels = [known[one].label if one in known else one for one in measured]
            told += [", ".join([name, *settings, *methods, *labels])]
        return f"Computed from {'; '.join(told)}" if queries.best_stored(self.name) else ""


def _listed(runs: list[int]) -> str:
    """ "0 to 29" where none is missing between."""
    if len(runs) > 2 and runs[-1] - runs[0] == len(runs) - 1:
        return f"{runs[0]} to {runs[-1]}"
    return ", ".join(map(str, runs))


class Said(str):
    """A text that knows what it says.

    Args:
        text: as the sentence shows it.
        runs: over how many runs it is a mean, None where it is none or nobody said.
        ordered: whether the paired differences that it says, or counts, are decided; None for what is no comparison.
        origin: the stored runs that it is a mean of, or computed from, where that is known.
    """

    runs: int | None
    ordered: bool | None
    origin: Origin | Computed | None

    def __new__(
        cls, text: str, runs: int | None = None, ordered: bool | None = None, origin: Origin | Computed | None = None
    ) -> Said:
        said = super().__new__(cls, text.replace(" ± ", PM))
        said.runs, said.ordered, said.origin = runs, ordered, origin
        return said

    def __repr__(self) -> str:
        """As of any text, but with the spaces that do not break as they are: JupyterLab and the book show this."""
        return super().__repr__().replace("\\xa0", "\N{NO-BREAK SPACE}")

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """Where it comes from, as metadata, for the pages (`book.editions.numbers`)."""
        about = str(self.origin) if self.origin else ""
        known = {"experiment": self.origin.name, "origin": about} if self.origin and about else {}
        return {"text/plain": repr(self)}, {"text/plain": known}


def number(
    value: float | str | None,
    form: str = "{}",
    runs: int | None = None,
    ordered: bool | None = None,
    of: Iterable[Any] = (),
) -> Said:
    """The number as a text says it, formatted; "(not run)" for None.

    Args:
        value: what is said; a mean of `stored_mean` brings its number of runs.
        form: its format.
        runs, ordered: as of `Said`.
        of: stored means and values that it was counted in or computed from, where it does not know them itself.
    """
    if value is None:
        return Said("(not run)")
    runs = getattr(value, "runs", None) if runs is None else runs
    return Said(form.format(value), runs, ordered, _origin(value, *of))


def _origin(value: Any, *others: Any) -> Origin | Computed | None:
    """The runs behind a value, or behind all that it was computed from."""
    if cell := getattr(value, "cell", ()):
        return Origin(*cell)
    return Computed(cells) if (cells := cells_of(value, *others)) else None


def mean(values: Sequence[float], form: str) -> Said:
    """ "1.10 ± 0.02", the mean of replicates and its standard error; of one replicate its value; "(not run)" of none.

    Args:
        values: one of each replicate.
        form: the format of both.
    """
    if len(values) < 2:
        return number(values[0] if len(values) else None, form, runs=1)
    middle, error, n = estimate(values)
    return Said(f"{form.format(middle)} ± {form.format(error)}", n, None, _origin(values))


def with_error(mean: float, error: float, digits: int) -> str:
    """ "+0.10 ± 0.02", with a proper minus sign, which zero does not have."""
    return f"{mean:+z.{digits}f} ± {error:.{digits}f}".replace("-", "−")


def difference(
    name: str,
    setting: str,
    method: str,
    other: str,
    metric: str,
    digits: int = 2,
    sign: float = 1.0,
    profile: str | None = None,
) -> Said:
    """A method less another over the replicates that both have, with its standard error; "(not run)" below two.

    Args:
        name, setting, method, other, metric, profile: as for `paired_difference`.
        digits: behind the point.
        sign: -1 for what the text says the other way round.
    """
    mean, error, n = queries.paired_difference(name, setting, method, other, metric, profile)
    said = gap(sign * mean, error, n, digits)
    said.origin = Origin(name, setting, method, metric, other, profile or "") if n > 1 else None
    return said


def gap(mean: float, error: float, n: int, digits: int = 2) -> Said:
    """A mean of `n` paired differences with its standard error, as `difference` says it."""
    if n < 2:
        return number(None)
    return Said(with_error(mean, error, digits), n, decided(mean, error, n), _origin(mean))
