"""Build the book: ``python -m book build [--profile smoke|book|paper] [--jobs N]`` (``make book`` calls it).

Chapters whose code, or whatever their outputs depend on, has not changed are not executed again: an executed copy
carries the hash of what it was made from (`project.notebook_key`), so there is no database, and a copy from a cache or
an artifact is as good. The pages are rendered aside and swapped in whole (`render.render`).
"""

import argparse
import contextlib
import os
import shutil
import time
from pathlib import Path

from book.editions.execute import CELL_SECONDS, Outcome, execute, finish
from book.editions.learner.answers import checked
from book.editions.learner.write import editions, offer
from book.editions.pages import written_pages
from book.editions.project import (
    BookError,
    Project,
    code_cells,
    locked,
    notebook_key,
    read_notebook,
    source_of,
    tags_of,
)
from book.editions.render import render, rendered, stage, tidy, write_notebook


def exclusive(project: Project, say=print) -> contextlib.AbstractContextManager:
    """Only one build at a time in a tree; a second one waits and then finds its work done."""
    project.build.mkdir(exist_ok=True)
    return locked(project.build / ".lock", lambda: say("Another build is running in this tree; waiting for it ..."))


def executed_before(project: Project, name: str, key: str) -> dict | None:
    """The staged executed copy of a chapter, if it was made from exactly what is there now."""
    path = project.staging / name
    if not path.exists():
        return None
    try:
        notebook = read_notebook(path)
    except BookError:  # half written by an interrupted build: as good as none
        return None
    return notebook if notebook["metadata"].get("bnn_book", {}).get("key") == key else None


def asked(notebook: dict) -> dict[str, dict]:
    """What the page asks: the exercises that the chapter's solutions check, as far as a page can check them."""
    ids = [name for cell in code_cells(notebook) for name in checked(source_of(cell))]
    if not ids:
        return {}
    from book.display.exercises.page import questions  # here, since it imports torch

    return questions(ids)


def run_chapters(project: Project, profile: str, jobs: int, say) -> tuple[dict[str, dict], list[str]]:
    """Executed copies of all chapters, running only the stale ones; and the error messages of those that failed."""
    shared = project.shared_key(profile)
    sources = {name: read_notebook(project.root / name) for name in project.notebooks}
    for name, notebook in sources.items():
        if not any("parameters" in tags_of(cell) for cell in code_cells(notebook)):  # papermill would only warn
            raise BookError(
                f'{name} has no cell tagged "parameters", so PROFILE cannot be set. Add a code cell with '
                '`PROFILE = "smoke"` and the tags ["parameters", "remove-cell"].'
            )
    keys = {name: notebook_key(source, shared + project.study_key(name)) for name, source in sources.items()}
    copies = {name: executed_before(project, name, key) for name, key in keys.items()}
    stale = [name for name, copy in copies.items() if copy is None]
    say(f"Chapters: {len(sources)}, to execute: {len(stale)} (profile {profile}, {min(jobs, len(stale))} at a time)")

    def keep(outcome: Outcome) -> None:
        """Stage a good copy at once: an interruption later costs only the chapters that were still running."""
        if outcome.error is None:
            run = {"key": keys[outcome.name], "profile": profile, "seconds": round(outcome.seconds, 1)}
            run |= {"numbers": outcome.numbers, "questions": asked(sources[outcome.name])}
            copy = finish(read_notebook(project.running / outcome.name), sources[outcome.name], run)
            copies[outcome.name] = copy
            write_notebook(project.staging / outcome.name, copy)

    outcomes = execute(project, stale, profile, jobs, keep, say)
    # For a chapter whose prose alone changed, this carries its earlier outputs into the new text.
    chapters = {name: finish(one, sources[name], one["metadata"]["bnn_book"]) for name, one in copies.items() if one}
    shutil.rmtree(project.running, ignore_errors=True)
    for path in project.failed.rglob("*.ipynb"):  # of chapters that were renamed, or are well again
        if path.relative_to(project.failed).as_posix() not in {o.name for o in outcomes if o.error}:
            path.unlink()
    return chapters, [outcome.error for outcome in outcomes if outcome.error]


def pages_left(project: Project) -> str:
    """What a reader has after a build that failed."""
    there = (project.html / "index.html").exists()
    return f"The pages of the last good build are still in {project.html}." if there else "There are no pages yet."


def build(root: Path, profile: str = "smoke", jobs: int | None = None, execute_only: bool = False, say=print) -> int:
    """Build the book of the tree at ``root``; returns the exit code."""
    project = Project(root.resolve())
    started = time.perf_counter()
    try:
        with exclusive(project, say):
            tidy(project)
            chapters, errors = run_chapters(project, profile, jobs or os.cpu_count() or 1, say)
            # Good copies are kept even when a neighbor failed, so that the next run does not execute them again.
            stage(project, chapters, written_pages(project, chapters, profile))
            if errors:
                for error in errors:
                    say(f"\n{error}")
                say(f"\n{len(errors)} of {len(project.notebooks)} chapters failed; the book was not rendered.")
                say(pages_left(project))
                return 1
            if execute_only:
                return 0
            if rendered(project):
                say("Pages: unchanged")
                notebooks = editions(project, project.html)
            else:
                before = time.perf_counter()
                notebooks = render(project)
                say(
                    f"Pages: {len(list(project.html.rglob('*.html')))} rendered in {time.perf_counter() - before:.1f} s"
                )
            offer(notebooks, project.lab, say)
    except BookError as error:
        say(f"\nThe book was not built. {error}\n{pages_left(project)}")
        return 1
    except KeyboardInterrupt:
        say("\nStopped. The chapters that were done are kept; the same command goes on from there.")
        return 130
    say(f"Done in {time.perf_counter() - started:.1f} s. Open {project.html / 'index.html'}")
    return 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m book build", description="Execute chapters and render the book.")
    parser.add_argument(
        "--profile", choices=CELL_SECONDS, default="smoke", help="size of the live computations (default: smoke)"
    )
    parser.add_argument("--jobs", type=int, help="chapters at a time (default: one per core)")
    parser.add_argument("--execute-only", action="store_true", help="run the chapters and stop before rendering")
    options = parser.parse_args(arguments)
    if options.jobs is not None and options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: at least one process is needed")
    return build(Path.cwd(), options.profile, options.jobs, options.execute_only, lambda text: print(text, flush=True))
