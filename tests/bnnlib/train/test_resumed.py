"""Whatever a run consists of, killed again and again it ends as the one that nobody killed, to the last bit."""

import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from bnnlib.models import mlp
from bnnlib.nn import GaussianLinear, SpikeSlabLinear
from bnnlib.optim import AdaptiveVariational
from bnnlib.pruning import AGPPruner, MagnitudePruner, smooth_sparsity
from bnnlib.sampling import SampleStore
from bnnlib.train import Callback, EarlyStopping, cosine, fit
from bnnlib.train.checkpoint import Checkpoint
from tests.bnnlib.train import runs
from tests.bnnlib.train.runs import ROWS, SCHEDULERS, EveryStep, PressCtrlC, Stop, StopAt, assert_same, chain, data
from tests.seeded import seeded


class Jittered(Dataset):
    """Items with a transform that draws from PyTorch's global generator, as those of torchvision do."""

    def __init__(self) -> None:
        self.x, self.y = data()

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int):
        return self.x[row] + 0.1 * torch.randn(6), self.y[row]


def loader(generator: int | None = 5, **settings) -> DataLoader:
    return DataLoader(Jittered(), 16, shuffle=True, generator=None if generator is None else seeded(5), **settings)


def in_batches() -> DataLoader:
    return DataLoader(Jittered(), batch_sampler=BatchSampler(RandomSampler(Jittered(), generator=seeded(4)), 16, False))


def trained(end, checkpoint, model=None, given=None, optimizer=None, callbacks=(), store=None, epochs=5, **settings):
    """All that a run of `fit` leaves: parameters, history, why it ended, and the draws that were kept."""
    model = model or mlp((6, 8, 3), layer=GaussianLinear, generator=seeded(1))
    given = data() if given is None else given()
    settings |= {} if isinstance(given, DataLoader) else {"batch_size": 16}
    settings["optimizer"] = optimizer or torch.optim.Adam(model.parameters(), lr=0.05)
    if checkpoint is not None and checkpoint.path.exists():
        torch.manual_seed(99)  # another process has other numbers
    callbacks = [*callbacks, *([] if store is None else [store]), end]
    run = fit(model, given, epochs=epochs, generator=seeded(3), checkpoint=checkpoint, callbacks=callbacks, **settings)
    kept = [] if store is None else [store.offers, store.stacked("0.weight")]
    return {**model.state_dict()}, run.history, (run.step, run.stopped, run.restored), kept


def layers(end, checkpoint, **options):
    model = mlp((6, 8, 3), generator=seeded(1), **options)
    ramp = {"final_sparsity": 0.5, "begin_step": 3, "end_step": 20, "frequency": 2}
    pruners = [] if options else [AGPPruner(model, **ramp)]
    return trained(end, checkpoint, model, callbacks=pruners, schedule=cosine(5))


def dropout(end, checkpoint, **settings):
    """Masks come from PyTorch's own generator, whatever the run's is."""
    first, last = (mlp(sizes, generator=seeded(1)) for sizes in ((6, 8), (8, 3)))
    return trained(end, checkpoint, nn.Sequential(first, nn.Dropout(), last), **settings)


def pruned(end, checkpoint, persistent):
    """A pruning every third step, so that the run stops between two."""
    model = mlp((6, 8, 3), generator=seeded(1))
    pruner = MagnitudePruner(model, lambda k: smooth_sparsity(k, 0.8, 0.9, 3), persistent=persistent, frequency=3)
    return trained(end, checkpoint, model, callbacks=[pruner])


def scheduled(end, checkpoint, kind):
    model = mlp((6, 8, 3), layer=GaussianLinear, generator=seeded(1))
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    settings = {"validation": runs.chance()} if kind == "plateau" else {}
    return trained(end, checkpoint, model, optimizer=sgd, schedule=SCHEDULERS[kind](sgd), **settings)


