"""The samplers: they keep the law that they should, and do the arithmetic that they say."""

import copy
import math

import pytest
import torch
from scipy import stats
from torch import nn

from bnnlib import _native
from bnnlib._noise import fold
from bnnlib.sampling import SGHMC, SGLD, DivergedError, base
from chapters.learned_priors.formulas import sghmc_baoab_step, sghmc_euler_step, sgld_step
from tests.bnnlib.optim.problem import network, train
from tests.saved import saved
from tests.seeded import seeded

STEPS = 200


def run(sampler, parameter, gradient, steps: int = STEPS) -> torch.Tensor:
    for _ in range(steps):
        parameter.grad = gradient(parameter.detach())
        sampler.step()
    return parameter.detach()


def started_at_target(shape, scale: float = 1.0, device="cpu") -> nn.Parameter:
    start = torch.randn(shape, generator=seeded(1))
    return nn.Parameter((scale * start).to(device))


def p_value(values: torch.Tensor) -> float:
    """Of the Kolmogorov-Smirnov test against the standard normal law."""
    return float(stats.kstest(values.flatten().cpu().double().numpy(), "norm").pvalue)


STATIONARY = {
    # exact at any stable step; SGLD's variance is off by the factor 1 / (1 - lr / 2), 0.25 % at this step, and the
    # published scheme's at first order too
    "SGHMC, lr = 0.5": lambda p, g: SGHMC(p, 0.5, 0.9, generator=g),
    "SGHMC, lr = 0.1, momentum 0.5": lambda p, g: SGHMC(p, 0.1, 0.5, generator=g),
    "SGHMC euler, lr = 0.001": lambda p, g: SGHMC(p, 0.001, 0.9, scheme="euler", generator=g),
    "SGLD, lr = 0.005": lambda p, g: SGLD(p, 0.005, generator=g),
    "SGHMC, lr = 0.5, by key": lambda p, g: SGHMC(p, 0.5, 0.9, generator=g, keyed=True),
    "SGLD, lr = 0.005, by key": lambda p, g: SGLD(p, 0.005, generator=g, keyed=True),
}


NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU: its noise is not tested here")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_GPU)])
@pytest.mark.parametrize("name", STATIONARY)
def test_a_chain_started_at_the_target_stays_there(name, device):
    parameter = started_at_target(200_000, device=device)
    generator = torch.Generator(device).manual_seed(0)
    values = run(STATIONARY[name]([parameter], generator), parameter, lambda w: w.clone())
    assert p_value(values) > 0.01
    assert float(values.mean()) == pytest.approx(0.0, abs=3.0 / math.sqrt(200_000))
    # three standard errors of the variance of 200,000 normal draws, and within 1 %
    assert float(values.var()) == pytest.approx(1.0, abs=3.0 * math.sqrt(2.0 / 200_000))


def test_a_correlated_ill_scaled_gaussian_is_kept():
    """Curvatures 1 to 100 in a rotated basis, lr = 0.015: 40 % of the largest stable step, 2 (1 + momentum) / 100."""
    generator = seeded(2)
    basis = torch.linalg.qr(torch.randn(4, 4, generator=generator)).Q
    curvature = torch.tensor([1.0, 3.0, 20.0, 100.0])
    precision, root = basis @ curvature.diag() @ basis.T, basis @ curvature.rsqrt().diag()
    parameter = nn.Parameter(started_at_target((50_000, 4)).detach() @ root.T)
    values = run(SGHMC([parameter], 0.015, generator=generator), parameter, lambda w: w @ precision)
    white = values @ basis * curvature.sqrt()
    for direction in white.T:
        assert p_value(direction) > 0.01
        # three standard errors of 50,000 draws
        assert float(direction.var()) == pytest.approx(1.0, abs=3.0 * math.sqrt(2.0 / 50_000))
    correlation = torch.corrcoef(white.T) - torch.eye(4)
    assert correlation.abs().max() < 4.0 / math.sqrt(50_000)


@pytest.mark.parametrize("kind", [SGLD, SGHMC])
def test_temperature_scales_the_variance(kind):
    parameters = [started_at_target(100_000) for _ in range(2)]
    groups = [{"params": [p], "temperature": t} for p, t in zip(parameters, (0.25, 4.0), strict=True)]
    sampler = kind(groups, 0.05, generator=seeded(0))
    for _ in range(STEPS):
        for parameter in parameters:
            parameter.grad = parameter.detach().clone()
        sampler.step()
    bias = 1.0 / (1.0 - 0.025) if kind is SGLD else 1.0
    for parameter, temperature in zip(parameters, (0.25, 4.0), strict=True):
        # three standard errors of 100,000 draws; the start is forgotten to e^-20 (SGLD: 0.95^400)
        assert float(parameter.detach().var()) == pytest.approx(temperature * bias, rel=3.0 * math.sqrt(2e-5))


