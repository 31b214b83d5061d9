"""Tables of what it took and how numbers fare count what the evidence says."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import costs
from book.editions import compared, landing, teaching, what_it_took
from book.editions.templates import ASKED, fill
from book.lab import catalog, history, plan
from book.lab.cells import Cell

ROOT = Path(__file__).resolve().parents[3]
NONE = dict.fromkeys((*compared.WORDS, "cells", "budget known", "budget comparable"), 0)
COUNTS = dict.fromkeys(compared.KINDS, NONE)
STUDY = SimpleNamespace(number=1, prefix="abc", title="Abc")
PROJECT = SimpleNamespace(root=ROOT, reports={"book/reports/01_abc": STUDY})


def row(verdict="agrees", mean=2.0, published=1.0, **more):
    given = {"verdict": verdict, "mean": mean, "published": published, "error": 0.1, "quantile": 2.0, "budget": 40}
    given |= {"kind": "own", "universal": False, "cause": "", "tried": "", "published_budget": 200.0}
    return given | {"budget_unit": "epochs"} | more


def found():
    runs = [{"minutes": 30.0, "device": "cpu (some)"}, {"minutes": 90.0, "device": "NVIDIA of some kind"}]
    cells = [row(), row("worse: why", 9.0, cause="shown by abc-y"), row("agrees", None), row("agrees", -1.0)]
    cells.append(row("not run: no file", None))
    own = NONE | {"agrees": 3, "worse": 1, "not run": 1, "cells": 5, "budget known": 2, "budget comparable": 1}
    about = {"provenance": {"minutes": 2.0}, "paper": "000"}
    some = about | {"profile": "book", "runs": runs, "cells": cells, "state": "certified"}
    some["counts"] = COUNTS | {"own": own}
    none = about | {"profile": "", "runs": [], "cells": [], "state": "", "counts": COUNTS, "paper": "001"}
    return {"abc-x": some, "abc-none": none}


def told(name, evidence=None, claims=None):
    return what_it_took.tables(PROJECT, found() if evidence is None else evidence, claims or {})[name]()


def test_hours_budgets_and_causes_are_counted():
    hours = told("hours")
    assert "| [01](reports/01_abc.md) | `abc-x` | book | 2 | 0.5 | 1.5 |" in hours and "abc-none" not in hours
    assert "| all |  |  | 2 | 0.5 | 1.5 |" in hours
    assert "| [01](reports/01_abc.md) | `abc-x` | epochs | 40 | 200 | 20 % |" in told("budgets")
    assert "| own methods | 1 | 1 | 0 | 0 |\n| methods that a paper quotes | 0 | 0 | 0 | 0 |" in told("causes")
    assert "| not run | no file | 1 | – | – |" in told("silent")
    assert "| [01 Abc](reports/01_abc.md) | 2 | 1 certified, 1 not run | 4 |" in told("validity")


def test_chance_goes_over_all_that_was_held_against_an_interval():
    evidence = found()  # three agree, one is worse
    wide = row("undecided: t s = 0.4, above the interesting difference of 0.1")
    more = [row("better"), row("differs: the test error is undecided"), *[wide] * 17]
    aside = [row("undecided: one run"), row("worse", kind="rival"), row("diverged: 5 of 9 replicates failed")]
    aside += [row("worse: 1 of 3 data sets break a claim about all", universal=True), row("not comparable: teacher")]
    evidence["abc-x"]["cells"] += more + aside
    said = told("own", evidence)
    assert "about 1 of the 23 that were held" in said and "coarse; 3 do, better" in said


def test_cells_that_were_written_with_other_numbers_are_told(monkeypatch):
    def version(*values, seconds=1.0):
        cells = [{"cell": {"setting": "abc", "method": method}, "rows": 2} for method in "xy"[: len(values)]]
        rows = [[{"metric": "seconds", "value": seconds}, {"metric": "rmse", "value": value}] for value in values]
        return {"cells": cells, "rows": [row for both in rows for row in both]}

    evidence = {"side-x": found()["abc-x"], "abc-x": found()["abc-x"]}  # other chapters do not promise to read once
    studies = {f"book/reports/{one}": SimpleNamespace(number=9, prefix=one, title=one) for one in ("side", "abc")}
    project = SimpleNamespace(root=ROOT, reports=studies)
    for told_versions, line in (
        ([version(1.0), version(1.0, 2.0, seconds=9.0)], "| 2 | 2 | 0 | – |"),
        ([version(1.0, 2.0), version(1.0, 3.0)], "| 2 | 1 | 0 | abc, y |"),
        ([version(1.0, 2.0), version(1.0)], "| 2 | 2 | 1 | – |"),
        ([version(1.0, 2.0), version(1.0, 3.0), version(1.0)], "| 2 | 1 | 0 | abc, y |"),
        ([], "This copy has no history"),
    ):
        monkeypatch.setattr(history, "versions", lambda name, profile, said=told_versions: iter(said))
        table = what_it_took.tables(project, evidence, {})["readings"]()
        assert line in table and "abc-x" not in table


def test_kinds_of_numbers_stand_apart():
    evidence = found()
    evidence["abc-x"]["counts"] |= {"rival": NONE | {"worse": 7, "cells": 7}}
    other = evidence["abc-x"] | {"paper": "010", "counts": COUNTS | {"own": NONE | {"better": 5, "cells": 5}}}
    own, rival = told("own", evidence | {"other": other}), told("rival", evidence)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in own.splitlines() if line[:1] == "|"]
    assert lines[0] == ["Verdict", "paper 000", "paper 010"]
    assert {line[0]: line[1:] for line in lines[2:]} == {
        "agrees": ["3", "–"],
        "better": ["–", "5"],
        "worse": ["1", "–"],
        "not run": ["1", "–"],
        "all numbers": ["5", "5"],
        "half of the budget or more": ["1 of 2", "–"],
    }
    assert "print 10 numbers of the methods" in own
    assert "So 9 are decided: 8 agree or are better (of these 5 belong to one experiment, `other`), 1 do not" in own
    headline = told("headline", evidence | {"other": other})
    assert "Of the 10 numbers" in headline
    assert "8 agree or come out better here (5 of them are of one experiment, `other`) and 1 do not" in headline
    assert "0 are undecided" in headline and "Another 7 numbers are of methods that the papers quote, 0 check" in own
    assert "| worse | 7 |" in rival and "No results are committed yet." == told("oracle") == told("own", {})


def test_points_are_ratios_by_verdict():
    points = what_it_took.points(found())
    assert points["agrees"] == [(0.0, 2.0, 0.2)] and points["worse"] == [(0.5, 9.0, 0.2)]
    assert not points["undecided"] and "not run" not in points


@pytest.mark.parametrize("path", sorted((ROOT / "book").glob("*.md")), ids=lambda path: path.stem)
def test_pages_ask_for_tables_that_there_are(monkeypatch, path):
    monkeypatch.setattr(catalog, "get", lambda name: SimpleNamespace(profiles={}))
    known = costs.tables(costs.stored(ROOT)) | what_it_took.tables(PROJECT, found(), {})
    known |= dict.fromkeys(("profile", "chapters", "untested", "versions"), str)  # of status.py
    known |= landing.tables([], {}, {}) | teaching.tables([], str) | {"slides": str}
    text = path.read_text(encoding="utf-8")
    elsewhere = ("fallen", "stronger", *(f"example: {word}" for word in compared.WORDS))
    filled = fill(text, known | dict.fromkeys(elsewhere, str))
    assert not re.search(r"^% (table|example)|Not measured|\bnan\b", filled, re.MULTILINE)


def test_what_is_left_is_priced_at_the_rate_of_what_ran(monkeypatch):
    def cell(method, epochs, replicates=(0,)):
        return Cell("one", method, replicates, {"epochs": epochs})

    def entry(method, seconds, device="cpu (some)"):
        about = {"setting": "one", "method": method, "replicates": [0, 1], "params": {"epochs": 10}}
        return {"cell": about, "seconds": seconds, "device": device}

    wanted = [cell("a", 100), cell("a", 200, (0, 1, 2)), cell("never ran", 100)]
    some = SimpleNamespace(profiles={"paper": lambda: wanted}, budget=lambda one: (one.params["epochs"], "epochs"))
    # a minute for each replicate and ten epochs, and a run of the GPU that says nothing of the processor
    entries = {"x": entry("a", 120.0), "y": entry("b", 1e6), "z": entry("a", 1.0, "NVIDIA of some kind")}
    monkeypatch.setattr(catalog, "get", lambda name: some)
    monkeypatch.setattr(plan, "stored_entries", lambda name, profile: entries)
    hours = (10 + 3 * 20) / 60
    assert f"| [01](reports/01_abc.md) | `abc-x` | 3 | {hours:.2g} | – | 1 |" in told("left")
    assert f"| all |  | 3 | {hours:.2g} | – | 1 |" in told("left")
    assert "abc-x" not in told("left", {"abc-x": found()["abc-x"] | {"profile": "paper"}})


def test_claims_are_counted_paper_by_paper():
    claims = {"one": [{"paper": "001", "verdict": "partly"}, {"paper": "000", "verdict": "reproduced"}], "two": []}
    text = told("claims", claims=claims)
    assert "make 2 claims" in text and "| Claim | paper 000 | paper 001 |" in text
    assert "| reproduced | 1 | – |" in text and "| partly | – | 1 |" in text and "| all claims | 1 | 1 |" in text
    assert told("claims") == "No claims are written down."


def test_claims_that_fail_say_why():
    failed = {"paper": "001", "text": "A | B.", "place": "Table 1", "verdict": "contradicted", "why": "Cause: a run."}
    text = told("contradicted", claims={"one": [failed, failed | {"verdict": "partly", "text": "C."}]})
    assert text.splitlines()[2:] == ["| 001 | A \\| B. (Table 1) | Cause: a run. |"]
    assert told("contradicted") == "No claim is contradicted."


def test_examples_are_cells_of_the_results():
    cell = {"paper": "002", "cell": "Table 2: VD, FNR", "setting": "U", "method": "VD", "printed": "0.67 ± 3.65"}
    cell |= {"mean": 1.333, "se": 0.93, "n": 30, "difference": 0.663, "error": 1.14, "margin": 0.005}
    cell |= {"verdict": "agrees", "published_budget": None}
    other = cell | {"verdict": "not comparable: budget 8 of 500 epochs", "se": None, "error": None, "n": 1}
    evidence = {"x": {"cells": [cell | {"n": 3, "cell": "fewer"}, cell, other]}}
    assert told("example: agrees", evidence) == (
        "For example, paper 002, Table 2: VD, FNR (U, VD): published 0.67 ± 3.65, ours 1.333 ± 0.93 (n = 30), "
        "d = +0.663, s = 1.1, m = 0.005; **agrees**."
    )
    assert "d = +0.663, m = 0.005; **not comparable: budget 8 of" in told("example: not comparable", evidence)
    assert told("example: worse", evidence).startswith("No published cell")
    assert ", d = −0.663, " in told("example: agrees", {"x": {"cells": [cell | {"difference": -0.663}]}})
    text = (ROOT / "book" / "verdicts.md").read_text(encoding="utf-8")
    assert sorted(match["example"] for match in ASKED.finditer(text)) == sorted(f"example: {w}" for w in compared.WORDS)
