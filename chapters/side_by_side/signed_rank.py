"""Over data sets: the Bayesian signed rank test of the protocol, and a table of its probabilities."""

from collections.abc import Sequence

import numpy as np

from bnnlib.contest import METHODS
from chapters.side_by_side.matrix import MARKS, NAMES, RIVAL_NAMES, Table
from chapters.side_by_side.rivals import RIVALS
from chapters.side_by_side.standing import QUESTIONS, standing, values

PRIOR = 0.5  # weight of one more data set, without a difference
DRAWS = 20_000  # of the weights


def signed_rank(gaps: Sequence[float], region: float) -> tuple[float, float, float]:
    """Probabilities that the next data set's gap is most likely below, inside and above the region.

    Equation (side-signed-rank), Benavoli et al. (2017): means of two data sets are compared with the region, each data
    set weighted by a draw from a Dirichlet distribution.

    Args:
        gaps: one a data set, method minus reference.
        region: half width of what is practically equal.

    Example:
        >>> signed_rank([-0.3, -0.2, -0.4, -0.1, -0.3, -0.2], 0.02)[0] > 0.99
        True
    """
    z = np.array([0.0, *gaps])
    middle = (z[:, None] + z) / 2.0
    weights = np.random.default_rng(0).dirichlet([PRIOR, *np.ones(len(gaps))], DRAWS)
    shares = [np.einsum("di,ij,dj->d", weights, where, weights) for where in (middle < -region, middle > region)]
    most = np.argmax([shares[0], 1.0 - shares[0] - shares[1], shares[1]], axis=0)
    below, inside, above = np.bincount(most, minlength=3) / DRAWS
    return float(below), float(inside), float(above)


def gaps(tasks: Sequence[str], budget: int, method: str, metric: str, beside: str) -> list[float]:
    """Mean difference to a reference, one a data set that is stored; a share of it where the region is one."""
    found = []
    for task in tasks:
        one, other = (values(task, budget, name, metric) for name in (method, beside))
        if len(one) and len(one) == len(other):
            found.append(float((one - other).mean() / (other.mean() if QUESTIONS[metric][2] < 0.0 else 1.0)))
    return found


class SignedRanks(Table):
    """What several data sets say of the next one, a row a method; leave it on a cell's last line.

    Args:
        tasks: data sets, of which each has a mark in this order.
        references: what the methods are compared with.
        budget: B of the runs.
    """

    def __init__(
        self, tasks: Sequence[str], references: Sequence[str] = ("ensemble", "deterministic"), budget: int = 1
    ) -> None:
        self.chances: dict[tuple[str, str], tuple[float, float, float]] = {}
        self.marks: dict[tuple[str, str], list[str]] = {}
        for beside in references:
            said = [standing(task, budget, "rmse", beside=beside) for task in tasks]
            verdicts = [{row["method"]: row["verdict"] for row in rows} for rows in said]
            for method in (*METHODS, *RIVALS):
                found = gaps(tasks, budget, method, "rmse", beside)
                if method != beside and len(found) > 2:
                    self.chances[method, beside] = signed_rank(found, abs(QUESTIONS["rmse"][2]))
                    self.marks[method, beside] = [one.get(method, "not run") for one in verdicts]
        self.columns = ["Method"]
        for beside in references:
            self.columns += [f"Beside {NAMES[beside]}", "better / equal / worse, %"]
        names = NAMES | RIVAL_NAMES
        self.rows = [
            (names[method], *(cell for beside in references for cell in self._cells(method, beside)))
            for method in names
            if any(key[0] == method for key in self.chances)
        ]
        self.caption = (
            f"RMSE at B = {budget}: a mark for each of {', '.join(tasks)}, ▲ better, ▼ worse, = a tie, "
            "· undecided, – not run; and the chance that on the next data set better, equal or worse is most likely"
        )

    def _cells(self, method: str, beside: str) -> tuple[str, ...]:
        if (method, beside) not in self.chances:
            return ("the reference", "")
        marks = "".join(MARKS.get(one, "–") for one in self.marks[method, beside])
        return (marks, " / ".join(f"{100 * p:.0f}" for p in self.chances[method, beside]))
