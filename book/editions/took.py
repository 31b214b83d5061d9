"""The tables and the picture of the page on what the published tables took here, from the evidence of all results."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

from book.editions import conclusions
from book.editions.compared import KINDS, UNLIKE, claims_by_paper, headline, markdown, verdicts_by_paper
from book.editions.project import Project

TABLE = re.compile(r"^% table: (\w+)$", re.MULTILINE)  # a MyST comment, invisible where nothing fills it
PICTURE = "book/what_it_took.svg"
EDGE = 4.0  # ratio of the picture's right edge, and of its left one the other way round
# what is drawn, with its place in the palette
SHOWN = {"agrees": 0, "better": 2, "worse": 1, "differs": 3, "undecided": 4, "by design": 5, "not comparable": 6}
Found = dict[str, dict[str, Any]]


def fill(template: str, project: Project, found: Found, claims: dict[str, list[dict[str, Any]]]) -> str:
    """The page with a table in the place of each comment that asks for one."""
    tables = {"hours": _hours, "budgets": _budgets, "left": _left, "own": _own, "others": _others, "causes": _causes}
    tables["claims"] = lambda *_: claims_by_paper(claims)
    tables |= {
        "fallen": partial(conclusions.told, survives=False),
        "stronger": partial(conclusions.told, survives=True),
    }
    return TABLE.sub(lambda match: tables[match[1]](project, found), template)


def _chapters(project: Project, found: Found) -> Iterable[tuple[str, dict[str, dict[str, Any]]]]:
    """Link to a chapter's report, and the chapter's experiments with a result."""
    for document, study in project.reports.items():
        own = {name: one for name, one in found.items() if name.startswith(f"{study.prefix}-") and one["runs"]}
        yield f"[{study.number:02}](reports/{document.rpartition('/')[2]}.md)", own


def _is_gpu(run: dict[str, Any]) -> bool:
    return not run["device"].startswith("cpu")


def _hours(project: Project, found: Found) -> str:
    """Hours of one processor core and of a GPU, by experiment."""
    lines, total = [], [0.0, 0.0]
    for chapter, own in _chapters(project, found):
        for name, one in own.items():
            hours = [sum(run["minutes"] for run in one["runs"] if _is_gpu(run) is kind) / 60 for kind in (False, True)]
            total = [before + more for before, more in zip(total, hours, strict=True)]
            lines.append([chapter, f"`{name}`", one["profile"], str(len(one["runs"])), *map(_hour, hours)])
    lines.append(["all", "", "", str(sum(int(line[3]) for line in lines)), *map(_hour, total)])
    return markdown(["Chapter", "Experiment", "Profile", "Runs", "Processor, h", "GPU, h"], lines)


def _left(project: Project, found: Found) -> str:
    """The papers' own sizes that are not run: cells, and the hours that they would take at the rate of what ran."""
    # here, so that a book whose library is not bnnlib can be built
    from book.lab import catalog
    from book.lab.plan import minutes_by_budget, stored_entries

    lines, total = [], [0, 0.0, 0.0, 0]
    for chapter, own in _chapters(project, found):
        for name, one in own.items():
            experiment = catalog.get(name)
            if one["profile"] == "paper" or "paper" not in experiment.profiles:
                continue
            entries = list(stored_entries(name, one["profile"]).values())
            on_gpu = [_is_gpu(entry) for entry in entries]
            kind = sum(on_gpu) > len(entries) / 2  # of most runs; the others say nothing of this device
            alike = [entry for entry, gpu in zip(entries, on_gpu, strict=True) if gpu is kind and entry["seconds"]]
            cells = experiment.profiles["paper"]()
            known = [minutes_by_budget(experiment, cell, alike) for cell in cells]
            hours = sum(minutes for minutes in known if minutes is not None) / 60
            line = [len(cells), 0.0 if kind else hours, hours if kind else 0.0, known.count(None)]
            total = [before + more for before, more in zip(total, line, strict=True)]
            lines.append([chapter, f"`{name}`", *_sizes(line)])
    lines.append(["all", "", *_sizes(total)])
    return markdown(["Chapter", "Experiment", "Cells", "Processor, h", "GPU, h", "Without an estimate"], lines)


def _sizes(line: list) -> list[str]:
    cells, processor, gpu, unknown = line
    hours = [f"{one:,.0f}" if one >= 10 else _hour(one) for one in (processor, gpu)]
    return [str(cells), *hours, str(unknown) if unknown else "–"]


def _hour(hours: float) -> str:
    return f"{hours:.2f}" if hours else "–"


def _budgets(project: Project, found: Found) -> str:
    """Epochs or iterations, ours and the published ones, where both are known."""
    lines = []
    for chapter, own in _chapters(project, found):
        for name, one in own.items():
            known = {
                (row["budget"], row["published_budget"], row["budget_unit"])
                for row in one["cells"]
                if row["mean"] is not None and row["budget"] and row["published_budget"]
            }
            for unit in sorted({unit for *_, unit in known}):
                pairs = [(ours, theirs) for ours, theirs, of in known if of == unit]
                ours, theirs = (_range(side) for side in zip(*pairs, strict=True))
                share = _range([100.0 * mine / other for mine, other in pairs])
                lines.append([chapter, f"`{name}`", unit, ours, theirs, f"{share} %"])
    return markdown(["Chapter", "Experiment", "Unit", "Ours", "Published", "Share"], lines)


