"""Tables of how the published numbers fare here, from the evidence of all results; and a picture."""

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from book.editions import conclusions, efforts
from book.editions.compared import DECIDED, FATES, KINDS, UNLIKE, WORDS, Claims, Found, by_paper
from book.editions.project import Project
from book.editions.templates import markdown, svg

PICTURE = "book/what_it_took.svg"
SILENT = ("not comparable", "not run")
BY_CHANCE = 0.05  # of intervals of 95 % that exclude the truth
EDGE = 4.0  # ratio of the picture's right edge, and of its left one the other way round
# what is drawn, with its place in the palette
SHOWN = {"agrees": 0, "better": 2, "worse": 1, "differs": 3, "undecided": 4, "by design": 5, "not comparable": 6}


def tables(project: Project, found: Found, claims: Claims) -> dict[str, Callable[[], str]]:
    """The tables of the evidence, by the names by which pages ask for them."""
    made = {
        "headline": partial(_headline, found),
        "own": partial(_own, found),
        "rival": partial(verdicts_by_paper, found, "rival"),
        "oracle": partial(verdicts_by_paper, found, "oracle"),
        "causes": partial(_causes, found),
        "silent": partial(_silent, found),
        "claims": partial(_claims, claims),
        "contradicted": partial(_contradicted, claims),
        "fallen": partial(conclusions.told, project, found, survives=False),
        "stronger": partial(conclusions.told, project, found, survives=True),
    }
    made |= {f"example: {word}": partial(_example, found, word) for word in WORDS}
    return made | efforts.tables(project, found)


def verdicts_by_paper(found: Found, kind: str = "own") -> str:
    """Published cells of one kind: a line each verdict that occurs, a column each paper."""
    said = by_paper(found, kind)
    if not said:
        return "No results are committed yet."
    words = [word for word in (*WORDS, "cells") if any(one[word] for one in said.values())]
    lines = [[word, *(f"{one[word]:,}" if one[word] else "–" for one in said.values())] for word in words]
    lines[-1][0] = "all numbers"
    known = [f"{one['budget comparable']} of {one['budget known']}" for one in said.values()]
    known = ["–" if one.endswith(" of 0") else one for one in known]
    return markdown(["Verdict", *map("paper {}".format, said)], [*lines, ["half of the budget or more", *known]])


def _headline(found: Found) -> str:
    """The papers' own methods in a sentence; what was not decided is said with what was."""
    if not found:
        return "No results are committed yet."
    said = sum(by_paper(found).values(), Counter())
    good, bad = _decided(said)
    most, alike = _most_alike(found)
    return (
        f"Of the {said['cells']} numbers that the papers print of their own methods, {good} agree or come out better "
        f"here ({alike} of them are of one experiment, `{most}`) and {bad} do not. Of the others we cannot say: "
        f"{said['undecided']} are undecided, {said['not comparable']} cannot be compared, {said['not run']} were not "
        f"run{_by_design(said)} ([what came out](#what-came-out))."
    )


def _decided(said: Counter) -> tuple[int, int]:
    """How many agree or are better; how many do not, diverged ones with them."""
    return said["agrees"] + said["better"], sum(said[one] for one in UNLIKE)


def _most_alike(found: Found) -> tuple[str, int]:
    """The experiment with the most own numbers that agree or are better, and how many."""
    alike = {name: sum(one["counts"]["own"][word] for word in ("agrees", "better")) for name, one in found.items()}
    return max(alike.items(), key=lambda item: item[1])


def _tested(found: Found) -> tuple[int, int]:
    """Own numbers that chance could put outside of their interval, and how many are outside.

    A number is outside however wide its interval is, and undecided inside of a wide one ("t s"): so those count, too.
    """
    every = [row for one in found.values() for row in one["cells"] if row["kind"] == "own"]
    own = [row for row in every if not row["universal"]]  # of a claim about all data sets a single one decides
    outside = sum(_word(row) in DECIDED[1:] for row in own)
    return outside + sum(row["verdict"].startswith(("agrees", "undecided: t s")) for row in own), outside


def _by_design(said: Counter) -> str:
    return f", {number} is fixed by design" if (number := said["by design"]) else ""


def _own(found: Found) -> str:
    """How the papers' own methods fare, paper by paper; kinds are never added up."""
    if not found:
        return "No results are committed yet."
    said = sum(by_paper(found).values(), Counter())
    rest = {kind: sum(by_paper(found, kind).values(), Counter())["cells"] for kind in KINDS}
    good, bad = _decided(said)
    most, alike = _most_alike(found)
    tested, outside = _tested(found)
    return (
        f"The five papers print {said['cells']} numbers of the methods that they "
        "propose. Each is counted once, by its [verdict](verdicts.md), however many of our rows stand beside it:\n\n"
        f"{verdicts_by_paper(found)}\n\n"
        f"So {good + bad} are decided: {good} agree or are better (of these {alike} "
        f"belong to one experiment, `{most}`), {bad} do not; "
        f"{said['undecided']} are undecided, {said['not comparable']} not comparable, {said['not run']} not "
        f"run{_by_design(said)}. The last line counts, of the numbers whose published budget is known and that we ran, "
        "those with half of it or more. Had theirs and ours the same means, "
        f"about {BY_CHANCE * tested:.0f} of the {tested} that were held against an interval (not the diverged one, nor "
        "claims about all data sets) would lie outside by chance, fewer where the printed number is coarse; "
        f"{outside} do, better ones among them. Another {rest['rival']} numbers "
        f"are of methods that the papers quote, {rest['oracle']} check our own references; they stand apart."
    )


