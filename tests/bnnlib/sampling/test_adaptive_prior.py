"""The learned prior: its energy against autograd, its update against the formulas, its edges."""

import pytest
import torch
from torch import nn

from bnnlib import _native
from bnnlib.functional import optimal_inclusion, optimal_sigma, slab_probability
from bnnlib.models import mlp
from bnnlib.sampling import SGHMC, SpikeSlabGaussianLaplacePrior, polynomial
from bnnlib.train.checkpoint import Checkpoint
from tests.seeded import seeded

SETTINGS = {"spike_scale": 0.3, "slab_variance": 2.0, "sigma": 0.7, "inclusion": 0.4, "nu": 3.0, "lam": 2.0}


def network(sizes=(4, 6, 3)) -> nn.Module:
    return mlp(sizes, generator=seeded(1)).double()


def weights(*shapes) -> dict[str, torch.Tensor]:
    generator = seeded(2)
    return {
        f"w{i}": torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for i, shape in enumerate(shapes)
    }


@pytest.mark.parametrize("replicates", [0, 3])
def test_the_gradient_is_autograd_through_the_energy(replicates):
    lead = (replicates,) if replicates else ()
    parameters = weights((*lead, 5, 2), (*lead, 7))
    settings = SETTINGS | ({"sigma": torch.tensor([0.5, 1.0, 2.0]), "batch_dims": 1} if replicates else {})
    prior = SpikeSlabGaussianLaplacePrior(parameters, step_size=0.5, a=1.0, b=5.0, **settings)
    prior.update()
    energy = prior.energy()
    assert energy.shape == lead
    expected = torch.autograd.grad(energy.sum(), list(parameters.values()))
    for weight in parameters.values():
        weight.grad = torch.full_like(weight, 10.0)  # it is added to
    prior.add_gradient_()
    for weight, gradient in zip(parameters.values(), expected, strict=True):
        torch.testing.assert_close(weight.grad - 10.0, gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(not _native.available(), reason="there is no C++ compiler")
@pytest.mark.parametrize("learned", [("rho", "kappa", "sigma", "inclusion"), ("rho",), ("kappa", "sigma"), ("sigma",)])
def test_one_pass_is_the_same_to_rounding_whatever_the_threads(learned, threads):
    """Sizes on both sides of a lane, of a block and of what more threads are worth."""
    sizes = (1, 15, 16, 17, 1023, 1029, 40_000)

    def run(fused, number):
        threads(number)
        parameters = {n: nn.Parameter(w.detach().float() + 0.01) for n, w in weights(*((s,) for s in sizes)).items()}
        parameters["w1"].data[:3] = torch.tensor([0.0, -0.0, 40.0])
        prior = SpikeSlabGaussianLaplacePrior(parameters, step_size=0.3, update=learned, fused=fused, **SETTINGS)
        for _ in range(3):
            prior.update()
        for weight in parameters.values():
            weight.grad = torch.ones_like(weight)
        prior.add_gradient_()
        state, grads = prior.state_dict(), [w.grad for w in parameters.values()]
        latent = [one for n in ("rho", "kappa0", "kappa1", "inclusion") for one in state[n].values()]
        return [*grads, state["sigma"], *latent]

    expected, *found = run(False, 1), run(True, 1), run(True, 2), run(True, 4)
    for one, *others in zip(expected, *found, strict=True):
        # three rounds of a sigmoid and of sums of up to 40,000 terms in single precision
        torch.testing.assert_close(others[0], one, rtol=2e-5, atol=2e-6)
        assert torch.equal(others[0], others[1]) and torch.equal(others[0], others[2])


def test_the_ridge_acts_on_the_other_parameters():
    model = network()
    prior = SpikeSlabGaussianLaplacePrior(model, sparse="0.weight", weight_decay=25.0, **SETTINGS)
    expected = torch.autograd.grad(prior.energy(), list(model.parameters()))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    prior.add_gradient_()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-12, atol=1e-12)
    others = [p for name, p in model.named_parameters() if name != "0.weight"]
    ridge = sum(12.5 * float(p.detach().square().sum()) for p in others)
    weight = model[0].weight.detach()
    penalty = 0.5 / 0.3 * weight.abs().sum() / 0.7 + 0.5 / 2.0 * weight.square().sum() / (2 * 0.7**2)
    assert float(prior.energy().detach()) == pytest.approx(ridge + float(penalty), rel=1e-12)


