"""The training loop: what it minimizes, that it resumes bit for bit, and that nothing is lost when it stops."""

import math
import pickle
import signal
import sys
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib import nn as bnn
from bnnlib._noise import new_seed
from bnnlib.models import mlp
from bnnlib.posteriors import unit_noise
from bnnlib.sampling import SGLD
from bnnlib.train import Callback, DivergedError, cosine, fit
from bnnlib.train.checkpoint import Checkpoint
from tests.bnnlib.train.runs import ROWS, PressCtrlC, assert_same, data
from tests.seeded import seeded


def network(kind: str) -> nn.Module:
    generator = seeded(1)
    if kind == "deterministic":
        return mlp((6, 8, 3), generator=generator)
    options = {"prior_inclusion_probability": 0.1} if kind == "spike" else {}
    layer = bnn.SpikeSlabLinear if kind == "spike" else bnn.GaussianLinear
    return mlp((6, 8, 3), layer=layer, generator=generator, **options)


def test_ctrl_c_leaves_the_mean_weights_the_mode_and_the_handler(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.pt")  # due after a minute: only Ctrl-C writes it here
    handler, model = signal.getsignal(signal.SIGINT), network("spike").eval()
    with pytest.raises(KeyboardInterrupt):
        fit(model, data(), epochs=5, batch_size=16, checkpoint=checkpoint, callbacks=[PressCtrlC()])
    assert signal.getsignal(signal.SIGINT) is handler and not model.training
    state = checkpoint.load()
    assert state["step"] == 6 and state["epoch"] == 1  # in the middle of the second epoch
    assert_same({**model.state_dict()}, {**state["model"]})  # the parameters are those of the checkpoint: no draw


def test_each_module_has_its_own_mode_again():
    model, modes = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)), []
    model[1].eval()
    model.register_forward_pre_hook(lambda module, _: modes.append([part.training for part in module]))
    fit(model, data(), epochs=1, batch_size=16)
    assert modes[0] == [True] * 4 and model.training
    assert [part.training for part in model] == [True, False, True, True]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_loss_that_is_not_finite_names_the_place_and_keeps_the_weights(bad, tmp_path):
    x, y = data()
    x[-1] = bad
    model = network("gaussian")
    checkpoint = Checkpoint(tmp_path / "run.pt")
    words = r"loss is (nan|inf) in epoch 0, step \d, at learning rate 0.01.*Lower the"
    with pytest.raises(DivergedError, match=words) as caught:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        generator = seeded(0)
        fit(model, (x, y), epochs=2, batch_size=16, optimizer=optimizer, generator=generator, checkpoint=checkpoint)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    assert checkpoint.load() is None
    error = pickle.loads(pickle.dumps(caught.value))  # as it comes from a worker process
    assert f"loss is {error.value} in {error.where}, " in str(error) and not math.isfinite(error.value)


def test_the_objective_is_mean_loss_plus_kl_over_n():
    """One step of plain gradient descent on the whole data set, against autograd through the written-out objective."""
    x, y = data()
    ours, reference = network("gaussian").double(), network("gaussian").double()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    batches = seeded(5)
    settings = {"batch_size": ROWS, "optimizer": optimizer, "kl_scale": 0.3, "generator": batches}
    fit(ours, (x.double(), y), epochs=1, keyed=False, **settings)
    noise = seeded(5)
    order = torch.randperm(ROWS, generator=noise)  # the loop draws the order first, then the layers their noise
    hidden = torch.relu(reference[0](x.double()[order], noise))
    loss = F.cross_entropy(reference[2](hidden, noise), y[order]) + 0.3 * bnn.kl_divergence(reference) / ROWS
    loss.backward()
    # both are the same double-precision sums in another order
    torch.testing.assert_close([*ours.parameters()], [b - 0.1 * b.grad for b in reference.parameters()], rtol=1e-10,
                               atol=1e-12)  # fmt: skip


def test_every_row_is_used_once_an_epoch():
    seen = []

    class Spy(nn.Linear):
        def forward(self, x):
            seen.append(x[:, 0].clone())
            return super().forward(x)

    x = torch.arange(ROWS, dtype=torch.float32)[:, None]
    fit(Spy(1, 1), (x, x), epochs=2, batch_size=16.0, loss=F.mse_loss, generator=seeded(0),
        optimizer=None)  # fmt: skip
    assert [len(batch) for batch in seen] == [16, 16, 16, 2] * 2
    first, second = torch.cat(seen[:4]), torch.cat(seen[4:])
    assert torch.equal(first.sort().values, x[:, 0]) and torch.equal(second.sort().values, x[:, 0])
    assert not torch.equal(first, second)


