"""The pages that a build writes: reports, status, and what fills those on verdicts, cost and budgets."""

from __future__ import annotations

import json
from pathlib import Path

from book.editions import conclusions, costs, reports, status, took
from book.editions.compared import claimed, compared, stored_results
from book.editions.project import Project, digest, files_below

MADE_BY = ("pages", "compared", "reports", "status", "costs", "took", "conclusions")


def written_pages(project: Project, chapters: dict[str, dict], profile: str) -> dict[str, str]:
    """Their texts by path, the table of contents with the reports among them; those of the last build when nothing
    changed for them.
    """
    told = [json.dumps(status.read_of(name, notebook), sort_keys=True) for name, notebook in chapters.items()]
    names = ("verdicts", "step_cost", "what_it_took", "from_your_data", "index")
    template, cost, hours, guide, front = (project.root / "book" / f"{name}.md" for name in names)
    sources = [
        *(Path(__file__).with_name(f"{name}.py") for name in MADE_BY),
        template,
        cost,
        hours,
        guide,
        front,
        project.root / conclusions.FILE,
        *sorted((project.root / "benchmarks" / "stored").glob("*.json")),
        project.root / "_toc.yml",
        project.root / reports.DIFFERENCES,
        *files_below(project.root / "tests" / "equations"),
        *sorted((project.root / "chapters").glob("*/*.toml")),
        project.root / "bnnlib" / "datasets" / "registry.toml",
    ]
    told += [path.read_text(encoding="utf-8") for path in sources if path.exists()]
    key = digest(project.shared_key(profile), *told)
    kept = project.build / "status.key"
    if before := _kept(kept, key, project.staging):
        return before
    found, claims = _evidence(project, profile, sources)
    made = {"book/status.md": status.page(project, chapters, profile, stored_results(project.root), found)}
    if front.exists() and took.TABLE.search(text := front.read_text(encoding="utf-8")):
        made["book/index.md"] = took.fill(text, project, found, claims)
    if template.exists():
        cells = [row for one in found.values() for row in one["cells"]]
        made["book/verdicts.md"] = status.examples(template.read_text(encoding="utf-8"), cells)
    if cost.exists():
        measured = costs.stored(project.root)
        made["book/step_cost.md"] = costs.fill(cost.read_text(encoding="utf-8"), measured)
        made[costs.PICTURE] = costs.picture(measured)
    if guide.exists():
        made["book/from_your_data.md"] = costs.fill(guide.read_text(encoding="utf-8"), costs.stored(project.root))
    if hours.exists():
        made["book/what_it_took.md"] = took.fill(hours.read_text(encoding="utf-8"), project, found, claims)
        made[took.PICTURE] = took.picture(found)
    if project.reports:
        made |= reports.pages(project, found, claims) | {"_toc.yml": reports.contents(project)}
    kept.write_text(json.dumps({"key": key, "pages": list(made)}))
    return made


def _evidence(project: Project, profile: str, sources: list[Path]) -> tuple[dict[str, dict], dict[str, list]]:
    """What `compared` and `claimed` say, or said at the last build if all but pages' texts is the same."""
    parts = [path.read_bytes() for path in sources if path.exists() and path.suffix not in {".md", ".json"}]
    parts += [project.study_key(name) for name in project.notebooks]
    key = digest(project.shared_key(profile), *parts)
    kept = project.build / "evidence.json"
    try:
        last = json.loads(kept.read_text(encoding="utf-8"))
        if last["key"] == key:
            return last["found"], last["claims"]
    except (OSError, ValueError, TypeError, KeyError):
        pass  # absent, or of an interrupted build
    found, claims = compared(project.root), claimed(project.root)
    kept.write_text(json.dumps({"key": key, "found": found, "claims": claims}), encoding="utf-8")
    return found, claims


def _kept(note: Path, key: str, staging: Path) -> dict[str, str]:
    """The pages of the last build, if it made them from the same; {} otherwise."""
    try:
        last = json.loads(note.read_text(encoding="utf-8"))
        if last["key"] == key:
            return {name: (staging / name).read_text(encoding="utf-8") for name in last["pages"]}
    except (OSError, ValueError, TypeError, KeyError):
        pass  # absent, or of an interrupted build
    return {}
