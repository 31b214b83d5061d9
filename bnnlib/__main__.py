"""Command line of the library: ``python -m bnnlib data``. Experiments are run from a checkout: ``python -m book``."""

import argparse
import sys

from bnnlib import __version__, datasets
from bnnlib.datasets import registry


class _Parser(argparse.ArgumentParser):
    """Says where the commands are that somebody looks for here."""

    def error(self, message):
        super().error(f"{message}\nExperiments run from a checkout of the repository: there, python -m book --help")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 something could not be fetched, 2 wrong usage."""
    parser = _Parser(
        prog="python -m bnnlib",
        description="Data sets of bnnlib. The experiments and the book are in the repository: python -m book.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=argparse.ArgumentParser)
    data = commands.add_parser("data", help="fetch data sets; without names, say which are here")
    data.add_argument("names", nargs="*", metavar="NAME", help="data sets")
    data.add_argument("--verify", action="store_true", help="read those that are here again, down to their checksums")
    parser.add_argument("--version", action="version", version=f"bnnlib {__version__}")
    options = parser.parse_args(arguments)
    return _data(options.names, options.verify)


def _verify(names: list[str]) -> int:
    damaged = False
    for name in names or [name for name in datasets.names() if datasets.available(name)]:
        try:
            datasets.fingerprint(name)
            print(f"{name:<16} verified")
        except (OSError, RuntimeError, ValueError) as error:
            print(f"bnnlib: {error}", file=sys.stderr)
            damaged = True
    return 1 if damaged else 0


def _data(names: list[str], verify: bool = False) -> int:
    if not names and not verify:
        for name in datasets.names():
            print(f"{name:<16} {'here' if datasets.available(name) else 'not fetched'}")
        return 0
    try:
        for name in names:
            registry.entry(name)
    except datasets.UnknownDatasetError as error:
        print(f"bnnlib: {error}", file=sys.stderr)
        return 2
    if verify:
        return _verify(names)
    for name in names:
        try:
            datasets.fetch(name)
        except (OSError, RuntimeError, ValueError) as error:
            print(f"bnnlib: {error}", file=sys.stderr)
            return 1
        print(f"{name}: ready", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
