"""Data sets and loaders: the batches they give, n of the objective, and runs that go on where they stopped."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from bnnlib.nn import GaussianLinear, minibatch_weights
from bnnlib.sampling import SGHMC
from bnnlib.train import Callback, fit, sample
from bnnlib.train.batches import batches_of
from bnnlib.train.checkpoint import Checkpoint
from tests.bnnlib.train.runs import ROWS, PressCtrlC, Stream, assert_same, data
from tests.seeded import seeded


def shuffled() -> DataLoader:
    return DataLoader(TensorDataset(*data()), batch_size=16, shuffle=True, generator=seeded(5))


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(GaussianLinear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def test_a_loader_gives_what_a_loop_by_hand_sees():
    loader, seen = shuffled(), []
    model = nn.Linear(6, 3)
    model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].clone()))
    fit(model, loader, epochs=2, generator=seeded(0))
    loader.generator.manual_seed(5)
    by_hand = [x for _ in range(2) for x, _ in loader]
    assert len(seen) == 8 and all(torch.equal(a, b) for a, b in zip(seen, by_hand, strict=True))


def test_a_data_set_of_tensors_and_rows_that_require_a_gradient_train_as_plain_tensors():
    (x, y), whole, trained = data(), TensorDataset(*data()), []
    leaf = x.clone().requires_grad_()
    for given in ((x, y), whole, torch.utils.data.Subset(whole, range(ROWS)), (leaf, y)):
        model = network()
        fit(model, given, epochs=2, batch_size=16, generator=seeded(0))
        trained.append({**model.state_dict()})
    assert_same(trained[1:], trained[:1] * 3)
    assert leaf.grad is None


READY = [(torch.ones(16, 6), torch.zeros(16).long())] * 4  # a data set whose items are batches


class _Constant(nn.Module):
    """A loss of 0 whatever the data say: the gradient is that of the KL term alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.seen = GaussianLinear(6, 1, bias=False).double(), []

    def forward(self, x):
        return 0.0 * self.layer(x.double())


class _Seen(Callback):
    def on_step(self, run) -> None:
        run.model.seen.append(run.model.layer.weight.grad.clone())


@pytest.mark.parametrize(
    ("given", "rows", "settings"),
    [
        (lambda d: d.tensors, ROWS, {"batch_size": 16}),
        (lambda d: DataLoader(d, batch_size=16), ROWS, {}),
        (lambda d: DataLoader(d, batch_size=16, drop_last=True), ROWS, {}),  # each epoch leaves out others
        (lambda d: DataLoader(d, batch_size=16, sampler=SubsetRandomSampler(range(20))), 20, {}),
        (lambda d: DataLoader(d, batch_sampler=BatchSampler(SubsetRandomSampler(range(20)), 16, False)), 20, {}),
        (lambda d: DataLoader(d, batch_size=16, sampler=RandomSampler(d, num_samples=32)), ROWS, {}),
        *[(lambda d, own=own: DataLoader(d, 16, sampler=own(d)), rows, {}) for own, rows in (
            (lambda d: [*range(20)], 20), (lambda d: range(20), 20), (lambda d: [*range(ROWS)] * 2, ROWS),
            (lambda d: SequentialSampler(range(20)), 20), (lambda d: RandomSampler(range(20), True, 100), 20),
            (lambda d: WeightedRandomSampler([1.0] * ROWS, 20), ROWS),
            (lambda d: DistributedSampler(d, num_replicas=2, rank=0), ROWS))],
        (lambda d: DataLoader(d, batch_sampler=[[*range(16)], [16, 17, 18, 19]]), 20, {}),
        (lambda d: DataLoader(d, batch_size=16), 1000, {"num_data": 1000}),
        (lambda d: DataLoader(Stream(), batch_size=16), 70, {"num_data": 70}),
        (lambda d: DataLoader(READY, batch_size=None), 70, {"num_data": 70}),
    ],
)  # fmt: skip
def test_the_divergence_is_divided_by_the_observations(given, rows, settings):
    """Prior N(0, 1): the gradient of the KL term by a mean is the mean, divided by n."""
    model = _Constant()
    rate_zero = torch.optim.SGD(model.parameters(), lr=0.0)
    loss = lambda outputs, y: outputs.mean()  # noqa: E731
    options = {"optimizer": rate_zero, "loss": loss, "callbacks": [_Seen()], "generator": seeded(0)}
    fit(model, given(TensorDataset(*data())), epochs=1, **options, **settings)
    assert model.seen
    for gradient in model.seen:
        torch.testing.assert_close(gradient, model.layer.weight.detach() / rows, rtol=1e-12, atol=0)


