"""Command line: ``python -m book mutate``: which faults the certificates and the tests would notice.

Each mutant of ``tests/mutants.toml`` is put, one at a time, into a copy of the tree. There `verify` is asked about the
cheapest stored results whose code reaches the change, and the tests of the changed module run. What was found is kept
in ``data/cache/mutants/answers.json`` as long as the code and those tests stay the same, so that a stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial

from book.lab.bench import LATE, NOTICED, TREE, Answer, Bench, Kept
from book.lab.impact import Impact
from book.lab.mutants import Mutant, MutantError, read


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant.

    Args:
        mutant: the one.
        verify, tests: what the two say.
    """

    mutant: Mutant
    verify: Answer
    tests: Answer

    @property
    def by(self) -> str:
        """Who notices it: both, verify, tests, neither; "timed out" where one was stopped and the other is silent."""
        words = self.verify.word, self.tests.word
        if NOTICED in words:
            return "both" if words[0] == words[1] else ("verify" if words[0] == NOTICED else "tests")
        return LATE if LATE in words else "neither"

    @property
    def fault(self) -> str:
        """What is wrong with it, "" if it went as the list says."""
        if self.mutant.harmless:
            return "" if self.by == "neither" else "a change without effect raises an alarm"
        if self.mutant.survives:
            return "" if self.by in ("neither", LATE) else "it is noticed: take `survives` out"
        return {"neither": "nothing notices it", LATE: "no verdict: give it more time"}.get(self.by, "")


def run(
    chosen: list[Mutant], impact: Impact, limit: float, jobs: int = 1, again: bool = False, say=print
) -> list[Outcome]:
    """Try mutants out.

    Args:
        chosen: the mutants.
        impact: what they concern, with the tree that is copied.
        limit: seconds for each of the two questions.
        jobs: copies of the tree that work side by side.
        again: ask although the answer is kept.
        say: what to do with a line about each.
    """
    kept, benches = Kept(), queue.SimpleQueue()

    def one(mutant: Mutant) -> Outcome:
        bench = benches.get()
        try:
            verify = bench.ask_verify(mutant, impact.results(mutant))
            found = Outcome(mutant, verify, bench.ask_tests(mutant, impact.tests(mutant)))
        finally:
            benches.put(bench)
        told = "; ".join(filter(None, [verify.detail, found.tests.detail]))
        say(f"{mutant.id:<50} {found.by:<9} {found.fault or told}")
        return found

    with ExitStack() as made, ThreadPoolExecutor(jobs) as pool:
        for _ in range(jobs):
            benches.put(made.enter_context(closing(Bench(kept, impact.tree, again, limit))))
        return list(pool.map(one, chosen))


def summary(found: list[Outcome]) -> str:
    """Counts by kind, as a Markdown table; harmless ones apart."""
    columns = ("both", "verify", "tests", "neither", LATE)
    lines = [f"| kind | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    counts = Counter((one.mutant.kind, one.by) for one in found)
    for kind in [*sorted({kind for kind, _ in counts}), "all"]:
        row = [sum(n for key, n in counts.items() if key[1] == by and kind in (key[0], "all")) for by in columns]
        lines.append(f"| {kind} | {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """0: it went as the list says; 1: a mutant did not; 2: the list cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m book mutate", description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="mutants whose id, file or kind contains it")
    parser.add_argument("--json", action="store_true", help="one JSON list on stdout")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree at work (default: 1)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each question (default: 300)")
    parser.add_argument("--again", action="store_true", help="ask although the answer is kept")
    options = parser.parse_args(arguments)
    try:
        listed = read(TREE)
    except MutantError as error:
        print(f"book: {error}", file=sys.stderr)
        return 2
    chosen = [one for one in listed if any(options.only in text for text in (one.id, one.file, one.kind))]
    say = partial(print, file=sys.stderr if options.json else sys.stdout, flush=True)
    found = run(chosen, Impact(TREE), options.limit, options.jobs, options.again, say)
    if options.json:
        rows = [
            {"id": one.mutant.id, "file": one.mutant.file, "kind": one.mutant.kind, "by": one.by, "fault": one.fault}
            | {"survives": one.mutant.survives, "verify": asdict(one.verify), "tests": asdict(one.tests)}
            for one in found
        ]
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        print(f"\n{summary(found)}")
    return 1 if any(one.fault for one in found) else 0
