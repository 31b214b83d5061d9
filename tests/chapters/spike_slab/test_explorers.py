"""The explorers of the spike-and-slab chapter: their numbers, and that all panels move with one slider."""

import numpy as np
import pytest
import torch

from book.display.picture import Bars, Line, Picture, Points
from chapters.spike_slab import formulas
from chapters.spike_slab.figures import explorers


def item(picture: Picture, panel: int, kind: type, name: str):
    return next(one for one in picture.panels[panel].items if isinstance(one, kind) and one.name == name)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_gate_gradients_are_the_means_of_draws(temperature):
    target, phi = 0.45, explorers._PHI[8]
    found = {name: values[8] for name, values in explorers.gate_gradients(target, temperature).items()}
    uniform = (torch.arange(400_000, dtype=torch.float64) + 0.5) / 400_000
    logit = torch.logit(torch.tensor(phi))
    hard, soft = formulas.gumbel_softmax_gate(logit, torch.logit(uniform), temperature)
    slope = 2 * soft * (1 - soft) / temperature
    assert found["straight-through"] == pytest.approx(float(((hard - target) * slope).mean()), abs=2e-4)
    assert found["soft"] == pytest.approx(float(((soft - target) * slope).mean()), abs=2e-4)
    score = ((hard - target).square() * (hard - phi)).mean()
    assert found["exact"] == pytest.approx(float(score), abs=1e-4)


def test_the_wrong_sign_is_shaded_where_it_is():
    exact = np.ones(len(explorers._PHI))
    estimate = np.where((explorers._PHI > 0.3) & (explorers._PHI < 0.6), -1.0, 1.0)
    ((first, last),) = explorers.wrong_signs(exact, estimate)
    assert 0.3 < first < 0.34 and 0.56 < last < 0.6
    assert explorers.wrong_signs(exact, exact).size == 0
    found = explorers.gate_gradients(0.45, 0.5)
    assert len(explorers.wrong_signs(found["exact"], found["straight-through"])) == 1
    assert "wrong sign for 0 %" not in explorers.gate_bias(0.45, 0.5).heading


# --- the sweep of lambda ---

STOPS = 13


@pytest.fixture(scope="module")
def sweep() -> dict:
    rng = np.random.default_rng(0)
    edges = [[(0, k % 4, 1, 0.9), (1, 1, 0, 0.8)] if k else [] for k in range(STOPS)]
    return {
        "lambdas": np.logspace(-9, -1, STOPS),
        "train_error": 2 - np.arange(STOPS) / 10,
        "test_error": 1 + (np.arange(STOPS) - 6) ** 2 / 40,
        "misfit": 300.0 - 9 * np.arange(STOPS),
        "divergence": 2.0 * np.arange(STOPS),
        "inclusion": rng.random((STOPS, 4)),
        "edges": edges,
        "layers": [4, 2, 1],
        "relevant": 2,
        "default": 6,
    }


def test_all_four_panels_move_with_lambda(static, sweep):
    made = explorers.lambda_explorer(**sweep)
    first, later = made.picture(k=3), made.picture(k=9)
    marks = [[one.x[0] for one in picture.panels[0].items if isinstance(one, Points)] for picture in (first, later)]
    assert marks == [[3, 3], [9, 9]]
    price = [item(later, 1, Line, "")]
    assert price[0].y.tolist() == sweep["divergence"].tolist()
    heights = [item(later, 2, Bars, name).height for name in ("relevant", "irrelevant")]
    assert np.concatenate(heights).tolist() == sweep["inclusion"][9].tolist()
    for k, name in ((9, "from relevant inputs"), (3, "from irrelevant inputs")):
        assert len(item(made.picture(k=k), 3, Line, name).x) >= 3
    assert np.size(item(made.picture(k=0), 3, Line, "from relevant inputs").x) == 0  # the empty network
    assert "219 nats misfit + 18 nats divergence = 237" in later.heading
    assert "0 weights" in made.describe({"k": 0}) and "2 weights" in made.describe({"k": 9})


def test_a_sweep_of_unequal_lengths_is_refused(static, sweep):
    with pytest.raises(ValueError, match=r"13 lambdas and sequences of lengths \[12, 13\]"):
        explorers.lambda_explorer(**sweep | {"misfit": np.zeros(12)})
    with pytest.raises(ValueError, match=r"no connection \(0, 7, 0\)"):
        explorers.lambda_explorer(**sweep | {"edges": [[(0, 7, 0)]] * STOPS})
