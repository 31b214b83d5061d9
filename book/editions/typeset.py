"""Chromium, which sets the pages of a book in one file, and the command by which such an edition is made."""

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from book.editions.landing import publish
from book.editions.project import BookError, Project

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser() -> str:
    """Path of Chromium: $CHROMIUM, or the first that is installed."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None or shutil.which(found) is None:
        named = f"$CHROMIUM is {found}, which is no program" if found else "none was found"
        raise BookError(
            f"The book in one file is set by Chromium, and {named}. Install it (Debian and Ubuntu: apt-get install "
            "chromium) or set CHROMIUM=/path/to/it. Any browser's print command gives the same look, page by page."
        )
    return found


@contextlib.contextmanager
def typesetter() -> Iterator[Callable]:
    """A function that opens a page in Chromium and returns its tab when all formulas are set."""
    path = browser()
    from playwright.sync_api import Error, sync_playwright

    def opened(page: Path):
        tab = chromium.new_page(viewport={"width": 1280, "height": 1000})
        tab.set_default_timeout(0)  # a busy machine may take minutes
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-typeset]", state="attached")  # set by print.js
        return tab

    try:
        with sync_playwright() as api:
            chromium = api.chromium.launch(executable_path=path, timeout=0)
            yield opened
            chromium.close()
    except Error as error:
        raise BookError(f"{path} could not set the book: {error.message}") from error


def edition(make: Callable[[Project], Path], kind: str, arguments: list[str]) -> int:
    """Make an edition of the rendered book as a command, and return its exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m book {kind.lower()}", description=make.__doc__.split("\n")[0])
    parser.parse_args(arguments)
    project = Project(Path.cwd())
    try:
        if not (project.html / "index.html").exists():
            raise BookError(f"{project.html} holds no book: run `make book` first")
        made = make(project)
    except BookError as error:
        print(f"The {kind} was not made. {error}", file=sys.stderr)
        return 1
    publish(project, made)
    print(f"{made} ({made.stat().st_size / 1e6:.1f} MB)")
    return 0
