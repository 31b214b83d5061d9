"""The reports are complete: every row of the comparison once, commands that the real parser takes, the counts."""

import csv
import io
import json
import re
import shlex
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup

from book import lab, studies
from book.editions import reports
from book.editions.compared import KINDS, WORDS, by_paper, compared
from book.editions.pages import written_pages
from book.editions.project import Project
from book.editions.what_it_took import verdicts_by_paper
from book.lab import commands, plan
from book.lab.metrics import metrics

pytestmark = pytest.mark.slow

LIMIT = 450_000
"""Bytes of a report's text: with the theme's own, a page stays below half a megabyte."""


@pytest.fixture(scope="module")
def found(root) -> dict[str, dict]:
    return compared(root)


@pytest.fixture(scope="module")
def project(root) -> Project:
    return Project(root)


@pytest.fixture(scope="module")
def pages(project, found) -> dict[str, str]:
    return reports.pages(project, found, {})


class Tables:
    """(setting, method, measure) -> text of each cell of the pivoted tables, and the commands of the runs."""

    def __init__(self, text: str) -> None:
        closed = text.replace("<tr>", "</td></tr><tr>").replace("<td>", "</td></th><td>")  # as HTML does by itself
        soup = BeautifulSoup(closed, "html.parser")
        self.commands = [part.get_text() for part in soup.find_all("pre")]
        self.cells: Counter = Counter()
        self.texts: dict[tuple, str] = {}
        for part in soup.find_all("br"):
            part.replace_with("\n")
        for table in soup.find_all("table"):
            head, *lines = (
                [cell.get_text().strip() for cell in line.find_all(["th", "td"])] for line in table.find_all("tr")
            )
            setting = ""
            for line in lines if head[:2] == ["Setting", "Method"] else []:
                setting = line.pop(0) if len(line) == len(head) else setting
                for label, said in zip(head[2:], line[1:], strict=True):
                    if label not in ("n", "Budget", "Data") and said:
                        self.cells[setting, line[0], label] += 1
                        self.texts[setting, line[0], label] = said


tables = cache(Tables)  # of a section, which two tests look at


