"""The report of a chapter: every row of its experiments, where it comes from, and the command that computes it again.

The lesson argues with a part of the results; its report, a child page of the chapter, has all of them, folded, and the
same as a CSV file.
"""

import csv
import html
import io
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import yaml

from book.editions.compared import KINDS
from book.editions.project import Project
from book.editions.report_tables import fold, pivots, runs, words
from book.editions.templates import markdown
from book.studies import Study

DIFFERENCES = "book/papers_and_code.md"
FIELDS = (
    *("experiment", "setting", "method", "metric", "unit", "paper", "cell", "kind", "universal", "published"),
    *("published_sd", "published_se", "published_df", "printed", "mean", "se", "sd", "n", "values", "replicates"),
    *("profile", "difference", "error", "quantile", "margin", "budget", "published_budget", "budget_unit", "data"),
    *("verdict", "note", "cause", "tried", "state", "minutes", "command"),
)
HOW_TO_READ = (
    "A cell of the tables has our mean ± its standard error over n replicates; in parentheses the number as published, "
    "where there is one, ± a standard deviation unless a note says otherwise; d, ours − published ± their combined "
    "standard error; and the [verdict](../verdicts.md). Small numbers lead to the notes below a table. "
    "Budget: ours / published."
)


def pages(project: Project, found: dict[str, dict], claims: Mapping[str, list[dict]]) -> dict[str, str]:
    """Text of every report and of its CSV file by path, from `book.lab.evidence` and `book.lab.claims`."""
    made = {}
    for document, study in project.reports.items():
        own = {name: one for name, one in found.items() if name.startswith(f"{study.prefix}-")}
        made[f"{document}.csv"] = table(own)
        further = project.continued[document]
        for name, names in further.items():
            made[f"{name}.md"] = _continued(study, name, {one: own[one] for one in names if one in own})
        label, later = _label(project.root, study), {Path(name).name: names for name, names in further.items()}
        made[f"{document}.md"] = page(study, own, claims.get(study.name, []), label, later)
    return made


def contents(project: Project) -> str:
    """The table of contents with each report below its chapter."""
    toc = yaml.safe_load((project.root / "_toc.yml").read_text(encoding="utf-8"))
    children = {
        f"chapters/{Path(name).name}": [
            {"file": one, "title": f"Report, page {number}" if number > 1 else "Report"}
            for number, one in enumerate((name, *more), start=1)
        ]
        for name, more in project.continued.items()
    }

    def walk(entry) -> None:
        for one in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else []:
            walk(one)
        if isinstance(entry, dict) and entry.get("file") in children:
            entry.setdefault("sections", []).extend(children[entry["file"]])

    walk(toc)
    return yaml.safe_dump(toc, sort_keys=False, allow_unicode=True)


def _label(root: Path, study: Study) -> str:
    """The label of the study's part of the page on papers and their code; "" where there is none."""
    path, label = root / DIFFERENCES, f"{study.prefix}-papers-and-code"
    return label if path.exists() and f"({label})=" in path.read_text(encoding="utf-8") else ""


def page(
    study: Study,
    found: dict[str, dict],
    claims: list[dict],
    differences: str = "",
    further: Mapping[str, list[str]] | None = None,
) -> str:
    """The text of one report; `differences` labels the place that says where the paper and its code differ.

    `further` are the names of its other pages, and which experiments stand there.
    """
    further = further or {}
    elsewhere = {one for names in further.values() for one in names}
    name = Path(study.notebook).stem
    rows = [row for one in found.values() for row in one["rows"]]
    lines = [
        [f"[{one}](#report-{one})", whose, str(said["cells"]), words(said)]
        for one, about in found.items()
        for kind, whose in KINDS.items()
        if (said := about["counts"][kind])["cells"]
    ]
    links = [f"{{download}}`all rows as CSV <{name}.csv>`"]
    links += [f"[where the paper and its code differ](#{differences})"] if differences else []
    head = [
        f"# Report: {study.title}",
        f"Every row of the experiments of [the chapter](../../chapters/{study.notebook}), written by the build from "
        f"the stored results. Rows and runs are folded; PDF and EPUB leave them out. More: {', '.join(links)}.",
        *_claims(claims),
        f"## Published cells\n\nBy verdict, each counted once however many of our {len(rows):,} rows stand beside it:"
        if lines
        else "Nothing is published that these rows stand beside.",
        *([markdown(["Experiment", "Whose", "Published cells", "Verdicts"], lines)] if lines else []),
        HOW_TO_READ,
        *(
            f"On [page {number}]({other}.md): {', '.join(f'[{one}](#report-{one})' for one in names)}."
            for number, (other, names) in enumerate(further.items(), start=2)
        ),
    ]
    here = ((name, one) for name, one in found.items() if name not in elsewhere)
    return "\n\n".join(head + [text for name, one in here for text in section(name, one)]) + "\n"


