"""What a pass reads without calling is named, in predictions and in training; what others draw for is not."""

import sys
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib import nn as bnn
from bnnlib.train import fit
from tests.seeded import seeded


class Reading(nn.Module):
    """Reads the weight of its first layer, as torchvision's Swin does."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.out(F.linear(x, self.qkv.weight, self.qkv.bias))


class Served(nn.Module):
    """Attention, whose projection is never called, and a table that the last layer shares."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1, enable_nested_tensor=False
        )
        self.body = nn.GRU(4, 4, batch_first=True)
        self.out = nn.Linear(4, 7)
        self.out.weight = self.table.weight

    def forward(self, tokens):
        return self.out(self.body(self.encoder(self.table(tokens)))[0][:, -1])


def data(rows=12):
    return torch.randn(rows, 4, generator=seeded()), torch.randint(2, (rows,), generator=seeded())


def test_predictions_and_training_name_the_layer():
    model, (x, y) = bnn.to_bayesian(Reading()), data()
    with pytest.warns(bnn.UncalledWarning, match=r"Reading has not called qkv: .* F\.linear") as caught:
        bnn.predict(model, x, num_samples=3)
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.warns(bnn.UncalledWarning, match="qkv"):
        bnn.predict(model, x, num_samples=3, draws_at_once=3)
    with pytest.warns(bnn.UncalledWarning, match="qkv") as caught:
        fit(model, (x, y), epochs=2, batch_size=4)
    assert len(caught) == 1
    assert len(model.qkv._forward_pre_hooks) == 1  # the one that every layer has


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "spike_slab"])
def test_what_others_draw_for_is_not_named(kind):
    settings = {"prior_inclusion_probability": 0.3} if kind == "spike_slab" else {}
    model, tokens = bnn.to_bayesian(Served(), kind, **settings), torch.randint(7, (5, 3), generator=seeded())
    with warnings.catch_warnings():
        warnings.simplefilter("error", bnn.UncalledWarning)
        bnn.predict(model, tokens, num_samples=2)
        fit(model, (tokens, torch.zeros(5, dtype=torch.long)), epochs=1, batch_size=5)
        plain = bnn.to_bayesian(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), kind, **settings)
        assert bnn.predict(torch.compile(plain, backend="eager"), data()[0], num_samples=2).shape == (2, 12, 2)


@pytest.mark.slow
def test_threads_that_predict_at_once_do_not_meet():
    model, (x, _) = bnn.to_bayesian(nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])), data()
    faults, before = [], sys.getswitchinterval()

    def work():
        try:
            for _ in range(300):
                bnn.predict(model, x, num_samples=1)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(8)]
    sys.setswitchinterval(1e-6)  # a thread changes at nearly every step
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(before)
    assert faults == [] and all(len(layer._forward_pre_hooks) == 1 for layer in model)
