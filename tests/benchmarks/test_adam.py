"""The benchmark of both kinds of Adam: rows, goals, and bytes that are counted where they are."""

import torch

from benchmarks import adam


def test_rows_and_goals(capsys):
    before = torch.get_num_threads()
    try:
        rows = adam.main(["--batch", "128", "--layers", "gaussian", "--rounds", "1", "--steps", "1"])
    finally:
        torch.set_num_threads(before)
    theirs, ours = rows
    assert [row["optimizer"] for row in rows] == list(adam.OPTIMIZERS)
    assert capsys.readouterr().out.count("goal 1.25") == 2 and theirs["ratio"] > 0
    # a mean, a rho and two moments of each are 24 bytes; the draw, its gradient and two coefficients at most 16
    assert 24 < ours["bytes"] < 41 < theirs["bytes"] < 50
