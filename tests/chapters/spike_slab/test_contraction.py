"""The run behind the theorem's rate: its teacher, its distance, its bound and its slope against independent sums."""

import math

import pytest
import torch
from torch.distributions import Normal

from bnnlib.replicates import Layout, StackedDeterministic, StackedMLP
from book import lab
from chapters.spike_slab.experiments import contraction
from chapters.spike_slab.experiments.contraction import slopes, squared_hellinger, squared_rate, teacher_of
from chapters.spike_slab.experiments.simulations import PROBLEMS


@pytest.mark.parametrize("setting", contraction.TEACHERS)
def test_the_teachers_are_networks_of_the_student_and_have_the_simulated_means(setting):
    problem = PROBLEMS[contraction.TEACHERS[setting]]
    x, _, f = (part[:200] for part in problem.test_data())
    posterior = StackedDeterministic(Layout(problem.sizes, 1), teacher_of(setting))
    drawn = StackedMLP(posterior, problem.activation).predict(x, 1, None)
    torch.testing.assert_close(drawn[0, 0], f, atol=1e-5, rtol=0.0)
    assert int((teacher_of(setting) != 0).sum()) == {"dense": 175, "sparse": 11}[setting]


def test_the_distance_is_the_integral_over_both_densities():
    y = torch.linspace(-12, 14, 20_001, dtype=torch.float64)
    truth, drawn = torch.tensor([[0.0], [1.5]], dtype=torch.float64), torch.tensor([[0.7], [-1.0]], dtype=torch.float64)
    overlaps = [
        torch.trapezoid((0.5 * (Normal(a, 1.0).log_prob(y) + Normal(b, 1.0).log_prob(y))).exp(), y)
        for a, b in zip(truth[:, 0], drawn[:, 0], strict=True)
    ]
    expected = 1 - torch.stack(overlaps).mean()
    torch.testing.assert_close(squared_hellinger(drawn[None, None], truth)[0], expected, atol=1e-8, rtol=0.0)


def test_the_bound_is_what_the_formula_gives_by_hand():
    # 11 weights in three layers of width 6 behind 100 inputs: 3 log 6 + log(100 sqrt(1000 / 11)) nats for each weight
    assert squared_rate((100, 6, 6, 1), 11, 1_000) == pytest.approx(
        11 / 1_000 * (3 * 1.791759 + 4.605170 + 0.5 * math.log(90.9091)) * 6.907755, rel=1e-6
    )


def test_a_power_has_its_exponent_as_slope_in_every_column():
    x = [2.0, 1.0, 0.25, 0.1]
    y = torch.stack([3 * torch.tensor(x) ** 1.7, 0.2 * torch.tensor(x) ** -0.5], dim=1)
    torch.testing.assert_close(slopes(x, y), torch.tensor([1.7, -0.5], dtype=torch.float64), atol=1e-5, rtol=0.0)


def test_both_starts_see_the_same_data_and_their_slope_is_that_of_their_distances():
    sparse = [cell for cell in lab.get("svbnn-contraction").profiles["smoke"]() if cell.setting == "sparse"]
    for cell in sparse:
        rows = contraction.run_cell(cell, torch.device("cpu"), None).rows
        found: dict = {}
        for row in rows:
            found.setdefault((row["setting"], row["metric"]), []).append(row["value"])
        counts = cell.params["counts"]
        distances = torch.tensor([found[f"sparse, n={count:,}", "hellinger"] for count in counts])
        bounds = [squared_rate(PROBLEMS["1b"].sizes, 11, count) for count in counts]
        expected = slopes(bounds, distances)
        torch.testing.assert_close(torch.tensor(found["sparse", "slope_rate"]).double(), expected, atol=1e-4, rtol=0.0)
