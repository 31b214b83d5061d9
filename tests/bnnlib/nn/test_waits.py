"""No training step of a layer waits for the device or mixes two: seen on the meta device, where nothing can be read."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib import nn as bnn


def step(model, x, y):
    """Both ways to the objective, on the loss and its gradient."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for with_value in (False, True):
        loss = bnn.elbo_loss(F.mse_loss(model(x), y), model, 100, with_value=with_value)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    bnn.kl_gradient(model).backward()  # without a draw before it


def uses(model, x):
    """What a step may use beside its objective."""
    for context in (bnn.mean_weights, bnn.selected_weights, bnn.held_weights):
        with context(model), torch.no_grad():
            model(x)
    bnn.predict(model, x, 2)


@pytest.mark.parametrize("by_default", [True, False])  # what is made without a device lies there, or on the host
def test_no_linear_layer_waits_or_mixes_devices(linear, by_default, watch):
    place = {"device": "meta"}
    with torch.device("meta" if by_default else "cpu"):
        model = nn.Sequential(linear(5, 4, **place), nn.Tanh(), linear(4, 2, **place))
        with watch():
            step(model, torch.empty(7, 5, **place), torch.empty(7, 2, **place))
            uses(model, torch.empty(7, 5, **place))


def test_no_convolution_waits_or_mixes_devices(conv, watch):
    place = {"device": "meta"}
    model = nn.Sequential(conv(3, 4, 3, **place), nn.Tanh(), conv(4, 2, 3, **place), nn.Flatten())
    with watch():
        step(model, torch.empty(7, 3, 6, 6, **place), torch.empty(7, 8, **place))
        uses(model, torch.empty(7, 3, 6, 6, **place))


@pytest.mark.parametrize("together", [False, True])
def test_no_noise_on_units_waits_or_mixes_devices(together, watch):
    place = {"device": "meta"}
    noise = [bnn.StructuredBayesianPruning(n, -1, kl_weight=w, **place) for n, w in ((5, 1.0), (4, 2.0))]
    model = nn.Sequential(noise[0], nn.Linear(5, 4, **place), noise[1], nn.Linear(4, 2, **place))
    x, y = torch.empty(7, 5, **place), torch.empty(7, 2, **place)
    with watch():
        if together:
            with bnn.drawn_together(model):
                loss = F.mse_loss(model(x), y)
            (loss + bnn.kl_gradient(model) / 100).backward()
        else:
            step(model, x, y)
            uses(model, x)


@pytest.mark.parametrize("statistic", ["scale", "variance"])
@pytest.mark.parametrize("draws", ["batch", "object"])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_no_stochastic_batch_norm_waits_or_mixes_devices(statistic, draws, momentum, watch):
    place, settings = {"device": "meta"}, {"momentum": momentum, "statistic": statistic, "draws": draws}
    model = nn.Sequential(
        bnn.GaussianConv2d(3, 4, 3, **place),
        bnn.StochasticBatchNorm2d(4, **settings, **place),
        nn.Flatten(),
        bnn.StochasticBatchNorm1d(64, **settings, **place),
        nn.Linear(64, 2, **place),
    )
    x, y = torch.empty(7, 3, 6, 6, **place), torch.empty(7, 2, **place)
    with watch():
        step(model, x, y)
        model.eval()
        uses(model, x)
        bnn.match_moments(model, x.split(4))


def test_virtual_batches_do_not_wait(watch):
    place = {"device": "meta"}
    model = nn.Sequential(nn.Linear(5, 4, **place), bnn.StochasticBatchNorm1d(4, **place))
    x = torch.empty(7, 5, **place)
    with watch():
        bnn.match_moments(model, x.split(4))
        assert bnn.predict_virtual_batch(model, x, 3).shape == (3, 7, 4)


def test_the_watch_sees_what_it_should(watch):
    on, off = torch.zeros(3, device="meta"), torch.zeros(3)
    for wrong in (
        lambda: on.sum().item(),
        lambda: on.nonzero(),
        lambda: on[on > 0],
        lambda: on.unique(),
        lambda: torch.tensor([1.0, 2.0]).to("meta"),
        lambda: torch.as_tensor(1.0, device="meta"),
        lambda: on.new_tensor(1.0),
        lambda: on[off.long()],
        lambda: on + off,
        lambda: on.copy_(off),
    ):
        with pytest.raises(AssertionError):
            with watch():
                wrong()
    with watch():  # numbers, and tensors of the host among themselves
        on.mul_(2.0).add_(1.0), bool((off == 0).all()), on * off[0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_agrees_that_no_layer_waits(linear):
    model = nn.Sequential(linear(5, 4), bnn.StructuredBayesianPruning(4, -1), nn.Tanh(), linear(4, 2)).to("cuda")
    x, y = torch.randn(7, 5, device="cuda"), torch.randn(7, 2, device="cuda")
    for mode in ("default", "error"):  # the first step sets up what is used later
        torch.cuda.set_sync_debug_mode(mode)
        try:
            step(model, x, y)
            uses(model, x)
        finally:
            torch.cuda.set_sync_debug_mode("default")
