"""A cell that is killed and taken up again has the rows, arrays and products of the whole one, bit for bit.

Functions that have no such cell here run once in `test_smoke.py`.
"""

import copy
import json
import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from bnnlib.train.checkpoint import Checkpoint
from book import lab
from book.lab.probes import first
from chapters.acceptance.experiments import lenet
from tests.chapters.cells import CPU, needs_digits

UNTIMED = {"timed": False}
SHORT = {"epochs": 1, "drop_rates": [0, 50, 95], "choose_at": [0]}
WIDE_BATCH = {"epochs": 1, "batch_size": 256, "batches": 3, "draws": 3, "shown_batches": 4}
ONE_CHAIN = {"iterations": 2600, "num_inputs": 20, "burn_in": 100, "thin": 50, "methods": ["SGLD-SA"]}

# experiment, setting, method, parameters of the smoke cell that are others, saves until it dies
KILLED = [
    ("sbp-mnist", "LeNet-500-300", "Original", UNTIMED, 9),  # 2 epochs of 9 steps
    ("sbp-mnist", "LeNet-500-300", "SBP", UNTIMED, 6),
    ("sbp-mnist", "LeNet-500-300", "SSL", UNTIMED, 30),  # within the second strength
    ("sbp-mnist", "LeNet-500-300", "SparseVD", UNTIMED, 6),
    ("sbn-mnist", "LeNet-5", "BN", WIDE_BATCH, 13),  # behind the last step of the last training, and before its scores
    # 8 steps: in the second epoch, when draws have been kept and augmentation is due
    *[("aeb-mnist", *one, {}, 6) for one in (("MNIST", "Dropout"), ("DA-MNIST", "SGHMC-SA"))],
    # 22 steps a candidate; 32 saves are in the middle of the second one, after the first was put aside
    *[("svbnn-mnist", "tempered", "SVBNN", {"candidates": first(2)}, saves) for saves in (5, 32)],
    ("svbnn-mnist", "exact", "SVBNN", {}, 7),
    ("svbnn-simulation-1b", "sparse", "SVBNN", {"epochs": 6}, 3),
    ("svbnn-mnist", "pruned", "AGP", {}, 9),
    ("svbnn-mnist", "dropout", "VD", {}, 13),
    *[("sbp-random-labels", "MNIST, MLP", method, {}, 3) for method in ("Dropout", "SBP")],
    ("imh-mnist", "Images", "Classifier", {}, 5),
    *[("imh-mnist", model, "Raw", {}, 2) for model in ("WGAN-GP", "VAE")],
    ("imh-mnist", "VAE", "Inversion", {}, 1),
    ("imh-mnist", "WGAN-GP", "Random discriminator", {}, 1),
    *[("imh-mnist", "WGAN-GP", "Independent, CCE", {}, saves) for saves in (2, 6)],
    ("imh-mnist", "WGAN-GP", "Markov, UB", {}, 3),
    *[("imh-mnist", "WGAN-GP", "Independent, CCE, picked", {}, saves) for saves in (2, 9, 12)],
    ("sbnn-influence", "all alpha", "sBNN", {}, 2),
    ("sbnn-selection", "cv, pi=0.2", "BNN-VS-CV", {}, 8),  # two epochs and an end each: in the third training
    # a save an epoch and one after the search: in the search, and in the final training
    *[("sbnn-uci", "simulated", "sBNN", {}, saves) for saves in (1, 4)],
    *[
        ("sbnn-uci", "simulated", m, {}, saves)
        for m, saves in (("Dropout", 4), ("PBP", 1), ("SVBNN", 4), ("HS-BNN", 7))
    ],
    ("sbnn-orders", "300 epochs", "one network", {}, 1),
    # six steps and a save of the finished candidate each: in the first, and in the second
    ("sbnn-mnist", "32", "sBNN", SHORT, 4),
    ("sbnn-mnist", "32", "BbB", SHORT, 9),
    ("sbnn-lenet", "LeNet-5", "Sparse VD", SHORT, 4),
    # two steps and a save of the pretrained network, then the posterior's first
    ("sbnn-vgg", "VGG-like", "sBNN", SHORT | {"batch_size": 600, "drop_rates": [0, 50], "width": 0.02}, 4),
    ("sbnn-start", "all factors", "sBNN", {}, 6),
    ("sbnn-uci-causes", "simulated", "sBNN", {}, 2),
    # five steps an epoch: in the first retraining, behind a finished stage
    ("sbnn-lenet", "LeNet-300-100", "DC", {"drop_rates": [0, 90, 99], "epochs": 3, "batch_size": 256}, 8),
    ("aeb-regression", "all settings", "all methods", ONE_CHAIN, 2),
    ("aeb-resnet20", "S=0", "SGHMC", {"pretraining": lambda stage: stage | {"epochs": 1}}, 5),
    *[("mh-lenet", "reduced LeNet", method, lab.get("mh-lenet").tiny, 1) for method in lenet.METHODS],
]


