"""ResNet20 on small simulated images: published constants, one pre-training for all, resuming, several devices."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from bnnlib.pruning import smooth_sparsity
from bnnlib.train.checkpoint import Checkpoint
from book import lab
from chapters.learned_priors.distributed import Team, launch
from chapters.learned_priors.experiments import resnet20 as aeb_resnet
from chapters.learned_priors.experiments import resnet20_stage as stage
from chapters.shared.networks import resnet20

CPU = torch.device("cpu")


def cells(profile: str) -> list:
    return lab.get("aeb-resnet20").profiles[profile]()


def first_sparse(profile: str) -> dict:
    """The parameters of the first sparse stage."""
    return next(cell.params["sparse"] for cell in cells(profile) if "sparse" in cell.params)


def smoke(method: str = "A-SGHMC-SA") -> dict:
    """The parameters of the sparse stage, one epoch long."""
    (cell,) = [cell for cell in cells("smoke") if cell.method == method]
    return {**cell.params["sparse"], "epochs": 1}


def test_what_is_pruned_and_by_how_much():
    network = resnet20()
    prior = stage.make_prior(network, {**smoke(), "speed": 1.0})
    assert len(prior.weights) == 18
    assert sum(p.numel() for p in network.parameters()) == aeb_resnet.TOTAL
    assert sum(w.numel() for w in prior.weights.values()) == aeb_resnet.PRUNABLE
    assert [aeb_resnet.layer_rate(percent) for percent in (30, 50, 70, 90)] == [0.305, 0.509, 0.713, 0.917]
    assert prior.weight_decay == pytest.approx(25.0)  # the number in the paper


def test_the_published_narrow_component_is_the_gaussian():
    """The reversal of spike and slab: sqrt(v1) < v0 in every setting, and rho at 0 as in the published log, 0.558."""
    for v0, v1 in aeb_resnet.PRIORS.values():
        assert math.sqrt(v1) < v0
    network = resnet20()
    prior = stage.make_prior(network, {**smoke("A-SGHMC-EM"), "speed": 1.0, "learned": ["rho"]})
    with torch.no_grad():
        for weight in prior.weights.values():
            weight.zero_()
    prior.update()
    assert prior.rho["layer1.0.conv1.weight"].max() == pytest.approx(0.558, abs=5e-4)  # printed to three digits


def test_published_clocks():
    """Step sizes, temperatures and learning rates of the published code, 50 steps an epoch for 1000 epochs."""
    params = first_sparse("paper")
    assert (params["speed"], params["learning_rate"], params["rate"]) == (1.0, pytest.approx(1e-4), 0.917)
    step_size = stage.make_prior(resnet20(), params).step_size
    assert step_size(1) == pytest.approx(0.02 * 1001**-0.75)
    temperature = stage.cooling(params)
    assert [temperature(k) for k in (1, 50)] == [1e-3, 1e-3] and temperature(51) == pytest.approx(1e-3 / 1.005)
    assert 1.0 / temperature(50_000) == pytest.approx(1.46e5, rel=0.01)  # as printed at the end of the log
    assert stage.cooling({**params, "method": "SGHMC-SA"})(50_000) == 1e-3
    factors = [stage.rate_factor("tenths", k, 50_000) for k in (1, 35_000, 35_001, 45_001)]
    assert factors == pytest.approx([1.0, 1.0, 0.1, 0.01])


def test_a_short_chain_makes_the_published_way_in_fewer_steps():
    """Sums over the whole chain, which say how far it can move, agree with those of the 50,000 published steps."""
    published, short = first_sparse("paper"), first_sparse("book")
    steps = round(50_000 / short["speed"])
    assert steps == short["epochs"] * 50_000 / short["batch_size"]
    totals = []
    for params, count in ((published, 50_000), (short, steps)):
        sizes = stage.make_prior(resnet20(), params).step_size
        cool = stage.cooling(params)
        rates = [params["learning_rate"] * stage.rate_factor("tenths", k, count) for k in range(1, count + 1)]
        heat = [rate * cool(k) for k, rate in enumerate(rates, 1)]
        totals.append([sum(sizes(k) for k in range(1, count + 1)), sum(rates), sum(heat)])
    # a Riemann sum with 500 intervals in place of 50,000
    assert totals[1] == pytest.approx(totals[0], rel=0.01)


def test_grids():
    book, paper = cells("book"), cells("paper")
    assert Counter(cell.setting for cell in book) == {"S=0": 3, "S=90": 12, "S=50": 12, "S=70": 4, "S=30": 4}
    assert {cell.setting for cell in paper} == {"S=0", "S=30", "S=50", "S=70", "S=90"} and len(paper) == 17
    for grid in (book, paper):
        first = {cell.replicates: cell for cell in grid if cell.setting == "S=0"}
        for cell in grid:
            assert cell.params["pretraining"] == first[cell.replicates].params["pretraining"], "one for all of a seed"
            assert cell.params["pretraining"]["seed"] == cell.replicates[0]
        sparse = [cell for cell in grid if cell.setting != "S=0"]
        assert {cell.method for cell in sparse} == set(aeb_resnet.METHODS)
        assert all(cell.needs[0].cell == first[cell.replicates] for cell in sparse)
        assert not any(cell.params["sparse"]["persistent"] for cell in sparse)
    images = {"batch_size": 1000, "epochs": 1000}
    assert images.items() <= paper[0].params["pretraining"].items()
    assert images.items() <= paper[-1].params["sparse"].items()


@pytest.mark.slow
def test_smoke_trains_the_first_network_once(tmp_path, monkeypatch):
    calls = []

    def counted(function, params, *arguments, **options):
        calls.append(params.get("method", "pre-training"))
        return launch(function, params, *arguments, **options)

    monkeypatch.setattr(aeb_resnet, "launch", counted)
    monkeypatch.setenv("BNNLIB_HOME", str(tmp_path))
    lab.run("aeb-resnet20", "smoke", device="cpu", only="S=90 SGHMC-SA")
    result = lab.run("aeb-resnet20", "smoke", device="cpu")
    assert calls[:2] == ["pre-training", "SGHMC-SA"], "a sparse cell alone computes what it needs"
    assert sorted(calls) == sorted([*aeb_resnet.METHODS, "pre-training"]), "once for all of them"
    found = {(row["setting"], row["method"], row["metric"]): row["value"] for row in result["rows"]}
    assert not any(metric == "error" for _, _, metric in found)
    # 5,214 parameters, 4,608 of them in the six block convolutions, of which the same share each is pruned
    for method in aeb_resnet.METHODS:
        kept = found["S=90", method, "sparsity"]
        assert kept == pytest.approx(100.0 * (1.0 - 0.917 * 4608 / 5214), abs=0.1)
        assert found["S=90", method, "accuracy"] > 20.0  # 10 is chance, with a standard deviation of 1.9
    assert found["S=0", "SGHMC", "sparsity"] == pytest.approx(100.0, abs=0.1)
    for name in ("sigma", "rho_mean", "kappa1_mean"):
        fixed, averaged, at_once = (found["S=90", m, name] for m in ("A-SGHMC", "A-SGHMC-SA", "A-SGHMC-EM"))
        assert fixed == {"sigma": 1.0, "rho_mean": 0.5, "kappa1_mean": pytest.approx(5e-4)}[name]
        assert abs(averaged - fixed) > 1e-3 and abs(at_once - averaged) > 1e-3
    notes = [row["note"] for row in result["rows"] if row["metric"] == "accuracy"]
    assert all("last network, where the paper takes its best epoch on the test images" in note for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "saves"), [("A-SGHMC-SA", 9), ("A-SGHMC", 16)])
def test_a_killed_stage_resumes_bit_for_bit(method, saves, tmp_path, dies):
    """16 steps an epoch, each with its save."""
    params = {**smoke(method), "epochs": 2, "batch_size": 32, "depth": 8}
    first = stage.run_stage(Team(CPU), {**cells("smoke")[0].params["pretraining"], "epochs": 1}, None, None)["model"]
    whole = stage.run_stage(Team(CPU), params, first, None)
    with pytest.raises(dies.Killed):
        stage.run_stage(Team(CPU), params, first, dies(tmp_path / "cell.pt", saves))
    resumed = stage.run_stage(Team(CPU), params, first, Checkpoint(tmp_path / "cell.pt"))
    assert resumed["curve"] == whole["curve"] and resumed["latent"] == whole["latent"]
    for name, value in whole["model"].items():
        assert torch.equal(resumed["model"][name], value), name


def test_the_test_images_choose_nothing(monkeypatch, scramble):
    honest = stage.run_stage(Team(CPU), smoke(), None, None)
    scramble(stage, "load_images", lambda data: (data[0], (data[1][0], 9 - data[1][1]), data[2]))
    blind = stage.run_stage(Team(CPU), smoke(), None, None)
    assert all(torch.equal(blind["model"][name], value) for name, value in honest["model"].items())
    # the best epoch is the paper's rule: it is reported beside, never as the accuracy
    cell = replace(cells("smoke")[1], params={"pretraining": None, "sparse": smoke()})
    result = {"model": {}, "latent": {}, "data": "d", "curve": [[1, 0.5, 80.0, 50.0], [2, 0.4, 70.0, 10.0]]}
    cell.params["pretraining"] = {"epochs": 1, "batch_size": 2}
    monkeypatch.setattr(aeb_resnet, "launch", lambda *_, **__: result)
    found = {row["metric"]: row["value"] for row in aeb_resnet.run_cell(cell, CPU, None, products=[result]).rows}
    assert (found["accuracy"], found["accuracy_best_epoch"], found["sparsity"]) == (70.0, 80.0, 10.0)


@pytest.mark.parametrize("percent", aeb_resnet.PRIORS)
def test_the_rule_of_the_paper_takes_the_epochs_of_the_published_code(percent):
    """It compares the pruned share of a layer with the target, less half a percent."""
    rate, epochs = aeb_resnet.layer_rate(percent), 20
    speed = stage.PUBLISHED_STEPS / (100 * epochs)
    shares = [smooth_sparsity(100 * k * speed, rate, base=0.99, steps=50) for k in range(1, epochs + 1)]
    near = [share >= rate - 0.005 for share in shares]
    assert 0 < sum(near) < epochs
    active = [100 - 100 * share * aeb_resnet.PRUNABLE / aeb_resnet.TOTAL for share in shares]
    for best in range(epochs):
        accuracy = np.where(np.arange(epochs) == best, 92.0, 90.0)
        curve = np.stack([np.arange(epochs), np.zeros(epochs), accuracy, active], axis=1)
        (row,) = aeb_resnet.best_when_sparse({(f"S={percent}", "SGHMC-SA", 2, "curve"): curve})
        assert row["value"] == (92.0 if near[best] else 90.0)
    assert (row["metric"], row["replicate"]) == ("accuracy_best_sparse", 2)
    dense = np.array([[1, 0.5, 90.0, 100.0]])
    assert not aeb_resnet.best_when_sparse({("S=0", "SGHMC", 0, "curve"): dense}), "the pre-training prunes nothing"


@pytest.mark.slow
def test_two_processes_go_on_with_what_one_has_begun(tmp_path, dies):
    """The whole stage: batches, augmentation, prior, pruning, scores, and the checkpoint.

    float32 sums in another order differ by 1e-7 of a weight. At learning rate 0.001 the two steps left do not enlarge
    that to 1e-5, and the pruning takes the same weights; test_distributed.py has the algorithm to 1e-10.
    """
    pytest.importorskip("lightning_fabric", reason="Lightning Fabric is absent: several devices not tested")
    params = {**smoke(), "batch_size": 128, "learning_rate": 1e-3}
    one = launch(stage.run_stage, params, None, None)
    with pytest.raises(dies.Killed):
        stage.run_stage(Team(CPU), params, None, dies(tmp_path / "cell.pt", saves=2))
    half = Checkpoint(tmp_path / "cell.pt").load()["model"]
    two = launch(stage.run_stage, params, None, Checkpoint(tmp_path / "cell.pt"), devices=2)
    for name, value in one["model"].items():
        torch.testing.assert_close(two["model"][name], value, rtol=1e-5, atol=1e-5)
        assert not torch.equal(value, half[name]), f"{name} has not moved"
    assert two["curve"][0][2:] == one["curve"][0][2:]  # test accuracy, active weights
    assert two["latent"] == pytest.approx(one["latent"], rel=1e-4)
