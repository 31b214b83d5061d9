"""Command line: ``python -m book COMMAND``; ``--help`` lists the commands."""

import importlib
import sys

# Commands with a parser of their own; they run where the library cannot be imported, too.
EDITIONS = {
    "build": ("book.editions.build", "execute the chapters that changed and render the book"),
    "lab": ("book.editions.learner.lab", "open the learner's notebooks in JupyterLab"),
    "pdf": ("book.editions.print", "print the rendered book as one PDF"),
    "epub": ("book.editions.epub", "make the rendered book an EPUB"),
    "check": ("book.editions.check", "look the rendered book through"),
    "contest": ("chapters.side_by_side.enter", "run a method of your own on the terms of chapter 09"),
    "lint": ("book.editions.lint", "hold the chapters to the rules of notebooks"),
    "mutate": ("tests.mutation.mutate", "which faults the certificates and the tests would notice"),
    "release": ("book.editions.release", "make all that a release consists of, try it, and write the checklist"),
    "versions": ("book.editions.versions", "lay several versions of the rendered book side by side"),
    "new-chapter": ("book.editions.new_chapter", "start a chapter: notebook, study and tests"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; see `book.lab.commands.main`."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in EDITIONS:
        return importlib.import_module(EDITIONS[arguments[0]][0]).main(arguments[1:])
    others = {name: text for name, (_, text) in EDITIONS.items()}
    return importlib.import_module("book.lab.commands").main(arguments, others)


if __name__ == "__main__":
    sys.exit(main())