def test_it_learns_and_records():
    model = network("spike")
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    settings = {"epochs": 40, "batch_size": 16, "kl_scale": lambda epoch: min(1.0, epoch / 4) * 0.1}
    run = fit(model, data(), optimizer=adam, generator=seeded(), **settings)
    assert [row["kl_scale"] for row in run.history[:6]] == pytest.approx([0.0, 0.025, 0.05, 0.075, 0.1, 0.1])
    # separable data: 1.1 nats at the start (three classes), far below it once learned
    assert run.history[-1]["nll"] < 0.5 < run.history[0]["nll"]
    assert run.history[-1]["kl"] == pytest.approx(float(bnn.kl_divergence(model).detach()))


def test_cosine_runs_from_one_to_the_floor():
    assert [cosine(10, floor=0.2)(epoch) for epoch in (0, 5, 10)] == pytest.approx([1.0, 0.6, 0.2])
    many = [cosine(300)(epoch) for epoch in range(301)]
    assert all(later < earlier for earlier, later in pairwise(many)) and many[-1] == pytest.approx(0.0, abs=1e-6)


def test_the_rates_are_the_users_without_a_schedule_and_again_after_one(tmp_path):
    class Halve(Callback):
        def on_epoch(self, run):
            run.optimizer.param_groups[0]["lr"] /= 2

    model, path = network("deterministic"), tmp_path / "run.pt"
    sgd = torch.optim.SGD(model.parameters(), lr=np.float64(0.1))
    settings = {"batch_size": 16, "optimizer": sgd}
    run = fit(model, data(), epochs=3, callbacks=[Halve()], **settings)
    assert [row["learning_rate"] for row in run.history] == pytest.approx([0.1, 0.05, 0.025])
    rates, rate = [], sgd.param_groups[0]["lr"]
    sgd.register_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    with pytest.raises(KeyboardInterrupt):
        fit(
            model, data(), epochs=3, schedule=lambda e: np.cos(e), callbacks=[PressCtrlC()], checkpoint=path, **settings
        )
    assert sgd.param_groups[0]["lr"] == rate != rates[-1]
    fit(model, data(), epochs=3, callbacks=[Callback()], checkpoint=path, **settings)  # goes on without the schedule
    assert rates[3:7] == pytest.approx([rate] + [rate * math.cos(1)] * 2 + [rate]) and set(rates[6:]) == {rate}


@pytest.mark.parametrize("there", [True, False])
def test_progress_goes_to_stderr_and_the_loop_works_without_tqdm(capsys, monkeypatch, there):
    if there:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    fit(network("gaussian"), data(), epochs=2, batch_size=16, progress=True)
    captured = capsys.readouterr()
    assert captured.out == "" and ("2/2" in captured.err) == there


class Summed(nn.CrossEntropyLoss):
    """A mean, whatever its part of PyTorch is."""

    def forward(self, outputs, y):
        return super().forward(outputs, y) / len(y)


def test_a_sum_that_the_loss_divides_and_a_sampler_without_noise_train():
    model = network("deterministic")
    cold = SGLD(model.parameters(), 1e-3, temperature=0.0)
    run = fit(model, data(), epochs=1, batch_size=16, optimizer=cold, loss=Summed(reduction="sum"))
    assert run.step == 4


def test_an_optimizer_may_be_of_some_layers_alone():
    model = network("deterministic")
    first = model[0].weight.detach().clone()
    fit(model, data(), epochs=1, batch_size=16, optimizer=torch.optim.Adam(model[2].parameters()))
    assert torch.equal(model[0].weight, first)


def test_a_path_stands_for_a_checkpoint(tmp_path):
    for path in (tmp_path / "a.pt", str(tmp_path / "b.pt")):
        assert fit(network("gaussian"), data(), epochs=1, batch_size=16, checkpoint=path).epoch == 1
        assert fit(network("gaussian"), data(), epochs=3, batch_size=16, checkpoint=path).step == 3 * 4