def adaptive(end, checkpoint, form):
    model = nn.Sequential(nn.Linear(6, 3))
    nn.init.zeros_(model[0].weight), nn.init.zeros_(model[0].bias)
    optimizer = AdaptiveVariational(model.parameters(), 0.01, 50, form=form, temperature=0.1, generator=seeded(2))
    return trained(end, checkpoint, model, optimizer=optimizer, store=SampleStore(max_samples=4, every=2))


# first step, mid-epoch, last of an epoch, mid-epoch of the fourth; the store of a chain was thinned by then
FOUR = (1, 6, 8, 13)
RUNS = {
    "spike and slab": (FOUR, lambda *a: layers(*a, layer=SpikeSlabLinear, prior_inclusion_probability=0.1)),
    "gaussian": (FOUR, lambda *a: layers(*a, layer=GaussianLinear)),
    "gradual pruning": (FOUR, layers),
    "lasting masks": ((4, 8), lambda *a: pruned(*a, True)),
    "passing masks": ((4, 8), lambda *a: pruned(*a, False)),
    "dropout": ((4, 6, 13), dropout),
    "dropout and a loader": ((4, 6), lambda *a: dropout(*a, given=loader, epochs=3)),
    "items": ((4, 6), lambda *a: trained(*a, given=Jittered, epochs=3)),
    "loader": ((4, 6), lambda *a: trained(*a, given=loader, epochs=3)),
    "loader by the global generator": ((4, 6), lambda *a: trained(*a, given=lambda: loader(None), epochs=3)),
    "sampler of batches": ((4, 6), lambda *a: trained(*a, given=in_batches, epochs=3)),
    "workers": ((4, 6), lambda *a: trained(*a, given=lambda: loader(num_workers=2), epochs=3)),
    "early stopping": (
        (3, 9, 15), lambda *a: trained(*a, validation=runs.chance(), callbacks=[EarlyStopping(patience=3)], epochs=200)
    ),
    **{f"schedule: {kind}": ((10,), lambda *a, kind=kind: scheduled(*a, kind)) for kind in SCHEDULERS},
    "draws": ((7,), lambda *a: adaptive(*a, "sghmc")),
    "draws around means": ((7,), lambda *a: adaptive(*a, "natural")),
    "chain": (FOUR, chain),
    "chain by the published scheme": (FOUR, lambda *a: chain(*a, "euler")),
}  # fmt: skip


# workers take a second to start
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "workers")) for n in RUNS])
def test_a_run_that_is_killed_again_and_again_ends_as_the_whole_one(name, tmp_path):
    stops, run = RUNS[name]
    torch.manual_seed(1)
    whole, checkpoint = run(StopAt(None), None), EveryStep(tmp_path / "run.pt")
    torch.manual_seed(1)
    for stop in stops:
        with pytest.raises(Stop):
            run(StopAt(stop), checkpoint)
    for _ in range(2):  # the second time it is over already
        assert_same(run(StopAt(None), checkpoint), whole)


def test_a_checkpoint_from_before_it_held_the_global_generator_goes_on(tmp_path):
    checkpoint = EveryStep(tmp_path / "run.pt")
    whole = layers(StopAt(None), None)
    with pytest.raises(Stop):
        layers(StopAt(6), checkpoint)
    checkpoint.save({name: value for name, value in checkpoint.load().items() if name != "global"})
    assert_same(layers(StopAt(None), checkpoint), whole)


@pytest.mark.parametrize("name", ["spike and slab", "chain"])
def test_ctrl_c_saves_and_the_run_goes_on(name, tmp_path):
    _, run = RUNS[name]
    whole, checkpoint = run(Callback(), None), Checkpoint(tmp_path / "run.pt")  # due after a minute: only Ctrl-C writes
    with pytest.raises(KeyboardInterrupt):
        run(PressCtrlC(), checkpoint)
    assert checkpoint.load()["step"] == 6
    assert_same(run(Callback(), checkpoint), whole)
