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
    return {
        "experiment": "an-experiment",
        "setting": setting,
        "method": method,
        "metric": metric,
        "published": published,
        "published_sd": None,
        "published_se": published_se,
        "published_df": math.inf,
        "printed": "" if published is None else f"{published}",
        "mean": statistics.fmean(values) if n else None,
        "se": None if sd is None else sd / n**0.5,
        "sd": sd,
        "n": n,
        "values": list(values),
        "replicates": list(range(n)),
        "profile": profile,
        "difference": None,
        "error": None,
        "quantile": None,
        "margin": None,
        "budget": None,
        "published_budget": None,
        "budget_unit": "",
        "data": "simulated" if n else "",
        "verdict": verdict if n else "not run: nobody did",
        "note": "",
        "cell": "",
        "unit": "",
        "paper": "000",
        "state": "",
        "kind": "" if published is None else "own",
        "universal": False,
        "cause": "",
        "tried": "",
        **more,
    }


def numbers(values: Sequence[float], method: str = "M", replicates: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    """A row with the numbers of its replicates, 0, 1, ... where none are given."""
    return row(method=method, values=tuple(values), replicates=list(replicates or range(len(values))), **more)