@pytest.mark.parametrize("keyed", [False, True])
def test_a_chain_keeps_its_law_where_its_step_size_changes(keyed):
    """Velocities in the units of the step before would heat it to 3.8 after the first drop."""
    law = nn.ParameterList([started_at_target(200_000), nn.Parameter(torch.ones(3))])  # no gradient for the second
    sampler = SGHMC(law, 0.02, generator=seeded(0), keyed=keyed)
    run(sampler, law[0], torch.clone, 150)  # velocities start at 0
    for lr, momentum in ((0.002, 0.9), (0.0, 0.9), (0.02, 0.5)):
        sampler.param_groups[0].update(lr=lr, momentum=momentum)
        twin, other = copy.deepcopy((sampler, law))
        resumed = SGHMC(third := copy.deepcopy(law), 1.0)
        resumed.load_state_dict(saved(sampler.state_dict()))
        for step in range(20):
            before = law[0].detach().clone()
            values = run(sampler, law[0], torch.clone, 1)
            if step < 2:
                assert torch.equal(values, run(twin, other[0], torch.clone, 1))
                assert torch.equal(values, run(resumed, third[0], torch.clone, 1))
            # three standard errors of the variance of 200,000 normal draws, and 0.5 %, by which the velocities'
            # variance depends on the step, lr / (2 (1 + momentum)) times the curvature
            assert float(values.detach().var()) == pytest.approx(1.0, abs=0.005 + 3.0 * math.sqrt(2.0 / 200_000))
            assert torch.equal(values, before) == (lr == 0.0)
    del sampler.param_groups[0]["velocity_of"]  # of a state from before it was kept
    run(sampler, law[0], torch.clone, 1)


MAKE = {
    "sgld": lambda p, **o: SGLD(p, 0.01, 0.7, **o),
    "baoab": lambda p, **o: SGHMC(p, 0.01, 0.8, 0.7, **o),
    "euler": lambda p, **o: SGHMC(p, 0.01, 0.8, 0.7, scheme="euler", gradient_variance=0.5, **o),
}


@pytest.mark.parametrize("name", MAKE)
def test_a_step_is_that_of_the_function(name):
    parameters = [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in [(3, 2), (4,), ()]]
    expected, velocity = [p.detach().clone() for p in parameters], [torch.zeros_like(p) for p in parameters]
    sampler = MAKE[name](parameters, generator=seeded(4))
    noise = seeded(4)
    for _ in range(5):
        for p in parameters:
            p.grad = p.detach() ** 3
        sampler.step()
        flat = torch.empty(11, dtype=torch.float64).normal_(generator=noise)
        for i, (w, part) in enumerate(zip(expected, flat.split([6, 4, 1]), strict=True)):
            xi = part.view(w.shape)
            if name == "sgld":
                expected[i] = sgld_step(w, w**3, xi, 0.01, 0.7)
            elif name == "baoab":
                expected[i], velocity[i] = sghmc_baoab_step(w, velocity[i], w**3, xi, 0.01, 0.8, 0.7)
            else:
                expected[i], velocity[i] = sghmc_euler_step(w, velocity[i], w**3, xi, 0.01, 0.8, 0.7, 0.5)
    for p, w in zip(parameters, expected, strict=True):
        torch.testing.assert_close(p.detach(), w, rtol=1e-12, atol=1e-14)  # double-precision rounding


def moved(make, kernels, monkeypatch, steps=3, grads=torch.sin):
    """Parameters of several shapes and orders of memory after steps by key, with kernels or without."""
    with monkeypatch.context() as patched:
        if not kernels:
            patched.setattr(base, "has_kernels", lambda _: False)
        parameters = [
            nn.Parameter(torch.linspace(-2.0, 2.0, math.prod(shape)).view(shape)) for shape in [(3, 5), (), (40_000,)]
        ]
        image = torch.linspace(-1.0, 1.0, 2 * 3 * 4 * 5).view(2, 3, 4, 5)
        parameters.append(nn.Parameter(image.contiguous(memory_format=torch.channels_last)))
        sampler = make(parameters, keyed=True, generator=seeded(4))
        for _ in range(steps):
            for p in parameters:
                p.grad = grads(p.detach())
            sampler.step()
    return sampler, parameters


@pytest.mark.skipif(not _native.available(), reason="there is no C++ compiler")
@pytest.mark.parametrize("name", MAKE)
def test_a_step_by_key_is_the_same_with_and_without_kernels(name, monkeypatch):
    def make(p, **options):
        return MAKE[name](p, weight_decay=0.3, **options)

    found = (moved(make, kernels, monkeypatch)[1] for kernels in (True, False))
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-6)  # a few roundings of numbers around 2


@pytest.mark.parametrize("name", MAKE)
def test_noise_by_key_is_that_of_seed_and_step(name, monkeypatch):
    sampler, (parameter, *_) = moved(MAKE[name], False, monkeypatch, steps=1, grads=torch.zeros_like)
    noise = _native.fill(torch.empty(15), "normal", fold(fold(fold(0, sampler.seed), 0), 0)).view(3, 5)
    start = torch.linspace(-2.0, 2.0, 15).view(3, 5)
    size = (parameter.detach() - start) / noise
    assert float(size.std()) < 1e-4 * float(size.mean())  # one factor for all, but for rounding


