"""What an experiment and its cells are, and the registry."""

import pytest

from book import lab
from book.lab import Cell, Experiment, ExperimentError, catalog, keys
from book.lab.cells import profiles


def test_the_experiments_of_the_book_are_well_formed():
    assert len(lab.names()) == len(set(lab.names()))
    for name in lab.names():
        experiment = lab.get(name)
        assert "smoke" in experiment.profiles, name
        assert catalog.paper_of(name) in {"000", "001", "002", "003", "004", "all"}
        assert catalog.find(catalog.module_of(name), name) == experiment
    assert [catalog.paper_of(name) for name in ("svbnn-lambda", "sbn-mnist", "fnd-linear")] == ["002", "004", "all"]


def test_two_experiments_of_one_name_are_refused(tiny, monkeypatch):
    monkeypatch.setattr(catalog, "modules", lambda: ["tiny_experiments", "tiny_experiments"])
    with pytest.raises(ExperimentError, match="is in both"):
        lab.names()


def test_profiles_give_their_arguments_to_one_list_of_cells_or_have_one_of_their_own():
    def cells(setting: str, count: int = 1) -> list[Cell]:
        return [Cell(setting, "SVBNN", (number,)) for number in range(count)]

    made = profiles(cells, smoke="a", book=("b", 2), paper=lambda: cells("c"))
    assert list(made) == ["smoke", "book", "paper"]
    labels = [cell.label for name in made for cell in made[name]()]
    assert labels == ["a SVBNN [0]", "b SVBNN [0]", "b SVBNN [1]", "c SVBNN [0]"]


def test_a_cell_reads_the_data_that_its_parameters_name_and_not_those_whose_scaling_it_borrows():
    experiment = Experiment("x", "x", profiles={}, run_cell=print, data=("mnist",))
    params = {"network": {"data": "digits"}, "scaling": "cifar10"}
    assert keys.own_data(experiment, Cell("a", "SVBNN", (0,), params), "book") == ("digits",)
    assert keys.own_data(experiment, Cell("a", "SVBNN", (0,), {"scaling": "cifar10"}), "book") == ("mnist",)


def test_data_sets_may_be_needed_by_some_profiles_only():
    options = {"name": "x", "summary": "x", "profiles": {}, "run_cell": print}
    everywhere = Experiment(**options, data=("mnist",))
    assert everywhere.data_sets("smoke") == everywhere.data_sets("paper") == ("mnist",)
    somewhere = Experiment(**options, data={"paper": ("mnist",)})
    assert somewhere.data_sets("smoke") == () and somewhere.data_sets("paper") == ("mnist",)
