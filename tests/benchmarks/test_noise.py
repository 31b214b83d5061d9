"""Sources of noise give standard normal numbers; statistics of keyed noise are large where the law does not hold."""

import pytest
import torch

from benchmarks import noise as benchmark
from benchmarks import noise_law, store
from bnnlib import _native, _redraw
from bnnlib import _noise as noise
from bnnlib import nn as bnn
from tests.book.test_what_layers_can import PAGE


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


fold = _redraw.fold


def largest(rows):
    return max(rows, key=lambda row: abs(row["z"]))


def test_keyed_noise_has_the_law_it_claims():
    # some twenty standardized statistics: one beyond 4.5 has probability 1e-4, and the seeds are fixed
    assert abs(largest(noise_law.normals(8) + noise_law.others(4))["z"]) < 4.5


@pytest.mark.parametrize(
    ("broken", "statistic"),
    [
        (lambda key, number: key if number < 2 else fold(key, number), "neighboring layers"),
        (lambda key, number: fold(key, min(number, 8)), "neighboring seeds"),
    ],
)
def test_keys_that_leave_something_out_are_found(monkeypatch, broken, statistic):
    monkeypatch.setattr(_redraw, "fold", broken)
    rows = {row["statistic"]: row["z"] for row in noise_law.normals(8)}
    assert abs(rows[statistic]) > 100


def test_numbers_of_another_law_are_found(monkeypatch):
    monkeypatch.setattr(noise_law, "draw_normal", lambda like, source: noise.draw_normal(like, source).clamp(-3, 3))
    assert largest(noise_law.normals(4))["statistic"] in {"moment 4", "1024 equal shares"}


def test_the_page_quotes_the_stored_run():
    stored = store.read("noise_law")
    rows, page = stored["rows"], PAGE.read_text(encoding="utf-8")
    worst = largest(rows)
    assert f"Of {len(rows)} statistics of 10⁸ such numbers" in page and "--millions" not in stored["about"]["command"]
    assert f"the one farthest from its law is {abs(worst['z'])} standard deviations away" in page
