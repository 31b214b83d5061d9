"""Over data sets: the Bayesian signed rank test of the protocol, and a table of its probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bnnlib.contest import METHODS
from book.lab.tables import markdown_table
from chapters.side_by_side.matrix import NAMES, html_table
from chapters.side_by_side.standing import QUESTIONS, values

PRIOR = 0.5  # weight of one more data set, without a difference


def signed_rank(gaps: Sequence[float], region: float, draws: int = 20_000, seed: int = 0) -> tuple[float, float, float]:
    """Probabilities that the next data set's gap is most likely below, inside and above the region.

    Equation (side-signed-rank), Benavoli et al. (2017): means of two data sets are compared with the region, each data
    set weighted by a draw from a Dirichlet distribution.

    Args:
        gaps: one a data set, method minus reference.
        region: half width of what is practically equal.
        draws: of the weights.
        seed: of the draws.

    Example:
        >>> signed_rank([-0.3, -0.2, -0.4, -0.1, -0.3, -0.2], 0.02)[0] > 0.99
        True
    """
    z = np.array([0.0, *gaps])
    middle = (z[:, None] + z) / 2.0
    weights = np.random.default_rng(seed).dirichlet([PRIOR, *np.ones(len(gaps))], draws)
    shares = [np.einsum("di,ij,dj->d", weights, where, weights) for where in (middle < -region, middle > region)]
    most = np.argmax([shares[0], 1.0 - shares[0] - shares[1], shares[1]], axis=0)
    below, inside, above = np.bincount(most, minlength=3) / draws
    return float(below), float(inside), float(above)


def gaps(tasks: Sequence[str], budget: int, method: str, metric: str, kind: str = "tuned") -> list[float]:
    """Mean difference to the reference, one a data set that is stored; a share of it where the region is one."""
    reference, _, region = QUESTIONS[metric]
    found = []
    for task in tasks:
        one, other = (values(task, budget, name, metric, kind) for name in (method, reference))
        if len(one) and len(one) == len(other):
            found.append(float((one - other).mean() / (other.mean() if region < 0.0 else 1.0)))
    return found


class SignedRanks:
    """What nine data sets say of the next one, a row a method; leave it on a cell's last line.

    Args:
        tasks: data sets.
        budget: B.
        metrics: of `standing.QUESTIONS`, in which less is better.
        kind: "tuned" or "default".
    """

    def __init__(
        self, tasks: Sequence[str], budget: int = 1, metrics: Sequence[str] = ("rmse", "nll"), kind: str = "tuned"
    ) -> None:
        self.columns = ("Method", *(f"{one.upper()} {way}" for one in metrics for way in ("better", "equal", "worse")))
        self.found = {}
        for method in METHODS:
            each = [gaps(tasks, budget, method, metric, kind) for metric in metrics]
            if method != QUESTIONS[metrics[0]][0] and all(len(one) > 2 for one in each):
                regions = [abs(QUESTIONS[metric][2]) for metric in metrics]
                self.found[method] = [
                    p for one, region in zip(each, regions, strict=True) for p in signed_rank(one, region)
                ]
        self.rows = [(NAMES[name], *(f"{100 * p:.0f}" for p in said)) for name, said in self.found.items()]
        self.caption = (
            f"Chance in percent that the next data set's difference to the {NAMES[QUESTIONS[metrics[0]][0]]} is most "
            f"likely better, practically equal or worse; B = {budget}, {kind}, {len(tasks)} data sets"
        )

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.rows, self.caption)

    def _repr_markdown_(self) -> str:
        return f"{self.caption}\n\n{markdown_table(self.columns, self.rows)}"