def test_augmentation_sees_every_batch_with_the_generator_of_the_run():
    seen = []

    def augment(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        seen.append((len(x), generator))
        return x

    generator = seeded(0)
    fit(network("deterministic"), data(), epochs=1, batch_size=20, augment=augment, generator=generator)
    assert [rows for rows, _ in seen] == [20, 20, 10] and all(one is generator for _, one in seen)


def test_autocast_runs_the_network_in_the_lower_precision_and_the_loss_in_the_parameters():
    dtypes = []

    def loss(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        dtypes.append(output.dtype)
        return F.cross_entropy(output, y)

    model = network("gaussian")
    inner = []
    model[0].register_forward_hook(lambda module, inputs, output: inner.append(output.dtype))
    fit(model, data(), epochs=1, batch_size=25, loss=loss, autocast=torch.bfloat16)
    assert set(inner) == {torch.bfloat16} and set(dtypes) == {torch.float32}
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


def test_channels_last_changes_the_memory_and_not_the_network():
    """Sums in another order: float32, 9 products each."""
    x = torch.randn(12, 3, 6, 6, generator=seeded(0))
    y = torch.arange(12) % 4

    def trained(channels_last: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        generator = seeded(1)
        fit(model, (x, y), epochs=2, batch_size=5, generator=generator, channels_last=channels_last)
        assert model[0].weight.is_contiguous(memory_format=torch.channels_last) or not channels_last
        return [parameter.detach() for parameter in model.parameters()]

    torch.testing.assert_close(trained(False), trained(True), rtol=1e-5, atol=1e-6)


class Together(bnn.GaussianLinear):
    """A layer whose class wants to know of every forward pass of training."""

    entered: list[str]

    @staticmethod
    @contextmanager
    def training_pass(model: nn.Module):
        model[0].entered.append("in")
        yield
        model[0].entered.append("out")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.entered.append("pass")
        return super().forward(x)


def test_a_forward_pass_runs_once_in_the_context_of_each_kind_of_layer():
    model = nn.Sequential(Together(6, 4), Together(4, 3))
    model[0].entered = model[1].entered = entered = []
    fit(model, data(), epochs=1, batch_size=25)
    assert entered == ["in", "pass", "pass", "out"] * 2


def test_noise_on_units_is_drawn_for_all_layers_at_once(monkeypatch):
    noise = [bnn.StructuredBayesianPruning(units) for units in (8, 3)]
    model = nn.Sequential(nn.Linear(6, 8), noise[0], nn.Linear(8, 3), noise[1])
    drawn, draw = [], unit_noise.draw
    watched = lambda *layers: drawn.append(len(layers[0])) or draw(*layers)  # noqa: E731
    monkeypatch.setattr(unit_noise, "draw", watched)
    fit(model, data(), epochs=1, batch_size=25)
    assert drawn == [2, 2]  # layers a draw, one draw a step


@pytest.mark.parametrize("keyed", [True, False])
def test_a_step_is_noise_of_its_own_and_callbacks_draw_anew(keyed):
    outputs, between = [], []

    class Look(Callback):
        def on_step(self, run):
            between.append([run.model(data()[0]).detach() for _ in range(2)])

    model = network("gaussian")
    model.register_forward_hook(lambda module, inputs, output: outputs.append(output.detach()))
    sgd = torch.optim.SGD(model.parameters(), lr=0.0)  # the outputs differ by their noise alone
    settings = {"epochs": 3, "batch_size": ROWS, "optimizer": sgd, "callbacks": [Look()], "keyed": keyed}
    fit(model, data(), shuffle_generator=seeded(0), **settings)
    steps = [one.sum() for one in outputs[::3]]  # each followed by two of the callback
    assert len(set(map(float, steps))) == 3 and not any(torch.equal(*pair) for pair in between)


def test_noise_by_key_is_that_of_redraw():
    """One step on all rows in their order of the loop, beside the pass by hand."""
    (x, y), seen, model = data(), [], network("gaussian")
    handle = model.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0].clone(), output.detach())))
    sgd = torch.optim.SGD(model.parameters(), lr=0.0)
    fit(model, (x, y), epochs=2, batch_size=ROWS, optimizer=sgd, generator=seeded(3))
    handle.remove()
    seed = new_seed(seeded(3))
    for step, (rows, output) in enumerate(seen):
        with bnn.redraw(model, seed, step):
            assert torch.equal(model(rows).detach(), output)


def test_the_default_optimizer_is_adam_and_fused_where_no_stored_number_depends_on_it():
    x = torch.randn(6, 3, generator=seeded(1))
    for keyed in (True, False):
        model = torch.nn.Sequential(bnn.GaussianLinear(3, 1))
        run = fit(model, (x, x[:, :1]), epochs=1, batch_size=3, keyed=keyed, loss=torch.nn.functional.mse_loss)
        assert type(run.optimizer) is torch.optim.Adam and run.optimizer.defaults["lr"] == 1e-3
        assert bool(run.optimizer.defaults["fused"]) == keyed
