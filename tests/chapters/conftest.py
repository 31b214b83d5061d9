"""What tests of all studies need."""

import pytest
import torch
from matplotlib import pyplot as plt

from bnnlib.pruning.compress import report
from tests.seeded import seeded


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def static(monkeypatch):
    """Explorers are those of a page."""
    monkeypatch.setenv("BNN_STATIC", "1")


@pytest.fixture
def without_onnx(monkeypatch):
    """As where ONNX is not installed: to export a network takes longer than to train it, and adds latencies alone."""
    monkeypatch.setattr(report, "onnx_missing", lambda: True)


@pytest.fixture
def scramble(monkeypatch):
    """``scramble(module, name)``: what that function loads has random test labels from now on, or a `change`."""

    def labels(data):
        x, y = data["test"]
        return {**data, "test": (x, torch.randint(10, y.shape, generator=seeded()))}

    def scrambled(module, name: str, change=labels) -> None:
        load = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: change(load(*given)))

    return scrambled
