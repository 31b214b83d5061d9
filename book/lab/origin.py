"""Where a number of the text comes from, in one line: which runs, how far they went, how sure it is, of which code."""

from dataclasses import dataclass

from book.lab import catalog, intervals, queries
from book.lab.known import Cells
from book.lab.validity import cell_of

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
        error = intervals.estimate(values, experiment.overlap)[1]
        cells, start = [], 0
        for about in result["cells"]:
            rows = result["rows"][start : start + about["rows"]]
            start += about["rows"]
            cells += [about] if any(r["setting"] == self.setting and r["method"] in methods for r in rows) else []
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
