"""The rivals of Table 7 on enlarged digits: resuming, what is removed, and what chooses the reported drop rate."""

from dataclasses import replace

import pytest

from book import lab
from book.lab import Cell
from chapters.closed_form.experiments import images, retrained
from tests.chapters.cells import CPU, needs_digits

pytestmark = needs_digits


def small(method: str, **params) -> Cell:
    cells = lab.get("sbnn-lenet").profiles["smoke"]()
    cell = next(one for one in cells if (one.setting, one.method) == ("LeNet-300-100", method))
    return replace(cell, params=cell.params | {"drop_rates": [0, 90, 99], "epochs": 3, "batch_size": 256} | params)


def test_each_drop_rate_leaves_that_share_of_the_weights_and_all_biases(monkeypatch):
    seen = []
    error = retrained.error_percent

    def counted(model, data, part):
        weights = [p for p in model.parameters() if p.dim() > 1]
        seen.append(sum(int((w == 0).sum()) for w in weights) / sum(w.numel() for w in weights))
        return error(model, data, part)

    monkeypatch.setattr(retrained, "error_percent", counted)
    retrained.run_cell(small("DC"), CPU, None)
    # rounded to one weight of 266,200
    assert seen == pytest.approx([0, 0, 0.9, 0.9, 0.99, 0.99], abs=4e-6)


def test_the_whole_network_is_trained_for_all_epochs_and_reported_whole(monkeypatch):
    epochs = []
    train = retrained.train
    monkeypatch.setattr(retrained, "train", lambda *a: (epochs.append(a[2]["epochs"]), train(*a)))
    for method in ("Original", "DC"):
        rows = retrained.run_cell(small(method, epochs=6, retrain=2), CPU, None).rows
        values = {row["metric"]: row["value"] for row in rows}
        if method == "Original":
            assert values["removed"] == 0 and values["error_pruned"] == values["error_test"]
    assert epochs == [6, 2, 2, 2]  # "DC" has as many in all


def test_held_out_images_choose_what_is_reported():
    test = {"0": 2.0, "90": 1.0, "99": 1.0}
    found = images.curve_rows([0, 90, 99], test, {"0": 1.5, "90": 1.5 + images.TOLERANCE, "99": 1.7})
    assert (found["removed"], found["error_pruned"], found["error_test"]) == (90, 1.0, 2.0)


@pytest.mark.parametrize("profile", ["book", "paper"])
def test_rivals_have_the_images_the_rates_and_the_epochs_of_sbnn(profile):
    cells = [one for one in lab.get("sbnn-lenet").profiles[profile]() if "set" not in one.setting]
    shared = ("data", "held_out", "scaling", "drop_rates", "epochs", "network", "bfloat16", "batch_size")
    for setting in ("LeNet-300-100", "LeNet-5"):
        group = [one for one in cells if one.setting == setting]
        assert {one.method for one in group} == {"sBNN", "Original", "DC", "Sparse VD"}
        assert len({str([one.params[name] for name in shared]) for one in group}) == 1
        dc = next(one.params for one in group if one.method == "DC")
        rest = dc["epochs"] - dc["retrain"] * (len(dc["drop_rates"]) - 1)
        assert rest >= dc["epochs"] / 2  # half of the epochs, at least, are of the whole network
