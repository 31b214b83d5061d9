"""The studies in ``chapters/``: a folder with a ``card.toml`` is one, and its card says which chapter it belongs to."""

import importlib.util
import pkgutil
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Study:
    """A chapter's room: its notebook, and the package with all that is the chapter's own, as its card has it."""

    folder: Path
    number: int
    title: str
    notebook: str  # file beside the folder; its name starts with the number. Empty while the lesson is not written
    source: str  # what it is about, for example ``"papers/002"``
    prefix: str  # of its equation labels, exercises, cells and experiments
    figure: str = ""  # id of the cell whose picture stands for the chapter; the card may leave it out

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @property
    def paper(self) -> str:
        """The number of the paper, for example "002"; of another source what the card says."""
        return re.sub(r"papers/(\d+).*", r"\1", self.source)

    @property
    def package(self) -> str:
        """The importable name."""
        return f"chapters.{self.name}"

    def modules(self, part: str) -> list[str]:
        """Importable names of the modules in a sub-package, or of the module itself where it is a file; may be []."""
        return list(_modules(self, part))


@cache  # asked for thousands of times by a build; what is new is for the next process, as with modules
def _modules(study: Study, part: str) -> list[str]:
    if (study.folder / f"{part}.py").is_file():
        return [f"{study.package}.{part}"]
    inside = pkgutil.iter_modules([str(study.folder / part)])
    return [f"{study.package}.{part}.{module.name}" for module in inside if not module.ispkg]


class StudyError(ValueError):
    """A card is missing a line, or two studies claim the same."""


def root() -> Path | None:
    """The folder ``chapters``, None for a library installed without the book."""
    spec = importlib.util.find_spec("chapters")
    return Path(next(iter(spec.submodule_search_locations))) if spec else None


def all(folder: Path | None = None, without_lesson: bool = False) -> list[Study]:
    """All studies by number.

    Args:
        folder: that holds them; by default ``chapters``.
        without_lesson: those too whose lesson is not written yet: they have experiments and no chapter.

    Raises:
        StudyError: a card lacks a line, or two cards share a number or a prefix.
    """
    found = _below(folder) if folder else list(_own())
    return [one for one in found if one.notebook or without_lesson]


@cache
def _own() -> list[Study]:
    folder = root()
    return _below(folder) if folder else []


def _below(folder: Path) -> list[Study]:
    found = [_read(card) for card in sorted(folder.glob("*/card.toml"))]
    for field in ("number", "prefix"):
        claimed: dict = {}
        for study in found:
            other = claimed.setdefault(getattr(study, field), study)
            if other is not study:
                raise StudyError(f"{other.name} and {study.name} have the same {field} on their cards")
    return sorted(found, key=lambda study: study.number)


def _read(card: Path) -> Study:
    lines = tomllib.loads(card.read_text(encoding="utf-8"))
    wanted = {"number", "title", "notebook", "source", "prefix"}
    if set(lines) - {"figure"} != wanted:
        raise StudyError(
            f"{card.parent.name}/card.toml must have {sorted(wanted)}, and may have 'figure', but has {sorted(lines)}"
        )
    return Study(card.parent, **lines)
