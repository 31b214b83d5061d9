"""Commands about experiments and their results: ``python -m book list | run | table``."""

import argparse
import os
import re
import signal
import sys
import textwrap
from collections.abc import Iterator

from bnnlib._files import StoreError
from book import lab

FAILED, USAGE, INTERRUPTED = 1, 2, 130
DAMAGED: dict[str, int] = {"damaged": 1}


def main(arguments: list[str], others: dict[str, str]) -> int:
    """Run one command and return its exit code; `others` says what the commands do that run elsewhere.

    0: done; 1: a cell failed, or something could not be stored or fetched; 2: wrong usage; 130: interrupted.
    """
    options = _parser(others).parse_args(arguments)  # before PyTorch is imported: help and typing errors come at once
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill stores what is finished, as Ctrl-C does
    try:
        return options.action(options)
    except lab.ExperimentError as error:
        return _complain(error, USAGE)
    except StoreError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has gone: nothing to report and nobody to report it to
        return FAILED


def _complain(error: Exception, code: int) -> int:
    print(f"book: {error}", file=sys.stderr)
    return code


def _parser(others: dict[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m book", description="Experiments of the book, their results, and the book itself."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("list", help="experiments, their profiles, and which of them have results")
    one.add_argument("--json", action="store_true", help="one JSON list on stdout")
    one.set_defaults(action=_list)

    one = commands.add_parser("run", help="run an experiment; an interrupted run goes on where it stopped")
    one.add_argument("name", nargs="?", help="the experiment")
    one.add_argument("--all", action="store_true", help="every cell of every experiment that is not done yet")
    one.add_argument("--budget", metavar="TIME", help="with --all: stop after 170m, 2h or 90s; what is begun resumes")
    one.add_argument("--dry-run", action="store_true", help="with --all: only list the cells, with estimated minutes")
    one.add_argument("--profile", help="smoke, book, paper (default: smoke, with --all book)")
    one.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ... (default: auto)")
    one.add_argument("--devices", type=int, default=1, help="devices that compute a cell together (default: 1)")
    one.add_argument("--jobs", type=int, default=1, help="worker processes on this machine (default: 1)")
    one.add_argument("--scheduler", help="address of a Dask scheduler, tcp://host:8786, whose workers compute")
    one.add_argument("--threads", type=int, default=1, help="torch threads of each cell (default: 1)")
    one.add_argument("--only", metavar="TEXT", help="only the cell TEXT, or cells whose label contains it")
    one.add_argument("--again", action="store_true", help="compute cells that are known again")
    one.set_defaults(action=_run)

    one = commands.add_parser("verify", help="whether stored results are what today's code would compute")
    one.add_argument("name", nargs="?", help="the experiment")
    one.add_argument("--all", action="store_true", help="all stored results")
    one.add_argument("--profile", help="smoke, book, paper (default: book and paper)")
    one.add_argument("--check", action="store_true", help="write no certificate")
    one.add_argument("--jobs", type=int, default=0, help="worker processes (default: one per core)")
    one.add_argument("--accept", metavar="REASON", default="", help="accept probes that differ, for this reason")
    one.add_argument("--json", action="store_true", help="one JSON list on stdout")
    one.set_defaults(action=_verify)

    one = commands.add_parser("table", help="published values beside ours, with verdicts")
    one.add_argument("name", help="the experiment")
    one.add_argument("--profile", help="default: the best one that is stored")
    one.add_argument("--json", action="store_true", help="one JSON list on stdout")
    one.set_defaults(action=_table)

    one = commands.add_parser("claims", help="what the papers claim, and what the stored rows say of it")
    one.add_argument("study", nargs="?", help="a folder of chapters/; all of them without one")
    one.add_argument("--json", action="store_true", help="one JSON list on stdout")
    one.set_defaults(action=_claims)

    for name, text in others.items():
        commands.add_parser(name, help=text)
    return parser


def _list(options: argparse.Namespace) -> int:
    from book.lab import listing

    seen = listing.state()
    rows = listing.read("list.json", seen)
    rows = _listed(seen) if rows is None else rows
    damaged = any(counts == DAMAGED for row in rows for counts in row["cells"].values())
    if options.json:
        _print_json([{key: row[key] for key in ("name", "paper", "profiles", "done")} for row in rows])
    else:
        print("\n".join(_in_lines(rows)))
    return FAILED if damaged else 0


_LEGEND = """\
Cells that are stored, of all; - none. certified: the code has moved since, and
its probe gave the same; moved: no probe yet (python -m book verify NAME).
Document: of the papers, in order of file name. Run one: python -m book run NAME"""


def _in_lines(rows: list[dict]) -> Iterator[str]:
    """The rows for a terminal of 80 columns: two lines each."""
    yield f"{'Experiment':<24}{'Document':<10}Profiles: cells stored, and whether they hold"
    for row in rows:
        told = (" ".join(filter(None, (p, _count(c), row["words"].get(p)))) for p, c in row["cells"].items())
        yield f"{row['name']:<24}{row['paper']:<10}{', '.join(told)}"
        yield from textwrap.wrap(row["summary"], 78, initial_indent="  ", subsequent_indent="  ")
    yield _LEGEND


def _listed(seen: str) -> list[dict]:
    """What `list` says of every experiment; kept for the next time where all of it could be read."""
    from book.lab import catalog, listing, validity
    from book.lab.cells import PROFILES

    rows = []
    for name, (_, experiment) in catalog.table().items():
        cells = {profile: _stored(name, profile) for profile in PROFILES if profile in experiment.profiles}
        about = {"name": name, "paper": catalog.paper_of(name), "summary": experiment.summary, "profiles": list(cells)}
        known = {profile: counts for profile, counts in cells.items() if counts and counts != DAMAGED}
        done = [profile for profile, one in known.items() if one["done"] + one["failed"] == one["total"]]
        words = dict.fromkeys(cells, "")
        words |= {profile: validity.worst(validity.states(name, profile)) for profile in known}
        rows.append(about | {"done": done, "cells": cells, "words": words})
    if not any(DAMAGED in row["cells"].values() for row in rows):
        listing.keep("list.json", seen, rows)
    return rows


def _stored(name: str, profile: str) -> dict[str, int]:
    """How many cells of the stored result are done and failed, of how many; {} without one."""
    from book.lab.store import NotStoredError, load_result

    try:
        return load_result(name, profile)["provenance"]["cells"]
    except NotStoredError:
        return {}
    except StoreError as error:
        _complain(error, FAILED)
        return DAMAGED


def _count(counts: dict[str, int]) -> str:
    if counts == DAMAGED:
        return "damaged"
    return f"{counts['done']}/{counts['total']}" if counts else "-"


def _print_json(rows: list[dict]) -> None:
    from book.lab.store import to_json

    print(to_json(rows))


def _seconds(text: str | None) -> float | None:
    """ "170m", "2h" and "90s" in seconds; a bare number is minutes."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if not match or float(match[1]) <= 0:
        raise lab.ExperimentError(f"--budget {text!r} is no time; write 170m, 2h or 90s")
    return float(match[1]) * {"s": 1, "m": 60, "": 60, "h": 3600}[match[2]]


def _run_all(options: argparse.Namespace) -> int:
    from book.lab.all_experiments import run_all

    if options.only or options.again or options.devices != 1:
        raise lab.ExperimentError("--only, --again and --devices belong to one experiment; leave --all out")
    if options.scheduler is None and not options.dry_run and hasattr(os, "nice"):
        os.nice(10)  # worker processes inherit it
    given = {name: getattr(options, name) for name in ("dry_run", "device", "jobs", "scheduler", "threads")}
    rows = run_all(options.profile or "book", budget=_seconds(options.budget), **given)
    bad = ("failed", "damaged") if options.dry_run else ("failed", "damaged", "no data")
    return FAILED if any(row["state"] in bad for row in rows) else 0


def _run(options: argparse.Namespace) -> int:
    if options.all == bool(options.name):
        raise lab.ExperimentError("name one experiment, or give --all. Experiments: " + ", ".join(lab.names()))
    if options.all:
        return _run_all(options)
    if options.budget or options.dry_run:
        raise lab.ExperimentError("--budget and --dry-run go with --all")
    names = ("device", "devices", "jobs", "scheduler", "threads", "only", "again")
    result = lab.run(options.name, options.profile or "smoke", **{name: getattr(options, name) for name in names})
    failed = [row for row in result["rows"] if row["metric"] == "error"]
    for note in sorted({row["note"] for row in failed}):
        print(f"book: failed: {note}", file=sys.stderr)
    return FAILED if failed else 0


def _verify(options: argparse.Namespace) -> int:
    from book.lab import validity
    from book.lab.catalog import unknown
    from book.lab.cells import PROFILES
    from book.lab.verify import verify_several

    if options.all == bool(options.name):
        raise lab.ExperimentError("name one experiment, or give --all")
    names = lab.names() if options.all else [lab.get(options.name).name]
    pairs = [(name, one) for name in names for one in ([options.profile] if options.profile else ("book", "paper"))]
    if options.profile not in (None, *PROFILES):
        raise unknown("profile", options.profile, PROFILES)
    stored = [pair for pair in pairs if lab.result_path(*pair).exists()]
    if not stored:
        there = [one for one in PROFILES if options.name and lab.result_path(options.name, one).exists()]
        raise StoreError(
            f"no result of {options.name or 'any experiment'} is stored with profile "
            f"{options.profile or 'book or paper'}; with others: {', '.join(there) or 'none'}"
        )
    rows, bad = [], 0
    jobs = options.jobs or os.cpu_count() or 1
    for name, profile, found in verify_several(stored, jobs, write=not options.check, accept=options.accept):
        word = "damaged" if isinstance(found, StoreError) else validity.worst(found)
        rows.append({"name": name, "profile": profile, "state": word})
        bad += word not in validity.GOOD
        if isinstance(found, StoreError):
            _complain(found, FAILED)
        elif not options.json:
            print(f"{name:<20} {profile:<6} {word}", flush=True)
            for state in found:
                if state.word not in validity.GOOD:
                    print(f"    {state.method}: {state.word}: {state.detail}\n      {'; '.join(state.cells)}")
    if options.json:
        _print_json(rows)
    return FAILED if bad else 0


def _table(options: argparse.Namespace) -> int:
    text = lab.table(options.name, options.profile)
    if options.json:
        keys = ("setting", "method", "metric", "kind", "published", "mean", "se", "n", "profile", "verdict", "note")
        _print_json([{key: row[key] for key in keys} for row in lab.compare(options.name, options.profile)])
    else:
        print(text)
    return 0


def _claims(options: argparse.Namespace) -> int:
    from book import studies
    from book.lab.catalog import unknown
    from book.lab.claims import judged

    names = [study.name for study in studies.all()]
    if options.study and options.study not in names:
        raise unknown("study", options.study, names)
    rows = [row for name in names if options.study in (None, name) for row in judged(name)]
    if options.json:
        _print_json(rows)
    for row in rows if not options.json else ():
        print(f"{row['id']} (paper {row['paper']}, {row['place']}): {row['text']}")
        print(f"  {row['verdict']}: {row['reason']}")
        for one in row["evidence"]:
            print(f"    {one}")
    return 0
