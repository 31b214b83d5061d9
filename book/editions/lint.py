"""The rules for chapters: each is a function from a chapter to problems. Those of code and of exercises stand beside.

`python -m book lint` prints them. With `--fix`, what can be mended without thinking is mended first: the
file's canonical form, outputs, one sentence per line.
"""

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from book.editions import claims, prose, rules_of_code, rules_of_exercises, source  # noqa: F401  (imported, they are rules)
from book.editions.equations import equation_labels
from book.editions.numbers import placeholders
from book.editions.project import EVAL, expressions_of, source_of, tags_of
from book.editions.source import RULES, Chapter, canonical, load, mended, rule

SIZES = {"words": (2500, 4000), "code cells": (15, 30), "figures": (6, 10)}
SIZES |= {"labeled equations": (8, 25), "exercises": (6, 10)}
FILE_NAME = re.compile(r"^\S+\.(?:png|svg|jpe?g|webp|gif)$", re.IGNORECASE)


def problems(chapter: Chapter, name: str) -> list[str]:
    """What one rule finds, a line each."""
    return [f"{name}: cell {cell or '-'}: {message}" for cell, message in RULES[name](chapter)]


@rule
def canonical_file(chapter):
    """nbformat 4.5, indent 1, sources as lists of lines, keys sorted: so that differences are readable."""
    if (chapter.notebook["nbformat"], chapter.notebook["nbformat_minor"]) != (4, 5):
        yield "", "must be nbformat 4.5"
    if chapter.text != canonical(chapter.notebook):
        yield "", "is not in canonical form; run python -m book lint --fix"


@rule
def stripped(chapter):
    """No outputs, no execution counts, no values of numbers, no other metadata but tags and mystnb."""
    for cell in chapter.code:
        if cell.get("outputs") or cell.get("execution_count") is not None:
            yield cell["id"], "holds outputs or an execution count"
    for cell in chapter.cells:
        if cell["metadata"].get("user_expressions", []) != placeholders(cell):
            yield cell["id"], "metadata user_expressions must hold a placeholder for each number; run lint --fix"
        if extra := set(cell["metadata"]) - source.CELL_METADATA - {"user_expressions"}:
            yield cell["id"], f"metadata {sorted(extra)} does not belong into the source"
    if chapter.notebook["metadata"] != source.NOTEBOOK_METADATA:
        yield "", f"the notebook's metadata must be {source.NOTEBOOK_METADATA}"


@rule
def readable_ids(chapter):
    """Every cell has an id of words behind the chapter's prefix: svbnn-elbo."""
    if not re.fullmatch(r"[a-z]{2,5}", chapter.prefix):
        yield "", f"prefix {chapter.prefix!r} of the first cell's id must be two to five small letters"
    for cell in chapter.cells:
        if not re.fullmatch(rf"{re.escape(chapter.prefix)}(?:-[a-z][a-z0-9]*)+", cell.get("id", "")):
            yield cell.get("id", ""), f"the id must be words joined by hyphens behind {chapter.prefix!r}"
    for name, count in Counter(cell.get("id") for cell in chapter.cells).items():
        if count > 1:
            yield name, f"the id is used {count} times"


@rule
def parameters_cell(chapter):
    """The first code cell has the tags parameters and remove-cell; it sets PROFILE = "smoke", SEED, nothing else."""
    marked = [cell for cell in chapter.code if "parameters" in tags_of(cell)]
    if len(marked) != 1 or marked[0] is not chapter.code[0]:
        yield "", "exactly one cell, the first code cell, must have the tag parameters"
        return
    if "remove-cell" not in tags_of(marked[0]):
        yield marked[0]["id"], "needs the tag remove-cell"
    if not re.fullmatch(r'PROFILE = "smoke"\nSEED = \d+', source_of(marked[0]).strip()):
        yield marked[0]["id"], 'must be PROFILE = "smoke" and SEED = <number>, on two lines'


