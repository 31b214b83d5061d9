"""Cut MyST text into directives, code and what lies between them."""

import re
from dataclasses import dataclass, field

OPEN = re.compile(r"^(\s*)(`{3,}|:{3,}|~{3,})(.*)$")
OPTION = re.compile(r"^\s*:([\w-]+):\s*(.*)$")


@dataclass
class Text:
    """Lines outside every fence."""

    lines: list[str] = field(default_factory=list)


@dataclass
class Code:
    """A fence that is shown as it stands."""

    lines: list[str]


@dataclass
class Directive:
    """```{name} argument, its options and its body."""

    name: str
    argument: str
    options: dict[str, str]
    body: str
    indent: str = ""


def parse(source: str) -> list[Text | Code | Directive]:
    """The top-level pieces of a text in order; bodies of directives are left as text."""
    lines, pieces, at = source.split("\n"), [], 0
    while at < len(lines):
        fence = OPEN.match(lines[at])
        if not fence:
            if not pieces or not isinstance(pieces[-1], Text):
                pieces.append(Text())
            pieces[-1].lines.append(lines[at])
            at += 1
            continue
        indent, marks, info = fence.groups()
        closing = re.compile(rf"^\s*{re.escape(marks[0])}{{{len(marks)},}}\s*$")
        end = next((i for i in range(at + 1, len(lines)) if closing.match(lines[i])), len(lines))
        whole = [line.removeprefix(indent) for line in lines[at : end + 1]]
        named = re.match(r"\{([\w:.-]+)\}\s*(.*)$", info.strip())
        pieces.append(_directive(*named.groups(), whole[1:-1], indent) if named else Code(lines[at : end + 1]))
        at = end + 1
    return pieces


def _directive(name: str, argument: str, inside: list[str], indent: str) -> Directive:
    options: dict[str, str] = {}
    while inside and (option := OPTION.match(inside[0])):
        options[option[1]] = option[2]
        inside = inside[1:]
    return Directive(name, argument.strip(), options, "\n".join(inside).strip("\n"), indent)
