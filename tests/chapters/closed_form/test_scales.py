"""How far scales move: the sum of steps against a training by hand, and what is stored against that sum."""

import math

import pytest
import torch

from bnnlib import functional as bF
from bnnlib.nn import bayesian_layers, to_bayesian
from bnnlib.train.fit import cosine, fit
from book import lab
from chapters.closed_form import numbers, scales

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
