"""Stored numbers as a text says them, with what stands behind each: how many runs, and whether it shows an order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from book.lab.intervals import decided, estimate
from book.lab.known import cells_of
from book.lab.origin import Computed, Origin
from book.lab.queries import paired_difference


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
        said = super().__new__(cls, text)
        said.runs, said.ordered, said.origin = runs, ordered, origin
        return said

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """Where it comes from, as metadata, for the pages (`book.editions.numbers`)."""
        about = str(self.origin) if self.origin else ""
        known = {"experiment": self.origin.name, "origin": about} if self.origin and about else {}
        return {"text/plain": repr(str(self))}, {"text/plain": known}


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
    """ "+0.10 ± 0.02", with a proper minus sign."""
    return f"{mean:+.{digits}f} ± {error:.{digits}f}".replace("-", "−")


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
    mean, error, n = paired_difference(name, setting, method, other, metric, profile)
    said = gap(sign * mean, error, n, digits)
    said.origin = Origin(name, setting, method, metric, other, profile or "") if n > 1 else None
    return said


def gap(mean: float, error: float, n: int, digits: int = 2) -> Said:
    """A mean of `n` paired differences with its standard error, as `difference` says it."""
    if n < 2:
        return number(None)
    return Said(with_error(mean, error, digits), n, decided(mean, error, n), _origin(mean))
