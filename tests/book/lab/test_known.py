"""Numbers from the store know which runs they are from, through arithmetic, and are the same numbers."""

import numpy as np
import pytest

from book import lab
from book.lab.known import Values, cells_of

ONE, TWO = ("experiment", "setting", "a", "error"), ("experiment", "setting", "b", "error")


def values(numbers, cell) -> Values:
    found = np.array(numbers, dtype=float).view(Values)
    found.cell, found.cells = cell, (cell,)
    return found


A, B = values([1.0, 2.0, 4.0], ONE), values([3.0, 5.0, 6.0], TWO)


@pytest.mark.parametrize(
    ("compute", "expected", "cells"),
    [
        (lambda: 100 - A.mean(), 100 - 7 / 3, {ONE}),
        (lambda: (B - A).mean(), 7 / 3, {ONE, TWO}),
        (lambda: np.median(A), 2.0, {ONE}),
        (lambda: (B > 4).sum(), 2, {TWO}),
        (lambda: A[1:].min() / B.mean() ** 2, 2 / (14 / 3) ** 2, {ONE, TWO}),
        (lambda: sum([A.mean(), B.mean()]) / 2, 3.5, {ONE, TWO}),
        (lambda: lab.estimate(A - B)[0], -7 / 3, {ONE, TWO}),
        (lambda: float(A.mean()), 7 / 3, set()),
        (lambda: (A > 0).all(), True, set()),
    ],
)
def test_what_is_computed_from_runs_knows_them(compute, expected, cells):
    assert compute() == pytest.approx(expected)
    assert set(cells_of(compute())) == cells


def test_only_the_plain_mean_of_a_cell_is_called_its_mean():
    assert (A.mean().cell, A.mean().runs) == (ONE, 3)
    assert (A - 0).mean().cell == A[:2].mean().cell == ()


def test_a_whole_number_is_said_without_a_point():
    assert lab.number((B > 4).sum()) == "2" and lab.number(len(A), of=[A]).origin.cells == (ONE,)


def test_a_computed_number_tells_its_runs():
    ours, theirs = (lab.stored_values("svbnn-mnist", one, "SVBNN", "accuracy") for one in ("exact", "tempered"))
    runs = str(lab.number(ours.mean()).origin)
    assert "3 runs (seeds 0 to 2)" in runs
    assert str(lab.number(100 - ours.mean()).origin) == f"Computed from {runs}"
    assert lab.gap(*lab.estimate(theirs - ours)).origin.cells == theirs.cells + ours.cells
    assert lab.mean(ours, "{:.1f}").origin == lab.number(ours.mean()).origin
    sweep = [lab.stored_values("svbnn-lambda", f"2/lambda={one}", "SVBNN", "kl") for one in ("opt", "0.1", "0.3")]
    assert str(lab.number(3, of=sweep).origin) == "Computed from svbnn-lambda, 3 settings, SVBNN, kl"
