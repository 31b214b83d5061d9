"""The loop that samples: what a step is, that it resumes bit for bit, and what it keeps."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import mlp
from bnnlib.nn import StochasticBatchNorm1d
from bnnlib.sampling import SGHMC, SGLD, DivergedError, SampleStore, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.train import Callback, sample
from tests.bnnlib.train.runs import ROWS, chain, data
from tests.seeded import seeded


def network() -> nn.Module:
    return mlp((6, 8, 3), generator=seeded(1))


def test_a_step_is_gradient_then_prior_then_callbacks():
    """Two full-batch steps against the same written out, in the order of Algorithm 1."""

    class Prune(Callback):
        def on_step(self, run) -> None:
            with torch.no_grad():
                weight = run.model[0].weight
                weight[weight.abs() < 0.1] = 0.0

    x, y = data()
    x, models, priors = x.double(), [network().double() for _ in range(2)], []
    samplers = [SGHMC(m.parameters(), 1e-3, generator=seeded(2)) for m in models]
    for model in models:
        settings = {"spike_scale": 0.1, "slab_variance": 1.0, "step_size": 0.5, "weight_decay": 2.0}
        priors.append(SpikeSlabGaussianLaplacePrior(model, sparse=["0.weight"], **settings))
    order = seeded(3)
    sample(models[0], (x, y), sampler=samplers[0], prior=priors[0], epochs=2, batch_size=ROWS, num_data=80,
           callbacks=[Prune()], generator=order)  # fmt: skip
    for _ in range(2):
        samplers[1].zero_grad()
        (80 * F.cross_entropy(models[1](x), y) + priors[1].energy()).backward()
        samplers[1].step()
        priors[1].update()
        models[1][0].weight.data[models[1][0].weight.abs() < 0.1] = 0.0
    ends = [[*m.parameters(), p.rho["0.weight"], p.sigma] for m, p in zip(models, priors, strict=True)]
    torch.testing.assert_close(*ends, rtol=1e-9, atol=1e-12)  # the same double-precision sums in another order


class Spy(SpikeSlabGaussianLaplacePrior):
    """Keeps what it is told of the residuals."""

    def update(self, squared_error=None):
        vars(self).setdefault("seen", []).append(squared_error)
        super().update(squared_error)


def regression(norm=nn.BatchNorm1d, **settings) -> tuple[nn.Module, Spy, dict]:
    """A network with batch norm, its prior, and the arguments of one step of a chain on all rows."""
    x = data()[0]
    generator = seeded(1)
    model = nn.Sequential(norm(6), *mlp((6, 8, 1), generator=generator))
    prior = Spy(model, sparse=["1.weight"], spike_scale=0.5, slab_variance=1.0, step_size=0.1, **settings)
    sampler = SGLD(model.parameters(), 1e-4, generator=seeded(2))
    options = {"sampler": sampler, "epochs": 1, "batch_size": ROWS, "loss": F.mse_loss}
    return model, prior, options | {"data": (x, x[:, :1] * 2.0), "generator": seeded(3)}


class Counting(nn.BatchNorm1d):
    """With a state that is no buffer, and which it gives out itself."""

    def get_extra_state(self):
        return self.__dict__.setdefault("counted", {"passes": 0})

    def set_extra_state(self, state):
        self.counted = state

    def forward(self, x):
        self.get_extra_state()["passes"] += 1
        return super().forward(x)


class Described(nn.BatchNorm1d):
    """With a state that is for others to read alone."""

    def get_extra_state(self):
        return "version 1"


@pytest.mark.parametrize("norm", [Counting, Described])
def test_the_pass_for_the_residuals_leaves_other_states_alone(norm):
    model, prior, options = regression(norm, likelihood="regression", num_data=ROWS)
    sample(model, prior=prior, **options)
    assert prior.seen and model[0].get_extra_state() in ("version 1", {"passes": 1})


def test_regression_gives_the_prior_the_residuals_at_the_weights_just_sampled():
    """Algorithm 1 moves sigma towards its optimum for the new weights, as rho, kappa and delta."""
    model, prior, options = regression(likelihood="regression", num_data=ROWS)
    x, y = options["data"]
    with torch.no_grad():
        before = F.mse_loss(model(x), y, reduction="sum")
        after_one_pass = [buffer.clone() for buffer in model.buffers()]
        model[0].reset_running_stats()
    sample(model, prior=prior, **options)
    # the second forward pass is not one of training
    torch.testing.assert_close([*model.buffers()], after_one_pass, rtol=1e-5, atol=1e-7)  # sums in another order
    with torch.no_grad():
        after = F.mse_loss(model.train()(x), y, reduction="sum")
    assert [float(value) for value in prior.seen] == pytest.approx([float(after)], rel=1e-5)  # likewise
    assert abs(after - before) > 1e-3 * before  # the step is large enough to tell


def test_targets_without_a_column_have_the_residuals_of_those_with_one():
    seen, regress = [], {"likelihood": "regression", "num_data": ROWS}
    for shape in ((ROWS, 1), (ROWS,)):
        model, prior, options = regression(StochasticBatchNorm1d, **regress)
        x, y = options["data"]
        options |= {"data": (x, y.reshape(shape)), "loss": lambda o, y: F.mse_loss(o.squeeze(1), y.flatten())}
        sample(model, prior=prior, **options)
        assert model[0].moment_count == 1  # the second forward pass is not one of training
        seen.append(prior.seen)
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "settings", [{}, {"likelihood": "regression", "num_data": ROWS, "update": ("rho", "kappa", "inclusion")}]
)
def test_nothing_is_computed_twice_where_no_residuals_are_needed(settings):
    model, prior, options = regression(**settings)
    passes = []
    model.register_forward_hook(lambda *_: passes.append(1))
    sample(model, prior=prior, **options)
    assert len(passes) == 1 and prior.seen == [None]


def test_the_history_has_step_size_and_temperature():
    _, history, *_ = chain(Callback(), None)
    assert [set(row) for row in history] == [{"epoch", "nll", "learning_rate", "temperature"}] * 5
    assert history[-1]["learning_rate"] == pytest.approx(polynomial(1e-3, 10, 0.5)(20))
    assert history[-1]["temperature"] == pytest.approx(1.01**-20)


@pytest.mark.parametrize("lr", [1e6, 1e30])
def test_a_diverging_chain_names_the_step_size(lr):
    model = network()
    words = r"diverged at step size lr = 1e\+\d+, temperature 1: the loss is (nan|inf) in epoch \d+, step \d\. Lower lr"
    with pytest.raises(DivergedError, match=words) as caught:
        sample(model, data(), sampler=SGLD(model.parameters(), lr), epochs=200, batch_size=16)
    assert f"{caught.value.value} in {caught.value.where}. Lower" in str(caught.value)


def test_bfloat16_and_channels_last_reach_the_model():
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(2, 4, 3), nn.Linear(4, 3)

        def forward(self, x):
            hidden = self.conv(x)
            seen.append((hidden.dtype, x.is_contiguous(memory_format=torch.channels_last)))
            return self.head(hidden.mean(dim=(2, 3)))

    model, x = Spy(), torch.randn(8, 2, 5, 5)
    run = sample(model, (x, torch.randint(3, (8,))), sampler=SGHMC(model.parameters(), 1e-6), epochs=1, batch_size=4,
                 autocast=torch.bfloat16, channels_last=True)  # fmt: skip
    assert seen == [(torch.bfloat16, True)] * 2
    assert run.step == 2 and model.conv.weight.dtype == torch.float32


def test_a_store_may_stand_among_the_callbacks():
    model, store = network(), SampleStore(max_samples=3)
    sample(model, data(), sampler=SGLD(model.parameters(), 1e-4), epochs=1, batch_size=16, callbacks=[store])
    assert store.offered == 4
