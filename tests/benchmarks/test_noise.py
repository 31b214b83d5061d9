"""Sources of noise give standard normal numbers, and repeated noise is noise that is drawn once."""

import pytest
import torch

from benchmarks import noise as benchmark
from bnnlib import _native
from bnnlib import nn as bnn


def test_quantiles_have_the_moments_of_a_standard_normal():
    table = benchmark.quantiles().double()
    assert table.mean().abs() < 1e-6 and table.square().mean() == pytest.approx(1.0, abs=1e-6)
    assert table.pow(4).mean() == pytest.approx(3.0, abs=2e-3)  # sixteen bits end at 4.2 standard deviations


def test_every_source_fills_what_was_asked_for(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda work: work)  # it takes seconds, and is PyTorch's own
    torch.manual_seed(0)
    made = benchmark.ways(40_001)
    for name, work in made.items():
        values = torch.as_tensor(work()).double()
        assert len(values) == 40_001
        # the standard error of the variance of so many normal numbers is 0.007
        assert values.var() == pytest.approx(1 / 12 if "uniform" in name else 1.0, abs=0.035), name
    assert len(made) == 10 + _native.available()


def test_repeated_noise_is_drawn_once_for_each_shape_and_kind(monkeypatch):
    layer = bnn.SpikeSlabLinear(3, 2, prior_inclusion_probability=0.5)
    x = torch.ones(1, 3)
    different = {tuple(layer(x).tolist()[0]) for _ in range(5)}
    monkeypatch.setattr(benchmark.noise, "_draw", benchmark.Repeated())
    same = {tuple(layer(x).tolist()[0]) for _ in range(5)}
    assert len(different) > 1 and len(same) == 1


def test_rows_have_times_with_quartiles(capsys):
    rows = benchmark.steps(("gaussian",), rounds=2, batch=4)
    assert set(rows[0]) == {"layer", *(name + end for name in ("ratio", "free", "keyed") for end in ("", "_quartiles"))}
    assert rows[0]["free"] > 0 and rows[0]["ratio"] > 0
