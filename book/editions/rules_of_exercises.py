"""Rules for chapters: exercises are whole, come in the order of their ids, and leave the chapter's names alone."""

import ast
import re
import symtable
from functools import cache

from book.editions.learner.answers import checked, parsed
from book.editions.project import EVAL, source_of
from book.editions.source import Chapter, rule

BORDER = re.compile(r"\{solution-(start|end)\}[ \t]*(\S*)")


@rule
def exercises_complete(chapter):
    """Every exercise has a label, a hint and a solution; at least three are checked, and all of the registry are."""
    opened = re.split(r"^(?:`{3,}|:{3,})\{exercise\}", chapter.prose, flags=re.MULTILINE)[1:]
    for text in opened:
        title = text.split("\n")[0].strip()
        label = re.search(r"^:label:\s*(\S+)", text, re.MULTILINE)
        if label is None:
            yield "", f"exercise {title!r} needs a :label:"
            continue
        if "{hint}" not in text:
            yield "", f"exercise {label[1]} needs a hint"
        if not re.search(rf"\{{solution(?:-start)?\}}\s*{re.escape(label[1])}\s*$", chapter.prose, re.MULTILINE):
            yield "", f"exercise {label[1]} needs a solution"
    code = "\n".join(source_of(cell) for cell in chapter.code)
    asked = re.findall(r"""\bcheck\(\s*["']([\w-]+)["']""", code)
    strict = re.findall(r"""\bcheck\(\s*["']([\w-]+)["'](?:(?!\bcheck\().)*?\bstrict=True""", code, re.DOTALL)
    for name in sorted(set(asked) - set(chapter.exercises)):
        yield "", f"exercises.check({name!r}): no such exercise in its study"
    for name in chapter.exercises:
        if name not in strict:
            yield "", f"exercise {name} of the registry needs an executed solution: check({name!r}, ..., strict=True)"
    if len(set(strict)) < 3:
        yield "", f"{len(set(strict))} exercises are checked, at least 3 are needed"


@rule
def exercises_in_order(chapter):
    """The solutions check the exercises from the first on: 1, 2, 3, as a reader meets them."""
    asked = [name for cell in chapter.code for name in checked(source_of(cell))]
    wanted = [f"{chapter.prefix}-{number}" for number, _ in enumerate(asked, start=1)]
    if asked != wanted:
        yield "", f"exercises are checked in the order {', '.join(asked)}: number them as they come"


@cache  # of a pair of cells each is asked for as often as there are others
def assigned(code: str) -> set[str]:
    """Names that a run of the code leaves in the notebook, without those that it imports."""
    return {name.get_name() for name in _table(code).get_symbols() if name.is_assigned() and not name.is_imported()}


@cache
def read(code: str) -> set[str]:
    """Names that the code, its functions included, looks up in the notebook."""
    tables, found = [_table(code)], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        outside = table.get_type() == "module"
        found |= {one.get_name() for one in table.get_symbols() if one.is_referenced() and (outside or one.is_global())}
    return found


def _table(code: str) -> symtable.SymbolTable:
    return symtable.symtable(ast.unparse(parsed(code)), "cell", "exec")


def by_solution(chapter: Chapter) -> list[tuple[str, str, str]]:
    """(label of the solution or "", cell id, code) of all code of the chapter, expressions in its text included."""
    found, label = [], ""
    for cell in chapter.cells:
        if cell["cell_type"] == "code":
            found.append((label, cell["id"], source_of(cell)))
            continue
        start, text = 0, source_of(cell)
        for border in [*BORDER.finditer(text), None]:
            part = text[start : border.start() if border else None]
            found += [(label, cell["id"], expression.strip()) for expression in EVAL.findall(part)]
            if border:
                start, label = border.end(), border[2] if border[1] == "start" else ""
    return found


@rule
def exercises_keep_names(chapter):
    """What an answer cell or a solution assigns is read by no cell outside its exercise, which may run again."""
    code = by_solution(chapter)
    given = [(label, cell, source) for label, cell, source in code if label]
    for name, stub in chapter.stubs.items():
        own = [label for label, _, source in given if name in checked(source)]
        given.append((own[0] if own else "", f"{name}-answer", stub))
    for label, cell, source in given:
        for other, reader, text in code:
            if other != label and (taken := assigned(source) & read(text)):
                yield cell, f"assigns {', '.join(sorted(taken))}, which cell {reader} reads: use names of its own"