@rule
def known_tags(chapter):
    """No tag that papermill or the book would ignore."""
    allowed = {"parameters", "remove-cell", "remove-input", "remove-output", "hide-input", "hide-output", "hide-cell"}
    for cell in chapter.cells:
        if unknown := set(tags_of(cell)) - allowed:
            yield cell["id"], f"tags {sorted(unknown)} have no effect here (show an expected error with try/except)"


@rule
def one_sentence_per_line(chapter):
    """Markdown has one sentence on each source line."""
    for cell in chapter.markdown:
        for number, line in prose.prose_lines(source_of(cell)):
            if len(prose.split_line(line)) > 1:
                yield cell["id"], f"line {number + 1} holds more than one sentence: {line.strip()[:60]}..."
        for line in prose.wrapped_lines(source_of(cell)):
            yield cell["id"], f"a sentence is wrapped before: {line[:60]}"


def figure_cells(chapter: Chapter) -> list[dict]:
    """Cells that show a figure: by their id, their metadata, or a call of curves."""
    return [
        cell
        for cell in chapter.code
        if f"{chapter.prefix}-fig-" in cell["id"]
        or "figure" in cell["metadata"].get("mystnb", {})
        or re.search(r"^\s*(?:\w+ = )?curves\(", source_of(cell), re.MULTILINE)
    ]


@rule
def figures_described(chapter):
    """Figure cell `svbnn-fig-x`: mystnb figure name `fig-svbnn-x`, a caption, alt text, and the text refers to it."""
    names = Counter()
    for cell in figure_cells(chapter):
        settings = cell["metadata"].get("mystnb", {})
        figure, alt = settings.get("figure", {}), settings.get("image", {}).get("alt", "")
        name, caption = figure.get("name", ""), figure.get("caption", "")
        names[name] += 1
        if cell["id"] != name.replace(f"fig-{chapter.prefix}-", f"{chapter.prefix}-fig-", 1) or "fig-" not in name:
            yield cell["id"], f"figure name {name!r} must be fig-{chapter.prefix}-x for the cell {chapter.prefix}-fig-x"
        if len(caption.split()) < 3:
            yield cell["id"], "needs a caption that stands by itself"
        own_alt = re.search(r"\bcurves\(", source_of(cell)) and re.search(r"\balt\s*=", source_of(cell))
        if not own_alt and (len(alt.split()) < 5 or FILE_NAME.match(alt.strip()) or alt.strip() == caption.strip()):
            yield cell["id"], "needs alt text that says what is seen (not a file name, not the caption again)"
        if name and not re.search(rf"\{{(?:numref|ref)\}}`(?:[^`<]*<)?{re.escape(name)}>?`", chapter.prose):
            yield cell["id"], f"no text refers to it by {{numref}}`{name}`"
    for name, count in names.items():
        if name and count > 1:
            yield "", f"figure name {name} is used {count} times"


@rule
def pictures_described(chapter):
    """A Markdown picture has alt text that is not a file name."""
    for cell in chapter.markdown:
        for alt in re.findall(r"!\[([^\]]*)\]\(", source_of(cell)):
            if len(alt.split()) < 3 or FILE_NAME.match(alt):
                yield cell["id"], f"picture with alt text {alt!r}: say what is seen"


@rule
def equations_labeled(chapter):
    """Labels have the chapter's prefix and occur once; every reference has its label."""
    labels = Counter(equation_labels(chapter.notebook))
    for label, count in labels.items():
        if not label.startswith(f"{chapter.prefix}-"):
            yield "", f"equation label {label} must start with {chapter.prefix}-"
        if count > 1:
            yield "", f"equation label {label} is used {count} times"
    for label in set(re.findall(r"\{eq\}`(?:[^`<]*<)?([^`<>]+)>?`", chapter.prose)) - set(labels) - chapter.known:
        yield "", f"{{eq}}`{label}` refers to an equation without that label"


