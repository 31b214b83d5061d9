"""Validation, schedulers, and what ends a run: budgets, callbacks, early stopping."""

import math
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bnnlib._noise import fold, new_seed
from bnnlib.nn import GaussianLinear, StructuredBayesianPruning, mean_weights, predict
from bnnlib.sampling import SGLD
from bnnlib.train import Callback, EarlyStopping, fit, sample
from bnnlib.train import loop as loops
from bnnlib.train.checkpoint import Checkpoint
from tests.bnnlib.train.runs import ROWS, SCHEDULERS, assert_same, chance, data
from tests.seeded import seeded


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(GaussianLinear(6, 8, initial_scale=0.5), nn.ReLU(), GaussianLinear(8, 3, initial_scale=0.5))


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {**model.state_dict()}


def train(epochs=5, model=None, rate=0.05, callbacks=(), **settings):
    model = model or network()
    settings = {"batch_size": 16, "generator": seeded(3)} | settings
    if "optimizer" not in settings:
        settings["optimizer"] = torch.optim.Adam(model.parameters(), lr=rate)
    return model, fit(model, data(), epochs=epochs, callbacks=callbacks, **settings)


def of_labels(outputs, y):
    return -outputs.softmax(-1).mean(0)[range(ROWS), y].log().mean()


@pytest.mark.parametrize(
    ("loss", "y", "average"),
    [
        *[(loss, data(7)[1], of_labels) for loss in (F.cross_entropy, nn.CrossEntropyLoss())],
        (F.mse_loss, data(7)[0][:, :3], lambda o, y: (o.mean(0) - y).square().mean()),
        (F.binary_cross_entropy_with_logits, (data(7)[0][:, :3] > 0).float(),
         lambda o, y: F.binary_cross_entropy(o.sigmoid().mean(0), y)),
    ],
)  # fmt: skip
def test_the_validation_loss_is_that_of_the_averaged_predictive(loss, y, average):
    """Beside `predict` with the same draws, which come from the seed of the run's noise."""
    model, (x, _) = network(), data(7)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    settings = {"epochs": 1, "batch_size": 16, "optimizer": adam, "loss": loss, "validation_draws": 6}
    run = fit(model, (x, y), validation=(x, y), generator=seeded(0), **settings)
    draws = seeded(fold(new_seed(seeded(0)), 2**62))
    outputs = predict(model, x, 6, generator=draws)
    # float32, in batches
    assert run.history[-1]["validation_nll"] == pytest.approx(float(average(outputs, y)), rel=1e-5)
    assert abs(float(average(outputs, y) - average(outputs[:1], y))) > 1e-3  # one draw is something else


@pytest.mark.slow
def test_the_validation_leaves_the_training_alone_and_repeats_its_draws():
    plain, _ = train()
    held_out = DataLoader(TensorDataset(*data(7)), batch_size=20, shuffle=True)  # takes from the global generator
    for given in (data(7), held_out, TensorDataset(*data(7))):
        model, run = train(validation=given)
        assert_same(state(model), state(plain))
        assert len({row["validation_nll"] for row in run.history}) == 5
    torch.manual_seed(0)
    plain, _ = train(generator=None)
    torch.manual_seed(0)
    model, _ = train(generator=None, validation=held_out)
    assert_same(state(model), state(plain))
    _, run = train(rate=0.0, validation=data(7))  # the same weights, and so the same loss
    assert len({row["validation_nll"] for row in run.history}) == 1


def test_a_deterministic_network_is_evaluated_once_and_by_rows():
    model, passes = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), []
    model.register_forward_pre_hook(lambda module, inputs: passes.append((module.training, len(inputs[0]))))
    _, run = train(1, model, validation=data(7))
    assert passes[4:] == [(False, 16), (False, 16), (False, 16), (False, 2)] and model.training
    x, y = data(7)
    assert run.history[0]["validation_nll"] == pytest.approx(F.cross_entropy(model.eval()(x), y).item(), rel=1e-5)


def test_unit_noise_is_drawn_for_the_validation():
    noisy = StructuredBayesianPruning(8, initial_scale=1.0)
    model = nn.Sequential(nn.Linear(6, 8), noisy, nn.ReLU(), nn.Linear(8, 3))
    _, run = train(1, model, validation=data(7))
    with mean_weights(model):
        fixed = F.cross_entropy(model.eval()(data(7)[0]), data(7)[1])
    assert run.history[0]["validation_nll"] != pytest.approx(float(fixed), rel=1e-4)


WEIGHTS = torch.tensor([1.0, 9.0, 3.0])


