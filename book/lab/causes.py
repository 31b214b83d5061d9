"""Why a number of ours is worse than the published one, as far as another run of ours shows it.

published.toml names the run: the same measure where the suspected cause is taken away. Whether it shows the cause is
not declared but follows from its numbers, each time that they are laid beside the published one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from book.lab.published import Cause, PaperValue
from book.lab.store import NotStoredError, load_result
from book.lab.verdicts import AGREES, DIFFERS, DIVERGED, WORSE, Verdict, on_better_side, verdict

UNLIKE = (WORSE, DIFFERS, DIVERGED)


@dataclass(frozen=True)
class Shown:
    """What a run shows of a cause; both empty where it shows nothing.

    Args:
        whole: the cause, where without it our number is nearer by more than two standard errors and agrees with the
            published one, or is past it on the better side, or where no chain diverges any more.
        part: the same with the share of the way, where it is nearer and not there.
    """

    whole: str = ""
    part: str = ""

    @property
    def note(self) -> str:
        """For the row of the number."""
        return f"cause: {self.whole}" if self.whole else f"part of the cause: {self.part}" if self.part else ""


class Runs:
    """The stored rows that causes ask for, each result read once."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[tuple[str, str, str], list[float]]] = {}

    def values(self, name: str, key: tuple[str, str, str]) -> list[float]:
        """One measure of every replicate in an experiment's best result; none from the smoke profile."""
        if name not in self._rows:
            self._rows[name] = {}
            try:
                result: Mapping[str, Any] = load_result(name)
            except NotStoredError:
                result = {"profile": "smoke", "rows": []}
            for row in result["rows"] if result["profile"] != "smoke" else ():
                where = (row["setting"], row["method"], row["metric"])
                self._rows[name].setdefault(where, []).append(row["value"])
        return self._rows[name].get(key, [])

    def shown(self, value: PaperValue, ours: list[float], found: Verdict) -> Shown:
        """What the runs that the published number names say of the verdict on ours.

        Of several causes the first that explains all of it counts, else the first that explains a part.
        """
        if found.word not in UNLIKE:
            return Shown()
        every = [self._of(cause, value, ours, found) for cause in value.causes]
        return next((one for one in every if one.whole), next((one for one in every if one.part), Shown()))

    def _of(self, cause: Cause, value: PaperValue, ours: list[float], found: Verdict) -> Shown:
        setting = cause.setting.replace("{setting}", value.setting)
        key = (setting or value.setting, cause.method or value.method, cause.metric or value.metric)
        without = self.values(cause.run, key)
        if len(without) < 3:
            return Shown()
        mean, error = _moments(without)
        judged = verdict(replace(value, not_comparable="", by_design=""), mean, error, len(without))
        text = f"{cause.text}: {mean:.4g} ± {error:.2g} ({', '.join(dict.fromkeys((cause.run, *_new(key, value))))})"
        if found.word == DIVERGED:  # what made chains diverge is gone where all of them are there
            return Shown(whole=text) if len(without) > len(ours) else Shown()
        before, spread = _moments(ours)
        # past the published one nothing is missing, as long as it agrees with ours or ours is better
        crossed = (before - value.mean) * (mean - value.mean) < 0.0
        passed = crossed and (judged.word == AGREES or on_better_side(value, mean))
        nearer = abs(before - value.mean) - (0.0 if passed else abs(mean - value.mean))
        if nearer <= 2.0 * math.hypot(error, spread):
            return Shown()
        if passed or judged.word == AGREES:
            return Shown(whole=text)
        return Shown(part=f"{100.0 * nearer / abs(before - value.mean):.0f} % of the way, {text}")


def _new(key: tuple[str, str, str], value: PaperValue) -> list[str]:
    """What the run calls setting, method and measure, where that is not as in the published cell."""
    own = (value.setting, value.method, value.metric)
    return [f'"{one}"' for one, other in zip(key, own, strict=True) if one != other]


def _moments(numbers: list[float]) -> tuple[float, float]:
    return statistics.fmean(numbers), statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