def _range(values: Iterable[float]) -> str:
    values = list(values)
    ends = [f"{end:,.0f}" if end >= 10 else f"{end:.2g}" for end in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _own(_: Project, found: Found) -> str:
    """How the papers' own methods fare."""
    return "\n\n".join(headline(found))


def _others(_: Project, found: Found) -> str:
    """The same of all other published numbers, kind by kind."""
    return "\n\n".join(
        f"{KINDS[kind].capitalize()}:\n\n{verdicts_by_paper(found, kind)}" for kind in ("rival", "oracle")
    )


def _causes(_: Project, found: Found) -> str:
    """Why numbers are worse, differ or diverged, by whose number it is, and why cells were not run."""
    lines = []
    for kind, whose in KINDS.items():
        rows = [row for one in found.values() for row in one["cells"] if row["kind"] == kind]
        unlike = [row for row in rows if row["verdict"].partition(":")[0] in UNLIKE]
        shown, tried = (sum(bool(row[key]) for row in unlike) for key in ("cause", "tried"))
        lines.append([whose, *(str(count) for count in (len(unlike), shown, tried, len(unlike) - shown - tried))])
    heads = ["", "worse, differs or diverged", "a run lands on the number", "tried, does not explain", "nothing tried"]
    reasons = Counter(reason for one in found.values() for row in one["cells"] if (reason := _not_run(row)))
    rest = [[reason, f"{count:,}"] for reason, count in reasons.most_common()]
    return markdown(heads, lines) + "\n\n" + markdown(["Not run", "Published cells"], rest)


def _not_run(row: dict[str, Any]) -> str:
    word, _, reason = row["verdict"].partition(": ")
    return reason if word == "not run" else ""


def points(found: Found) -> dict[str, list[tuple[float, float, float]]]:
    """(place, ratio of ours to the published value, half its interval of 95 %) of every published cell, by verdict.

    Places count the cells of an experiment from 0 to below 1 and the experiments from 0. Cells without a value of ours,
    and pairs that have no ratio since one of them is not positive, are left out.
    """
    some: dict[str, list[tuple[float, float, float]]] = {word: [] for word in SHOWN}
    for place, one in enumerate(_compared(found).values()):
        for k, row in enumerate(one):
            word = row["verdict"].partition(":")[0]
            if word in some:
                error = (row["quantile"] or 0.0) * (row["error"] or 0.0) / abs(row["published"])
                some[word].append((place + k / len(one), row["mean"] / row["published"], error))
    return some


def _compared(found: Found) -> dict[str, list[dict[str, Any]]]:
    rows = {
        name: [row for row in one["cells"] if row["mean"] is not None and min(row["mean"], row["published"]) > 0]
        for name, one in found.items()
    }
    return {name: some for name, some in rows.items() if some}


def picture(found: Found) -> str:
    """All of our values over the published ones, colored by verdict, as SVG; the same text for the same numbers."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from book.display.style import MARKERS, PALETTE, PANEL_WIDTH, RC

    names = list(_compared(found))
    with mpl.rc_context(RC | {"svg.hashsalt": "what it took", "svg.fonttype": "path"}):
        # a line for each experiment, not a column: a phone is narrow and long
        figure = Figure(figsize=(PANEL_WIDTH[1], 1.6 + 0.22 * len(names)), layout="constrained")
        axes = figure.add_subplot()
        axes.axvline(1.0, color=PALETTE[3], linewidth=0.8)
        for word, some in points(found).items():
            color, marker = PALETTE[SHOWN[word]], MARKERS[SHOWN[word]]
            place, ratio, error = ([one[k] for one in some] for k in range(3))
            inside = [min(max(value, 1.0 / EDGE), EDGE) for value in ratio]
            look = {"color": color, "markersize": 2.5, "linestyle": "none", "elinewidth": 0.5, "alpha": 0.8}
            look["zorder"] = 2.0 if word == "not comparable" else 3.0
            axes.errorbar(inside, place, xerr=error, fmt=marker, label=f"{word} ({len(some)})", **look)
        axes.set_xscale("log", base=2)
        axes.set(xlim=(0.94 / EDGE, 1.06 * EDGE), ylim=(len(names), -0.5), xlabel="ours over published")
        ticks = [1 / 4, 1 / 2, 1.0, 2.0, 4.0]
        axes.set_xticks(ticks, ["≤ 1/4", "1/2", "1", "2", "≥ 4"])
        axes.set_yticks([place + 0.4 for place in range(len(names))], names)
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=3, columnspacing=1.0, handletextpad=0.2, markerscale=2.0)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