@pytest.mark.parametrize("as_loader", [False, True])
@pytest.mark.parametrize(
    ("loss", "softmax"),
    [
        (F.cross_entropy, False),
        (nn.CrossEntropyLoss(WEIGHTS, ignore_index=1, label_smoothing=0.1), False),
        (partial(F.cross_entropy, weight=WEIGHTS), False),
        (torch.compile(type("Own", (nn.CrossEntropyLoss,), {})(), backend="eager"), False),
        *[(nn.NLLLoss(WEIGHTS, ignore_index=ignored), True) for ignored in (-100, 1)],
    ],
)
def test_the_validation_loss_is_that_of_all_labels_that_count(loss, softmax, as_loader):
    """In batches with few such labels, with none, and of one class; beside the loss of all rows at once."""
    x, y = data(7)
    y = y.sort().values
    if getattr(loss, "ignore_index", -100) == -100:
        y[:20] = -100
    elif softmax:
        y = y.byte()
    model = nn.Sequential(nn.Linear(6, 3), *[nn.LogSoftmax(-1)] * softmax)
    held_out = DataLoader(TensorDataset(x, y), batch_size=8) if as_loader else (x, y)
    _, run = train(1, model, loss=loss, validation=held_out)
    assert run.history[0]["validation_nll"] == pytest.approx(loss(model(x), y).item(), rel=1e-5)


class Pair(nn.Module):
    """A head that returns more than a tensor."""

    def __init__(self, layer=nn.Linear):
        super().__init__()
        self.layer = layer(6, 3)

    def forward(self, x):
        return {"logits": self.layer(x), "more": (x, None), "rows": torch.arange(len(x))}


def test_a_model_may_return_what_its_loss_takes():
    model, loss = Pair(), lambda o, y: F.cross_entropy(o["logits"][o["rows"]], y)
    x, y = data(7)
    _, run = train(1, model, loss=loss, validation=(x, y), autocast=torch.bfloat16)
    assert run.history[0]["validation_nll"] == pytest.approx(float(loss(model(x), y).detach()), rel=0.01)  # bfloat16
    model = Pair(GaussianLinear)
    before = state(deepcopy(model))
    with pytest.raises(TypeError, match=r"returned dict, .* 8 draws, .* Give validation_draws=1"):
        train(1, model, loss=loss, validation=(x, y))
    assert_same(state(model), before)  # told before the first step
    model.register_forward_hook(lambda model, x, output: output if model.training else output["logits"])
    own = lambda o, y: F.cross_entropy(o["logits"] if isinstance(o, dict) else o, y)  # noqa: E731
    assert train(1, model, loss=own, validation=(x, y))[1].epoch == 1
    chain = nn.Sequential(Pair())
    sample(chain, (x, y), sampler=SGLD(chain.parameters(), 1e-4), epochs=1, batch_size=16, loss=loss)


def test_early_stopping_gives_the_best_weights_back():
    states = []

    class Copies(Callback):
        def on_epoch(self, run):
            states.append({name: value.clone() for name, value in run.model.state_dict().items()})

    model, run = train(200, validation=chance(), callbacks=[EarlyStopping(patience=3), Copies()])
    losses = [row["validation_nll"] for row in run.history]
    best = losses.index(min(losses))
    assert run.epoch == len(losses) == best + 1 + 3 < 200 and run.restored == best + 1
    assert f"below {min(losses):g}, that of epoch {best + 1}, for 3 epochs" in run.stopped
    assert all(torch.equal(value, states[best][name]) for name, value in model.state_dict().items())


def test_the_best_weights_come_back_without_a_stop_too_and_the_run_goes_on_from_the_last(tmp_path):
    settings = {"validation": chance(), "rate": 0.2}
    stopping = lambda: [EarlyStopping(patience=100)]  # noqa: E731
    whole, whole_run = train(12, callbacks=stopping(), **settings)
    checkpoint = Checkpoint(tmp_path / "run.pt")
    _, run = train(8, callbacks=stopping(), checkpoint=checkpoint, **settings)
    assert run.stopped is None and run.restored < 8
    again, run = train(12, callbacks=stopping(), checkpoint=checkpoint, **settings)
    assert run.history == whole_run.history and run.restored == whole_run.restored
    assert_same(state(again), state(whole))


def test_epochs_before_the_start_do_not_count():
    _, plain = train(12, validation=chance(), callbacks=[EarlyStopping(patience=3)])
    start = plain.restored + 3  # worse than the best from there on
    _, run = train(30, validation=chance(), callbacks=[EarlyStopping(patience=3, start_epoch=start)])
    late = [row["validation_nll"] for row in run.history][start - 1 :]
    assert run.restored == start + late.index(min(late)) and run.epoch == run.restored + 3


def test_early_stopping_starts_anew_with_each_run():
    used = EarlyStopping(patience=3)
    train(200, validation=data(), callbacks=[used])  # which leaves a far lower loss
    for bounds in ({}, {"max_steps": 2}):  # the second ends within its first epoch
        whole, whole_run = train(200, validation=chance(), callbacks=[EarlyStopping(patience=3)], **bounds)
        model, run = train(200, validation=chance(), callbacks=[used], **bounds)
        assert run.history == whole_run.history and run.restored == whole_run.restored
        assert_same(state(model), state(whole))


