"""The metrics that tables show, from ``metrics.toml``, and how files in TOML are read and checked."""

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from bnnlib._files import StoreError

METRICS = Path(__file__).with_name("metrics.toml")


@dataclass(frozen=True)
class Metric:
    """How a metric is shown and judged."""

    name: str
    label: str
    unit: str
    direction: str  # which is better: lower, higher, nominal (closer to `nominal`) or none
    digits: int
    nominal: float | None = None
    kind: str = ""
    interesting: float | None = None  # the smallest difference that would matter, in its unit; None where it is a share
    interesting_share: float | None = None  # the same as a share of the published number
    sampling: str = ""  # law of the sampling error of one test set, "" where there is none
    with_error: tuple[str, ...] = ()  # metrics beside which a size is judged


def metrics() -> dict[str, Metric]:
    """Metrics that tables show, by name, in the order in which tables show them.

    Raises:
        StoreError: the file is missing or damaged, or names an unknown kind.
    """
    return _metrics(METRICS.stat().st_mtime_ns if METRICS.exists() else 0)


@cache
def _metrics(_changed: int) -> dict[str, Metric]:
    document = parsed(METRICS, _changed)
    kinds, found = document.get("kind", {}), {}
    for name, entry in document.get("metric", {}).items():
        kind = entry.get("kind", "")
        if kind and kind not in kinds:
            raise StoreError(f"metrics.toml: kind {kind!r} of {name!r} has no [kind] table; known: {', '.join(kinds)}")
        about = {"sampling": "", "with_error": ()} | kinds.get(kind, {}) | entry
        about |= {key: float(about[key]) for key in ("nominal", "interesting", "interesting_share") if key in about}
        found[name] = Metric(name=name, **about | {"with_error": tuple(about["with_error"])})
    return found


@cache
def parsed(path: Path, _changed: int) -> dict[str, Any]:
    # Decimal keeps the printed digits: 1.00 was rounded to 0.01, 1 would have been rounded to 1
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing; take it from the repository") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is damaged: {error}; restore it from the repository") from error


def check(where: str, given: dict[str, Any], allowed: set[str], needed: set[str]) -> None:
    """Raise a StoreError that names the keys of a table which are unknown or lacking."""
    if unknown := sorted(set(given) - allowed):
        raise StoreError(f"{where}: unknown key {', '.join(unknown)}; allowed: {', '.join(sorted(allowed))}")
    if lacking := sorted(needed - set(given)):
        raise StoreError(f"{where}: {', '.join(lacking)} must be given")


def short(path: Path) -> str:
    """A file's name with its folder's, as errors give it."""
    return "/".join(path.parts[-2:])
