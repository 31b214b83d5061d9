"""What the experiments declare for the comparison: budgets, sources of rows, names."""

import pytest

from book import lab
from book.lab import paper_values

WITH_VALUES = [name for name in lab.names() if paper_values(name)[0]]


@pytest.mark.parametrize("name", WITH_VALUES)
def test_every_experiment_with_published_numbers_knows_its_budget(name):
    experiment = lab.get(name)
    units = set()
    for cells in experiment.profiles.values():
        for cell in cells():
            number, unit = experiment.budget(cell)
            assert number > 0
            units.add(unit)
    assert len(units) == 1


@pytest.mark.parametrize("name", WITH_VALUES)
def test_the_paper_profile_has_the_published_budget(name):
    """Where it is known; less than half of it could never be compared."""
    experiment = lab.get(name)
    cells = experiment.profiles["paper"]()
    budgets = {(cell.setting, cell.method): experiment.budget(cell)[0] for cell in cells}
    for value in paper_values(name)[0]:
        ours = budgets.get((value.setting, experiment.sources.get(value.method, value.method)))
        if ours is not None and value.budget is not None:
            assert ours >= value.budget, value


@pytest.mark.parametrize("name", lab.names())
def test_a_source_is_a_method_of_the_experiment(name):
    experiment = lab.get(name)
    methods = {profile: {cell.method for cell in cells()} for profile, cells in experiment.profiles.items()}
    assert set(experiment.sources.values()) <= set.union(*methods.values())


def test_stages_are_added_where_the_paper_counts_them():
    def budget(name: str, profile: str, setting: str, method: str) -> tuple:
        experiment = lab.get(name)
        cells = experiment.profiles[profile]()
        return experiment.budget(next(c for c in cells if (c.setting, c.method) == (setting, method)))

    assert budget("aeb-resnet20", "book", "S=90", "A-SGHMC") == (120, "epochs")
    assert budget("aeb-resnet20", "paper", "S=90", "A-SGHMC") == (2000, "epochs")
    assert budget("sbp-vgg", "paper", "k=1.0", "Original") == (200, "epochs")
    assert budget("sbp-vgg", "paper", "k=1.0", "SBPa") == (500, "epochs")
    assert budget("aeb-regression", "paper", "all settings", "all methods") == (500_000, "iterations")


def test_networks_trained_with_a_weighted_divergence_are_not_called_by_the_name_of_the_exact_one():
    experiment = lab.get("sbp-mnist")
    for cells in experiment.profiles.values():
        for cell in cells():
            weights = [one["kl_weights"] for one in cell.params.get("candidates", []) if "kl_weights" in one]
            weighted = any(weight != 1.0 for row in weights for weight in row)
            assert weighted == cell.method.startswith("SBPa"), cell.label
