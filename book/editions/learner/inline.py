"""Roles, links and formulas within a text, as plain Markdown."""

import re

from book.editions.learner.names import Names
from book.editions.project import BookError

ROLE = re.compile(r"\{([\w:.+-]+)\}(`+)(.+?)\2(?!`)", re.DOTALL)
EXPLICIT = re.compile(r"^(.*?)\s*<([^<>]+)>$", re.DOTALL)
LINK = re.compile(r"(?<!!)\[([^\]\[]*)\]\((?![a-z]+:)([^)\s#]*)(#[^)\s]*)?\)")
MATH = re.compile(r"^([ \t]*)\$\$(.+?)\$\$(?:[ \t]*\(([\w:.-]+)\))?[ \t]*$", re.DOTALL | re.MULTILINE)
# A number of the store, which leads to its report on the pages, see `book.editions.numbers`.
STORED = re.compile(r'\[((?:[^\]\\]|\\.)*)\]\(#report-[^ )]+ "(?:[^"\\]|\\.)*"\)')
# Comments of the authors, and targets before a heading or a figure.
UNSEEN = re.compile(r"[ \t]*<!--.*?-->|^\([\w:.-]+\)=[ \t]*\n?|^%[^\n]*\n?", re.DOTALL | re.MULTILINE)
LINE_BREAK = r"\\"


def display(latex: str, tag: str | None = None) -> str:
    """A displayed formula; `tag` is its number."""
    latex = re.sub(r"\n\s*\n", "\n", latex.strip())
    # Sphinx wraps bare lines the same way; MathJax refuses an align within a display.
    latex = re.sub(r"\\(begin|end)\{(?:align|eqnarray|gather)\*?\}", r"\\\1{aligned}", latex)
    outside = re.sub(r"\\begin\{(\w+\*?)\}.*\\end\{\1\}", "", latex, flags=re.DOTALL)
    if LINE_BREAK in outside:
        latex = f"\\begin{{aligned}}\n{latex}\n\\end{{aligned}}"
    number = f" \\tag{{{tag}}}" if tag else ""
    return f"$$\n{latex}{number}\n$$"


def convert(text: str, names: Names) -> str:
    """Text outside directives as plain Markdown."""

    def formula(match: re.Match) -> str:
        shown = display(match[2], names.number(match[3]) if match[3] else None)
        return "\n".join(match[1] + line for line in shown.split("\n"))

    text = MATH.sub(formula, UNSEEN.sub("", STORED.sub(r"\1", text)))
    text = ROLE.sub(lambda match: _role(match[1], match[3].strip(), names), text)
    return LINK.sub(lambda match: _link(match, names), text)


def _link(match: re.Match, names: Names) -> str:
    text, target, anchor = match[1], match[2], (match[3] or "")[1:]
    if not target or target in names.labels:
        return names.reference(target or anchor, text)
    page, suffix = re.fullmatch(r"(.*?)(\.md|\.ipynb)?", target).groups()
    return names.link(page, text) if suffix else match[0]


def _role(name: str, content: str, names: Names) -> str:
    text, target = EXPLICIT.match(content).groups() if EXPLICIT.match(content) else (None, content)
    if name in ("eq", "ref", "prf:ref", "numref"):
        if text and name == "numref":
            text = text.replace("%s", names.number(target)).replace("{number}", names.number(target))
        return names.reference(target, text)
    if name in ("cite", "cite:t"):
        return names.cite([key.strip() for key in content.split(",")], textual=name == "cite:t")
    if name == "term":
        return text or content
    if name.startswith("py:"):  # a name of the library, where it stands alone
        return text or f"`{content}`"
    raise BookError(
        f"{names.page}: the learner's edition does not know the role {{{name}}}; give it a plain form in "
        "book/editions/learner/inline.py, or write it otherwise."
    )
