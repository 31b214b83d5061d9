"""Automated gradual pruning inside the training loop."""

import pytest
import torch

from bnnlib.models import mlp
from bnnlib.pruning import AGPPruner, agp_sparsity
from bnnlib.train.fit import Callback, fit


class Watch(Callback):
    def __init__(self, pruner) -> None:
        self.pruner, self.seen = pruner, []

    def on_step(self, run) -> None:
        zeros = sum(int((w == 0).sum()) for w in self.pruner.weights.values())
        total = sum(w.numel() for w in self.pruner.weights.values())
        self.seen.append(zeros / total)


def test_the_weights_follow_the_cubic_ramp():
    model = mlp((20, 30, 4), generator=torch.Generator().manual_seed(0))
    ramp = {"final_sparsity": 0.9, "begin_step": 10, "end_step": 50}
    pruner = AGPPruner(model, frequency=5, **ramp)
    watch = Watch(pruner)
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(80, 20, generator=generator), torch.randint(4, (80,), generator=generator)
    fit(model, (x, y), epochs=6, batch_size=8, generator=generator, callbacks=[pruner, watch])
    assert len(watch.seen) == 60
    for step, share in enumerate(watch.seen, 1):
        last = min(50, 10 + (step - 10) // 5 * 5) if step >= 10 else 0
        expected = agp_sparsity(last, **ramp) if last else 0.0
        assert share == pytest.approx(expected, abs=2 / 720)  # each of two layers rounds to whole weights
    assert watch.seen[-1] == pytest.approx(0.9, abs=1 / 720)