@rule
def equations_tested(chapter):
    """Every label has a test in tests/equations, or a reason in UNTESTED there, and not both."""
    labels = equation_labels(chapter.notebook)
    for label in labels:
        if label in chapter.tested and label in chapter.excused:
            yield "", f"equation {label} is tested and excused: drop it from UNTESTED"
        if label not in chapter.tested and len(chapter.excused.get(label, "").split()) < 3:
            yield "", f"equation {label} has neither a test in tests/equations nor a reason in UNTESTED"
    for label in sorted(set(chapter.excused) - set(labels) - chapter.known):
        if label.startswith(f"{chapter.prefix}-"):
            yield "", f"UNTESTED names {label}, which no equation has"


@rule
def numbers_evaluated(chapter):
    """A number in the text is an `{eval}` role around one Python expression on one line; nothing is glued."""
    for cell in chapter.cells:
        text = source_of(cell)
        for expression in expressions_of(cell):
            try:
                ast.parse(expression.strip(), mode="eval")
            except SyntaxError as error:
                yield cell["id"], f"{{eval}}`{expression}` is not a Python expression: {error.msg}"
        if cell["cell_type"] == "markdown" and "{eval}" in EVAL.sub("", text):
            yield cell["id"], "{eval} needs an expression between backticks, on one line, without a backtick in it"
        if found := re.search(r"\{glue(?::\w+)?\}|\bglue\b", text):
            yield cell["id"], f"{found[0]}: say numbers with {{eval}}, in Markdown"


@rule
def no_typed_results(chapter):
    """Results come from the store by `{eval}`; see `prose.typed_results`."""
    for cell in chapter.markdown:
        for line in prose.typed_results(source_of(cell)):
            yield cell["id"], f"a typed result? Use {{eval}}, or end the line with <!-- published -->: {line[:70]}"


def lesson(cells: Iterable[dict]) -> Iterator[dict]:
    """The Markdown cells outside the section of the exercises."""
    outside = True
    for cell in cells:
        if source_of(cell).startswith("## "):
            outside = not source_of(cell).startswith("## Exercises")
        if outside:
            yield cell


@rule
def sizes(chapter):
    """A chapter's measure: words without exercises, code cells that readers see, figures, labeled equations, exercises.

    Explorers are no figures here: a page that shows one has a knob more, not a picture more to read.
    """
    counts = {
        "words": sum(prose.words(source_of(cell)) for cell in lesson(chapter.markdown)),
        "code cells": sum("remove-cell" not in tags_of(cell) for cell in chapter.code),
        "figures": sum("explorer(" not in source_of(cell) for cell in figure_cells(chapter)),
        "labeled equations": len(equation_labels(chapter.notebook)),
        "exercises": len(re.findall(r"^(?:`{3,}|:{3,})\{exercise\}", chapter.prose, re.MULTILINE)),
    }
    for what, count in counts.items():
        low, high = SIZES[what]
        if not low <= count <= high:
            yield "", f"{count} {what}; a chapter has {low:,} to {high:,}"


def main(arguments: list[str]) -> int:
    """Print the problems of the given notebooks, or of all chapters; the exit code says whether there are any."""
    parser = argparse.ArgumentParser(prog="python -m book lint", description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, default=source.CHAPTERS)
    parser.add_argument("--fix", action="store_true", help="write the canonical form and split sentences")
    chosen = parser.parse_args(arguments)
    if wrong := [str(path) for path in chosen.notebooks if path.suffix != ".ipynb" or not path.is_file()]:
        parser.error(f"no notebook: {', '.join(wrong)}; give files that end in .ipynb, or none for all chapters")
    found = 0
    for path in chosen.notebooks:
        if chosen.fix:
            path.write_text(mended(path.read_text(encoding="utf-8")), encoding="utf-8")
        chapter = load(path)
        for problem in (line for name in RULES for line in problems(chapter, name)):
            print(f"{path.name}: {problem}")
            found += 1
    print(f"{found} problems in {len(chosen.notebooks)} notebooks")
    return int(found > 0)
