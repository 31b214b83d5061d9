"""One cell of each kind runs from end to end at its smoke size, and what it gives can be stored.

Those that are killed and taken up again in `test_resumed.py` run there, attacks in `learned_priors/test_mnist.py`.
"""

import pytest

from book import lab
from book.lab import store
from book.lab.plan import cells_of
from tests.chapters import test_resumed


def kinds() -> list[tuple[str, str]]:
    """(experiment, label) of the first smoke cell that runs each function of the chapters."""
    killed = test_resumed.KILLED
    elsewhere = {lab.get(name).function(test_resumed.smoke(name, *cell, {})) for name, *cell, _, _ in killed}
    found = {}
    for name in [name for name in lab.names() if name != "aeb-fgsm"]:
        experiment = lab.get(name)
        for cell in cells_of(experiment, "smoke") if "smoke" in experiment.profiles else []:
            # what needs another cell would train that first, whose function has its own turn
            place = (bool(cell.needs), len(cell.replicates))
            function = experiment.function(cell)
            if function not in elsewhere and (function not in found or place < found[function][0]):
                found[function] = place, name, cell.label
    return [(name, label) for _, name, label in found.values()]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "label"), kinds())
def test_a_smoke_cell_of_each_kind_runs(name, label, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "home", lambda: tmp_path)
    result = lab.run(name, profile="smoke", only=label)
    assert result["provenance"]["cells"]["failed"] == 0
    assert result["rows"]
    seconds = sum(cell["seconds"] for cell in result["cells"])  # of those that carry the label
    took = [row["value"] for row in result["rows"] if row["metric"].startswith("minutes")]
    assert all(0.0 <= minutes <= seconds / 60.0 for minutes in took)  # a part of what the cell took