class StopAfter(Callback):
    def __init__(self, step: int | None = None, epoch: int | None = None) -> None:
        self.step, self.epoch = step, epoch

    def on_step(self, run):
        if run.step == self.step:
            run.stop("enough steps")

    def on_epoch(self, run):
        if run.epoch == self.epoch:
            run.stop("enough epochs")


@pytest.mark.parametrize(("step", "epochs"), [(6, 1), (8, 2)])  # within an epoch, and at its end
def test_a_callback_stops_a_run_and_a_resumed_one_stays_stopped(step, epochs, tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.pt")
    for _ in range(2):
        _, run = train(callbacks=[StopAfter(step)], checkpoint=checkpoint)
        assert (run.step, run.epoch, len(run.history), run.stopped) == (step, epochs, epochs, "enough steps")
    assert train(callbacks=[StopAfter(epoch=2)])[1].step == 8


@pytest.mark.parametrize("steps", [6, 8])
def test_a_budget_of_steps_is_one_in_total_and_a_larger_one_goes_on(steps, tmp_path):
    whole, whole_run = train()
    checkpoint = Checkpoint(tmp_path / "run.pt")
    for _ in range(2):
        _, run = train(max_steps=steps, checkpoint=checkpoint)
        assert run.step == steps and run.stopped == f"max_steps={steps} are done"
    resumed, run = train(max_steps=100, checkpoint=checkpoint)
    assert run.stopped is None and run.history == whole_run.history
    assert_same(state(resumed), state(whole))


def test_a_budget_of_seconds_is_one_in_total_too(monkeypatch, tmp_path):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(loops, "time", clock)

    class Tick(Callback):
        def on_step(self, run):
            clock.now += 10.0

    checkpoint = Checkpoint(tmp_path / "run.pt")
    _, run = train(callbacks=[Tick()], max_seconds=45.0, checkpoint=checkpoint)
    assert run.step == 5 and run.seconds == 50.0 and run.stopped == "max_seconds=45 are over, after 5 steps"
    clock.now = 1000.0  # the time between is not the run's
    assert train(callbacks=[Tick()], max_seconds=45.0, checkpoint=checkpoint)[1].step == 5
    assert train(callbacks=[Tick()], max_seconds=75.0, checkpoint=checkpoint)[1].step == 8


def test_a_run_may_have_a_budget_and_no_epochs():
    assert train(None, max_steps=10)[1].step == 10


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_a_scheduler_sets_the_rate(kind):
    model = network()
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    held_out = {"validation": data(7)} if kind == "plateau" else {}
    _, run = train(model=model, optimizer=sgd, schedule=SCHEDULERS[kind](sgd), **held_out)
    rates = [row["learning_rate"] for row in run.history]
    if kind != "plateau":
        parameter = nn.Parameter(torch.zeros(1))
        sgd = torch.optim.SGD([parameter], lr=0.05, momentum=0.9)
        by_hand, expected = SCHEDULERS[kind](sgd), []
        for _ in range(5):
            expected.append(sgd.param_groups[0]["lr"])
            for _ in range(4 if kind == "one cycle" else 1):
                sgd.step(), by_hand.step()
        assert rates == pytest.approx(expected, rel=1e-12)
    assert len(set(rates)) > 1


def test_the_optimizer_of_a_scheduler_is_taken_where_none_is_given():
    model = network()
    sgd = torch.optim.SGD(model.parameters(), lr=0.05)
    run = fit(model, data(), epochs=1, batch_size=16, schedule=SCHEDULERS["step"](sgd))
    assert run.optimizer is sgd and math.isclose(run.history[0]["learning_rate"], 0.05)


@pytest.mark.parametrize("settings", [{"shuffle_generator": 5, "keyed": False}, {}])
def test_two_models_see_the_same_batches_whatever_noise_they_draw(settings, tmp_path):
    def seen(model, epochs=3, **more):
        rows = []
        model.register_forward_pre_hook(lambda module, inputs: rows.append(inputs[0].clone()))
        given = {name: seeded(value) if name == "shuffle_generator" else value for name, value in settings.items()}
        train(epochs, model, **given, **more)
        return torch.cat(rows)

    deterministic, bayesian = seen(nn.Linear(6, 3)), seen(network())
    assert torch.equal(deterministic, bayesian) and not torch.equal(bayesian[:ROWS], bayesian[ROWS : 2 * ROWS])
    path = tmp_path / "run.pt"  # a resumed run as well
    parts = [seen(network(), epochs, checkpoint=path) for epochs in (1, 3)]
    assert torch.equal(torch.cat(parts), bayesian)


def test_runs_after_each_other_have_noise_of_their_own():
    """The seed of the noise moves the generator on where the order does not."""
    generator, outputs = seeded(0), []
    for _ in range(2):
        model = network()
        model.register_forward_hook(lambda module, inputs, output: outputs.append(output.detach()))
        settings = {"shuffle_generator": seeded(1), "generator": generator}
        fit(model, data(), epochs=1, batch_size=ROWS, **settings)
    assert not torch.equal(*outputs)