def _claims(claims: Claims) -> str:
    """What became of the papers' claims."""
    every = [one for some in claims.values() for one in some]
    if not every:
        return "No claims are written down."
    papers = sorted({one["paper"] for one in every})
    said = [Counter(one["verdict"] for one in every if one["paper"] == paper) for paper in papers]
    lines = [[word, *(str(one[word] or "–") for one in said)] for word in FATES]
    lines.append(["all claims", *(str(one.total()) for one in said)])
    return (
        f"Beside their numbers the papers make {len(every)} claims in words, tables and figures; each is held to the "
        "rows that decide it, and the reports list them one by one.\n\n"
        + markdown(["Claim", *map("paper {}".format, papers)], lines)
    )


def _contradicted(claims: Claims) -> str:
    """The claims that fail here, each with why."""
    every = [one for some in claims.values() for one in some if one["verdict"] == "contradicted"]
    lines = [[one["paper"], f"{one['text']} ({one['place']})", one["why"]] for one in every]
    lines = [[cell.replace("|", "\\|") for cell in line] for line in sorted(lines)]
    return markdown(["Paper", "Claim", "Why it fails here"], lines) if lines else "No claim is contradicted."


def _causes(found: Found) -> str:
    """Why numbers are worse, differ or diverged, by whose number it is."""
    lines, every = [], [row for one in found.values() for row in one["cells"]]
    for kind, whose in KINDS.items():
        unlike = [row for row in every if row["kind"] == kind and _word(row) in UNLIKE]
        shown, tried = (sum(bool(row[key]) for row in unlike) for key in ("cause", "tried"))
        lines.append([whose, *map(str, (len(unlike), shown, tried, len(unlike) - shown - tried))])
    heads = ["", "worse, differs or diverged", "a run lands on the number", "tried, does not explain", "nothing tried"]
    return markdown(heads, lines)


def _silent(found: Found) -> str:
    """Why numbers are not comparable, or were not run, by whose number it is."""
    reasons: dict[tuple[str, str], Counter] = {}
    for row in (row for one in found.values() for row in one["cells"]):
        if _word(row) in SILENT:
            _, _, why = row["verdict"].partition(": ")
            why = re.sub(r"^budget [\d,]+ of [\d,]+ \w+", "less than half of the published budget", why)
            reasons.setdefault((_word(row), why), Counter())[row["kind"]] += 1
    order = sorted(reasons.items(), key=lambda item: (item[0][0], [-item[1][kind] for kind in KINDS]))
    lines = [[*which, *(f"{said[kind] or '–'}" for kind in KINDS)] for which, said in order]
    return markdown(["verdict", "why", *KINDS.values()], lines)


def _word(row: dict[str, Any]) -> str:
    return row["verdict"].partition(":")[0]


def _example(found: Found, word: str) -> str:
    """A cell with this verdict: the first of the most replicates, with a known published budget where there is one."""
    rows = [row for one in found.values() for row in one["cells"] if _word(row) == word]
    if not rows:
        return "No published cell has this verdict in the stored results."
    row = max(rows, key=lambda one: (one["published_budget"] is not None, one["n"]))
    said = f"For example, paper {row['paper']}, {row['cell']} ({row['setting']}, {row['method']}): "
    said += f"published {row['printed']}"
    if row["mean"] is not None:
        spread = "" if row["se"] is None else f" ± {row['se']:.2g}"
        said += f", ours {row['mean']:.4g}{spread} (n = {row['n']})"
    if row["difference"] is not None:
        error = "" if row["error"] is None else f", s = {row['error']:.2g}"
        said += f", d = {row['difference']:+.3g}".replace("-", "−") + f"{error}, m = {row['margin']:.2g}"
    return f"{said}; **{row['verdict']}**."


def points(found: Found) -> dict[str, list[tuple[float, float, float]]]:
    """(place, ratio of ours to the published value, half its interval of 95 %) of every published cell, by verdict.

    Places count the cells of an experiment from 0 to below 1 and the experiments from 0. Cells without a value of ours,
    and pairs that have no ratio since one of them is not positive, are left out.
    """
    some: dict[str, list[tuple[float, float, float]]] = {word: [] for word in SHOWN}
    for place, one in enumerate(_compared(found).values()):
        for k, row in enumerate(one):
            if (word := _word(row)) in some:
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
    """All of our values over the published ones, colored by verdict, as SVG."""
    from book.display.style import MARKERS, PALETTE

    names = list(_compared(found))

    def draw(figure, axes) -> None:
        axes.axvline(1.0, color=PALETTE[3], linewidth=0.8)
        for word, some in points(found).items():
            place, ratio, error = ([one[k] for one in some] for k in range(3))
            inside = [min(max(value, 1.0 / EDGE), EDGE) for value in ratio]
            look = {"markersize": 2.5, "linestyle": "none", "elinewidth": 0.5, "alpha": 0.8}
            look |= {"color": PALETTE[SHOWN[word]], "fmt": MARKERS[SHOWN[word]], "label": f"{word} ({len(some)})"}
            axes.errorbar(inside, place, xerr=error, zorder=2.0 if word == "not comparable" else 3.0, **look)
        axes.set_xscale("log", base=2)
        axes.set(xlim=(0.94 / EDGE, 1.06 * EDGE), ylim=(len(names), -0.5), xlabel="ours over published")
        axes.set_xticks([1 / 4, 1 / 2, 1.0, 2.0, 4.0], ["≤ 1/4", "1/2", "1", "2", "≥ 4"])
        axes.set_yticks([place + 0.4 for place in range(len(names))], names)
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=3, columnspacing=1.0, handletextpad=0.2, markerscale=2.0)

    # a line for each experiment, not a column: a phone is narrow and long
    return svg("what it took", 1.6 + 0.22 * len(names), draw)
