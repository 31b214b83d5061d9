"""Every experiment says what its cells read and what changes while they run, and every profile can be planned."""

from functools import cache

import pytest

from bnnlib import datasets
from book import lab
from book.lab import catalog, keys, plan
from book.lab.all_experiments import run_all
from book.lab.cells import PROFILES
from book.lab.plan import cells_of
from tests.chapters.sites import sites, walk

TABLE = {name: experiment for name, (_, experiment) in catalog.table().items()}
LOADERS = {("bnnlib.datasets", "load"), ("bnnlib.datasets.api", "load")}


def _functions(experiment):
    return {experiment.run_cell, *experiment.methods.values()}


@cache
def _reached(function):
    return walk(function).seen


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_an_experiment_whose_code_loads_data_says_what_its_cells_read(name):
    """And by functions that the cells themselves call."""
    experiment = TABLE[name]
    reached = set().union(*map(_reached, _functions(experiment)))
    planned = [(one, cell) for one in experiment.profiles for cell in plan.cells_of(experiment, one) if one != "smoke"]
    loads = any(keys.own_data(experiment, cell, profile) for profile, cell in planned)
    assert experiment.reads is not None or not (loads or LOADERS & reached), f"{name} lacks reads: book/lab/inputs.py"
    if experiment.reads is None:
        return
    for profile in experiment.profiles:
        for cell in plan.cells_of(experiment, profile):
            for call in experiment.reads(cell):
                where = (call.func.__module__, call.func.__qualname__)
                assert where in _reached(experiment.function(cell)), f"{where} is not what {cell.label} of {name} calls"


@pytest.mark.parametrize("name", [name for name, one in TABLE.items() if one.reads is not None])
def test_the_calls_that_stand_for_a_cell_load_its_data_sets_and_no_others(name, monkeypatch):
    """Every real data set is replaced by a mark of its name, so that nothing is read."""

    class Asked(Exception):
        pass

    def load(name, *_, **__):
        raise Asked(name)

    monkeypatch.setattr(datasets, "load", load)
    experiment = TABLE[name]
    for profile in set(experiment.profiles) - {"smoke"}:
        for cell in plan.cells_of(experiment, profile):
            own = set(keys.own_data(experiment, cell, profile))
            for call in experiment.reads(cell):
                with pytest.raises(Asked) as asked:
                    call()
                assert str(asked.value) in own, f"{cell.label} of {name} ({profile}) reads {asked.value}, not {own}"


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_what_changes_on_the_way_is_named_in_the_schedules(name):
    """Step sizes, temperatures, weights of the divergence, shares to prune: functions that `schedules` reaches."""
    experiment = TABLE[name]
    declared = _reached(experiment.schedules) if experiment.schedules else set()
    for function in _functions(experiment):
        for place, names, unnamed in sites(function):
            assert not unnamed, f"{place}: give this formula a name, and name it in the `schedules` of {name}"
            missing = sorted(names - declared)
            assert not missing, f"{place}: {missing} is not in the `schedules` of {name}, see book/lab/inputs.py"


@pytest.mark.parametrize("name", [name for name, one in TABLE.items() if one.schedules is not None])
def test_schedules_can_be_asked_for_every_cell(name):
    """At their first and last step, in every profile; a number comes back each time."""
    experiment = TABLE[name]
    for profile in experiment.profiles:
        for cell in plan.cells_of(experiment, profile):
            for word, (function, steps) in experiment.schedules(cell).items():
                for step in (steps[0], steps[-1]):
                    assert function(step) is not None, (cell.label, word)


@pytest.mark.parametrize("name", TABLE)
def test_the_stored_probes_say_it_of_every_stored_cell(name):
    experiment = TABLE[name]
    for profile in ("book", "paper"):
        if not lab.result_path(name, profile).exists():
            continue
        result = lab.load_result(name, profile)
        stored, said = {about["id"] for about in result["cells"]}, {"reads": set(), "schedules": set()}
        for probe in result["probes"]:
            for part, cells in probe.get("real", {}).items():
                said[part] |= set(cells)
        for cell in plan.cells_of(experiment, profile):
            if keys.identity(experiment, cell) in stored:
                assert experiment.reads is None or cell.label in said["reads"], (profile, cell.label)
                assert not (experiment.schedules and experiment.schedules(cell)) or cell.label in said["schedules"]


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_is_planned_whole(profile, capsys):
    rows = run_all(profile, dry_run=True)
    assert "cells to do, about" in capsys.readouterr().err
    assert all(row["minutes"] is None or row["minutes"] >= 0.0 for row in rows)
    assert "damaged" not in {row["state"] for row in rows}


@pytest.mark.parametrize("profile", PROFILES)
def test_no_two_cells_of_a_profile_have_one_name(profile):
    for experiment in map(lab.get, lab.names()):
        if profile in experiment.profiles:
            labels = [cell.label for cell in cells_of(experiment, profile)]
            assert len(labels) == len(set(labels)) > 0, experiment.name


def test_no_training_of_a_smoke_profile_has_no_epochs():
    """Halves and thirds of one epoch are one epoch, or a cell fails before it has begun."""

    def counts(value, name=""):
        if isinstance(value, dict):
            for key, inside in value.items():
                yield from counts(inside, key)
        elif name in ("epochs", "retrain") and isinstance(value, int):
            yield value

    for name in lab.names():
        experiment = lab.get(name)
        for cell in cells_of(experiment, "smoke") if "smoke" in experiment.profiles else []:
            assert all(count >= 1 for count in counts(cell.params)), (name, cell.label)