def sections(page: str) -> dict[str, str]:
    """The text of each experiment."""
    parts = re.split(r"^\(report-([\w-]+)\)=$", page, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_row_is_once_in_the_page_and_once_in_the_file(project, found, pages):
    seen = set()
    for document in project.reports:
        listed = list(csv.DictReader(io.StringIO(pages[f"{document}.csv"])))
        texts = [pages[f"{one}.md"] for one in (document, *project.continued[document])]
        for name, text in sections("\n".join(texts)).items():
            assert name not in seen, "on one page alone"
            seen.add(name)
            rows = found[name]["rows"]
            keys = Counter((row["setting"], row["method"], row["texts"]["Measure"]) for row in rows)
            assert tables(text).cells == keys and set(keys.values()) <= {1}, name
            own = [row for row in listed if row["experiment"] == name]
            keys = [(row["setting"], row["method"], row["metric"]) for row in rows]
            assert [(row["setting"], row["method"], row["metric"]) for row in own] == keys
    told = tuple(f"{study.prefix}-" for study in studies.all())  # a study without a lesson has no report
    assert set(found) == set(lab.names())
    assert seen == {name for name in found if name.startswith(told)}


def test_a_cell_says_both_numbers_the_difference_and_the_verdict(found, pages):
    shown = Tables(sections(pages["book/reports/03_variational_spike_and_slab.md"])["svbnn-simulation-2"]).texts
    rows = {(row["setting"], row["method"], row["metric"]): row for row in found["svbnn-simulation-2"]["rows"]}
    row = rows["U(-1,1)", "SVBNN", "rmse_test"]
    lines = shown["U(-1,1)", "SVBNN", metrics()["rmse_test"].label].split("\n")
    assert lines[:2] == [row["texts"]["Ours"], f"({row['printed']})"]
    assert lines[2] == f"d {row['texts']['Difference']}"
    assert lines[3].split()[:2] == row["texts"]["Verdict"].split()[:2]


def test_the_file_has_the_fields_of_the_comparison(found, pages):
    row = next(csv.DictReader(io.StringIO(pages["book/reports/04_closed_form_inclusion.csv"])))
    where = [row[key] for key in ("setting", "method", "metric")]
    rows = found[row["experiment"]]["rows"]
    (original,) = [one for one in rows if [one["setting"], one["method"], one["metric"]] == where]
    assert set(row) == set(original) - {"texts", "runs"}
    assert json.loads(row["values"]) == original["values"] and float(row["mean"]) == original["mean"]
    assert row["command"] == original["command"] and float(row["minutes"]) == original["minutes"]


def test_commands_are_taken_by_the_real_parser_and_choose_the_cells_of_the_row(found, pages):
    parser = commands._parser({})
    for name, one in found.items():
        if not one["profile"]:  # nothing is stored of it
            assert not any(row["command"] for row in one["rows"])
            continue
        planned = {run["profile"] for run in one["runs"]} | {one["profile"]}
        planned = {profile: [cell.label for cell in plan.cells_of(lab.get(name), profile)] for profile in planned}
        for row in one["rows"]:
            chosen, profile = [], row["profile"] or one["profile"]
            labels = planned[profile]
            for line in filter(None, row["command"].split(" && ")):
                words = shlex.split(line)
                assert words[:3] == ["python", "-m", "book"]
                options = parser.parse_args(words[3:])
                assert (options.name, options.profile, options.again) == (name, profile, True)
                only = options.only
                chosen += [only] if only in labels else [label for label in labels if only is None or only in label]
            wanted = [one["runs"][place]["label"] for place in row["runs"]]
            if row["command"]:
                assert sorted(chosen) == sorted(wanted), row["command"]
            else:
                assert not wanted or not set(wanted) <= set(labels)
    for text in (text for page in pages.values() for text in sections(page).values()):
        assert all(parser.parse_args(shlex.split(line)[3:]).again for line in tables(text).commands)


def test_the_counts_are_those_of_the_status_page(project, found, pages):
    """Summed over the reports, apart by kind: no cell is lost or stands in two of them."""
    line = r"^\| \[[\w-]+\]\(#report-[\w-]+\) \| (.+) \| (\d+) \| (.*) \|$"
    summed = {kind: Counter() for kind in KINDS}
    for document in project.reports:
        for whose, cells, said in re.findall(line, pages[f"{document}.md"], re.MULTILINE):
            words = {word: int(number) for word, number in re.findall(r"([a-z ]+) (\d+)(?:, |$)", said)}
            assert sum(words.values()) == int(cells)
            (kind,) = [one for one, text in KINDS.items() if text == whose]
            summed[kind] += Counter(words) + Counter(cells=int(cells))
    for kind, said in summed.items():
        every = sum(by_paper(found, kind).values(), Counter())
        assert {word: every[word] for word in (*WORDS, "cells")} == {word: said[word] for word in (*WORDS, "cells")}


def test_the_readme_has_the_table_of_the_landing_page(root, found):
    assert verdicts_by_paper(found) in (root / "README.md").read_text(encoding="utf-8")


def test_claims_lead_the_report(project, found):
    study = next(iter(project.reports.values()))
    claim = {"text": "A | B errs less.", "place": "Table 1", "verdict": "partly", "reason": "holds in 1"}
    claim |= {"evidence": ["<row>"], "why": ""}
    failed = claim | {"text": "C.", "verdict": "contradicted", "evidence": [], "why": "Cause: a run."}
    text = reports.page(study, {}, [claim, failed])
    assert "Of 2 claims: 1 partly, 1 contradicted." in text
    assert "| C. | Table 1 | **contradicted**: holds in 1. Cause: a run. |" in text
    assert "| A \\| B errs less. | Table 1 | **partly**: holds in 1 |" in text
    assert "<li>&lt;row&gt;</li>" in text
    assert "## What the paper claims" not in reports.page(study, {}, [])


def test_pages_stay_light_and_say_how_to_get_the_file(pages, project):
    for document in project.reports:
        text = pages[f"{document}.md"]
        for one in (document, *project.continued[document]):
            assert len(pages[f"{one}.md"].encode()) < LIMIT, one
        for one, names in project.continued[document].items():
            assert f"[{names[0]}](#report-{names[0]})" in text and f"({Path(one).name}.md)" in text
        assert f"{{download}}`all rows as CSV <{Path(document).name}.csv>`" in text
        assert "papers-and-code)" in text


def test_every_report_stands_below_its_chapter_in_the_contents(project):
    toc = yaml.safe_load(reports.contents(project))
    chapters = [one for part in toc["parts"] for one in part["chapters"]]
    below = {one["file"]: [child["file"] for child in one["sections"]] for one in chapters if "sections" in one}
    below.pop("book/reference/index", None)  # the library's
    assert below == {f"chapters/{Path(name).name}": [name, *more] for name, more in project.continued.items()}
    for name in project.reports:
        assert project.documents[project.documents.index(name) - 1] == f"chapters/{Path(name).name}"


def test_a_long_report_goes_on_on_another_page(project, monkeypatch):
    """Each experiment stands on one page, whatever the size; a page has one at least."""
    monkeypatch.setattr("book.editions.project.RESULTS_A_PAGE", 1)
    every = Project(project.root)
    document = "book/reports/09_side_by_side"
    (first, *_), pages = every.continued[document].values(), every.continued[document]
    assert len(first) == 1 and len(pages) == len({name for names in pages.values() for name in names}) > 10
    assert every.documents.index(document) + 1 == every.documents.index(next(iter(pages)))


def test_a_tree_without_results_has_no_reports_and_keeps_its_contents(scratch, make_counting):
    scratch.chapters(c01_one=make_counting("One"))
    project = Project(scratch.root)
    project.build.mkdir()
    assert project.reports == {} and project.documents == project.listed
    assert set(written_pages(project, {}, "smoke")) == {"book/status.md"}


def test_an_experiment_that_was_not_run_says_so():
    row = {"setting": "s", "method": "M", "metric": "rmse_test", "n": 0, "published": 1.0, "printed": "1.0"}
    row |= {"difference": None, "verdict": "not run: no GPU", "note": "", "state": "", "data": "", "values": []}
    row |= {"texts": {"Measure": "test RMSE", "Ours": "–", "Verdict": "– not run: no GPU", "n": "", "Budget": ""}}
    one = {"summary": "A", "profile": "", "provenance": {}, "runs": [], "rows": [row], "measures": ["rmse_test"]}
    text = "\n".join(reports.section("x-one", one))
    assert Tables(text).texts == {("s", "M", "test RMSE"): "(1.0)\n– not run 1"}
    assert "<sup>1</sup> no GPU" in text and "Nothing of it is stored" in text and "--again" not in text


def test_an_experiment_without_rows_leaves_no_empty_block():
    one = {"summary": "Nothing yet", "profile": None, "provenance": {}, "rows": [], "measures": [], "runs": []}
    text = "\n".join(reports.section("x-two", one))
    assert "Nothing of it is stored" in text and "{raw}" not in text
