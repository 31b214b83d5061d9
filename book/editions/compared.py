"""What the stored results say beside the published numbers, asked of the built tree's own library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        "BNNLIB_HOME": str(root / "data"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "book.lab.evidence", *(names or [])],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BookError(f"Our results could not be compared with the published ones:\n{done.stderr}")
    return json.loads(done.stdout)


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
