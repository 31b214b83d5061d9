"""Experiments of the chapter on Foundations."""

import pytest
import torch

from book import lab


def test_the_error_is_that_of_the_mean_of_the_seeded_draws():
    experiment = lab.get("fnd-mean")
    cell = experiment.profiles["smoke"]()[0]
    rows = experiment.run_cell(cell, torch.device("cpu")).rows
    assert [row["replicate"] for row in rows] == [0, 1, 2]
    draws = torch.randn(10, generator=torch.Generator().manual_seed(2))
    # float32 sums of ten numbers
    assert rows[2]["value"] == pytest.approx(float(draws.double().mean() ** 2), rel=1e-4)
