"""The table of equations at the end of a chapter, with the numbers of the pages in place of labels."""

import re

from book.editions.learner.names import Names

CALL = re.compile(r"^\s*equation_table\(\s*[\"'](\w+)[\"']\s*\)\s*$", re.MULTILINE)


def table(code: str, names: Names) -> str | None:
    """The table as Markdown, if all that the cell does is to show it."""
    call = CALL.fullmatch(code.strip())
    if not call:
        return None
    from book.display.equations import equation_sources  # here, since book.display imports matplotlib

    lines = ["| Equation | In the library |", "|---|---|"]
    rows = sorted(equation_sources(call[1]).items(), key=lambda row: _order(names.number(row[0])))
    for label, places in rows:
        shown = ", ".join(f"`{name}`" for name, _ in places)
        lines.append(f"| {names.reference(label)} | {shown} |")
    return "\n".join(lines)


def _order(number: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", number)]
