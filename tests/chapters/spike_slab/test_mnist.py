"""The MNIST experiment on the digits of scikit-learn: resuming, choosing without test images, what its numbers mean."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from bnnlib import datasets
from bnnlib._files import StoreError
from bnnlib.functional import inclusion_probability_for
from book import lab
from book.lab import Cell, load_result
from chapters.spike_slab.experiments import mnist as svbnn_mnist
from chapters.spike_slab.experiments import mnist_scores as parts
from tests.chapters import cells
from tests.chapters.cells import CPU, needs_digits

pytestmark = needs_digits
smoke = partial(cells.smoke, "svbnn-mnist", None)


def compute(cell: Cell, checkpoint=None):
    return lab.get("svbnn-mnist").function(cell)(cell, CPU, checkpoint)


@pytest.mark.slow
def test_candidates_are_chosen_on_held_out_images_only(scramble):
    """Random test labels change what is reported, and not what is chosen."""
    cell = smoke("tempered")
    honest = compute(cell)
    scramble(svbnn_mnist, "load_split")
    blind = compute(cell)
    for one, other in zip(honest.rows, blind.rows, strict=True):
        if one["setting"].startswith("candidate"):
            assert one == other
    notes = [[row["note"] for row in result.rows if "note" in row] for result in (honest, blind)]
    assert notes[0] == notes[1] and notes[0][0].startswith("chosen on the held-out images")
    for name, array in honest.arrays.items():
        if name != "curve":
            assert np.isnan(array[:, 2]).all(), "a candidate that was not chosen shows no test accuracy"


def finished(accuracy: float, active: float, error: str = "") -> dict:
    cell = smoke("tempered")
    model = svbnn_mnist._spike_slab(cell.params["common"], 1000, torch.Generator().manual_seed(0))
    state = {"model": model.state_dict(), "generator": torch.Generator().manual_seed(1).get_state()}
    return {"accuracy": accuracy, "nll": 1.0, "active": active, "error": error, "curve": [], **({} if error else state)}


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ([(98.0, 5.0), (98.5, 5.9), (99.0, 6.1)], 1),  # the most accurate one within 6 %
        ([(98.0, 50.0), (97.0, 8.0)], 1),  # none within 6 %: the sparsest
        ([(0.0, 100.0, "the loss is nan"), (97.0, 8.0)], 1),  # a diverged one is kept in the table
    ],
)
def test_the_rule_of_choice(candidates, chosen):
    cell = smoke("tempered")
    cell = replace(
        cell, params={**cell.params, "candidates": [{"kl_scale": 0.1 * k + 0.1} for k in range(len(candidates))]}
    )
    data = parts.load_split(cell.params, CPU)
    result = svbnn_mnist._chosen(cell, CPU, data, [finished(*one) for one in candidates])
    (note,) = [row["note"] for row in result.rows if row["metric"] == "accuracy"]
    assert note.endswith(f"kl_scale={0.1 * chosen + 0.1:g}")
    assert all(math.isfinite(row["value"]) for row in result.rows)


def test_all_candidates_diverging_is_an_error():
    cell = smoke("tempered")
    cell = replace(cell, params={**cell.params, "candidates": [{}]})
    with pytest.raises(ArithmeticError, match=r"every candidate diverged.*the loss is nan"):
        svbnn_mnist._chosen(cell, CPU, {}, [finished(0.0, 100.0, "the loss is nan")])


def test_held_out_images_are_not_trained_on():
    data = parts.load_split(smoke("exact").params, CPU)
    whole = datasets.load("digits")
    rows = {tuple(row.tolist()) for row in data["train"][0]}
    assert len(data["validation"][0]) == 300 and len(data["train"][0]) == len(whole.train_x) - 300
    shared = sum(tuple(row.tolist()) in rows for row in data["validation"][0])
    assert shared <= 1  # the set itself could hold an image twice
    assert 0.0 == data["train"][0].min() < data["train"][0].max() == 1.0
    again = parts.load_split(smoke("pruned").params, CPU)
    assert torch.equal(data["validation"][0], again["validation"][0])  # the same for every method


def test_pruning_keeps_five_percent_of_all_parameters():
    result = compute(smoke("pruned"))
    # 3,466 parameters, three layers rounded to whole weights
    assert cells.values(result, setting="pruned")["sparsity"] == pytest.approx(5.0, abs=100 * 2 / 3466)


def test_the_account_of_the_objective_adds_up():
    result = compute(smoke("exact"))
    get = {row["metric"]: row["value"] for row in result.rows}
    assert get["negative_elbo_nats"] == pytest.approx(get["nll_train_nats"] + get["kl_nats"])
    n = len(parts.load_split(smoke("exact").params, CPU)["train"][1])
    assert get["nll_null_nats"] == pytest.approx(n * math.log(10))
    # two epochs leave every gate near 0.99: the mean cost times all weights is the divergence
    total = 64 * 32 + 32 * 32 + 32 * 10 + 74
    assert get["kl_per_active_weight"] * total == pytest.approx(get["kl_nats"], rel=1e-4)


def test_settings_of_the_large_profiles():
    for profile, n, count in (("book", 50_000, 8), ("paper", 50_000, 12)):
        cells = lab.get("svbnn-mnist").profiles[profile]()
        assert {cell.method for cell in cells} == {"SVBNN", "AGP", "VD"}
        assert len(cells) == count
        exact = next(cell for cell in cells if cell.setting == "exact")
        assert exact.params["kl_scale"] == 1.0 and exact.params["prior_inclusion_probability"] == "opt"
        assert exact.params["prior_scale"] ** 2 == pytest.approx(2.0)
        assert (exact.params["sizes"], exact.params["held_out"]) == ([784, 512, 512, 10], 60_000 - n)
    assert f"{inclusion_probability_for((784, 512, 512, 10), 60_000):.3g}" == "6.81e-08"
    assert f"{inclusion_probability_for((784, 512, 512, 10), 50_000):.3g}" == "6.87e-08"


def test_the_stored_choice_is_the_best_one_on_held_out_images():
    try:
        rows = load_result("svbnn-mnist", "book")["rows"]
    except StoreError:
        pytest.skip("the book profile has not been run")
    table: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["setting"].startswith("candidate") and row["replicate"] == 0:
            table.setdefault(row["setting"].removeprefix("candidate "), {})[row["metric"]] = row["value"]
    notes = {row["note"] for row in rows if row["setting"] == "tempered" and row["metric"] == "accuracy"}
    (chosen,) = [note.removeprefix("chosen on the held-out images: ") for note in notes]
    allowed = {name: one for name, one in table.items() if one["active"] <= svbnn_mnist.MAX_ACTIVE}
    assert chosen == ", ".join(f"{name}={value:g}" for name, value in svbnn_mnist.CHOSEN.items())
    assert chosen == max(allowed, key=lambda name: allowed[name]["accuracy_validation"])
