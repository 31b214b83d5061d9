"""What the stored results say beside the published numbers, asked of the built tree's own library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from book.editions.project import BookError

WORDS = (
    "agrees",
    "better",
    "worse",
    "differs",
    "undecided",
    "not comparable",
    "by design",
    "diverged",
    "not run",
)
DECIDED = WORDS[:4]
FATES = ("reproduced", "partly", "contradicted", "undecided", "not tried")  # of claims
KINDS = {"own": "own methods", "rival": "methods that a paper quotes", "oracle": "checks of our references"}
UNLIKE = ("worse", "differs", "diverged")
BY_CHANCE = 0.05  # of intervals of 95 % that exclude the truth


def headline(found: dict[str, dict]) -> list[str]:
    """How the papers' own methods fare, paper by paper, as paragraphs of Markdown; kinds are never added up."""
    said = sum(by_paper(found).values(), Counter())
    rest = {kind: sum(by_paper(found, kind).values(), Counter())["cells"] for kind in KINDS}
    decided, good = sum(said[word] for word in DECIDED), said["agrees"] + said["better"]
    return [
        f"The five papers print {said['cells']} numbers of the methods that they propose. Each is counted once, by its "
        "[verdict](verdicts.md), however many of our rows stand beside it:",
        verdicts_by_paper(found),
        f"So {decided} are decided, of which {good} agree or are better; {said['undecided']} are undecided, "
        f"{said['not comparable']} not comparable and {said['not run']} not run. Chance alone puts up to "
        f"{round(BY_CHANCE * decided)} of the decided ones outside of their intervals. Another {rest['rival']} numbers "
        f"are of methods that the papers quote, {rest['oracle']} check our own references; they stand apart.",
    ]


def claims_by_paper(claims: dict[str, list[dict]]) -> str:
    """What became of the papers' claims, as paragraphs of Markdown."""
    every = [one for some in claims.values() for one in some]
    if not every:
        return "No claims are written down."
    said = {paper: Counter(one["verdict"] for one in every if one["paper"] == paper) for paper in _papers(every)}
    lines = [[word, *(str(one[word] or "–") for one in said.values())] for word in FATES]
    lines.append(["claims", *(str(sum(one.values())) for one in said.values())])
    return (
        f"Beside their numbers the papers make {len(every)} claims in words, tables and figures; each is held to the "
        "rows that decide it, and the reports list them one by one.\n\n"
        + markdown(["Claim", *(f"paper {paper}" for paper in said)], lines)
    )


def _papers(rows: list[dict]) -> list[str]:
    return sorted({row["paper"] for row in rows})


def by_paper(found: dict[str, dict], kind: str = "own") -> dict[str, Counter]:
    """Published cells of one kind by verdict, by paper."""
    said: dict[str, Counter] = {}
    for one in found.values():
        if one["counts"][kind]["cells"]:
            said[one["paper"]] = said.get(one["paper"], Counter()) + Counter(one["counts"][kind])
    return dict(sorted(said.items()))


def verdicts_by_paper(found: dict[str, dict], kind: str = "own") -> str:
    """The same as a Markdown table: a line each verdict that occurs, a column each paper."""
    said = by_paper(found, kind)
    lines = [
        [word, *(f"{one[word]:,}" if one[word] else "–" for one in said.values())]
        for word in (*WORDS, "cells")
        if any(one[word] for one in said.values())
    ]
    known = [
        f"{one['budget comparable']} of {one['budget known']}" if one["budget known"] else "–" for one in said.values()
    ]
    return markdown(
        ["Verdict", *(f"paper {paper}" for paper in said)], [*lines, ["half of the budget or more", *known]]
    )


def stored_results(root: Path) -> dict[str, dict]:
    """Provenance of the committed results by experiment, the largest profile of each."""
    found: dict[str, dict] = {}
    for profile in ("smoke", "book", "paper"):
        for path in sorted((root / "data" / "results").glob(f"*.{profile}.json")):
            result = json.loads(path.read_text(encoding="utf-8"))
            found[path.name.removesuffix(f".{profile}.json")] = {"profile": profile, **result.get("provenance", {})}
    return found


def compared(root: Path, names: list[str] | None = None) -> dict[str, dict]:
    """The evidence of each experiment, see `book.lab.evidence.evidence`; {} for a tree without results.

    It is gathered by the tree's own library, apart from this process, so that a broken one cannot break the builder.

    Args:
        root: of the tree.
        names: of the experiments; all of them when omitted.

    Raises:
        BookError: the library could not compare; the message holds its error.
    """
    if not (root / "book" / "lab").is_dir() or not (names or stored_results(root)):
        return {}
    return json.loads(_asked(root, "book.lab.evidence", *(names or [])))


def claimed(root: Path) -> dict[str, list[dict]]:
    """What each study's paper claims and how it fares, see `book.lab.claims.judged`; {} for a tree without claims.

    Raises:
        BookError: as `compared`.
    """
    if not any(root.glob("chapters/*/claims.toml")) or not stored_results(root):
        return {}
    return json.loads(_asked(root, "book.lab.claims"))


def _asked(root: Path, module: str, *arguments: str) -> str:
    """What a module of the tree prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        "BNNLIB_HOME": str(root / "data"),
    }
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BookError(f"Our results could not be compared with the published ones:\n{done.stderr}")
    return done.stdout


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
