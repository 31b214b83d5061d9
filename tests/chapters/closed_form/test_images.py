"""Experiments 6 to 9 on enlarged digits: held-out images, what pruning means, the rivals, how far scales move."""

import math
from dataclasses import replace

import pytest
import torch

from bnnlib import functional as bF
from bnnlib.nn import bayesian_layers, mean_weights, to_bayesian
from bnnlib.train.fit import cosine, fit
from book import lab
from book.lab import Cell
from chapters.closed_form import numbers, scales
from chapters.closed_form.experiments import images, retrained
from chapters.closed_form.experiments import images as sbnn_images
from chapters.closed_form.experiments.networks import network, prior_of, scale_means
from chapters.shared.images import load_images
from tests.chapters.cells import CPU, needs_digits, smoke, values

NAMES = ("sbnn-mnist", "sbnn-cifar10-mlp", "sbnn-lenet", "sbnn-vgg")
pytestmark = needs_digits


def short(name: str, method: str = "sBNN") -> Cell:
    """The smoke cell with the first drop rates and one epoch."""
    return smoke(name, method, epochs=1, drop_rates=[0, 50, 95], choose_at=[0])


def test_candidates_are_chosen_on_held_out_images_only(scramble):
    """Random test labels change what is reported, and not what is chosen."""
    cell = short("sbnn-mnist")
    honest = sbnn_images.run_cell(cell, CPU, None)
    scramble(sbnn_images, "load_images")
    blind = sbnn_images.run_cell(cell, CPU, None)
    candidates = [[row for row in r.rows if "candidate" in row["setting"]] for r in (honest, blind)]
    assert candidates[0] == candidates[1]
    assert any(row.get("note") == "chosen on the held-out images" for row in candidates[0])
    first, second = (values(one, method="sBNN", setting="32")["removed"] for one in (honest, blind))
    assert first == second


def test_the_whole_network_is_that_of_the_posterior_means():
    cell = smoke("sbnn-mnist", "sBNN")
    data = load_images(cell.params, CPU)
    model = network(cell.params, "sBNN", 3, prior_of(cell.params["candidates"][0]))
    curve = sbnn_images.pruning_curve(model, data, "test", [0, 98.2], "inclusion")
    x, y = data["test"]
    with torch.no_grad(), mean_weights(model):
        expected = 100.0 * float((model(x).argmax(1) != y).double().mean())
    assert curve["0"] == pytest.approx(expected, abs=1e-9)  # float64 sums of the same 0s and 1s
    assert set(curve) == {"0", "98.2"}


