"""What a lesson claims of stored results: an order of methods, a mean of few runs; and whether it may.

The rule for orders looks at sentences alone, in which a word of order stands beside a number or the name of a method.
Not every such word is a claim. "A less B is ..." is a difference, "more than a fifth" an amount, "ten times faster" a
ratio, and "the smaller network" a name: comparatives count with "than" or "by" behind them, and "more", "less" and
"fewer" in "more often than" only. Figures, and what a sentence says with neither number nor name, are left to readers.
"""

import ast
import builtins
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from book import lab
from book.editions import prose
from book.editions.project import EVAL, expressions_of, source_of
from book.studies import Study

STRONG = r"lowest|highest|best|worst|beats?|beaten|better|worse|wins?|won|outperform\w*|superior|inferior"
WEAK = r"(?<!times )(?:lower|higher|smaller|larger|faster|slower|nearer|farther|surer)(?:(?: \w+){0,3} than|,? by)\b"
WEAK += r"|(?:more|less|fewer) \w+ than"
STRONG_ORDER = re.compile(rf"\b(?:{STRONG})\b", re.IGNORECASE)
ORDER = re.compile(rf"\b(?:{STRONG}|{WEAK})\b", re.IGNORECASE)
PUBLISHED = "<!-- published -->"
KEY = re.compile(r"""said\[["']([^"']+)["']\]""")
FEW = re.compile(r"\b(?:one|two|single|1|2) (?:\w+ )?(?:run|network|data set|chain)s?\b", re.IGNORECASE)


# The stored numbers of a study as its text says them, by key, and the names of its methods; read at the first call.
Spoken = Callable[[], tuple[Mapping[str, str], Iterable[str]]]


def of_study(study: Study) -> Spoken:
    """What a study's `numbers.py` says, from the store."""

    @cache
    def read() -> tuple[Mapping[str, str], Iterable[str]]:
        if not (study.folder / "numbers.py").exists():
            return {}, ()
        names = [name for name in lab.names() if name.startswith(f"{study.prefix}-")]
        rows = {name.removeprefix(f"{study.prefix}-"): lab.compare(name) for name in names}
        said = importlib.import_module(f"chapters.{study.name}.numbers").numbers(rows)
        return said, {row["method"] for each in rows.values() for row in each}

    return read


def unproved_orders(cell: dict, spoken: Spoken, asserted: set[str]) -> Iterator[str]:
    """Sentences of a cell that say an order without a paired difference of three runs or more beyond t standard errors.

    A sentence that quotes the store must quote such a difference, or a count of such; every difference that it quotes
    must be one. A number of the chapter's own must be among the names that its assertions look at. A sentence that
    names a method without a number needs the difference in its cell.
    """
    for _, line in prose.prose_lines(source_of(cell)):
        bare = prose.without_spans(line)
        if not ORDER.search(bare) or PUBLISHED in line:
            continue
        asked = expressions_of({**cell, "source": line})
        keys = [key for one in asked for key in KEY.findall(one)]
        own = [one for one in asked if not KEY.search(one)]
        if keys and not _ordered(spoken, keys):
            yield f"an order without a paired difference beyond t standard errors: {line.strip()[:70]}"
        elif not keys and any(_names(one) and not _names(one) & asserted for one in own):
            yield f"an order by a number that no assertion looks at: {line.strip()[:70]}"
        elif not asked and STRONG_ORDER.search(bare) and _named(bare, spoken):
            near = [key for one in expressions_of(cell) for key in KEY.findall(one)]
            if not any(getattr(spoken()[0].get(key), "ordered", False) for key in near):
                yield f"an order of methods without a paired difference in its cell: {line.strip()[:70]}"


def few_runs(cell: dict, spoken: Spoken) -> Iterator[str]:
    """Means of one or two runs that a cell of Markdown says without saying so."""
    keys = [key for one in expressions_of(cell) for key in KEY.findall(one)]
    few = [key for key in keys if (getattr(spoken()[0].get(key), "runs", None) or 3) < 3]
    told = EVAL.sub(lambda role: spoken()[0].get(next(iter(KEY.findall(role[0])), ""), ""), source_of(cell))
    if few and not FEW.search(prose.without_spans(told)):
        yield f"{', '.join(few)}: of one or two runs; say so"


def asserted_names(cells: Iterable[dict]) -> set[str]:
    """Names inside the assertions of code cells."""
    trees = [ast.parse(source_of(cell)) for cell in cells]
    return {name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Assert) for name in _names(node)}


def _names(code: str | ast.AST) -> set[str]:
    tree = ast.parse(code.strip(), mode="eval") if isinstance(code, str) else code
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found - set(dir(builtins)) - {"math", "np", "torch", "lab", "spread"}


def _ordered(spoken: Spoken, keys: list[str]) -> bool:
    """Whether the quoted texts show an order; what is not stored yet claims nothing."""
    texts = [spoken()[0].get(key, "") for key in keys]
    shown = [one.ordered for one in texts if getattr(one, "ordered", None) is not None]
    return "(not run)" in texts or (bool(shown) and all(shown))


def _named(bare: str, spoken: Spoken) -> bool:
    names = {*spoken()[1], *(name.lower() for name in spoken()[1] if re.fullmatch(r"[A-Z][a-z]{4,}", name))}
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", bare) for name in names)
