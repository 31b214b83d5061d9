"""The pictures of the spike-and-slab chapter: what they show, not how they look; and the explorers' numbers."""

import numpy as np
import pytest
import torch

from bnnlib.replicates import Layout
from book import lab
from book.display.equations import equation_sources, equation_table
from book.display.picture import Bars, Line, Points
from book.editions.equations import equation_labels
from book.editions.project import read_notebook
from book.editions.source import ROOT
from chapters.spike_slab import formulas
from chapters.spike_slab.figures import explorers, results
from chapters.spike_slab.figures import method as svbnn
from chapters.spike_slab.linear import LinearModel
from tests.chapters import drawn
from tests.chapters.drawn import item, items, line, texts


@pytest.mark.parametrize(("estimate", "prior_inclusion"), [(0.45, 0.1), (-0.1, 0.01), (1.0, 0.9)])
def test_the_explored_weight_has_the_exact_posterior(estimate, prior_inclusion):
    rows = float(explorers.ROWS)
    model = LinearModel(torch.tensor([[rows]]), torch.tensor([rows * estimate]), prior_inclusion)
    mean, _, phi = explorers.one_weight(estimate, prior_inclusion)
    assert float(phi) == pytest.approx(float(model.posterior()[0]), rel=1e-5)  # the model computes in float32
    bar, _, slab, _ = explorers.weight(estimate, prior_inclusion).panels[0].items
    assert bar.height[0] == pytest.approx(1 - phi) and slab.y.max() == pytest.approx(phi, rel=0.01)
    assert slab.x[slab.y.argmax()] == pytest.approx(float(mean), abs=0.02)  # the distance of points of the curve


def test_learned_gates_and_traces_are_drawn_as_given():
    exact = np.array([0.1, 0.5, 0.9])
    figure = svbnn.learned_gates(exact, {"τ = 1": exact**2}, -3.0, {"exact": torch.zeros(7)})
    assert line(figure, 0, "τ = 1").tolist() == np.stack([exact, exact**2], 1).tolist()
    assert len(line(figure, 1, "exact")) == 7


def test_the_band_of_responses_is_wider_than_that_of_the_mean():
    rng = np.random.default_rng(0)
    x, draws = np.linspace(-1, 1, 5), rng.normal(0, 0.1, (400, 5))
    figure = svbnn.predictive_band(x, np.zeros(5), draws, rng.normal(0, 1, (400, 5)), "x")
    response, mean = (band.get_paths()[0].vertices[:, 1] for band in figure.axes[0].collections)
    assert mean.max() < 0.3 and 1.5 < response.max() < 2.7  # 1.96 sd, with the error of 400 draws


SIZES = (4, 3, 2, 1)


def network(*edges: tuple[int, int, int]) -> np.ndarray:
    """A flat vector of phi in Layout order in which exactly the edges (layer, from, to) are on."""
    layout = Layout(SIZES, 1)
    flat = torch.zeros(1, layout.num_parameters)
    for layer, i, j in edges:
        layout.layers(flat)[layer][0][0, j, i] = 0.9
    return flat[0].numpy()


def test_only_edges_on_a_path_from_an_input_to_the_output_are_selected():
    flat = network((0, 1, 2), (1, 2, 0), (2, 0, 0), (0, 3, 1), (1, 0, 1))
    # 3 -> unit 1 leads nowhere; unit 0 of layer 1 has no input
    assert [edge[:3] for edge in results.selected_edges(flat, SIZES)] == [(0, 1, 2), (1, 2, 0), (2, 0, 0)]


def row(setting: str, metric: str, mean: float | None, published: float | None = None, **more) -> dict:
    return drawn.row(setting, "SVBNN", metric, mean, published) | more


def test_a_sweep_is_read_in_order_with_gaps_where_nothing_was_run():
    rows = [row("2/lambda=opt", "rmse_test", 1.2, 1.21), row("2/lambda=0.9", "rmse_test", None, 1.38)]
    ours, spread, published = results.sweep_curve(rows, "2", "rmse_test", ["0.9", "opt", "0.99"])
    assert np.array_equal(ours, [np.nan, 1.2, np.nan], equal_nan=True)
    assert spread[1] == 0.1
    assert np.array_equal(published, [1.38, 1.21, np.nan], equal_nan=True)


def test_a_sweep_that_was_not_run_says_so_and_still_shows_the_published_curve():
    rows = [row("2/lambda=opt", "rmse_test", None, 1.21)]
    figure = results.lambda_sweep(rows, ["opt", "0.9"], {"1b": "one", "2": "two"})
    assert texts(figure).count("not run") == 4
    assert line(figure, 1, "published (test)")[0, 1] == 1.21


def test_no_active_weights_have_a_place_on_a_logarithmic_axis():
    curve = {"epoch": np.arange(3), "accuracy": np.array([90.0, 95, 98]), "sparsity": np.array([100.0, 10, 0.0])}
    figure = results.epochs({"SVBNN": [curve, curve]})
    assert line(figure, 1, "SVBNN")[:, 1].min() > 0  # zero has no place on a logarithmic axis
    assert len(figure.axes[0].get_lines()) == 2 and len(figure.legends[0].get_texts()) == 1


def test_arrays_of_a_missing_result_are_empty(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    assert lab.stored_arrays("svbnn-lambda") == {}
    result = {"experiment": "svbnn-lambda", "profile": "book", "rows": []}
    result["provenance"] = {"cells": {"total": 1, "done": 1, "failed": 0}}
    lab.save_result(result, {"2/lambda=opt|SVBNN|0|curve": np.arange(3)})
    assert list(lab.stored_arrays("svbnn-lambda")) == [("2/lambda=opt", "SVBNN", 0, "curve")]


def test_equations_are_found_in_the_library_s_docstrings():
    sources = equation_sources("svbnn")
    assert ("bnnlib.functional.spike_slab.spike_slab_kl", sources["svbnn-kl"][0][1]) == sources["svbnn-kl"][0]
    labels = equation_labels(read_notebook(ROOT / "chapters" / "03_variational_spike_and_slab.ipynb"))
    assert list(sources) == [label for label in labels if label in sources] != sorted(sources)
    table = equation_table("svbnn")
    assert '<a href="#equation-svbnn-gumbel">' in table._repr_html_()
    assert "`chapters.spike_slab.formulas.gumbel_softmax_gate`" in table._repr_markdown_()
    with pytest.raises(ValueError, match="check the prefix"):
        equation_sources("nothing")


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
    marks = [[one.x[0] for one in items(picture, 0, Points)] for picture in (first, later)]
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
