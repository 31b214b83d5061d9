"""Two worker processes against one, on cells of about a minute: how much of the second core is used.

`python -m benchmarks.workers [--json] [--experiment mh-six-gaussians] [--only TEXT]`

Each run is `python -m book run EXPERIMENT --profile book --again` in an empty home, so that nothing is known and all
cells run. The efficiency is the time with one worker over twice that with two, start of the processes included; 1 is
all of the second core.
"""

import os
import subprocess
import sys
import tempfile
import time

from benchmarks import command


def seconds(experiment: str, only: str, jobs: int) -> float:
    """Wall-clock time of a run in an empty home.

    Raises:
        subprocess.CalledProcessError: a cell failed.
    """
    line = [sys.executable, "-m", "book", "run", experiment, "--profile", "book", "--jobs", str(jobs)]
    line += ["--only", only] if only else []
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "BNNLIB_HOME": home, "OMP_NUM_THREADS": "1"}
        start = time.perf_counter()
        subprocess.run(line, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("workers", __doc__)
    parser.add_argument("--experiment", default="mh-six-gaussians")
    parser.add_argument("--only", default="", help="cells whose label contains it")
    options = parser.parse_args(arguments)
    say = command.progress(options)
    one, two = (seconds(options.experiment, options.only, jobs) for jobs in (1, 2))
    row = {"experiment": options.experiment, "only": options.only}
    row |= {"one_s": round(one, 1), "two_s": round(two, 1), "efficiency": round(one / (2 * two), 3)}
    print(f"{one:.0f} s with one worker, {two:.0f} s with two", file=say)
    return command.done([row], options)


if __name__ == "__main__":
    main()
