"""Why a number of ours is worse than the published one, as far as another run of ours shows it.

published.toml names the run: the same measure where the suspect is taken away, and what in the paper's text or code
allows that. Whether the run shows a cause is not declared but follows from its numbers: it does where they land on the
published one. All else was tried and explains nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from book.lab import catalog
from book.lab.intervals import spread
from book.lab.published import Cause, PaperValue
from book.lab.store import NotStoredError, load_result
from book.lab.verdicts import AGREES, DIFFERS, DIVERGED, WORSE, Verdict, verdict

UNLIKE = (WORSE, DIFFERS, DIVERGED)


@dataclass(frozen=True)
class Shown:
    """What runs show of suspects; both empty where none was tried."""

    cause: str = ""  # the one without which our number agrees with the published one
    tried: str = ""  # those that do not explain it, with what the run has

    @property
    def note(self) -> str:
        """For the row of the number."""
        return f"cause: {self.cause}" if self.cause else f"tried, does not explain: {self.tried}" if self.tried else ""


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

    def shown(self, value: PaperValue, found: Verdict) -> Shown:
        """What the runs that the published number names say of the verdict on ours."""
        if found.word not in UNLIKE:
            return Shown()
        every = [one for cause in value.causes if (one := self._of(cause, value)) is not None]
        cause = next((text for lands, text in every if lands), "")
        return Shown(cause) if cause else Shown(tried="; ".join(text for _, text in every))

    def _of(self, cause: Cause, value: PaperValue) -> tuple[bool, str] | None:
        """Whether the run lands on the published number by a change that the paper allows, and what it says."""
        setting = cause.setting.replace("{setting}", value.setting)
        key = (setting or value.setting, cause.method or value.method, cause.metric or value.metric)
        without = self.values(cause.run, key)
        if not without:
            return None
        overlap = catalog.get(cause.run).overlap
        judged = verdict(replace(value, not_comparable="", by_design=""), without, overlap=overlap)
        error = spread(without, overlap)
        found = f"{value.mean + judged.difference:.4g}" + (f" ± {error:.2g}" if error else "")
        own = (value.setting, value.method, value.metric)  # what the run calls otherwise is told
        names = [cause.run, *(f'"{one}"' for one, other in zip(key, own, strict=True) if one != other)]
        text = f"{cause.text}: {found}, {judged.word} ({', '.join(dict.fromkeys(names))})"
        if judged.word == AGREES and cause.allowed:
            return True, f"{text}; {cause.allowed}"
        return False, f"{text}; nothing in the paper asks for it" if judged.word == AGREES else text
