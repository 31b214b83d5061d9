"""Start a chapter: ``python -m book new-chapter NAME [--number N] [--prefix abc] [--source papers/004-1.3] ...``.

It makes a notebook, its study with one small experiment, one picture and one equation, and their tests, so that the new
chapter can be listed, run, linted and rendered at once. Of the files that chapters share it touches ``_toc.yml`` alone.
"""

import argparse
import json
import keyword
import re
import sys
from pathlib import Path
from string import Template

from book import studies
from book.editions.source import NOTEBOOK_METADATA, mended

# Texts for `string.Template`, each below a line with its path; the notebook by cells, those of code with metadata.
TEMPLATE = Path(__file__).with_suffix(".template")
IN_TOC = re.compile(r"^(\s*- file: )chapters/(\d+)_\S+$", re.MULTILINE)
NEXT = """\
Made {notebook}, chapters/{name}/ and its tests; _toc.yml got one line. It runs already:
  python -m book run {prefix}-mean                # its first experiment
  python -m pytest tests/chapters/{name} tests/equations/test_{prefix}.py
  python -m book lint {notebook}    # what it lacks of a whole chapter
  make book
Of the other files that chapters share it needs at most book/references.bib, book/notation.md and book/lab/metrics.toml.
CONTRIBUTING.md says where every line belongs."""


class Taken(ValueError):
    """A name, number or prefix that cannot be had, or a file that is there already."""


def facts(root: Path, options: argparse.Namespace) -> dict[str, str]:
    """What the templates are filled with."""
    known = studies.all(root / "chapters")
    numbers = {int(path.name[:2]) for path in (root / "chapters").glob("[0-9][0-9]_*.ipynb")}
    numbers |= {study.number for study in known}
    name, number = options.name, options.number if options.number is not None else max(numbers, default=0) + 1
    words = name.split("_")
    prefix = options.prefix or ("".join(word[0] for word in words if word)[:5] if len(words) > 1 else name[:3])
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or name == "shared":
        raise Taken(f"{name!r} is no name of a study: use small letters and underscores, like closed_form")
    if (root / "chapters" / name).exists():
        raise Taken(f"chapters/{name} is there already")
    if not 0 <= number <= 99 or number in numbers:
        raise Taken(f"the number {number} is taken or beyond 0 to 99; taken: {sorted(numbers)}")
    prefixes = {study.prefix: study.name for study in known}
    if not re.fullmatch(r"[a-z]{2,5}", prefix):
        raise Taken(f"{prefix!r} is no prefix: use two to five small letters, --prefix abc")
    if prefix in prefixes:
        raise Taken(f"the prefix {prefix!r} belongs to {prefixes[prefix]}; taken: {sorted(prefixes)}")
    title = options.title or " ".join(words).capitalize()
    if re.search(r'["\\\n$]', title + options.source):
        raise Taken("a title and a source are one line without quotation marks, backslashes and dollars")
    paper = re.match(r"papers/(\d+)", options.source)
    notebook = f"{number:02d}_{name}.ipynb"
    given = {"name": name, "number": str(number), "prefix": prefix, "title": title, "source": options.source}
    return given | {"paper": paper[1] if paper else options.source, "notebook": notebook}


def files(chapter: dict[str, str]) -> dict[str, str]:
    """Path to content of everything that is new."""
    text = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(chapter)
    parts = re.split(r"^==== (.+)\n", text, flags=re.MULTILINE)
    made, name = dict(zip(parts[1::2], parts[2::2], strict=True)), f"chapters/{chapter['notebook']}"
    cells, found = [], re.split(r"^%% (\S+)(?: (\{.*\}))?\n", made[name], flags=re.MULTILINE)
    for own, metadata, source in zip(found[1::3], found[2::3], found[3::3], strict=True):
        cell = {"id": f"{chapter['prefix']}-{own}", "metadata": json.loads(metadata or "{}"), "source": source[:-1]}
        kind = {"cell_type": "code", "outputs": [], "execution_count": None} if metadata else {"cell_type": "markdown"}
        cells.append(cell | kind)
    notebook = {"cells": cells, "metadata": NOTEBOOK_METADATA, "nbformat": 4, "nbformat_minor": 5}
    return made | {name: mended(json.dumps(notebook))}


def with_line(toc: str, chapter: dict[str, str]) -> str:
    """The table of contents with the chapter at its number's place."""
    there = list(IN_TOC.finditer(toc))
    if not there:
        raise Taken("_toc.yml has no line `- file: chapters/NN_...` to put the new one beside")
    line = f"{there[0][1]}chapters/{Path(chapter['notebook']).stem}"
    before = [match for match in there if int(match[2]) < int(chapter["number"])]
    if not before:
        return f"{toc[: there[0].start()]}{line}\n{toc[there[0].start() :]}"
    return f"{toc[: before[-1].end()]}\n{line}{toc[before[-1].end() :]}"


def new_chapter(root: Path, options: argparse.Namespace) -> dict[str, str]:
    """Write everything, or nothing; returns what the chapter is called."""
    chapter = facts(root, options)
    made, toc = files(chapter), with_line((root / "_toc.yml").read_text(encoding="utf-8"), chapter)
    if there := [name for name in made if (root / name).exists()]:
        raise Taken(f"{', '.join(there)} would be overwritten: move it away, or take another name or prefix")
    for name, text in made.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "_toc.yml").write_text(toc, encoding="utf-8")
    return chapter


def main(arguments: list[str]) -> int:
    """Start the chapter in the present tree; 2 if something is taken."""
    parser = argparse.ArgumentParser(
        prog="python -m book new-chapter", description="Start a chapter: notebook, study and tests."
    )
    parser.add_argument("name", help="of the folder in chapters/, for example closed_form")
    parser.add_argument("--number", type=int, help="of the chapter (default: the next one)")
    parser.add_argument("--prefix", help="of its labels, exercises and experiments (default: from the name)")
    parser.add_argument("--source", default="all", help="what it is about, for example papers/004-1.3 (default: all)")
    parser.add_argument("--title", help="in a few words (default: from the name)")
    try:
        chapter = new_chapter(Path.cwd(), parser.parse_args(arguments))
    except (Taken, studies.StudyError) as error:
        print(f"book: {error}", file=sys.stderr)
        return 2
    print(NEXT.format(**{**chapter, "notebook": f"chapters/{chapter['notebook']}"}))
    return 0
