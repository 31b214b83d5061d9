"""The table of the rules for chapters, which the modules of rules fill."""

from collections.abc import Callable, Iterator

from book.editions.source import Chapter

RULES: dict[str, Callable[[Chapter], Iterator[tuple[str, str]]]] = {}


def rule(function):
    """Register a rule; it yields (cell id, message)."""
    RULES[function.__name__] = function
    return function
