"""Two worker processes against one, on cells of about a minute: how much of the second core is used.

`python -m benchmarks.workers [--json] [--experiment mh-six-gaussians] [--only TEXT] [--backends loky dask]`

Each run is `python -m book run EXPERIMENT --profile book --again` in an empty home, so that nothing is known and all
cells run. The efficiency is the time with one worker over twice that with two, start of the processes included; 1 is
all of the second core.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from benchmarks import command

BACKENDS = ("loky", "dask")


def seconds(experiment: str, only: str, backend: str, jobs: int) -> float:
    """Wall-clock time of a run in an empty home.

    Raises:
        subprocess.CalledProcessError: a cell failed.
    """
    line = [sys.executable, "-m", "book", "run", experiment, "--profile", "book", "--jobs", str(jobs)]
    line += ["--backend", backend, *(["--only", only] if only else [])]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "BNNLIB_HOME": home, "OMP_NUM_THREADS": "1"}
        start = time.perf_counter()
        subprocess.run(line, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("workers", __doc__)
    parser.add_argument("--experiment", default="mh-six-gaussians")
    parser.add_argument("--only", default="", help="cells whose label contains it")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    options = parser.parse_args(arguments)
    say = command.progress(options)
    rows = []
    for backend in options.backends:
        one, two = (seconds(options.experiment, options.only, backend, jobs) for jobs in (1, 2))
        row = {"backend": backend, "experiment": options.experiment, "only": options.only}
        rows.append(row | {"one_s": round(one, 1), "two_s": round(two, 1), "efficiency": round(one / (2 * two), 3)})
        print(f"{backend}: {one:.0f} s with one worker, {two:.0f} s with two", file=say)
    return command.done(rows, options)


if __name__ == "__main__":
    main()
