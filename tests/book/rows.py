"""Rows as `book.lab.compare` returns them, for tests of what shows them."""

import math
import statistics
from collections.abc import Sequence
from typing import Any


def row(
    setting: str = "a",
    method: str = "M",
    metric: str = "rmse_test",
    *,
    values: tuple[float, ...] = (),
    published: float | None = None,
    published_se: float | None = None,
    verdict: str = "agrees",
    profile: str = "book",
    **more: Any,
) -> dict[str, Any]:
    """One row; without values it was not run, without a published number the verdict says so."""
    n = len(values)
    sd = statistics.stdev(values) if n > 1 else None
    if published is None and verdict == "agrees":
        verdict = "not published"
    given = {"experiment": "an-experiment", "setting": setting, "method": method, "metric": metric, "paper": "000"}
    given |= dict.fromkeys(("published_sd", "difference", "error", "quantile", "margin", "budget", "published_budget"))
    given |= dict.fromkeys(("budget_unit", "note", "cell", "unit", "state", "cause", "tried"), "")
    given |= {"published": published, "published_se": published_se, "published_df": math.inf, "universal": False}
    given |= {"printed": "", "kind": ""} if published is None else {"printed": f"{published}", "kind": "own"}
    given |= {"n": n, "values": list(values), "replicates": list(range(n)), "data": "simulated" if n else ""}
    given |= {"mean": statistics.fmean(values) if n else None, "se": None if sd is None else sd / n**0.5, "sd": sd}
    return given | {"profile": profile, "verdict": verdict if n else "not run: nobody did"} | more


def numbers(values: Sequence[float], method: str = "M", replicates: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    """A row with the numbers of its replicates, 0, 1, ... where none are given."""
    return row(method=method, values=tuple(values), replicates=list(replicates or range(len(values))), **more)