def _continued(study: Study, name: str, found: dict[str, dict]) -> str:
    """The text of a further page."""
    first = Path(study.notebook).stem
    head = [
        f"# Report: {study.title}, page {name.rpartition('_')[2]}",
        f"It goes on from [page 1]({first}.md), which says how the tables are read and has all rows as a file.",
    ]
    return "\n\n".join(head + [text for one, about in found.items() for text in section(one, about)]) + "\n"


def _claims(claims: list[dict]) -> list[str]:
    """What the paper claims and how it fares, with the rows that decide it folded below."""
    if not claims:
        return []
    lines = [
        [one["text"], one["place"], f"**{one['verdict']}**: {one['reason']}" + f". {one['why']}" * bool(one["why"])]
        for one in claims
    ]
    listed = {one["text"]: "".join(f"<li>{html.escape(row)}</li>" for row in one["evidence"]) for one in claims}
    rows = "".join(f"<p><b>{html.escape(text)}</b></p><ul>{some}</ul>" for text, some in listed.items() if some)
    said = Counter(one["verdict"] for one in claims)
    return [
        "## What the paper claims",
        f"Of {len(claims)} claims: {', '.join(f'{count} {word}' for word, count in said.items())}. The words are "
        "explained with [the verdicts](../verdicts.md); what the rows that decide a claim say is computed.",
        markdown(["Claim", "Place", "Here"], [[cell.replace("|", "\\|") for cell in line] for line in lines]),
        *([f"````{{raw}} html\n{fold('The rows that decide them', rows)}\n````"] if rows else []),
    ]


def section(name: str, one: dict) -> list[str]:
    """The paragraphs about one experiment."""
    text = [f"(report-{name})=\n\n## {name}", f"{one['summary']}."]
    if one["profile"]:
        command = f"python -m book run {name} --profile {one['profile']} --again"
        text += ["\n".join(f"- {fact}" for fact in facts(one)), f"```bash\n{command}\n```"]
    else:
        text += ["Nothing of it is stored; `python -m book list` says what there is to run."]
    folds = [fold(*part) for part in pivots(one["rows"], one["measures"])]
    folds += [fold(f"Runs: {len(one['runs'])}", runs(one["runs"]))] if one["runs"] else []
    return [*text, "````{raw} html\n" + "\n".join(folds) + "\n````"] if folds else text


def facts(one: dict) -> list[str]:
    """Where the numbers come from, in a few lines."""
    about, some = one["provenance"], one["runs"]
    cells, machine = about.get("cells", {}), about.get("machine", {})
    failed = f", {cells['failed']} failed" if cells.get("failed") else ""
    commits = list(dict.fromkeys(run["commit"][:8] for run in some if run["commit"]))
    commits = commits or [commit[:8] for commit in about.get("cell_commits", [about.get("commit") or "unknown"])]
    dirty = sum(run["dirty"] for run in some)
    states = Counter(run["state"] for run in some)
    sets = list(dict.fromkeys(row["data"] for row in one["rows"] if row["data"]))
    better = sum(run["profile"] != one["profile"] for run in some)
    more = f"; {better} runs of the paper's own profile, whose rows take the place of others" if better else ""
    versions = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
    where = [machine.get("cpu", ""), f"{machine['cores']} cores" if "cores" in machine else "", machine.get("system")]
    return [
        f"Profile: {one['profile']}; {cells.get('done', 0)} of {cells.get('total', 0)} runs done{failed}, "
        f"{about.get('minutes', 0.0):,.1f} minutes of computing{more}",
        f"Machine: {', '.join(filter(None, where)) or 'unknown'}; device: {about.get('device') or 'unknown'}",
        f"Data: {'; '.join(sets) or 'none'}",
        f"Validity: {', '.join(f'{number} {word}' for word, number in states.items())}",
        f"Code: {'commit' if len(commits) == 1 else 'commits'} {', '.join(f'`{one}`' for one in commits)}; "
        + (f"{dirty} of {len(some)} runs from a tree with uncommitted changes" if dirty else "all from clean trees"),
        f"Versions: {versions or 'unknown'}",
    ]


def table(found: dict[str, dict]) -> str:
    """All rows as CSV: the fields of `book.lab.compare`, minutes and command; the replicates' values as a JSON list."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for one in found.values():
        for row in one["rows"]:
            writer.writerow(row | {key: json.dumps(row[key]) for key in ("values", "replicates")})
    return out.getvalue()