def test_sigma_is_shared_and_inclusion_is_of_each_layer():
    parameters = weights((6, 5), (9,))
    prior = SpikeSlabGaussianLaplacePrior(parameters, step_size=1.0, a=1.0, b=3.0, **SETTINGS)
    prior.update()
    linear = sum((prior.kappa0[n] * w.detach().abs()).sum() for n, w in parameters.items())
    quadratic = sum((prior.kappa1[n] * w.detach().square()).sum() for n, w in parameters.items()) + 6.0
    torch.testing.assert_close(prior.sigma, optimal_sigma(linear, quadratic, 39 + 3.0 + 2.0), rtol=1e-12, atol=0.0)
    for (name, count), rho in zip([("w0", 30), ("w1", 9)], prior.rho.values(), strict=True):
        expected = optimal_inclusion(rho.sum(), count, 1.0, 3.0)
        torch.testing.assert_close(prior.inclusion[name], expected, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize(("scaled", "sigma"), [(True, 0.7), (False, 1.0)])
def test_em_jumps_and_forgets(scaled, sigma):
    options = {"rho": 0.01, "step_size": 1.0, "update": ["rho"], "scaled_densities": scaled}
    prior = SpikeSlabGaussianLaplacePrior(parameters := weights((6, 5)), **SETTINGS, **options)
    prior.update()
    expected = slab_probability(parameters["w0"].detach(), 0.4, sigma, 0.3, 2.0)
    torch.testing.assert_close(prior.rho["w0"], expected, rtol=1e-12, atol=0.0)


def flat(prior) -> list[torch.Tensor]:
    groups = (prior.rho, prior.kappa0, prior.kappa1, prior.inclusion)
    return [prior.sigma, *(value for group in groups for value in group.values())]


def test_a_frozen_prior_stays():
    prior = SpikeSlabGaussianLaplacePrior(weights((6, 5)), step_size=0.0, kappa=(1.0, 0.5), **SETTINGS)
    before = [value.clone() for value in flat(prior)]
    assert (prior.kappa0["w0"] == 1.0).all() and (prior.kappa1["w0"] == 0.5).all()
    for _ in range(3):
        prior.update()
    assert all(torch.equal(a, b) for a, b in zip(before, flat(prior), strict=True))


def test_only_what_is_named_is_learned():
    prior = SpikeSlabGaussianLaplacePrior(weights((6, 5)), step_size=0.5, update=("rho", "kappa"), **SETTINGS)
    rho = prior.rho["w0"].clone()
    prior.update()
    assert float(prior.sigma) == pytest.approx(0.7) and float(prior.inclusion["w0"]) == pytest.approx(0.4)
    assert not torch.equal(prior.rho["w0"], rho)


def test_the_weights_of_the_average_are_those_of_the_schedule():
    prior = SpikeSlabGaussianLaplacePrior(weights((6, 5)), step_size=polynomial(1, 4, 0.75), update=["rho"], **SETTINGS)
    target = slab_probability(prior.weights["w0"].detach(), 0.4, 0.7, 0.3, 2.0)
    expected = torch.full_like(target, 0.5)
    for k in range(1, 6):
        prior.update()
        expected = expected.lerp(target, (4 + k) ** -0.75)
    torch.testing.assert_close(prior.rho["w0"], expected, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])
