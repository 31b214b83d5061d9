"""What a caption says of replicates and budgets."""

from book.lab import budget_caption
from tests.book.rows import row

EPOCHS = {"budget": 80.0, "budget_unit": "epochs"}


def test_one_budget_for_all_is_said_once():
    rows = [row(method=m, values=(1.0,) * 30, **EPOCHS, published_budget=10_000.0) for m in "AB"]
    assert budget_caption(rows) == "Ours: 30 replicates, 80 of 10,000 published epochs"
    rows = [row(values=(1.0,) * 3, **EPOCHS, published_budget=40.0)]
    assert budget_caption(rows) == "Ours: 3 replicates, 80 epochs where 40 are published"


def test_several_budgets_are_told_apart_by_method_or_setting():
    rows = [row(s, m, values=(1.0,) * 3, **EPOCHS | {"budget": 10.0 * ord(m)}) for s in "xy" for m in "AB"]
    assert budget_caption(rows) == "Ours: 3 replicates; 650 epochs (A), 660 epochs (B)"
    rows = [row(s, m, values=(1.0,) * 3, **EPOCHS | {"budget": 2.0 + (s == "y")}) for s in "xy" for m in "AB"]
    assert budget_caption(rows) == "Ours: 3 replicates; 2 epochs (x), 3 epochs (y)"


def test_different_numbers_of_replicates_stand_with_their_budgets():
    rows = [row(method="A", values=(1.0,), **EPOCHS), row(method="B", values=(1.0,) * 4)]
    assert budget_caption(rows) == "Ours: one run, 80 epochs (A); 4 replicates (B)"
    rows = [row(method=m, values=(1.0,) * n, **EPOCHS) for m, n in (("A", 3), ("B", 5))]
    assert budget_caption(rows) == "Ours: 3 to 5 replicates, 80 epochs"


def test_what_was_not_run_is_named():
    rows = [row(method="A", values=(1.0,) * 3), row(method="B"), row(method="C", values=(1.0,), profile="smoke")]
    assert budget_caption(rows) == "Ours: 3 replicates; not run (B, C)"
    assert budget_caption(rows[1:]) == "Ours: not run"


def test_long_lists_are_counted():
    rows = [row(f"s{k}", values=(1.0,) * 3, **EPOCHS | {"budget": 2.0 + (k > 0)}) for k in range(9)]
    assert budget_caption(rows) == "Ours: 3 replicates; 2 epochs (s0), 3 epochs (8 settings)"
