"""Run a benchmark and keep what it measured in `benchmarks/stored`, from which the book draws.

`python -m benchmarks.store NAME BENCHMARK [options of the benchmark]`, for example
`python -m benchmarks.store step_time_cpu step_time --processor`
"""

import argparse
import datetime
import importlib
import json
from pathlib import Path

import torch

from book.lab import provenance

PASSING = ("--keep", "--minutes")
FOLDER = Path(__file__).with_name("stored")


def read(name: str) -> dict:
    """{about, rows} of a stored benchmark.

    Raises:
        FileNotFoundError: it has not been run; the message says how.
    """
    path = FOLDER / f"{name}.json"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there. Run: python -m benchmarks.store {name} BENCHMARK")
    return json.loads(path.read_text(encoding="utf-8"))


def _that_count(arguments: list[str]) -> list[str]:
    """Without `--keep` and `--minutes`, which say where work lies that goes on another day, and how long today."""
    kept, skip = [], False
    for one in arguments:
        if not skip and one not in PASSING:
            kept.append(one)
        skip = one in PASSING
    return kept


def main(arguments: list[str] | None = None) -> Path:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="of the file")
    parser.add_argument("benchmark", help="module of benchmarks")
    options, rest = parser.parse_known_args(arguments)
    found = importlib.import_module(f"benchmarks.{options.benchmark}").main([*rest, "--json"])
    rows = found if isinstance(found, dict) else {"rows": found}
    device = rows["rows"][0].get("device", "cpu") if rows["rows"] else "cpu"
    commit = provenance.commit()["commit"]  # None where the code came without its history
    about = {
        "command": " ".join(["python -m", f"benchmarks.{options.benchmark}", *_that_count(rest)]),
        "device": provenance.device_name(torch.device(device)),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "commit": commit and commit[:7],
        "date": datetime.date.today().isoformat(),
    }
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{options.name}.json"
    path.write_text(json.dumps({"about": about, **rows}, indent=0) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