def test_replicates_are_separate_priors(dtype, tolerance):
    stack = {name: w.detach().to(dtype).requires_grad_() for name, w in weights((3, 6, 5), (3, 4)).items()}
    per = {"spike_scale": [0.1, 0.3, 0.9], "slab_variance": [1.0, 2.0, 10.0], "sigma": [0.5, 1.0, 2.0]}
    tensors = {name: torch.tensor(values, dtype=dtype) for name, values in per.items()}
    steps = torch.tensor([0.0, 0.3, 1.0], dtype=dtype)
    options = {"nu": 1.0, "lam": 1.0, "a": 1.0, "b": "p", "likelihood": "regression", "num_data": 20}
    together = SpikeSlabGaussianLaplacePrior(stack, batch_dims=1, step_size=lambda k: steps, **tensors, **options)
    squares = torch.tensor([3.0, 50.0, 7.0], dtype=dtype)
    for _ in range(4):
        together.update(squares)
    energy = together.energy()
    for weight in stack.values():
        weight.grad = torch.ones_like(weight)
    together.add_gradient_()
    for r in range(3):
        alone = SpikeSlabGaussianLaplacePrior(
            {name: value.detach()[r] for name, value in stack.items()},
            step_size=float(steps[r]),
            **{name: values[r] for name, values in per.items()},
            **options,
        )
        for _ in range(4):
            alone.update(squares[r])
        for weight in alone.weights.values():
            weight.grad = torch.ones_like(weight)
        alone.add_gradient_()
        for name, weight in alone.weights.items():
            torch.testing.assert_close(stack[name].grad[r], weight.grad, rtol=tolerance, atol=tolerance)
        for a, b in zip(flat(together), flat(alone), strict=True):
            torch.testing.assert_close(a[r], b, rtol=tolerance, atol=tolerance / 100)
        torch.testing.assert_close(energy[r], alone.energy(), rtol=tolerance, atol=0.0)


def test_a_state_goes_round(tmp_path):
    def make():
        return SpikeSlabGaussianLaplacePrior(weights((6, 5), (4,)), step_size=polynomial(1, 2, 0.6), **SETTINGS)

    first, second = make(), make()
    for _ in range(3):
        first.update()
    checkpoint = Checkpoint(tmp_path / "prior.pt")
    checkpoint.save(first.state_dict())  # refuses anything but plain values
    second.load_state_dict(checkpoint.load())
    for prior in (first, second):
        prior.update()
    assert second.steps == 4
    assert all(torch.equal(a, b) for a, b in zip(flat(first), flat(second), strict=True))
    with pytest.raises(ValueError, match="state is for weights"):
        SpikeSlabGaussianLaplacePrior(weights((6, 4)), **SETTINGS).load_state_dict(first.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("step", [0.1, 1.0])
def test_nothing_overflows(dtype, step):
    values = torch.tensor([0.0, 1e-30, 1e-8, 1e-3, 1.0, 1e4, -1e4], dtype=dtype)
    for v0, v1 in [(0.1, 10.0), (0.005, 1e-10), (1e-6, 1e-12)]:
        weight = values.clone().requires_grad_()
        weight.grad = torch.zeros_like(values)
        settings = {"spike_scale": v0, "slab_variance": v1, "a": 1.0, "b": 1.0}
        prior = SpikeSlabGaussianLaplacePrior({"w": weight}, step_size=step, **settings)
        for _ in range(20):
            prior.update()
        prior.add_gradient_()
        assert all(torch.isfinite(value).all() for value in (*flat(prior), weight.grad, prior.energy()))
        assert 0.0 < float(prior.inclusion["w"]) < 1.0


def test_all_weights_pruned():
    """Zeros have a slab probability too; the chain goes on from them."""
    model = network()
    model[0].weight.data.zero_()
    prior = SpikeSlabGaussianLaplacePrior(model, sparse=["0.weight"], step_size=1.0, a=1.0, b=1.0, **SETTINGS)
    sampler = SGHMC(model.parameters(), 1e-4, generator=seeded(0))
    expected = slab_probability(torch.zeros_like(model[0].weight), 0.4, 0.7, 0.3, 2.0)
    for k in range(50):
        prior.update()
        if k == 0:
            torch.testing.assert_close(prior.rho["0.weight"], expected, rtol=1e-12, atol=0.0)
        sampler.zero_grad()
        model(torch.ones(2, 4, dtype=torch.float64)).square().sum().backward()
        prior.add_gradient_()
        sampler.step()
        model[0].weight.data.zero_()
    assert all(torch.isfinite(value).all() for value in flat(prior))
    assert torch.isfinite(prior.energy()) and all(torch.isfinite(p).all() for p in model.parameters())


def test_patterns_choose_among_the_names():
    model = network((4, 6, 5, 3))
    prior = SpikeSlabGaussianLaplacePrior(model, sparse=["0.*", "4.weight"], **SETTINGS)
    assert list(prior.weights) == ["0.weight", "0.bias", "4.weight"]
    assert list(prior.others) == ["2.weight", "2.bias", "4.bias"]
