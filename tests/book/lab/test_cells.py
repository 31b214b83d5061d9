"""Checkpoints and the registry."""

import errno
import os

import numpy as np
import pytest
import torch

from bnnlib.train.checkpoint import Checkpoint
from book import lab
from book.lab import Cell, Experiment, ExperimentError, catalog, keys
from book.lab.cells import profiles


def test_a_checkpoint_brings_back_tensors_numbers_and_the_generator(tmp_path):
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    assert checkpoint.load() is None
    generator = torch.Generator().manual_seed(1)
    torch.rand(7, generator=generator)
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(3)).sum().backward()
    optimizer.step()
    state = {"model": layer.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 4, "note": None}
    checkpoint.save(state | {"generator": generator.get_state()})
    expected = torch.rand(3, generator=generator)

    loaded = Checkpoint(tmp_path / "cell.pt").load()
    assert loaded["epoch"] == 4 and loaded["note"] is None
    assert torch.equal(loaded["model"]["weight"], layer.weight)
    assert torch.equal(loaded["optimizer"]["state"][0]["exp_avg"], optimizer.state[layer.weight]["exp_avg"])
    other = torch.Generator()
    other.set_state(loaded["generator"])
    assert torch.equal(torch.rand(3, generator=other), expected)
    checkpoint.delete()
    checkpoint.delete()
    assert checkpoint.load() is None


def test_a_checkpoint_refuses_what_it_could_not_read_back(tmp_path):
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    for value in (np.ones(2), np.float64(1.0), torch.nn.Linear(1, 1)):
        with pytest.raises(TypeError, match=r"state\['deep'\]\[0\] is a .*Convert it first"):
            checkpoint.save({"deep": [value]})
    assert not checkpoint.path.exists()


def test_a_damaged_checkpoint_starts_over_with_a_warning(tmp_path):
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    checkpoint.save({"step": 1})
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:50])
    with pytest.warns(UserWarning, match="the work starts over"):
        assert checkpoint.load() is None


def test_a_full_disk_costs_the_checkpoint_not_the_cell(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    checkpoint.save({"step": 1})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match=r"no checkpoint could be saved.*the disk is full"):
        checkpoint.save({"step": 2})
    assert checkpoint.load() == {"step": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["cell.pt"]


def test_due_counts_from_the_last_save(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("bnnlib.train.checkpoint.time.monotonic", lambda: now[0])
    checkpoint = Checkpoint(tmp_path / "cell.pt")
    assert not checkpoint.due(60)
    now[0] += 61
    assert checkpoint.due(60)
    checkpoint.save({"step": 1})
    assert not checkpoint.due(60)


def test_a_method_can_have_a_function_of_its_own():
    def common():
        pass

    def special():
        pass

    experiment = Experiment("x", "002", "s", {}, common, methods={"VD": special})
    assert experiment.function(Cell("a", "VD", (0,))) is special
    assert experiment.function(Cell("a", "SVBNN", (0,))) is common


def test_the_experiments_of_the_book_are_well_formed():
    assert len(lab.names()) == len(set(lab.names()))
    for name in lab.names():
        experiment = lab.get(name)
        assert "smoke" in experiment.profiles, name
        assert experiment.paper in {"000", "001", "002", "003", "004", "all"}
        assert catalog.find(catalog.module_of(name), name) == experiment


def test_register_adds_a_module_and_two_experiments_of_one_name_are_refused(tiny, monkeypatch):
    monkeypatch.setattr(catalog, "_OTHERS", [])
    catalog.register("tiny_experiments")
    catalog.register("tiny_experiments")
    assert catalog.modules() == ["tiny_experiments"] and "tiny-good" in lab.names()
    monkeypatch.setattr(catalog, "_OTHERS", ["tiny_experiments", "tiny_experiments"])
    with pytest.raises(ExperimentError, match="is in both"):
        lab.names()


def test_profiles_give_their_arguments_to_one_list_of_cells_or_have_one_of_their_own():
    def cells(setting: str, count: int = 1) -> list[Cell]:
        return [Cell(setting, "SVBNN", (number,)) for number in range(count)]

    made = profiles(cells, smoke="a", book=("b", 2), paper=lambda: cells("c"))
    assert list(made) == ["smoke", "book", "paper"]
    assert [cell.label for name in made for cell in made[name]()] == [
        "a SVBNN [0]",
        "b SVBNN [0]",
        "b SVBNN [1]",
        "c SVBNN [0]",
    ]


def test_a_cell_reads_the_data_that_its_parameters_name_and_not_those_whose_scaling_it_borrows():
    experiment = Experiment("x", "000", "x", profiles={}, run_cell=print, data=("mnist",))
    params = {"network": {"data": "digits"}, "scaling": "cifar10"}
    assert keys.own_data(experiment, Cell("a", "SVBNN", (0,), params), "book") == ("digits",)
    assert keys.own_data(experiment, Cell("a", "SVBNN", (0,), {"scaling": "cifar10"}), "book") == ("mnist",)


def test_data_sets_may_be_needed_by_some_profiles_only():
    options = {"name": "x", "paper": "000", "summary": "x", "profiles": {}, "run_cell": print}
    everywhere = Experiment(**options, data=("mnist",))
    assert everywhere.data_sets("smoke") == everywhere.data_sets("paper") == ("mnist",)
    somewhere = Experiment(**options, data={"paper": ("mnist",)})
    assert somewhere.data_sets("smoke") == ()
    assert somewhere.data_sets("paper") == ("mnist",)


def test_no_two_cells_draw_alike_and_stored_ones_can_be_drawn_again():
    cell = Cell("a", "SVBNN", (0,), {"epochs": 3})
    others = [
        Cell("b", "SVBNN", (0,), {"epochs": 3}),
        Cell("a", "VBNN", (0,), {"epochs": 3}),
        Cell("a", "SVBNN", (1,), {"epochs": 3}),
        Cell("a", "SVBNN", (0,), {"epochs": 4}),
    ]
    assert len({keys.seed_of(one) for one in (cell, *others)}) == 5
    assert keys.seed_of(cell) == 772834775410452918  # as it was when results were stored
