"""What there is to build: the folders, the pages that ``_toc.yml`` names, and the key of a chapter's outputs."""

import contextlib
import hashlib
import json
import os
import re
import sys
import sysconfig
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import yaml

from book import studies

EVAL = re.compile(r"\{eval\}`([^`\n]+)`")
REFERENCE = "book/reference"  # folder of the library's reference, which is not printed
WORDS = (".md", ".rst")  # documents without code to run
RESULTS_A_PAGE = 12_000_000  # bytes, whose tables take about a quarter of a megabyte
REPORTS = "book/reports"  # folder of the chapters' reports, which it writes as well


class BookError(Exception):
    """Something in the sources keeps the book from being built; the message says what to do."""


def digest(*parts: str | bytes) -> str:
    """sha256 of the parts, each prefixed by its length so that moving text between parts changes the result."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(f"{len(data)}:".encode() + data)
    return total.hexdigest()


def named(root: Path, paths: list[Path]) -> list[str | bytes]:
    """Name below ``root`` and content of each file, for `digest`."""
    return [part for path in paths for part in (path.relative_to(root).as_posix(), path.read_bytes())]


@contextlib.contextmanager
def locked(path: Path, say: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Hold a file's lock, wait for it after ``say``; yields what a process inherits to hold it, too."""
    with path.open("w") as handle:
        try:
            import fcntl
        except ImportError:  # not a POSIX system: builds there are not protected from each other
            yield []
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield [handle.fileno()]


def files_below(folder: Path) -> list[Path]:
    """The files below ``folder`` in a fixed order, without caches and hidden files."""

    def wanted(path: Path) -> bool:
        parts = path.relative_to(folder).parts
        return path.is_file() and "__pycache__" not in parts and not any(part.startswith(".") for part in parts)

    return sorted(filter(wanted, folder.rglob("*")))


def pack(archive: Path | IO[bytes], files: Iterable[tuple[str, bytes]], stored: str = "") -> None:
    """Write a zip archive, byte by byte the same for the same content; the file called `stored` is not compressed."""
    with zipfile.ZipFile(archive, "w") as out:
        for name, content in files:
            how = zipfile.ZIP_STORED if name == stored else zipfile.ZIP_DEFLATED
            out.writestr(zipfile.ZipInfo(name), content, how, 9)


def installed() -> str:
    """The interpreter and the distributions beside it, a line each."""
    found = Path(sysconfig.get_paths()["purelib"]).glob("*.dist-info")
    # bnnlib itself is hashed by content: its version number would only make an editable install differ from a path.
    return "\n".join([sys.version, *sorted(path.name for path in found if not path.name.startswith("bnnlib-"))])