def smoke(name: str, setting: str, method: str, changes: dict):
    """The smoke cell with other parameters, each given as a value or as a function of its own one."""
    cells = lab.get(name).profiles["smoke"]()
    cell = next(cell for cell in cells if (cell.setting, cell.method) == (setting, method))
    new = {key: value(cell.params[key]) if callable(value) else value for key, value in changes.items()}
    return replace(cell, params=cell.params | new)


def compute(name: str, cell, checkpoint=None):
    needs = [copy.deepcopy(_product(need.experiment, need.cell.setting, need.cell.method)) for need in cell.needs]
    return lab.get(name).function(cell)(cell, CPU, checkpoint, **({"products": needs} if needs else {}))


@cache
def _product(name: str, setting: str, method: str):
    return compute(name, smoke(name, setting, method, UNTIMED)).product


def tensors(value):
    """All tensors of a product, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors(part)


WHOLE: dict[tuple, object] = {}


def whole_of(name: str, setting: str, method: str, changes: dict):
    """The cell and its answer, computed once for all places where it is killed."""
    key = name, setting, method, id(changes)  # one dict each, as the lists above have them
    if key not in WHOLE:
        cell, began = smoke(name, setting, method, changes), time.perf_counter()
        WHOLE.clear()  # the last one is asked for again, if any
        WHOLE[key] = cell, compute(name, cell)
        storable(cell, WHOLE[key][1], time.perf_counter() - began)
    return WHOLE[key]


def storable(cell, answer, seconds: float) -> None:
    """Its rows can be written, are the cell's own, and tell of no more minutes than it took."""
    assert json.loads(json.dumps(answer.rows)) and {row["replicate"] for row in answer.rows} <= set(cell.replicates)
    took = [row["value"] for row in answer.rows if row["metric"].startswith("minutes")]
    assert all(0.0 <= minutes <= seconds / 60.0 for minutes in took)


@pytest.mark.slow
@needs_digits
@pytest.mark.usefixtures("without_onnx")
@pytest.mark.parametrize(
    ("name", "setting", "method", "changes", "saves"),
    [pytest.param(*one, id=" ".join(map(str, (*one[:3], one[4])))) for one in KILLED],
)
def test_a_killed_cell_resumes_bit_for_bit(name, setting, method, changes, saves, tmp_path, dies):
    cell, whole = whole_of(name, setting, method, changes)
    with pytest.raises(dies.Killed):
        compute(name, cell, dies(tmp_path / "cell.pt", saves))
    resumed = compute(name, cell, Checkpoint(tmp_path / "cell.pt"))
    assert resumed.rows == whole.rows
    assert resumed.arrays.keys() == whole.arrays.keys()
    for key, array in whole.arrays.items():
        np.testing.assert_array_equal(resumed.arrays[key], array)
    for one, other in zip(tensors(resumed.product), tensors(whole.product), strict=True):
        assert torch.equal(one, other)
