"""What a lesson claims of stored results: an order of methods, a mean of few runs; and whether it may.

The rule for orders looks at sentences alone, in which a word of order stands beside a number or the name of a method.
Not every such word is a claim. "A less B is ..." is a difference, "more than a fifth" an amount, "ten times faster" a
ratio, and "the smaller network" a name: comparatives count with "than" or "by" behind them, and "more", "less" and
"fewer" in "more often than" only. Figures, and what a sentence says with neither number nor name, are left to readers.
"""

import ast
import builtins
import re
from collections.abc import Iterable, Mapping

from book.editions import prose
from book.editions.project import EVAL, expressions_of, source_of
from book.editions.source import rule

STRONG = r"lowest|highest|best|worst|beats?|beaten|better|worse|wins?|won|outperform\w*|superior|inferior"
WEAK = r"(?<!times )(?:lower|higher|smaller|larger|faster|slower|nearer|farther|surer)(?:(?: \w+){0,3} than|,? by)\b"
WEAK += r"|(?:more|less|fewer) \w+ than"
STRONG_ORDER = re.compile(rf"\b(?:{STRONG})\b", re.IGNORECASE)
ORDER = re.compile(rf"\b(?:{STRONG}|{WEAK})\b", re.IGNORECASE)
PUBLISHED = "<!-- published -->"
KEY = re.compile(r"""said\[["']([^"']+)["']\]""")
FEW = re.compile(r"\b(?:one|two|single|1|2) (?:\w+ )?(?:run|network|data set|chain)s?\b", re.IGNORECASE)


@rule
def orders_shown(chapter):
    """No order of methods without a paired difference of three runs or more beyond t standard errors.

    A sentence that quotes the store must quote such a difference, or a count of such; every difference that it quotes
    must be one. A number of the chapter's own must be among the names that its assertions look at. A sentence that
    names a method without a number needs the difference in its cell.
    """
    trees = [ast.parse(source_of(cell)) for cell in chapter.code]
    asserted = {name for tree in trees for one in ast.walk(tree) if isinstance(one, ast.Assert) for name in _names(one)}
    lines = [(cell, line) for cell in chapter.markdown for _, line in prose.prose_lines(source_of(cell))]
    for cell, line in lines:
        bare = prose.without_spans(line)
        if not ORDER.search(bare) or PUBLISHED in line:
            continue
        said, asked = chapter.spoken()[0], expressions_of({**cell, "source": line})
        keys = [key for one in asked for key in KEY.findall(one)]
        own = [one for one in asked if not KEY.search(one)]
        if keys and not _ordered(said, keys):
            yield cell["id"], f"an order without a paired difference beyond t standard errors: {line.strip()[:70]}"
        elif not keys and any(_names(one) and not _names(one) & asserted for one in own):
            yield cell["id"], f"an order by a number that no assertion looks at: {line.strip()[:70]}"
        elif not asked and STRONG_ORDER.search(bare) and _named(bare, chapter.spoken()[1]):
            near = [key for one in expressions_of(cell) for key in KEY.findall(one)]
            if not any(getattr(said.get(key), "ordered", False) for key in near):
                yield cell["id"], f"an order of methods without a paired difference in its cell: {line.strip()[:70]}"


@rule
def few_runs_said(chapter):
    """Beside a stored mean of fewer than three runs stands how many there are."""
    for cell in chapter.markdown:
        keys, said = [key for one in expressions_of(cell) for key in KEY.findall(one)], chapter.spoken()[0]
        few = [key for key in keys if (getattr(said.get(key), "runs", None) or 3) < 3]
        told = EVAL.sub(lambda role, said=said: said.get(next(iter(KEY.findall(role[0])), ""), ""), source_of(cell))
        if few and not FEW.search(prose.without_spans(told)):
            yield cell["id"], f"{', '.join(few)}: of one or two runs; say so"


def _names(code: str | ast.AST) -> set[str]:
    tree = ast.parse(code.strip(), mode="eval") if isinstance(code, str) else code
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found - set(dir(builtins)) - {"math", "np", "torch", "lab", "spread"}


def _ordered(said: Mapping[str, str], keys: list[str]) -> bool:
    """Whether the quoted texts show an order; what is not stored yet claims nothing."""
    texts = [said.get(key, "") for key in keys]
    shown = [one.ordered for one in texts if getattr(one, "ordered", None) is not None]
    return "(not run)" in texts or (bool(shown) and all(shown))


def _named(bare: str, methods: Iterable[str]) -> bool:
    names = {*methods, *(name.lower() for name in methods if re.fullmatch(r"[A-Z][a-z]{4,}", name))}
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", bare) for name in names)
