"""Command line: ``python -m bnnlib list | run | table | data``."""

from __future__ import annotations

import argparse
import signal
import sys

from bnnlib import experiments
from bnnlib.experiments.base import PROFILES, ExperimentError
from bnnlib.experiments.runner import BACKENDS, done_cells
from bnnlib.store.files import StoreError, is_complete, load_result, to_json

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done; 1: a cell failed, or something could not be stored or fetched; 2: wrong usage; 130: interrupted.
    """
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)  # a polite kill stores what is finished, as Ctrl-C does
    try:
        return options.action(options)
    except ExperimentError as error:
        return _complain(error, USAGE)
    except StoreError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has gone: nothing to report and nobody to report it to
        return FAILED


def _interrupt(_signal, _frame):
    raise KeyboardInterrupt


def _complain(error: Exception, code: int) -> int:
    print(f"bnnlib: {error}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bnnlib", description="Experiments of the book and their results.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("list", help="experiments, their profiles, and which of them have results")
    one.add_argument("--json", action="store_true", help="one JSON list on stdout")
    one.set_defaults(action=_list)

    one = commands.add_parser("run", help="run an experiment; an interrupted run goes on where it stopped")
    one.add_argument("name", help="the experiment")
    one.add_argument("--profile", default="smoke", help=f"{', '.join(PROFILES)} (default: smoke)")
    one.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 ... (default: auto)")
    one.add_argument("--devices", type=int, default=1, help="devices that compute a cell together (default: 1)")
    one.add_argument("--jobs", type=int, default=1, help="worker processes (default: 1)")
    one.add_argument("--backend", default="loky", help=f"{' or '.join(BACKENDS)} (default: loky)")
    one.add_argument("--scheduler", help="address of a Dask scheduler, tcp://host:8786 (implies --backend dask)")
    one.add_argument("--threads", type=int, default=1, help="torch threads of each cell (default: 1)")
    one.add_argument("--only", metavar="TEXT", help="only cells whose label contains TEXT")
    one.set_defaults(action=_run)

    one = commands.add_parser("table", help="published values beside ours, with verdicts")
    one.add_argument("name", help="the experiment")
    one.add_argument("--profile", help="default: the best one that is stored")
    one.add_argument("--json", action="store_true", help="one JSON list on stdout")
    one.set_defaults(action=_table)

    one = commands.add_parser("data", help="fetch data sets; without names, say which are here")
    one.add_argument("names", nargs="*", metavar="NAME", help="data sets")
    one.set_defaults(action=_data)
    return parser


def _list(options: argparse.Namespace) -> int:
    rows = []
    for name in experiments.names():
        experiment = experiments.get(name)
        profiles = [one for one in PROFILES if one in experiment.profiles]
        done = [one for one in profiles if _complete(name, one)]
        rows.append({"name": name, "paper": experiment.paper, "profiles": profiles, "done": done})
    if options.json:
        print(to_json(rows))
        return 0
    for row in rows:
        counts = []
        for profile in row["profiles"]:
            done, total = done_cells(row["name"], profile)
            counts.append(f"{profile} {f'{done}/{total}' if total else '-'}")
        print(f"{row['name']:<22} paper {row['paper']}  {', '.join(counts):<40} {experiments.get(row['name']).summary}")
    return 0


def _complete(name: str, profile: str) -> bool:
    try:
        return is_complete(load_result(name, profile))
    except StoreError:
        return False


def _run(options: argparse.Namespace) -> int:
    backend = "dask" if options.scheduler else options.backend
    result = experiments.run(
        options.name,
        options.profile,
        device=options.device,
        devices=options.devices,
        jobs=options.jobs,
        backend=backend,
        scheduler=options.scheduler,
        threads=options.threads,
        only=options.only,
    )
    failed = [row for row in result["rows"] if row["metric"] == "error"]
    for note in sorted({row["note"] for row in failed}):
        print(f"bnnlib: failed: {note}", file=sys.stderr)
    return FAILED if failed else 0


def _table(options: argparse.Namespace) -> int:
    from bnnlib.store import compare, table

    if options.json:
        keys = ("setting", "method", "metric", "published", "mean", "se", "n", "profile", "verdict", "note")
        rows = compare(options.name, options.profile)
        print(to_json([{key: row[key] for key in keys} for row in rows]))
        return 0
    print(table(options.name, options.profile).markdown())
    return 0


def _data(options: argparse.Namespace) -> int:
    from bnnlib import datasets

    if not options.names:
        for name in datasets.names():
            print(f"{name:<16} {'here' if datasets.available(name) else 'not fetched'}")
        return 0
    for name in options.names:
        if name not in datasets.names():
            raise experiments.unknown("data set", name, datasets.names())
    for name in options.names:
        try:
            datasets.fetch(name)
        except (OSError, RuntimeError, ValueError) as error:
            return _complain(error, FAILED)
        print(f"{name}: ready", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
