"""The experiments on the slab and on the intervals: schedules, what is held, and what is stored."""

import numpy as np
import pytest
import torch

from book import lab
from chapters.learned_priors.experiments import coverage, slab

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def small():
    return slab.run_cell(lab.get("aeb-slab").profiles["smoke"]()[0], CPU, None)


def value(result, method: str, metric: str) -> float:
    return next(row["value"] for row in result.rows if (row["method"], row["metric"]) == (method, metric))


def test_the_weights_are_those_of_the_methods_and_of_the_grid():
    weights = slab._Weights(100, CPU)
    named, grid = weights(50).split([len(slab.METHODS) * slab.STARTS, len(slab.FIRST) * len(slab.EXPONENTS)])
    by_method = dict(zip(slab.METHODS, named.view(-1, slab.STARTS)[:, 0].tolist(), strict=True))
    assert by_method["SGLD-SA"] == by_method["SGLD-SA, then EM"] == pytest.approx(10 * 1050**-0.7)
    assert by_method["SGLD"] == 0 and by_method["SGLD-EM"] == by_method["SGLD-EM, sigma^2=3"] == 1
    late = dict(zip(slab.METHODS, weights(51)[: len(named)].view(-1, slab.STARTS)[:, 0].tolist(), strict=True))
    assert late["SGLD-SA, then EM"] == 1 > late["SGLD-SA"]
    first = weights(1)[len(named) :].view(len(slab.FIRST), len(slab.EXPONENTS))
    assert torch.allclose(first, torch.tensor(slab.FIRST)[:, None].expand_as(first))
    ratio = grid.view_as(first) / first
    assert ratio[0].tolist() == pytest.approx([(101 / 150) ** power for power in slab.EXPONENTS])


def test_what_a_run_holds_stays_there(small):
    assert value(small, "SGLD-EM, sigma^2=3", "sigma") ** 2 == pytest.approx(3.0, rel=1e-5)
    assert value(small, "SGLD", "sigma") == 1.0
    assert value(small, "SGLD-EM", "sigma") != 1.0


def test_a_data_set_is_that_of_its_replicate_alone():
    again = slab.problem(3, 20)
    assert all(torch.equal(one, two) for one, two in zip(slab.problem(3, 20), again, strict=True))
    assert not torch.equal(slab.problem(4, 20)[0], again[0])


def test_traces_have_the_points_of_their_steps(small):
    points = len(slab.traced_steps(60))
    assert small.arrays["trace SGLD-EM"].shape == (len(slab.TRACED), points)
    shape = (len(slab.TRACED), len(slab.FIRST), len(slab.EXPONENTS), points)
    assert small.arrays["grid traces"].shape == shape
    assert np.isfinite(small.arrays["grid mse"].astype(float)).all()
    assert "grid traces" not in slab.run_cell(lab.get("aeb-slab").profiles["smoke"]()[1], CPU, None).arrays


def test_intervals_are_counted_by_coefficient():
    result = coverage.run_cell(lab.get("aeb-coverage").profiles["smoke"]()[0], CPU, None)
    for method in coverage.METHODS:
        parts = [value(result, method, f"covered_beta{j}") for j in (1, 2, 3)]
        assert value(result, method, "covered_three") == pytest.approx(np.mean(parts), abs=1e-4)
    assert [value(result, method, "rho_beta1") for method in coverage.METHODS[2:]] == [1.0, 1.0]
    assert value(result, "both", "sigma") == pytest.approx(3**0.5)


def test_the_book_profiles_are_as_long_as_said():
    cells, others = (lab.get(name).profiles["book"]() for name in ("aeb-slab", "aeb-coverage"))
    assert lab.get("aeb-slab").budget(cells[0]) == (4000, "iterations")
    assert len(cells) == 20 and len(others) == 10
