"""No step of the loops waits for the device or mixes two: seen on the meta device, and on a GPU where there is one."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib import nn as bnn
from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior
from bnnlib.sampling.samples import SampleStore
from bnnlib.train import fit, sample
from bnnlib.train.fit import _Descent
from bnnlib.train.sample import _Chain


def network(**place):
    return nn.Sequential(
        bnn.GaussianConv2d(3, 4, 3, **place),
        bnn.StochasticBatchNorm2d(4, **place),
        bnn.StructuredBayesianPruning(4, 1, **place),
        nn.Flatten(),
        bnn.HorseshoeLinear(64, 6, **place),
        bnn.SparseVDLinear(6, 6, **place),
        bnn.GaussianSpikeSlabLinear(6, 6, slab_scale=1.0, spike_scale=0.1, **place),
        bnn.SpikeSlabLinear(6, 2, prior_inclusion_probability=0.1, **place),
    )


def rows(**place):
    return torch.empty(10, 3, 6, 6, **place), torch.zeros(10, dtype=torch.int64, **place)


def prepared(kind, model, optimizer, **settings):
    """A loop just before its first step, on a device that has no generator of its own."""
    plain = dict.fromkeys(("augment", "autocast", "checkpoint")) | {"channels_last": False, "callbacks": ()}
    data = rows(device="meta")
    loop = kind(model, optimizer, data, 4, loss=F.cross_entropy, generator=torch.Generator(), **plain | settings)
    model.train()
    return loop


def batch(loop):
    """The next batch of four rows, as the loop gives it to a step."""
    return loop._prepared(*loop.batches.take(torch.empty(4, dtype=torch.int64, device="meta")))


@pytest.mark.parametrize("scheme", ["uniform", "halving"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_no_step_of_fit_waits(scheme, channels_last, watch):
    model = network(device="meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loop = prepared(_Descent, model, optimizer, channels_last=channels_last)
    loop.kl_scale, loop.schedule = 0.5, lambda epoch: 0.5
    loop.share_kl(scheme)
    with watch():
        loop.start_epoch()
        loop.step(*batch(loop))


def test_no_step_of_sample_waits(watch):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 2))
    sampler = SGHMC(model.parameters(), 1e-3)
    model = model.to("meta")  # with parameters of its own
    sampler.param_groups[0]["params"], sampler.generator = list(model.parameters()), None
    loop = prepared(_Chain, model, sampler)
    loop.prior, loop.num_data, loop.schedules = None, 10, {"lr": lambda k: 1e-3, "temperature": None}
    store = SampleStore(max_samples=3)
    with watch():
        loop.step(*batch(loop))
        store.offer(model)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_agrees_that_the_steps_do_not_wait():
    torch.manual_seed(0)
    model, where = network().to("cuda"), torch.device("cuda")
    x, y = torch.randn(10, 3, 6, 6), torch.zeros(10, dtype=torch.int64)
    settings = {"epochs": 2, "batch_size": 4}
    adam = torch.optim.Adam(model.parameters(), fused=True)

    class Strict(torch.optim.Adam):
        """Errors between two calls of zero_grad mark a wait within a step."""

        def zero_grad(self, set_to_none=True):
            super().zero_grad(set_to_none)
            torch.cuda.set_sync_debug_mode("error")

        def step(self, closure=None):
            out = super().step(closure)
            torch.cuda.set_sync_debug_mode("default")
            return out

    fit(model, (x, y), optimizer=adam, **settings)
    try:
        fit(model, (x, y), optimizer=Strict(model.parameters(), fused=True), **settings)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    plain = nn.Sequential(nn.Flatten(), nn.Linear(108, 2)).to(where)
    prior = SpikeSlabGaussianLaplacePrior(plain, sparse=["1.weight"], spike_scale=1.0, slab_variance=0.1, step_size=0.5)
    run = sample(plain, (x, y), sampler=SGHMC(plain.parameters(), 1e-4), prior=prior, **settings)
    assert len(run.history) == 2
