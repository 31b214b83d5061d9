"""Every experiment of every profile can be planned beside what is stored, with the cells of others that it needs."""

import pytest

from book import lab
from book.lab.all_experiments import run_all
from book.lab.cells import PROFILES
from book.lab.plan import cells_of


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