class _Own(Sampler):
    """Rows, or batches of them, that may be others in the next epoch."""

    def __init__(self, *chosen) -> None:
        self.chosen = chosen

    def __iter__(self):
        return iter(self.chosen)


class _Sized(_Own):
    def __len__(self) -> int:
        return len(self.chosen)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sampler": _Sized(*range(20)), "batch_size": 16}, "_Sized chooses 20 rows an epoch of the 50.* num_data"),
        ({"sampler": _Own(*range(20)), "batch_size": 16}, "_Own chooses rows that cannot be counted of the 50"),
        ({"batch_sampler": _Sized([0, 1], [2])}, "_Sized chooses rows that cannot be counted of the 50"),
        ({"sampler": _Sized(*range(ROWS)), "batch_size": 16}, None),
    ],
)
def test_a_sampler_of_one_s_own_has_the_rows_of_the_data_set(settings, words, recwarn):
    loader = DataLoader(TensorDataset(*data()), **settings)
    given = {"epochs": 1, "max_steps": 1}
    fit(nn.Linear(6, 3), loader, num_data=20, **given)
    assert not recwarn
    with pytest.warns(UserWarning, match=words) if words else nullcontext():
        fit(nn.Linear(6, 3), loader, **given)
    assert words or not recwarn
    assert batches_of(loader, None, torch.device("cpu"), None, seeded(0)).rows == ROWS


@pytest.mark.parametrize("loader", [False, True])
def test_halving_weighs_the_batches_by_their_rows(loader):
    """10 rows in batches of 4, 4 and 2: times rows / n, the gradients of an epoch sum to that of KL / n."""
    model, (x, y) = _Constant(), data()
    options = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.0), "callbacks": [_Seen()]}
    given = DataLoader(TensorDataset(x[:10], y[:10]), batch_size=4) if loader else (x[:10], y[:10])
    options |= {} if loader else {"batch_size": 4}
    fit(model, given, epochs=1, loss=lambda o, y: o.mean(), minibatch_scheme="halving", **options)
    shares = torch.stack([(g / model.layer.weight.detach()).mean() for g in model.seen])
    rows = torch.tensor([4.0, 4.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(shares * rows, minibatch_weights(3, "halving"), rtol=1e-12, atol=0)


def test_a_stream_goes_on_from_the_end_of_an_epoch(tmp_path):
    def go(callback, checkpoint=None):
        model = network()
        options = {"generator": seeded(3), "num_data": ROWS, "callbacks": [callback], "checkpoint": checkpoint}
        return model, fit(model, DataLoader(Stream(), batch_size=16), epochs=3, **options)

    whole, run = go(Callback())
    assert run.step == 12 and len(run.history) == 3
    checkpoint = Checkpoint(tmp_path / "run.pt")  # due after a minute: written at the ends of epochs all the same
    with pytest.raises(KeyboardInterrupt):
        go(PressCtrlC(), checkpoint)  # in the second epoch
    assert checkpoint.load()["step"] == 4
    resumed, _ = go(Callback(), checkpoint)
    assert_same({**resumed.state_dict()}, {**whole.state_dict()})


@pytest.mark.parametrize("steps", [2, 4, 6])
def test_workers_that_stay_see_the_same_order_in_a_run_that_goes_on(steps, tmp_path):
    def go(checkpoint=None, **bounds):
        options = {"batch_size": 16, "shuffle": True, "num_workers": 1, "persistent_workers": True}
        loader, model = DataLoader(TensorDataset(*data()), generator=seeded(5), **options), network()
        fit(model, loader, generator=seeded(3), checkpoint=checkpoint, **bounds)
        return {**model.state_dict()}

    go(tmp_path / "run.pt", max_steps=steps)
    assert_same(go(tmp_path / "run.pt", epochs=2), go(epochs=2))


def test_an_iterable_data_set_needs_no_loader_but_a_number_of_rows():
    assert fit(network(), Stream(), epochs=2, batch_size=16, num_data=ROWS).step == 8


def test_a_chain_takes_a_loader_too():
    x, _ = data()
    trained = []
    for given, size in (((x, x[:, :1]), {"batch_size": ROWS}), (DataLoader(TensorDataset(x, x[:, :1]), ROWS), {})):
        model = nn.Linear(6, 1)
        nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
        sampler = SGHMC(model.parameters(), lr=1e-4, temperature=0.0, generator=seeded(0))
        sample(model, given, sampler=sampler, epochs=3, loss=F.mse_loss, generator=seeded(1), **size)
        trained.append(model.weight.detach())
    torch.testing.assert_close(*trained, rtol=1e-5, atol=1e-7)  # all rows in another order, in float32
