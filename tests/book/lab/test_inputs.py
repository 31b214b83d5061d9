"""What real cells read and where their schedules end: noticed where the rows of a small cell cannot tell."""

from functools import partial

import numpy as np
import pytest
import torch

from bnnlib import datasets
from book.lab import inputs, load_result, provenance, validity, verify
from book.lab.store import save_result

_JOB = '''"""An experiment with data."""
from functools import partial
import torch
from bnnlib import datasets
from book.lab.cells import Cell, CellResult, Experiment

def load(name, held_out):
    """Rows by their role."""
    if name == "made up":
        return {"train": (torch.ones(4, 2), torch.zeros(4)), "test": (torch.ones(2, 2), torch.zeros(2))}
    whole = datasets.load(name)
    cut = len(whole.train_x) - held_out
    return {"train": (whole.train_x[:cut], whole.train_y[:cut]), "test": (whole.test_x, whole.test_y)}

def rate(step, steps):
    return 1.0 - step / steps

def run_cell(cell, device, checkpoint):
    parts = load(cell.params["data"], 10)
    value = sum(rate(step, cell.params["steps"]) for step in range(cell.params["steps"])) * len(parts["train"][0])
    where = {"setting": cell.setting, "method": cell.method, "metric": "rmse_test"}
    return CellResult([{**where, "replicate": one, "value": value + one} for one in cell.replicates])

def reads(cell):
    return [partial(load, cell.params["data"], 10)]

def schedules(cell):
    return {"rate": (partial(rate, steps=cell.params["steps"]), range(cell.params["steps"]))}

def cells():
    return [Cell(s, "VD", (0,), {"data": "digits", "steps": 2000}) for s in ("a", "b")]

EXPERIMENTS = [
    Experiment(
        name="probed", summary="s", profiles={"smoke": cells, "book": cells}, run_cell=run_cell,
        tiny={"data": "made up", "steps": 3}, data=("digits",), reads=reads, schedules=schedules,
    )
]
'''


@pytest.fixture
def pack(pack):
    pack.write("job.py", _JOB)
    inputs.READ.clear()
    yield pack
    inputs.READ.clear()


def _only(found):
    (state,) = found
    return state


@pytest.mark.slow
def test_the_probe_says_what_the_real_cells_read_and_equal_ones_once(pack):
    (probe,) = pack.run()["probes"]
    assert probe["noise"] == provenance.noise("cpu")
    reads, schedules = probe["real"]["reads"], probe["real"]["schedules"]
    assert list(reads["a VD [0]"]) == ["0.train.0", "0.train.1", "0.test.0", "0.test.1"]
    assert reads["a VD [0]"]["0.train.0"][:4] == [1428.0, 1.0, 8.0, 8.0] and reads["b VD [0]"] == "a VD [0]"
    assert schedules["a VD [0]"] == {"rate": [1.0, 0.75, 0.5, 0.2505, 0.0105, 0.0005]}
    assert schedules["b VD [0]"] == "a VD [0]"


@pytest.mark.parametrize(
    ("old", "new", "part", "name"),
    [
        ('"train": (whole.train_x[:cut]', '"train": (whole.train_x[-cut:]', "reads", "0.train.0"),
        ("whole.train_y[:cut]", "whole.train_y[:cut].flip(0)", "reads", "0.train.1"),
        ("(whole.test_x, whole.test_y)", "(whole.train_x[:359], whole.train_y[:359])", "reads", "0.test.0"),
        ("whole.train_x) - held_out", "whole.train_x) - 0 * held_out", "reads", "0.train.0"),
        ("return 1.0 - step / steps", "return 1.0 - min(step, 1000) / steps", "schedules", "rate"),
    ],
)
def test_what_the_small_cell_cannot_see_is_noticed(pack, old, new, part, name):
    pack.run()
    pack.edit(old, new)
    state = _only(verify.verify("probed", "book", write=False))
    assert state.word == "changed since" and f"a VD [0]: its {part}: {name} is (" in state.detail


def test_code_that_does_not_get_through_any_more_has_changed(pack):
    """And the other results are still looked at."""
    pack.run()
    pack.edit("cut = len(whole.train_x) - held_out", "cut = [held_out]")
    state = _only(verify.verify("probed", "book"))
    assert state.word == "changed since" and state.detail.startswith("its probe fails: TypeError: ")