def test_a_diverged_candidate_is_kept_as_such_and_never_chosen():
    cell = short("sbnn-mnist")
    good = cell.params["candidates"][0]
    cell = replace(cell, params={**cell.params, "candidates": [good | {"learning_rate": 1e9}, good]})
    result = sbnn_images.run_cell(cell, CPU, None)
    assert values(result, method="sBNN", setting="32")["error_test"] < 100.0
    cell = replace(cell, params={**cell.params, "candidates": [good | {"learning_rate": 1e9}]})
    with pytest.raises(ArithmeticError, match="every candidate diverged"):
        sbnn_images.run_cell(cell, CPU, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_profile_builds_its_networks(name):
    """Sizes fit the images of the profile, and the means are scaled once."""
    for profile in ("book", "paper"):
        for cell in lab.get(name).profiles[profile]()[:2]:
            candidate = cell.params["candidates"][0]
            model = network(cell.params, cell.method, 0, prior_of(candidate))
            before = [layer.weight.detach().clone() for layer in bayesian_layers(model)]
            scale_means(model, 0.5)
            for old, layer in zip(before, bayesian_layers(model), strict=True):
                torch.testing.assert_close(layer.weight.detach(), 0.5 * old, rtol=0, atol=0)
            channels, size = cell.params["shape"]
            with torch.no_grad():
                assert model.eval()(torch.zeros(2, channels, size, size)).shape == (2, 10)
            if profile == "paper":
                break


@pytest.mark.parametrize("name", NAMES)
def test_the_choice_is_made_at_drop_rates_that_are_measured(name):
    for profile in ("smoke", "book", "paper"):
        for cell in lab.get(name).profiles[profile]():
            if cell.method in retrained.METHODS:
                continue  # there is nothing to choose among
            assert set(cell.params["choose_at"]) <= set(cell.params["drop_rates"])
            assert cell.params["drop_rates"][0] == 0


def test_the_whole_kl_term_counts_after_the_warm_up(monkeypatch):
    asked = {}
    monkeypatch.setattr(sbnn_images, "fit", lambda model, data, **settings: asked.update(settings))
    model, data = torch.nn.Linear(2, 2), {"train": (torch.zeros(1, 2), torch.zeros(1).long())}
    params = {"epochs": 200, "batch_size": 1, "optimizer": "adam", "minibatch_scheme": "uniform", "cosine": True}
    candidate = {"learning_rate": 0.1, "kl_scale": 0.3}
    sbnn_images.train(model, data, params | {"warm_up": 20}, candidate, CPU, 0, None)
    weights = [asked["kl_scale"](epoch) for epoch in range(200)]
    assert 0 < weights[0] < 0.001 and weights[10] == pytest.approx(0.15, rel=0.01)
    assert weights[20:] == [0.3] * 180
    sbnn_images.train(model, data, params, candidate, CPU, 0, None)
    assert [asked["kl_scale"](epoch) for epoch in (0, 199)] == [0.3, 0.3]


def test_what_begins_in_the_slab_on_mnist_as_published():
    """With 400 units every weight of the first start does, of the other one those with a large mean alone."""
    cells = {one.setting: one for one in lab.get("sbnn-mnist").profiles["book"]()}
    odds = {}
    for name in ("400, as published", "400, smaller start, rate 0.005", "1200, as published"):
        (candidate,) = cells[name].params["candidates"]
        prior = prior_of(candidate)
        smallest = torch.tensor(prior.pop("initial_scale") ** 2, dtype=torch.float64)
        odds[name] = float(bF.inclusion_log_odds(smallest, bF.mixture_prior(**prior)))
    first, other, wide = odds.values()
    assert first > 20 > 1 > wide > 0 > other
    slower, usual = (cells[name].params["candidates"][0]["learning_rate"] for name in list(odds)[1:])
    assert (slower, usual) == (0.005, 0.05)
    assert cells["400, smaller start, rate 0.005"].params["epochs"] == 300


def test_deep_compression_goes_to_one_share_with_all_of_its_epochs():
    cells = [one for one in lab.get("sbnn-lenet").profiles["book"]() if one.setting == "LeNet-5, at once 98.5"]
    assert [one.replicates for one in cells] == [(0,), (1,), (2,)]
    for one in cells:
        assert (one.method, one.params["drop_rates"]) == ("DC", [0, 98.5])
        assert sbnn_images.first_epochs(one.params) + one.params["retrain"] == one.params["epochs"] == 26


def small(method: str, **params) -> Cell:
    cells = lab.get("sbnn-lenet").profiles["smoke"]()
    cell = next(one for one in cells if (one.setting, one.method) == ("LeNet-300-100", method))
    return replace(cell, params=cell.params | {"drop_rates": [0, 90, 99], "epochs": 3, "batch_size": 256} | params)


def test_each_drop_rate_leaves_that_share_of_the_weights_and_all_biases(monkeypatch):
    seen = []
    error = retrained.error_percent

    def counted(model, data, part):
        weights = [p for p in model.parameters() if p.dim() > 1]
        seen.append(sum(int((w == 0).sum()) for w in weights) / sum(w.numel() for w in weights))
        return error(model, data, part)

    monkeypatch.setattr(retrained, "error_percent", counted)
    retrained.run_cell(small("DC"), CPU, None)
    # rounded to one weight of 266,200
    assert seen == pytest.approx([0, 0, 0.9, 0.9, 0.99, 0.99], abs=4e-6)


def test_the_whole_network_is_trained_for_all_epochs_and_reported_whole(monkeypatch):
    epochs = []
    train = retrained.train
    monkeypatch.setattr(retrained, "train", lambda *a: (epochs.append(a[2]["epochs"]), train(*a)))
    for method in ("Original", "DC"):
        rows = retrained.run_cell(small(method, epochs=6, retrain=2), CPU, None).rows
        values = {row["metric"]: row["value"] for row in rows}
        if method == "Original":
            assert values["removed"] == 0 and values["error_pruned"] == values["error_test"]
    assert epochs == [6, 2, 2, 2]  # "DC" has as many in all


def test_held_out_images_choose_what_is_reported():
    test = {"0": 2.0, "90": 1.0, "99": 1.0}
    found = images.curve_rows([0, 90, 99], test, {"0": 1.5, "90": 1.5 + images.TOLERANCE, "99": 1.7})
    assert (found["removed"], found["error_pruned"], found["error_test"]) == (90, 1.0, 2.0)


@pytest.mark.parametrize("profile", ["book", "paper"])
def test_rivals_have_the_images_the_rates_and_the_epochs_of_sbnn(profile):
    cells = [one for one in lab.get("sbnn-lenet").profiles[profile]() if "set" not in one.setting]
    shared = ("data", "held_out", "scaling", "drop_rates", "epochs", "network", "bfloat16", "batch_size")
    for setting in ("LeNet-300-100", "LeNet-5"):
        group = [one for one in cells if one.setting == setting]
        assert {one.method for one in group} == {"sBNN", "Original", "DC", "Sparse VD"}
        assert len({str([one.params[name] for name in shared]) for one in group}) == 1
        dc = next(one.params for one in group if one.method == "DC")
        rest = dc["epochs"] - dc["retrain"] * (len(dc["drop_rates"]) - 1)
        assert rest >= dc["epochs"] / 2  # half of the epochs, at least, are of the whole network


TRAIN = {"epochs": 20, "batch_size": 5, "learning_rate": 0.05, "momentum": 0.9, "warm_up": 2}
CANDIDATE = {"log_tau1": 0.0, "log_tau0": -5.0, "pi": 0.5, "kl_scale": 0.1, "initial_scale": 0.002}


def test_the_penalty_alone_moves_a_scale_as_the_sum_of_its_steps_says():
    """A layer whose inputs are zero: nothing but the penalty acts on its weights, all at zero, during SGD."""
    prior = bF.mixture_prior(math.exp(CANDIDATE["log_tau1"]), math.exp(CANDIDATE["log_tau0"]), CANDIDATE["pi"])
    scales_of = {"slab_scale": 1.0, "spike_scale": math.exp(-5.0), "initial_scale": CANDIDATE["initial_scale"]}
    dense = torch.nn.Linear(3, 2, bias=False)
    torch.nn.init.zeros_(dense.weight)
    net = to_bayesian(dense, "gaussian_spike_slab", **scales_of).double()
    data = torch.zeros(100, 3, dtype=torch.float64), torch.zeros(100, dtype=torch.int64)
    options = {key: TRAIN[key] for key in ("epochs", "batch_size")} | {"schedule": cosine(TRAIN["epochs"])}
    options["optimizer"] = torch.optim.SGD(net.parameters(), lr=TRAIN["learning_rate"], momentum=TRAIN["momentum"])
    options["kl_scale"] = lambda epoch: CANDIDATE["kl_scale"] * min(1.0, (epoch + 0.02) / TRAIN["warm_up"])
    fit(net, data, generator=torch.Generator().manual_seed(0), **options)
    (layer,) = bayesian_layers(net)
    grown = layer.scale()[0].detach() / CANDIDATE["initial_scale"] - 1
    expected = scales._pushed(TRAIN, CANDIDATE, prior)
    assert expected > 1e-3  # to first order, and momentum needs some ten steps to reach its factor
    assert grown == pytest.approx(torch.full_like(grown, expected), rel=0.05)


def test_the_root_mean_square_is_read_from_the_probability():
    prior = bF.mixture_prior(1.0, math.exp(-5.0), 0.25)
    r = torch.tensor([0.002, 0.02, 0.03], dtype=torch.float64)
    p = torch.sigmoid(bF.inclusion_log_odds(r**2, prior))
    assert [scales._root_mean_square(one, prior) for one in p.tolist()] == pytest.approx(r.tolist(), rel=1e-6)


@pytest.mark.parametrize("name", numbers.DRIFTED)
def test_the_stored_networks_moved_as_far_as_the_penalty_moves_them(name):
    if not len(lab.stored_values(f"sbnn-{name}", numbers.DRIFTED[name], "sBNN", "error_test")):
        pytest.skip("not stored")
    pushed, moved = scales.drift(f"sbnn-{name}", numbers.DRIFTED[name])
    assert 0 < pushed < 1 and moved == pytest.approx(pushed, rel=0.06)


def test_nothing_is_said_of_what_is_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    assert scales.drift("sbnn-vgg", "VGG-like") is None
