"""The published numbers of all studies: complete, each once, and beside settings that an experiment runs.

That no number is missing or mistyped is what `test_transcriptions.py` sees.
"""

import pytest

from book import lab
from book.lab import paper_values
from book.lab.metrics import metrics
from chapters.closed_form.experiments import selection
from chapters.learned_priors.experiments import fgsm, regression

NAMES = [name for name in lab.names() if paper_values(name)[0]]
# A cell of these holds several settings: the chains of a data set, the sizes of an attack, the cases of a simulation.
WITHIN = {
    "aeb-regression": lambda cell: {regression.setting_name(*setting) for setting in regression.SETTINGS},
    "aeb-fgsm": lambda cell: {f"{cell.setting} zeta={size:g}" for size in fgsm.SIZES},
    "sbnn-selection": lambda cell: {
        selection.setting_name(cell.params["num_inputs"], *case) for case in cell.params.get("cases", [])
    },
}
# Settings without a cell: all at once, other papers' networks, images that cannot be had, the best of several cells.
NO_CELL = ("*", "S=94.5", "CelebA, ", "WGAN-GP, best rejection rate")


@pytest.mark.parametrize("name", NAMES)
def test_every_published_number_is_complete_and_unique(name):
    values, _ = paper_values(name)
    assert len({(value.setting, value.method, value.metric) for value in values}) == len(values)
    assert len({value.paper for value in values}) == 1
    for value in values:
        assert value.table and value.cell and value.replicates >= 1
        # rows named "error" are failures: a published number under that name would never be compared
        assert value.metric in metrics() and value.metric != "error"
        assert value.margin > 0 and value.interesting >= 2 * value.rounding
        assert value.note or value.sd is not None or value.reading or value.one_draw or value.by_design


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mh-logistic"])  # its rows name a weight too
def test_the_published_settings_are_those_of_the_experiments(name):
    cells = [cell for profile in lab.get(name).profiles.values() for cell in profile()]
    ours = {cell.setting for cell in cells}.union(*map(WITHIN.get(name, lambda cell: set()), cells))
    values, also = paper_values(name)
    assert {value.setting for value in values if not value.setting.startswith(NO_CELL)} | set(also) <= ours
