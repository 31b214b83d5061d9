"""The best that is stored of an experiment: a complete profile, and what a better one that has begun has finished."""

from collections import Counter
from typing import Any

from book.lab import catalog
from book.lab.plan import cells_of
from book.lab.store import load_result, read_result, result_path

Pair = tuple[str, str]  # setting, method


def stored_parts(name: str, profile: str | None = None) -> list[dict[str, Any]]:
    """Stored results, no two of which have rows of one setting and method.

    Args:
        name: the experiment.
        profile: of one result alone; None takes `load_result`'s and, of the paper's profile where that is not
            complete, the settings and methods all of whose replicates are finished. They take the other's place.

    Raises:
        StoreError: as `load_result`.
    """
    result = load_result(name, profile)
    path = result_path(name, "paper")
    if profile is not None or result["profile"] == "paper" or not path.exists():
        return [result]
    better = read_result(path)
    pairs = _finished(name, better)
    return [_only(result, lambda pair: pair not in pairs), _only(better, lambda pair: pair in pairs)]


def _pair(row: dict[str, Any]) -> Pair:
    return row["setting"], row["method"]


def _finished(name: str, result: dict[str, Any]) -> set[Pair]:
    """Of the rows, whose cells are finished for all replicates; a cell can have rows of other methods."""
    planned, done, rows, start = Counter[Pair](), Counter[Pair](), {}, 0
    for cell in cells_of(catalog.get(name), result["profile"]):
        planned[cell.setting, cell.method] += len(cell.replicates)
    for about in result.get("cells", []):
        own = about["cell"]["setting"], about["cell"]["method"]
        done[own] += len(about["cell"]["replicates"])
        end = start + about["rows"]
        rows.setdefault(own, set()).update(map(_pair, result["rows"][start:end]))
        start = end
    return set().union(*(found for own, found in rows.items() if done[own] >= planned[own]))


def _only(result: dict[str, Any], wanted) -> dict[str, Any]:
    return result | {"rows": [row for row in result["rows"] if wanted(_pair(row))]}
