"""Command line: ``python -m book mutate``: which faults the certificates and the tests would notice.

Each mutant of ``tests/mutants.toml`` is put, one at a time, into a copy of the tree. There `verify` is asked about the
cheapest stored results whose code reaches the change, and the tests of the changed module run. What was found is kept
in ``data/cache/mutants/answers.json`` as long as the code and those tests stay the same, so that a stopped run goes on.
"""

import argparse
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass

from tests.mutation.bench import LATE, NOTICED, TREE, Answer, Bench
from tests.mutation.impact import Impact
from tests.mutation.mutants import Mutant, MutantError, read


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


def run(chosen: list[Mutant], impact: Impact, limit: float, again: bool = False, say=print) -> list[Outcome]:
    """Try mutants out.

    Args:
        chosen: the mutants.
        impact: what they concern, with the tree that is copied.
        limit: seconds for each of the two questions.
        again: ask although the answer is kept.
        say: what to do with a line about each.
    """
    found = []
    with closing(Bench(impact.tree, again, limit)) as bench:
        for mutant in chosen:
            verify = bench.ask_verify(mutant, impact.results(mutant))
            found.append(one := Outcome(mutant, verify, bench.ask_tests(mutant, impact.tests(mutant))))
            told = "; ".join(filter(None, [verify.detail, one.tests.detail]))
            say(f"{mutant.id:<50} {one.by:<9} {one.fault or told}")
    return found


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
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each question (default: 300)")
    parser.add_argument("--again", action="store_true", help="ask although the answer is kept")
    options = parser.parse_args(arguments)
    try:
        listed = read(TREE)
    except MutantError as error:
        print(f"book: {error}", file=sys.stderr)
        return 2
    chosen = [one for one in listed if any(options.only in text for text in (one.id, one.file, one.kind))]
    if not chosen:
        print(f"book: no mutant's id, file or kind contains {options.only!r}", file=sys.stderr)
        return 2
    found = run(chosen, Impact(TREE), options.limit, options.again)
    print(f"\n{summary(found)}")
    return 1 if any(one.fault for one in found) else 0