def test_other_code_that_reads_the_same_is_silent(pack):
    pack.run()
    pack.edit("cut = len(whole.train_x) - held_out", "count = len(whole.train_x)\n    cut = count - held_out")
    pack.edit("1.0 - step / steps", "(steps - step) / steps")
    assert _only(verify.verify("probed", "book")).word == "certified"


def test_without_its_data_a_cell_is_certified_without_them_until_they_are_at_hand(pack, monkeypatch):
    pack.run()
    pack.edit("1.0 - step / steps", "(steps - step) / steps")
    pack.edit("whole.train_y[:cut]", "whole.train_y[:cut].flip(0)")
    with monkeypatch.context() as away:
        away.setattr(datasets, "available", lambda name: False)
        assert _only(verify.verify("probed", "book")).word == "certified without data"
        assert _only(validity.states("probed", "book")).word == "certified without data" in validity.GOOD
        verify.verify("probed", "book")
        assert len(load_result("probed", "book")["certificates"]) == 1
    assert _only(verify.verify("probed", "book")).word == "changed since"
    pack.edit("whole.train_y[:cut].flip(0)", "whole.train_y[:cut]")
    assert _only(verify.verify("probed", "book")).word == "certified"
    assert _only(validity.states("probed", "book")).word == "certified"


def test_an_older_probe_that_says_nothing_of_the_real_cells_certifies_nothing(pack):
    result = pack.run()
    for probe in result["probes"]:
        del probe["real"]
    save_result(result)
    pack.edit("1.0 - step / steps", "(steps - step) / steps")
    state = _only(verify.verify("probed", "book", write=False))
    assert (state.word, state.detail) == ("no probe", "a VD [0]: the stored probe does not say its reads")


def test_a_cell_of_a_known_kind_that_comes_later_is_added_to_the_probe(pack):
    pack.run(only="a")
    assert set(load_result("probed", "book")["probes"][0]["real"]["reads"]) == {"a VD [0]"}
    pack.edit('"steps": 2000}', '"steps": 2000 if s == "a" else 500}')
    pack.run(only="b")
    kept = load_result("probed", "book")["probes"][0]["real"]
    assert kept["reads"]["b VD [0]"] == "a VD [0]" and kept["schedules"]["b VD [0]"]["rate"][-1] == 0.002


def test_of_a_cell_that_runs_anew_the_probe_says_what_it_reads_now(pack):
    pack.run()
    pack.edit('"data": "digits"', '"data": "digits" if s == "a" else "made up"')
    reads = pack.run()["probes"][0]["real"]["reads"]
    assert [reads[f"{one} VD [0]"]["0.train.0"][0] for one in "ab"] == [1428.0, 4.0]


def test_another_source_of_noise_is_no_comparison(pack, monkeypatch):
    pack.run()
    pack.edit("1.0 - step / steps", "(steps - step) / steps")
    monkeypatch.setattr(provenance, "noise", lambda device: "a new kernel")
    state = _only(verify.verify("probed", "book", write=False))
    assert state.word == "no probe"
    assert state.detail == "another noise source: a new kernel, was torch.Generator, mt19937"


def test_a_summary_tells_other_rows_other_orders_and_other_sizes_apart():
    x = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0))
    numbers = inputs.summary(x)
    assert numbers[:2] == [1000.0, 3.0]
    late = x.clone()
    late[900:] = late[900:].flip(0)
    one = x.clone()
    one[990] = x[3]
    for other in (x.flip(0), x.flip(1), late, one, 2.0 * x, x[1:], torch.cat([x[:1], x[:-1]])):
        assert inputs.difference({"x": inputs.summary(other)}, {"x": numbers}, inputs.FLOOR["reads"])
    rounded = torch.from_numpy((x.double().numpy() * (1 + 1e-7)).astype(np.float32))
    assert not inputs.difference({"x": inputs.summary(rounded)}, {"x": numbers}, inputs.FLOOR["reads"])
    assert inputs.summary(torch.empty(0, 3)) == [0.0, 3.0] and len(inputs.summary(torch.tensor([True, False]))) == 4


def test_equal_calls_are_made_once(monkeypatch):
    inputs.READ.clear()
    made = []

    def load(name):
        made.append(name)
        return [torch.ones(2)]

    for name in ("a", "a", "b"):
        inputs.read(partial(load, name))
    assert made == ["a", "b"]
    inputs.READ.clear()
