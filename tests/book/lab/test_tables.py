"""The comparison table as Markdown: its rows, and which columns there are."""

import pytest

from book import lab
from book.lab import comparison
from book.lab.tables import markdown_cell
from tests.book.lab.test_comparison import NAME, _save

COLUMNS = ["Setting", "Method", "Measure", "Published", "Ours", "Difference", "n", "Budget", "Data", "Verdict"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Nothing is stored but what a test saves."""
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))


def _line(text, *parts):
    """The one line with all of these."""
    (found,) = [line for line in text.splitlines() if all(f"| {part} " in line for part in parts)]
    return found


def test_the_table_has_a_line_for_each_row():
    _save([("U(-1,1)", "SVBNN", r, "rmse_test", 1.2) for r in range(3)], "paper")
    lines = lab.table(NAME).strip().splitlines()
    assert lines[0].startswith("Simulation II") and lines[0].endswith("profile: paper") and lines[1] == ""
    assert [name.strip() for name in lines[2].strip("|").split("|")] == COLUMNS
    assert len(lines) == 4 + len(lab.compare(NAME)) and len({line.count("|") for line in lines[2:]}) == 1
    line = _line("\n".join(lines), "U(-1,1)", "SVBNN", "test RMSE")
    assert "| ✓ agrees" in line and "| -0.01 ± 0.01 |" in line and "| 7,000 / 7,000 epochs |" in line


def test_a_single_run_has_a_difference_without_an_error():
    _save([("U(-1,1)", "HS-BNN", 0, "sparsity", 40.0), ("U(-1,1)", "AGP", 0, "sparsity", 30.0)], "paper")
    shown = lab.table(NAME)
    assert "-1.10 ± 6.66" in shown and "? undecided: one run" in shown  # theirs is left
    assert "○ by design: a level chosen by the user" in shown


def test_a_bar_in_a_cell_does_not_end_it():
    assert markdown_cell("a | b\nc") == r"a \| b c"


def test_columns_without_anything_to_say_are_left_out(monkeypatch):
    assert "Validity" not in lab.table(NAME) and "Budget" not in lab.table(NAME)  # nothing is stored
    _save([("U(-1,1)", "VD", r, "rmse_test", 1.4) for r in range(3)], "paper")
    assert "Validity" not in lab.table(NAME) and "| Budget " in lab.table(NAME)
    monkeypatch.setattr(comparison, "state_of_rows", lambda experiment, result: lambda row: "changed since")
    assert "| Validity " in lab.table(NAME)
