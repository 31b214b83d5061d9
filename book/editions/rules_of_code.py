"""Rules for chapters: what a code cell may do, how long it is, and that its assertions speak."""

import ast
import io
import re
import statistics
import tokenize
from itertools import pairwise

from book.editions.learner.answers import parsed
from book.editions.project import source_of
from book.editions.source import rule

LONGEST_CELL, MEDIAN_CELL = 35, 8
LONGEST_LINE = 88  # what stands side by side in the column of a page (book.css)
FORBIDDEN = {
    r"pip3? install|^\s*[!%](?:pip|conda|wget|curl)": "installs or downloads; the requirements are pinned",
    r"(?<![\w.])(?:/(?:home|tmp|root|work|Users|mnt|usr|var)/|~/|[A-Z]:\\)": "has an absolute path",
    r"\b(?:urllib|requests|httpx|urlretrieve|wget|fetch_\w+|load_state_dict_from_url|torchvision|openml)\b|download=True":
        "downloads by itself; use bnnlib.datasets",
}  # fmt: skip


@rule
def nothing_forbidden(chapter):
    """No installation, no absolute path, no download outside bnnlib.datasets."""
    for cell in chapter.code:
        for pattern, what in FORBIDDEN.items():
            if found := re.search(pattern, source_of(cell), re.MULTILINE):
                yield cell["id"], f"{found[0].strip()!r} {what}"


def code_lines(source: str) -> int:
    """Logical lines of a cell, comments that stand alone included."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    alone = [b for a, b in pairwise(tokens) if b.type == tokenize.COMMENT and a.type in (tokenize.NL, tokenize.NEWLINE)]
    return sum(token.type == tokenize.NEWLINE for token in tokens) + len(alone)


@rule
def short_cells(chapter):
    """No code cell over 35 lines; the median at most 8. A line that was broken for its width counts once."""
    lengths = {cell["id"]: code_lines(source_of(cell)) for cell in chapter.code}
    for name, length in lengths.items():
        if length > LONGEST_CELL:
            yield name, f"{length} lines of code, at most {LONGEST_CELL} are allowed"
    if lengths and statistics.median(lengths.values()) > MEDIAN_CELL:
        yield "", f"the median code cell has {statistics.median(lengths.values())} lines, at most {MEDIAN_CELL}"


@rule
def short_lines(chapter):
    """No code line over 88 characters: longer ones would have to scroll on every screen."""
    for cell in chapter.code:
        for number, line in enumerate(source_of(cell).split("\n"), start=1):
            if len(line) > LONGEST_LINE:
                yield cell["id"], f"line {number} has {len(line)} characters, at most {LONGEST_LINE} are allowed"


@rule
def assertions_speak(chapter):
    """Every assert has a message: a reader who changes a cell and meets it learns what was expected."""
    for cell in chapter.code:
        for node in ast.walk(parsed(source_of(cell))):
            if isinstance(node, ast.Assert) and node.msg is None:
                yield cell["id"], f'say what was expected: assert {ast.unparse(node.test)[:60]}, "..."'
