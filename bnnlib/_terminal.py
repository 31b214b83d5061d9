"""What a long run owes to the person at the terminal: Ctrl-C that tears nothing, and a progress bar."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """Event that the first Ctrl-C sets, so that no step is torn in two; a second one interrupts at once."""
    event = threading.Event()
    in_charge = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not in_charge:  # somebody else's handler is theirs to keep
        yield event
        return

    def handle(number, frame):
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _NoBar:
    def update(self, *_, **__) -> None:
        pass

    set_postfix = update


@contextmanager
def progress_bar(progress: bool | str, total: int | None, unit: str = "epoch") -> Iterator[Any]:
    """A bar over `total` units on stderr, with its name; nothing at all without tqdm or with `progress` False or ""."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        progress = False
    if not progress:
        yield _NoBar()
        return
    with tqdm(total=total, unit=unit, desc=progress if isinstance(progress, str) else None) as bar:
        yield bar