class Project:
    """The source tree at ``root`` and where its products go (``root/_build``)."""

    def __init__(self, root: Path) -> None:
        self.root, self.build = root, root / "_build"
        self.staging, self.running, self.failed = (self.build / name for name in ("book", "running", "failed"))
        self.html, self.lab = self.build / "html", self.build / "lab"  # the pages, and the notebooks for learners
        self.aside = self.build / "html-before"  # where the pages lie while new ones take their place
        self.sphinx = self.build / "sphinx"  # what Sphinx goes on from: the documents as it has read them, its pages

    @cached_property
    def toc(self) -> dict:
        """The parsed table of contents."""
        return yaml.safe_load((self.root / "_toc.yml").read_text(encoding="utf-8"))

    @cached_property
    def listed(self) -> list[str]:
        """Names of the documents in reading order, as ``_toc.yml`` writes them (no suffix)."""
        return documents(self.toc)

    @cached_property
    def reports(self) -> dict[str, studies.Study]:
        """Documents of the reports: of each study with a listed chapter and a stored result of its own."""
        stored = [path.name for path in (self.root / "data" / "results").glob("*.json")]
        found = {}
        for study in studies.all(self.root / "chapters"):
            name = Path(study.notebook).stem
            if f"chapters/{name}" in self.listed and any(one.startswith(f"{study.prefix}-") for one in stored):
                found[f"{REPORTS}/{name}"] = study
        return found

    @cached_property
    def continued(self) -> dict[str, dict[str, list[str]]]:
        """Further pages of each report that is too long for one, and the experiments that stand there.

        What counts are the bytes of the stored results, which are known before any table is made.
        """
        found: dict[str, dict[str, list[str]]] = {}
        for document, study in self.reports.items():
            sizes: Counter[str] = Counter()
            for path in sorted((self.root / "data" / "results").glob(f"{study.prefix}-*.json")):
                sizes[path.name.partition(".")[0]] += path.stat().st_size
            before, pages = 0, found.setdefault(document, {})
            for name, size in sizes.items():
                if number := before // RESULTS_A_PAGE:
                    pages.setdefault(f"{document}_{number + 1}", []).append(name)
                before += size
        return found

    @cached_property
    def documents(self) -> list[str]:
        """Names of all documents in reading order, each report behind its chapter."""
        reports = {f"chapters/{Path(name).name}": [name, *more] for name, more in self.continued.items()}
        return [one for name in self.listed for one in (name, *reports.get(name, []))]

    @property
    def printed(self) -> list[str]:
        """The documents of the book on paper: a reference is for looking up."""
        return [name for name in self.documents if not name.startswith(f"{REFERENCE}/")]

    @cached_property
    def notebooks(self) -> list[str]:
        """Paths of the chapters relative to the root, in reading order."""
        listed, missing = [], []
        for name in self.listed:
            if (self.root / f"{name}.ipynb").exists():
                listed.append(f"{name}.ipynb")
            elif not any((self.root / f"{name}{one}").exists() for one in WORDS):
                missing.append(name)
        if missing:
            raise BookError(
                f"_toc.yml names {', '.join(missing)}, but there is no such document: add it or drop the line."
            )
        present = {path.relative_to(self.root).as_posix() for path in (self.root / "chapters").glob("*.ipynb")}
        if extra := sorted(present - set(listed)):
            raise BookError(
                f"{', '.join(extra)} stands in no line of _toc.yml: add one, or move the notebook out of chapters/."
            )
        return listed

    def shared_key(self, profile: str) -> str:
        """Hash of everything that can change what any chapter prints, except the chapter's own code.

        That is the profile, the interpreter, the pins and what is really installed, the library, the machinery that
        chapters call, the committed results, and, but for smoke, which data sets lie on this machine.
        """
        pins = (self.root / "requirements.txt").read_text(encoding="utf-8")
        pinned = "\n".join(line for line in pins.split("\n") if line and not line.startswith("#"))
        parts: list[str | bytes] = [profile, installed(), pinned]
        for folder in ("bnnlib", "book/lab", "book/display", "chapters/shared", "data/results"):
            parts += named(self.root, files_below(self.root / folder))
        if profile != "smoke":  # which sees no data set but scikit-learn's: `execute` hides the others
            # sizes and names stand for the contents, which bnnlib.datasets verifies by sha256 whenever it reads them
            data = Path(os.environ.get("BNNLIB_DATA") or self.root / "data" / "cache" / "sets")
            parts.append("\n".join(f"{p.relative_to(data)} {p.stat().st_size}" for p in files_below(data)))
        return digest(*parts)

    def study_key(self, name: str) -> str:
        """Hash of the study beside the chapter ``name``: what no other chapter's outputs can depend on."""
        known = [one for one in studies.all(self.root / "chapters") if f"chapters/{one.notebook}" == name]
        return digest(*named(self.root, [path for study in known for path in files_below(study.folder)]))


def documents(entry: Any) -> list[str]:
    """Names of the documents in an entry of a table of contents, or in a list of such, those below others included."""
    if isinstance(entry, list):
        return [name for one in entry for name in documents(one)]
    names = [entry[key] for key in ("root", "file") if key in entry]
    return names + [name for key in ("parts", "chapters", "sections") for name in documents(entry.get(key, []))]


def read_notebook(path: Path) -> dict:
    """The notebook as plain JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise BookError(
            f"{path} is not a notebook ({error}). Was it half saved, or merged with conflict marks left in?"
        ) from error


def source_of(cell: dict) -> str:
    """A cell's source as one string (nbformat allows a list of lines)."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def tags_of(cell: dict) -> list[str]:
    """A cell's tags."""
    return cell.get("metadata", {}).get("tags", [])


def code_cells(notebook: dict) -> list[dict]:
    """The code cells in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def expressions_of(cell: dict) -> list[str]:
    """What a Markdown cell asks of the kernel by `{eval}` roles, in order."""
    return EVAL.findall(source_of(cell)) if cell["cell_type"] == "markdown" else []


def notebook_key(notebook: dict, shared: str) -> str:
    """Hash of what the outputs depend on: the shared part, the code cells and the expressions in the text.

    The prose around the expressions, captions and alt texts are no part of it.
    """
    parts = [shared]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            parts += ["code", source_of(cell), str("parameters" in tags_of(cell))]
        parts += [part for expression in expressions_of(cell) for part in ("eval", expression)]
    return digest(*parts)
