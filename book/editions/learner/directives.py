"""MyST cut into directives, code and text; as plain Markdown boxes are block quotes, what is folded is <details>."""

import re
from dataclasses import dataclass, field

from book.editions.learner import inline
from book.editions.learner.names import Names
from book.editions.project import BookError

OPEN = re.compile(r"^(\s*)(`{3,}|:{3,}|~{3,})(.*)$")
OPTION = re.compile(r"^\s*:([\w-]+):\s*(.*)$")
ADMONITIONS = ("note", "tip", "hint", "warning", "important", "caution", "attention", "danger", "error", "seealso")


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


def fold(summary: str, text: str) -> str:
    """Text that opens on a click."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def box(title: str, text: str) -> str:
    """A box: a block quote with a bold title."""
    return quote(f"**{title}**\n\n{text}")


def quote(text: str) -> str:
    """A block quote. A formula becomes one line: JupyterLab would take the marks at the start of lines into it."""
    text = re.sub(r"\$\$\n(.*?)\n\s*\$\$", lambda m: f"$$ {' '.join(m[1].split())} $$", text, flags=re.DOTALL)
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


class Converter:
    """MyST to plain Markdown for one chapter, by the names that the pages give things."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def text(self, source: str) -> str:
        """A whole piece of MyST as plain Markdown."""
        return self.pieces(parse(source))

    def pieces(self, pieces: list) -> str:
        shown = [self.piece(piece) for piece in pieces]
        # A blank line between neighbors: a box would take in the line below it.
        return "\n\n".join(text.strip("\n") for text in shown if text.strip())

    def piece(self, piece) -> str:
        if isinstance(piece, Directive):
            return "\n".join(f"{piece.indent}{line}".rstrip() for line in self.directive(piece).split("\n"))
        text = "\n".join(piece.lines)
        return text if isinstance(piece, Code) else self.inline(text)

    def inline(self, text: str) -> str:
        return inline.convert(text, self.names)

    def titled(self, directive: Directive) -> str:
        """ "Theorem 3.1 (Contraction)", "Exercise 3.2", "Proof"."""
        label = directive.options.get("label")
        bare = directive.name.rpartition(":")[2].capitalize()
        title = self.names.label(label)["text"] if label else bare
        return f"{title} ({self.inline(directive.argument)})" if directive.argument else title

    def directive(self, directive: Directive) -> str:
        """One directive as plain Markdown."""
        name, body = directive.name, directive.body
        if name == "math":
            label = directive.options.get("label")
            return inline.display(f"{directive.argument}\n{body}", self.names.number(label) if label else None)
        if name == "exercise":
            return self._exercise(directive)
        if name.startswith("prf:"):
            return box(f"{self.titled(directive)}.", self.text(body))
        if name in ADMONITIONS or name == "admonition":
            title = self.inline(directive.argument) if name == "admonition" else name.capitalize()
            if name not in ("admonition", "hint") and directive.argument:
                body = f"{directive.argument}\n{body}"
            folded = "dropdown" in directive.options.get("class", "")
            return fold(title, self.text(body)) if folded else box(title, self.text(body))
        if name == "list-table":
            return self._table(directive)
        raise BookError(
            f"{self.names.page}: the learner's edition does not know the directive {{{name}}}; give it a plain form in "
            "book/editions/learner/directives.py, or write it otherwise."
        )

    def _exercise(self, directive: Directive) -> str:
        """The statement in a box, and its hints folded below."""
        pieces = parse(directive.body)
        hints = [p for p in pieces if isinstance(p, Directive) and p.name == "hint"]
        statement = box(f"{self.titled(directive)}.", self.pieces([p for p in pieces if p not in hints]))
        return "\n\n".join([statement, *(fold("Hint", self.text(hint.body)) for hint in hints)])

    def _table(self, directive: Directive) -> str:
        """A pipe table under its caption; the first row is the head."""
        rows: list[list[str]] = []
        for line in directive.body.split("\n"):
            if match := re.match(r"^\*\s+-\s?(.*)$", line):
                rows.append([match[1]])
            elif match := re.match(r"^\s+-\s?(.*)$", line):
                rows[-1].append(match[1])
            elif line.strip():
                rows[-1][-1] += f" {line.strip()}"
        if directive.options.get("header-rows", "0") != "1":
            rows.insert(0, [""] * len(rows[0]))
        shown = [[_cell(self.inline(cell)) for cell in row] for row in rows]
        shown.insert(1, ["---"] * len(shown[0]))
        table = "\n".join(f"| {' | '.join(row)} |" for row in shown)
        name = directive.options.get("name")
        heading = f"**{self.names.label(name)['text']}.** " if name else ""
        caption = heading + self.inline(directive.argument)
        return f"{caption}\n\n{table}" if caption else table


def _cell(text: str) -> str:
    """A bar inside a cell would end it, in a formula too."""
    text = re.sub(r"\$[^$]+\$", lambda one: re.sub(r"(?<!\\)\|", r"\\vert ", one[0]).replace(r"\|", r"\Vert "), text)
    return re.sub(r"(?<!\\)\|", r"\\|", text.strip())
