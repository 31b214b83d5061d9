"""The page on what it took counts what the evidence says."""

from pathlib import Path
from types import SimpleNamespace

from book.editions import compared, took
from book.lab import catalog, plan
from book.lab.cells import Cell

ROOT = Path(__file__).resolve().parents[3]
NONE = dict.fromkeys((*compared.WORDS, "cells", "budget known", "budget comparable"), 0)
COUNTS = dict.fromkeys(compared.KINDS, NONE)


def row(verdict="agrees", mean=2.0, published=1.0, **more):
    given = {
        "verdict": verdict,
        "mean": mean,
        "published": published,
        "error": 0.1,
        "quantile": 2.0,
        "budget": 40,
        "kind": "own",
        "cause": "",
        "tried": "",
    }
    return given | {"published_budget": 200.0, "budget_unit": "epochs"} | more


def found():
    runs = [{"minutes": 30.0, "device": "cpu (some)"}, {"minutes": 90.0, "device": "NVIDIA of some kind"}]
    cells = [
        row(),
        row("worse: why", 9.0, cause="shown by abc-y"),
        row("agrees", None),
        row("agrees", -1.0),
        row("not run: no file", None),
    ]
    some = {
        "profile": "book",
        "runs": runs,
        "cells": cells,
        "paper": "000",
        "counts": COUNTS | {"own": NONE | {"agrees": 3, "worse": 1, "not run": 1, "cells": 5}},
    }
    return {"abc-x": some, "abc-none": {"profile": "", "runs": [], "cells": [], "counts": COUNTS, "paper": "001"}}


def project():
    return SimpleNamespace(root=ROOT, reports={"chapters/01_abc": SimpleNamespace(number=1, prefix="abc")})


def test_tables_count_hours_budgets_and_verdicts():
    template = "\n\n".join(f"% table: {one}" for one in ("hours", "budgets", "own", "causes"))
    text = took.fill(template, project(), found(), {})
    assert "| [01](reports/01_abc.md) | `abc-x` | book | 2 | 0.50 | 1.50 |" in text and "abc-none" not in text
    assert "| all |  |  | 2 | 0.50 | 1.50 |" in text
    assert "| [01](reports/01_abc.md) | `abc-x` | epochs | 40 | 200 | 20 % |" in text
    assert "| Verdict | paper 000 |" in text and "| agrees | 3 |" in text and "| no file | 1 |" in text
    assert "print 5 numbers" in text and "So 4 are decided, of which 3 agree or are better" in text
    assert "| own methods | 1 | 1 | 0 | 0 |\n| methods that a paper quotes | 0 | 0 | 0 | 0 |" in text


def test_points_are_ratios_by_verdict():
    points = took.points(found())
    assert points["agrees"] == [(0.0, 2.0, 0.2)] and points["worse"] == [(0.5, 9.0, 0.2)]
    assert not points["undecided"] and "not run" not in points


def test_the_picture_is_the_same_text_for_the_same_numbers():
    first, again = took.picture(found()), took.picture(found())
    assert first == again and "<svg" in first
    other = found()
    other["abc-x"]["cells"][0]["mean"] = 1.5
    assert took.picture(other) != first


def test_the_page_asks_for_tables_that_there_are(monkeypatch):
    monkeypatch.setattr(catalog, "get", lambda name: SimpleNamespace(profiles={}))
    template = (ROOT / "book" / "what_it_took.md").read_text(encoding="utf-8")
    assert len(took.TABLE.findall(template)) == 9
    assert "% table" not in took.fill(template, project(), found(), {})


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
    text = took.fill("% table: left\n", project(), found(), {})
    hours = (10 + 3 * 20) / 60
    assert f"| [01](reports/01_abc.md) | `abc-x` | 3 | {hours:.2f} | – | 1 |" in text
    assert f"| all |  | 3 | {hours:.2f} | – | 1 |" in text
    whole = found() | {"abc-x": found()["abc-x"] | {"profile": "paper"}}
    assert "abc-x" not in took.fill("% table: left\n", project(), whole, {})


def test_claims_are_counted_paper_by_paper():
    claims = {"one": [{"paper": "001", "verdict": "partly"}, {"paper": "000", "verdict": "reproduced"}], "two": []}
    text = took.fill("% table: claims\n", project(), {}, claims)
    assert "make 2 claims" in text and "| Claim | paper 000 | paper 001 |" in text
    assert "| reproduced | 1 | – |" in text and "| partly | – | 1 |" in text and "| claims | 1 | 1 |" in text
    assert took.fill("% table: claims\n", project(), {}, {}) == "No claims are written down.\n"
