"""No sampler or optimizer waits for the device in a step or mixes two: seen on the meta device."""

import pytest
import torch
from torch import nn

from bnnlib.optim import AdaptiveVariational, GroupSpikeSlab
from bnnlib.sampling import SGHMC, SGLD, SpikeSlabGaussianLaplacePrior

SAMPLERS = {
    "sgld": lambda p, **k: SGLD(p, 1e-3),
    "sghmc": lambda p, **k: SGHMC(p, 1e-3),
    "sghmc-euler": lambda p, **k: SGHMC(p, 1e-3, scheme="euler", gradient_variance=0.1),
    "adaptive": lambda p, **k: AdaptiveVariational(p, 1e-3, 50, **k),
    "adaptive-1": lambda p, **k: AdaptiveVariational(p, 1e-3, 50, alpha=1.0, weight_decay=1e-3, **k),
    "natural": lambda p, **k: AdaptiveVariational(p, 1e-3, 50, form="natural", **k),
    "natural-stein": lambda p, **k: AdaptiveVariational(p, 1e-3, 50, form="natural", estimator="stein", **k),
}


def network(device="meta"):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 2)).to(device)


def on_meta(sampler, model):
    """The sampler over the parameters of a model on the meta device, which has no generators."""
    sampler.param_groups[0]["params"], sampler.generator = list(model.parameters()), None
    return sampler


def groups(model, **settings):
    return GroupSpikeSlab(model, 1e-2, 5e-4, 50, names=["0.weight", "2.weight"], hard_threshold=1e-6, **settings)


def step(model, optimizer, closure=False):
    def energy():
        loss = model(torch.empty(5, 3, 6, 6, device="meta")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        return loss

    if closure:
        optimizer.step(energy)
    else:
        energy()
        optimizer.step()


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_no_sampler_waits_or_mixes_devices(name, watch):
    model = network()
    prior = {"prior": groups(model)} if name.startswith(("adaptive", "natural")) else {}
    sampler = on_meta(SAMPLERS[name](network("cpu").parameters(), **prior), model)
    with watch():
        for _ in range(2):
            step(model, sampler, closure=name.startswith("natural"))


@pytest.mark.parametrize("kind", ["input", "output", "channel"])
def test_group_spike_slab_looks_once_an_update_and_never_in_a_step(kind, watch):
    model = network()
    prior = (
        groups(model, kind=kind)
        if kind != "channel"
        else GroupSpikeSlab(model, 1e-2, 5e-4, 50, kind=kind, names=["0.weight"], hard_threshold=1e-6)
    )
    with watch():
        model(torch.empty(5, 3, 6, 6, device="meta")).square().mean().backward()
        prior.add_gradient_()
        prior.hold_()
        prior.slab_probability(), prior.sparsity(), prior.kept()
    model = network("cpu")  # where a read does not end it
    prior = groups(model)
    with watch("cpu", allowed=1) as seen:
        prior.update()
    assert len(seen.found) == 1


@pytest.mark.parametrize("likelihood", ["classification", "regression"])
@pytest.mark.parametrize("replicates", [0, 3])
def test_the_learned_prior_does_not_wait(likelihood, replicates, watch):
    stack = (replicates,) if replicates else ()
    weight = nn.Parameter(torch.empty(*stack, 4, 5, device="meta"))
    per = torch.linspace(0.5, 1.0, replicates) if replicates else 0.5
    where = torch.device("meta")
    prior = SpikeSlabGaussianLaplacePrior(
        {"w": nn.Parameter(torch.empty(*stack, 4, 5))},
        spike_scale=per,
        slab_variance=per,
        sigma=per,
        step_size=0.5,
        likelihood=likelihood,
        num_data=50 if likelihood == "regression" else None,
        batch_dims=len(stack),
    )
    prior.weights = {"w": weight}
    for name in ("spike_scale", "slab_variance", "sigma"):
        setattr(prior, name, getattr(prior, name).to(where))
    for own in (prior.inclusion, prior.rho, prior.kappa0, prior.kappa1):
        own["w"] = own["w"].to(where)
    with watch():
        weight.square().sum().backward()
        prior.add_gradient_()
        prior.update(torch.empty(stack, device="meta") if likelihood == "regression" else None)
        prior.energy().sum().backward()
