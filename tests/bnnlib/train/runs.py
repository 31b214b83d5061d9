"""What tests of both loops share: a small problem, and ways for a run to end."""

import os
import signal

import torch
from torch.optim import lr_scheduler
from torch.utils._pytree import tree_leaves
from torch.utils.data import IterableDataset

from bnnlib.models import mlp
from bnnlib.sampling import SGHMC, SampleStore, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.train import Callback, sample
from bnnlib.train.checkpoint import Checkpoint
from chapters.learned_priors.formulas import annealed
from tests.seeded import seeded

ROWS = 50  # not a multiple of the batch, so that every epoch ends with a smaller one


def data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = seeded(seed)
    x = torch.randn(ROWS, 6, generator=generator)
    return x, (x[:, :3] @ torch.randn(3, 3, generator=generator)).argmax(dim=1)


def chance() -> tuple[torch.Tensor, torch.Tensor]:
    """Held-out rows with labels of chance: training soon makes it worse."""
    return data()[0], torch.randint(3, (ROWS,), generator=seeded(0))


def assert_same(found, expected) -> None:
    """To the last bit: tensors and numbers in any nest of dicts, lists and tuples."""
    for one, other in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


class Stream(IterableDataset):
    """The rows one after another, of unknown number."""

    def __iter__(self):
        return iter(zip(*data(), strict=True))


class Stop(Exception):
    pass


class StopAt(Callback):
    """Stands for kill -9: leaves at a step without any chance to save."""

    def __init__(self, step: int | None) -> None:
        self.step = step

    def on_step(self, run) -> None:
        if run.step == self.step:
            raise Stop


class PressCtrlC(Callback):
    def on_step(self, run) -> None:
        if run.step == 6:
            os.kill(os.getpid(), signal.SIGINT)


class EveryStep(Checkpoint):
    """Due after every step, so that a run can be broken off anywhere."""

    def due(self, seconds: float = 0.0) -> bool:
        return True


SCHEDULERS = {
    "step": lambda o: lr_scheduler.StepLR(o, 2, gamma=0.5),
    "multistep": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1.0 / (1 + epoch)),
    "warm-up": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, total_iters=2), lr_scheduler.CosineAnnealingLR(o, 3)], [2]
    ),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=20),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=0),
}


def jitter(x, generator):
    return x + 0.1 * torch.randn(x.shape, generator=generator)


def chain(end: Callback, checkpoint: Checkpoint | None, scheme: str = "baoab"):
    """All that a run of `sample` leaves, with a prior, a store, schedules and augmentation: 20 steps."""
    model, store = mlp((6, 8, 3), generator=seeded(1)), SampleStore(max_samples=3)
    settings = {"spike_scale": 0.5, "slab_variance": 1.0, "step_size": polynomial(1, 5, 0.75)}
    prior = SpikeSlabGaussianLaplacePrior(model, sparse=["0.weight"], **settings)
    sampler = SGHMC(model.parameters(), 1e-4, scheme=scheme, generator=seeded(2))
    schedules = {"lr_schedule": polynomial(1e-3, 10, 0.5), "temperature_schedule": annealed(1.0, 1.01)}
    settings = {"epochs": 5, "batch_size": 16, "burn_in": 2, "thin": 3, "store": store, "augment": jitter} | schedules
    run = sample(model, data(), sampler=sampler, prior=prior, callbacks=[end], generator=seeded(3),
                 checkpoint=checkpoint, **settings)  # fmt: skip
    assert run.step == prior.steps == 20
    # offers come at steps 5, 8, 11, 14, 17, 20; the fourth finds the store full, which leaves numbers 2, 4 and 6
    assert store.offers == [2, 4, 6]
    assert all(torch.equal(value, store[-1][name]) for name, value in model.state_dict().items())
    return {**model.state_dict()}, run.history, prior.state_dict(), [dict(draw) for draw in store]
