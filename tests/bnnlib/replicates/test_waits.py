"""No training step of a stack waits for the device or mixes two: seen on the meta device."""

import pytest
import torch

from bnnlib import replicates

LAYOUT = replicates.Layout((5, 4, 3, 2), 3)
COLUMN = torch.tensor([0.1, 0.2, 0.3])
POSTERIORS = {
    "deterministic": replicates.StackedDeterministic,
    "gaussian": replicates.StackedGaussian,
    "spike-slab": lambda *a: replicates.StackedSpikeSlab(*a, COLUMN),
    "gaussian-spike-slab": lambda *a: replicates.StackedGaussianSpikeSlab(*a, 1.0, COLUMN),
    "sparse-vd": replicates.StackedSparseVD,
    "horseshoe": lambda *a: replicates.StackedHorseshoe(*a, output_scale=1.3),
    "input-horseshoe": replicates.StackedInputHorseshoe,
}


def made_there(kind):
    return replicates.StackedMLP(POSTERIORS[kind](LAYOUT, LAYOUT.kaiming_uniform(None, device="meta")))


def moved_there(kind):
    return replicates.StackedMLP(POSTERIORS[kind](LAYOUT, LAYOUT.kaiming_uniform(None))).to("meta")


@pytest.mark.parametrize("make", [made_there, moved_there])
@pytest.mark.parametrize("kind", list(POSTERIORS))
def test_no_stack_waits_or_mixes_devices(kind, make, watch):
    model = make(kind)
    state = {
        name: t for name, t in model.state_dict().items() if not name.endswith("_extra_state")
    }  # the prior, as bytes
    assert {t.device.type for t in state.values()} == {"meta"}
    loss = replicates.GaussianLikelihood(3).to("meta")
    x, y = torch.empty(3, 7, 5, device="meta"), torch.empty(3, 7, 2, device="meta")
    optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
    model.posterior.kl_gradient()  # settings of each replicate travel once
    with watch():
        for use in (loss, replicates.gaussian_nll):
            objective = use(model(x), y) + model.posterior.kl_gradient(0.1)
            optimizer.zero_grad()
            objective.backward()
            optimizer.step()
        model.posterior.kl_gradient().backward() if kind != "deterministic" else None
        assert model.posterior.kl_divergence().shape == (3,)
        assert model.predict(x, 2).shape == (2, 3, 7, 2) and model.mean_forward(x).shape == (3, 7, 2)
        assert model.posterior.active().shape == model.posterior.weight.shape
        assert model.posterior.percent_active().shape == (3,)


def test_initial_values_lie_where_their_generator_does(watch):
    # no CPU has a second device for generators: what decides is tested, and on a GPU the whole
    assert LAYOUT.uniform(-1.0, 1.0, None, device="meta").is_meta
    assert LAYOUT.uniform(-1.0, 1.0, torch.Generator()).is_cpu
    places = ["cpu"] + ["cuda"] * torch.cuda.is_available()
    for place in places:
        generator = torch.Generator(place).manual_seed(0)
        assert LAYOUT.kaiming_uniform(generator).device.type == place


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", list(POSTERIORS))
def test_a_gpu_agrees_that_no_stack_waits(kind):
    generator = torch.Generator("cuda").manual_seed(0)
    model = replicates.StackedMLP(POSTERIORS[kind](LAYOUT, LAYOUT.kaiming_uniform(generator)))
    x, y = torch.randn(3, 7, 5, device="cuda"), torch.randn(3, 7, 2, device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for mode in ("default", "error"):  # the first step sets up what is used later
        torch.cuda.set_sync_debug_mode(mode)
        try:
            objective = replicates.gaussian_nll(model(x, generator), y) + model.posterior.kl_gradient(0.1)
            optimizer.zero_grad()
            objective.backward()
            optimizer.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
