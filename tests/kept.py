"""What ran through stays so, as the book's executed chapters do, until something that it came from changes."""

from collections.abc import Callable
from pathlib import Path

from book.editions.project import digest


def once(folder: Path, name: str, parts: list[str], run: Callable[[], None]) -> None:
    """Run unless it has run through before, from the same parts.

    Args:
        folder: where a file of the name says from what.
        name: of the run.
        parts: all that decides what it does.
        run: raises what is wrong.
    """
    mark, key = folder / name, digest(*parts)
    if mark.exists() and mark.read_text() == key:
        return
    run()
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(key)
