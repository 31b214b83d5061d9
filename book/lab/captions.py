"""What a caption says of the runs behind a picture or a table: how many, and how far along the published budget."""

from collections.abc import Mapping, Sequence
from itertools import product

MOST = 4
"""Longer lists of names are counted."""
Where = tuple[str, str]  # setting, method


def budget_caption(rows: Sequence[Mapping]) -> str:
    """Replicates and budgets of comparison rows in one line, without a full stop.

    For example "Ours: 30 replicates, 80 of 10,000 published epochs", or with several budgets each followed by the
    methods and settings that it holds for.

    Args:
        rows: of `book.lab.compare`; only those that the picture shows.
    """
    pairs: dict[Where, list[Mapping]] = {}
    for row in rows:
        ours = pairs.setdefault((row["setting"], row["method"]), [])
        ours += [row] if row["n"] and row["profile"] != "smoke" else []
    groups: dict[str, list[Where]] = {}
    for where, ours in pairs.items():
        if ours:
            groups.setdefault(_budget(ours), []).append(where)
    if not groups:
        return "Ours: not run"
    numbers = {text: _replicates([row for where in whose for row in pairs[where]]) for text, whose in groups.items()}
    whose = {text: _whose(some, list(pairs)) for text, some in groups.items()}
    if len(set(numbers.values())) == 1:
        parts = [", ".join(filter(None, (text + whose[text] if text else "" for text in groups)))]
        parts = [next(iter(numbers.values())), *filter(None, parts)]
        told = (", " if len(groups) == 1 else "; ").join(parts)
    else:
        told = "; ".join(", ".join(filter(None, (numbers[text], text))) + whose[text] for text in groups)
    idle = [where for where, ours in pairs.items() if not ours]
    return f"Ours: {told}" + (f"; not run{_whose(idle, list(pairs))}" if idle else "")


def _replicates(rows: Sequence[Mapping]) -> str:
    fewest, most = min(row["n"] for row in rows), max(row["n"] for row in rows)
    if most == 1:
        return "one run"
    return f"{most} replicates" if fewest == most else f"{fewest} to {most} replicates"


def _budget(rows: Sequence[Mapping]) -> str:
    """Ours, of the published one where it is known; "" where ours is not."""
    known = next((row for row in rows if row["budget"] is not None), None)
    if known is None:
        return ""
    published = next((row["published_budget"] for row in rows if row["published_budget"] is not None), None)
    ours, unit = known["budget"], known["budget_unit"]
    if published is None:
        return f"{ours:,g} {unit}"
    return (
        f"{ours:,g} of {published:,g} published {unit}"
        if ours <= published
        else f"{ours:,g} {unit} where {published:,g} are published"
    )


def _whose(some: list[Where], every: list[Where]) -> str:
    """In parentheses the methods and settings that are meant; "" where these are all."""
    if len(some) == len(every):
        return ""
    settings, methods = (list(dict.fromkeys(pair[k] for pair in some)) for k in (0, 1))
    all_settings, all_methods = (list(dict.fromkeys(pair[k] for pair in every)) for k in (0, 1))

    def listed(some: list[str], kind: str) -> str:
        return ", ".join(some) if len(some) <= MOST else f"{len(some)} {kind}"

    inside = set(every)
    if {pair for pair in product(all_settings, methods) if pair in inside} == set(some):
        return f" ({listed(methods, 'methods')})"
    if {pair for pair in product(settings, all_methods) if pair in inside} == set(some):
        return f" ({listed(settings, 'settings')})"
    if len(some) > MOST:
        return f" ({len(some)} of the lines)"
    return f" ({', '.join(f'{method} on {setting}' for setting, method in some)})"
