"""The registry of data sets: where they come from, their sizes and licenses, and how to recognize them."""

import difflib
import os
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from bnnlib.datasets.errors import DatasetError, UnknownDatasetError

CHECKOUT = Path(__file__).resolve().parents[2] / "data"  # absent beside an installed wheel
REGISTRY = Path(__file__).with_name("registry.toml")


@dataclass(frozen=True)
class FileSpec:
    """One file to download. `size` is in bytes; `content_sha256` is that of the file after gunzip."""

    path: str
    size: int
    sha256: str | None = None
    md5: str | None = None
    content_sha256: str | None = None


@dataclass(frozen=True)
class Variant:
    """A known copy that differs from the published set, recognized by the fingerprint of its content."""

    fingerprint: str
    title: str
    note: str


@dataclass(frozen=True)
class Entry:
    """One data set. `members` maps the files inside an archive to their md5; `options` goes to the reader."""

    name: str
    title: str
    reader: str
    task: str
    license: str
    citation: str
    homepage: str
    note: str = ""
    folder: str = ""
    sources: tuple[str, ...] = ()
    files: tuple[FileSpec, ...] = ()
    members: dict[str, str] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def urls(self, spec: FileSpec) -> list[str]:
        """Every address of one file, in the order in which to try them."""
        return [source.replace("{file}", spec.path) for source in self.sources]


@lru_cache(maxsize=4)
def _read(path: Path) -> dict[str, Entry]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist, so this installation is not whole: install bnnlib again.") from None
    except tomllib.TOMLDecodeError as error:
        raise DatasetError(f"{path} is not valid TOML: {error}. Restore it from the repository.") from None
    defaults = table.pop("defaults", {})
    return {name: _entry(name, {**defaults.get(fields["reader"], {}), **fields}) for name, fields in table.items()}


def _entry(name: str, fields: dict[str, Any]) -> Entry:
    fields["sources"] = tuple(
        source.replace("{folder}", fields["folder"]).replace("{name}", name) for source in fields.get("sources", ())
    )
    fields["files"] = tuple(FileSpec(**spec) for spec in fields.get("files", ()))
    fields["variants"] = tuple(Variant(**variant) for variant in fields.get("variants", ()))
    return Entry(name=name, **fields)


def names() -> list[str]:
    """Every name that `load` accepts.

    Example:
        >>> "digits" in names(), "mnist" in names()
        (True, True)
    """
    return list(_read(REGISTRY))


def entry(name: str) -> Entry:
    """Return what the registry knows of one data set, or raise an UnknownDatasetError that lists all names."""
    entries = _read(REGISTRY)
    if name in entries:
        return entries[name]
    given = str(name).casefold().replace("-", "_").replace(" ", "_")
    guess = difflib.get_close_matches(given, entries, n=1, cutoff=0.5)
    hint = f" Did you mean {guess[0]!r}?" if guess else ""
    raise UnknownDatasetError(f"There is no data set named {name!r}.{hint} The names are: {', '.join(entries)}.")


def data_root(root: str | os.PathLike | None = None) -> Path:
    """Folder that holds the data sets: the argument, else $BNNLIB_DATA, else the cache.

    That is data/cache/sets in a checkout, and bnnlib below the user's cache folder for an installed wheel.
    """
    if root is not None:
        return Path(root).expanduser()
    if from_environment := os.environ.get("BNNLIB_DATA"):
        return Path(from_environment).expanduser()
    if CHECKOUT.is_dir():
        return CHECKOUT / "cache" / "sets"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "bnnlib"