@pytest.mark.parametrize("name", MAKE)
def test_threads_do_not_change_a_step_by_key(name, monkeypatch, threads):
    found = []
    for number in (1, 2, 4):
        threads(number)
        found.append(moved(MAKE[name], True, monkeypatch)[1][2])
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


@pytest.mark.parametrize("keyed", [False, True])
def test_weight_decay_is_the_ridge_in_the_energy(keyed):
    found = []
    for decay, ridge in ((0.7, 0.0), (0.0, 0.7)):
        parameter = nn.Parameter(torch.linspace(-2.0, 2.0, 9))
        generator = seeded(0)
        sampler = SGHMC([parameter], 0.1, weight_decay=decay, generator=generator, keyed=keyed)
        found.append(run(sampler, parameter, lambda w, ridge=ridge: w.cos() + ridge * w, 5))
        assert parameter._version >= 5  # what autograd keeps of a parameter notices that it has moved
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)  # single-precision rounding
    state = sampler.state_dict()
    del state["param_groups"][0]["weight_decay"]  # of a sampler that did not have it yet
    sampler.load_state_dict(state)
    assert sampler.param_groups[0]["weight_decay"] == 0.0
    with pytest.raises(ValueError, match="weight_decay is -1"):
        SGHMC([parameter], 0.1, weight_decay=-1.0)


@pytest.mark.parametrize("scheme", ["", "euler", "baoab"])
def test_at_temperature_zero_a_sampler_is_sgd_and_sgld_takes_schedulers(scheme):
    kind, momentum, options = (SGHMC, 0.9, {"momentum": 0.9, "scheme": scheme}) if scheme else (SGLD, 0.0, {})
    ours, reference = network(), network()
    for model, optimizer in [
        (ours, kind(ours.parameters(), 0.02, temperature=0.0, **options)),
        (reference, torch.optim.SGD(reference.parameters(), 0.02, momentum)),
    ]:
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100 if scheme else 5, 0.5)
        for _ in range(20):
            train(model, optimizer, 1)
            schedule.step()
    torch.testing.assert_close([*ours.parameters()], [*reference.parameters()], rtol=1e-12, atol=1e-14)


def test_a_closure_is_evaluated():
    parameter = nn.Parameter(torch.tensor([2.0]))

    def closure():
        parameter.grad = None
        energy = 0.5 * parameter.square().sum()
        energy.backward()
        return energy

    assert float(SGLD([parameter], 0.1, 0.0).step(closure).detach()) == 2.0
    assert float(parameter.detach()) == pytest.approx(1.8)


def test_a_diverging_chain_names_the_step_size():
    parameter = nn.Parameter(torch.ones(4))
    sampler = SGHMC([parameter], 30.0)
    words = r"after \d+ steps .* lr = 30, temperature 1.*lower lr \(stability needs lr < 3\.8 / largest curvature\)"
    with pytest.raises(DivergedError, match=words) as caught:
        run(sampler, parameter, lambda w: w.clone(), 1000)
    assert sampler.steps <= 1000
    assert caught.value.where == f"step {sampler.steps}" and not math.isfinite(caught.value.value)


@pytest.mark.parametrize(
    ("kind", "options"), [(SGLD, {}), (SGHMC, {"momentum": 0.9}), (SGHMC, {"momentum": 0.5, "scheme": "euler"})]
)
def test_the_limit_of_stability_is_where_a_chain_starts_to_grow(kind, options):
    """Temperature 0, curvature 5: 1 % below the limit it comes to rest, 1 % above it flies."""
    limit = kind([nn.Parameter(torch.ones(1))], 1.0, **options)
    limit = limit.stability_limit(limit.param_groups[0])
    ends = []
    for factor in (0.99, 1.01):
        parameter = nn.Parameter(torch.ones(1, dtype=torch.float64))
        sampler = kind([parameter], factor * limit / 5.0, temperature=0.0, **options)
        ends.append(abs(float(run(sampler, parameter, lambda w: 5.0 * w, 500))))
    # a step multiplies by -1 -+ 0.02 (1 + m) / (1 - m) or further out: e^-10 and e^10 after 500, or beyond
    assert ends[0] < 1e-2 and ends[1] > 1e2


def test_a_group_is_refused_whole_and_a_bad_change_is_noticed():
    parameter = nn.Parameter(torch.ones(1))
    sampler = SGLD([parameter], 0.1)
    with pytest.raises(ValueError, match="temperature"):
        sampler.add_param_group({"params": [nn.Parameter(torch.ones(1))], "temperature": -1.0})
    assert len(sampler.param_groups) == 1
    for key, bad in [("temperature", -0.5), ("lr", math.nan)]:
        changed = SGLD([parameter], 0.1)
        changed.param_groups[0][key] = bad
        parameter.grad = torch.ones(1)
        with pytest.raises(ValueError, match=key):
            changed.step()
        assert float(parameter.detach()) == 1.0  # the step was not taken
