"""What the stored results say beside the published numbers, asked of the built tree's own library."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from book.editions.project import BookError

WORDS = ("agrees", "better", "worse", "differs", "undecided", "not comparable", "by design", "diverged", "not run")
DECIDED = WORDS[:4]
FATES = ("reproduced", "partly", "contradicted", "undecided", "not tried")  # of claims
KINDS = {"own": "own methods", "rival": "methods that a paper quotes", "oracle": "checks of our references"}
UNLIKE = ("worse", "differs", "diverged")
Found = dict[str, dict[str, Any]]  # the evidence of each experiment, see `book.lab.evidence.evidence`
Claims = dict[str, list[dict[str, Any]]]  # by study, see `book.lab.claims.judged`


def by_paper(found: Found, kind: str = "own") -> dict[str, Counter]:
    """Published cells of one kind by verdict, by paper."""
    said: dict[str, Counter] = {}
    for one in found.values():
        if one["counts"][kind]["cells"]:
            said[one["paper"]] = said.get(one["paper"], Counter()) + Counter(one["counts"][kind])
    return dict(sorted(said.items()))


def stored_results(root: Path) -> dict[str, dict]:
    """Provenance of the committed results by experiment, the largest profile of each."""
    found: dict[str, dict] = {}
    for profile in ("smoke", "book", "paper"):
        for path in sorted((root / "data" / "results").glob(f"*.{profile}.json")):
            result = json.loads(path.read_text(encoding="utf-8"))
            found[path.name.removesuffix(f".{profile}.json")] = {"profile": profile, **result.get("provenance", {})}
    return found


def compared(root: Path, names: list[str] | None = None) -> Found:
    """The evidence of experiments, of all when `names` is omitted; {} for a tree without results."""
    there = (root / "book" / "lab").is_dir() and (names or any(root.glob("data/results/*.json")))
    return _asked(root, "book.lab.evidence", *(names or [])) if there else {}


def claimed(root: Path) -> Claims:
    """What each study's paper claims and how it fares; {} for a tree without claims or results."""
    there = any(root.glob("chapters/*/claims.toml")) and any(root.glob("data/results/*.json"))
    return _asked(root, "book.lab.claims") if there else {}


def _asked(root: Path, module: str, *arguments: str) -> dict:
    """What a module of the tree prints, in a process of its own: a broken library cannot break the builder."""
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "BNNLIB_HOME": str(root / "data")}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BookError(f"Our results could not be compared with the published ones:\n{done.stderr}")
    return json.loads(done.stdout)
