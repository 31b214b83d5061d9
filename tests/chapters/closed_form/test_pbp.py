"""Probabilistic backpropagation: gradients by autograd, exact cases, the prior's factors, its scalar parts."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from chapters.closed_form.pbp import StackedPBP, gamma_update, rectified_moments
from tests.seeded import normal
from tests.seeded import seeded as generator

F64 = torch.float64


def stack_of(sizes=(4, 6, 5, 1), replicates=3):
    return StackedPBP(sizes, replicates, generator(3))


def step(model, x, y):
    """One row of every data set: x (R, inputs), y (R, 1)."""
    with torch.no_grad():
        model._observe(model.layers(), model._with_bias(x.unsqueeze(1), None)[0], y)


def toy(n=120, replicates=3, seed=1):
    x = normal(n, replicates, 2, seed=seed)
    y = (2.0 * x[..., :1]).tanh() + 0.5 * x[..., 1:].square() + 0.2 * normal(n, replicates, 1, seed=seed + 1)
    return x, (y - y.mean(dim=0)) / y.std(dim=0)


# ------------------------------------------------------------------------------------------ assumed-density filtering


def reference_log_evidence(layers, x, y, noise_variance):
    """log N(y; moments of the network), one replicate, written by units with no thought of stability."""
    mean, variance = torch.cat([x, x.new_ones(1)]), x.new_zeros(len(x) + 1)
    for k, (m, v) in enumerate(layers):
        n = len(mean)
        a = m @ mean / math.sqrt(n)
        b = (m.square() @ variance + v @ (mean.square() + variance)) / n
        if k < len(layers) - 1:
            s = b.sqrt()
            below, phi = torch.special.ndtr(a / s), torch.exp(-0.5 * a * a / b) / math.sqrt(2.0 * math.pi)
            first = a * below + s * phi
            spread = (a * a + b) * below + a * s * phi - first.square()
            mean, variance = torch.cat([first, x.new_ones(1)]), torch.cat([spread, x.new_zeros(1)])
    return torch.distributions.Normal(a, (b + noise_variance).sqrt()).log_prob(y).sum()


@pytest.mark.parametrize("sizes", [(4, 1), (4, 6, 1), (4, 6, 5, 1)])
def test_a_row_moves_the_weights_by_autograds_gradients_of_the_evidence(sizes):
    model = stack_of(sizes)
    for seed in range(5):  # away from the start, where all variances are equal
        step(model, normal(3, 4, seed=seed), normal(3, 1, seed=50 + seed))
    x, y, noise = normal(3, 4, seed=98), normal(3, 1, seed=99), model.noise_variance()
    before = [
        [(m[r].clone().requires_grad_(), v[r].clone().requires_grad_()) for m, v in model.layers()] for r in range(3)
    ]
    mean, variance = model.predict(x.unsqueeze(1))
    step(model, x, y)
    for r, layers in enumerate(before):
        evidence = reference_log_evidence(layers, x[r], y[r], noise[r])
        predicted = torch.distributions.Normal(mean[r, 0], variance[r, 0].sqrt()).log_prob(y[r]).sum()
        assert predicted.item() == pytest.approx(evidence.item(), rel=1e-11)
        gradients = iter(torch.autograd.grad(evidence, [t for layer in layers for t in layer]))
        for (m, v), (new_m, new_v) in zip(layers, model.layers(), strict=True):
            by_m, by_v = next(gradients), next(gradients)
            # sums in another order, and the reference's cancellation in variances of units that are almost off
            torch.testing.assert_close(new_m[r], (m + v * by_m).detach(), rtol=1e-8, atol=1e-10)
            torch.testing.assert_close(new_v[r], (v - v**2 * (by_m**2 - 2 * by_v)).detach(), rtol=1e-8, atol=1e-10)
            assert (new_m[r] != m).any() and (new_v[r] < v).any()


def fix_noise(model, variance):
    """Make the noise's variance known: a Gamma without spread."""
    model.noise_shape.fill_(1e14)
    model.noise_rate.fill_(variance * 1e14)


def test_one_row_of_a_linear_model_is_exact():
    """Exact are the posterior's marginals after one row: Gaussian prior, linear mean, known noise."""
    model = stack_of((4, 1), 2)
    fix_noise(model, 0.7)
    (m, v), x, y = model.layers()[0], normal(2, 4), normal(2, 1, seed=1)
    v.copy_(v * torch.rand(v.shape, generator=generator(5), dtype=F64))
    m, v = m[:, 0].clone(), v[:, 0].clone()
    step(model, x, y)
    for r in range(2):
        z = torch.cat([x[r], torch.ones(1, dtype=F64)]) / math.sqrt(5)
        covariance = torch.linalg.inv(torch.diag(1 / v[r]) + z[:, None] * z / 0.7)
        expected = covariance @ (m[r] / v[r] + z * y[r] / 0.7)
        # known noise is a Gamma of shape 1e14: its variance is off by 1e-14
        torch.testing.assert_close(model.layers()[0][0][r, 0], expected, rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(model.layers()[0][1][r, 0], covariance.diagonal(), rtol=1e-11, atol=0)


def test_many_rows_of_an_orthogonal_design_are_exact():
    """Exact are all moments when each row has one input that is not zero and the bias is known: no correlations."""
    model = stack_of((3, 1), 1)
    fix_noise(model, 0.3)
    (m, v), rows = model.layers()[0], 30
    m[..., -1], v[..., -1] = 0.25, 1e-60
    prior_mean, prior_variance = m[0, 0, :3].clone(), v[0, 0, :3].clone()
    x, y = torch.zeros(rows, 3, dtype=F64), normal(rows, 1)
    x[torch.arange(rows), torch.arange(rows) % 3] = normal(rows, seed=2)
    for row in range(rows):
        step(model, x[row : row + 1], y[row : row + 1])
    z = x / 2.0
    precision = 1 / prior_variance + z.square().sum(dim=0) / 0.3
    expected = (prior_mean / prior_variance + (z * (y - 0.25 / 2.0)).sum(dim=0) / 0.3) / precision
    # the noise stays known to 1e-13 over thirty rows
    torch.testing.assert_close(m[0, 0, :3], expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(v[0, 0, :3], 1 / precision, rtol=1e-10, atol=0)


# ------------------------------------------------------------------------------------------ the prior


def test_refining_the_prior_equals_a_loop_over_single_weights():
    """The published recursion in natural parameters, one weight of one network at a time."""
    model = stack_of((2, 3, 1), 2)
    x, y = toy(40, 2)
    model.fit(x, y, epochs=2, generator=generator())
    for row in range(10):
        step(model, x[row], y[row])
    before = copy.deepcopy(model)
    model.refine_prior()
    for r in range(2):
        a, b = before.prior_shape[r].item(), before.prior_rate[r].item()
        pairs = [
            (m[r, i, j], v[r, i, j]) for m, v in before.layers() for i in range(m.shape[1]) for j in range(m.shape[2])
        ]
        new = torch.cat([torch.stack([m[r].flatten(), v[r].flatten()], dim=1) for m, v in model.layers()])
        for w, (mean, variance) in enumerate(pairs):
            mean, variance, (tau, own_a, own_b) = mean.item(), variance.item(), before.site[:, w, r].tolist()
            v = 1 / (1 / variance - tau)
            m = mean / variance * v
            a0, b0 = a - own_a, b - own_b
            assert v > 0 and a0 > 1 and b0 > 0
            log_z = [stats.norm.logpdf(m, scale=math.sqrt(v + b0 / (a0 - 1 + k))) for k in range(3)]
            total = v + b0 / (a0 - 1)
            by_mean, by_variance = -m / total, 0.5 * (m * m / total**2 - 1 / total)
            a = 1 / (math.exp(log_z[2] - 2 * log_z[1] + log_z[0]) * (a0 + 1) / a0 - 1)
            b = 1 / (math.exp(log_z[2] - log_z[1]) * (a0 + 1) / b0 - math.exp(log_z[1] - log_z[0]) * a0 / b0)
            # the reference loses digits in its differences; 13 weights pass the Gamma on
            expected = [m + v * by_mean, v - v * v * (by_mean**2 - 2 * by_variance)]
            assert new[w].tolist() == pytest.approx(expected, rel=1e-8)
            assert model.site[1:, w, r].tolist() == pytest.approx([a - a0, b - b0], rel=1e-7, abs=1e-9)
        assert (model.prior_shape[r].item(), model.prior_rate[r].item()) == pytest.approx((a, b), rel=1e-8)


def test_weights_without_data_learn_nothing_from_the_prior_but_its_scale():
    """Inputs of zero: their weights keep a flat cavity, so the prior's factor is refused, as published."""
    model = stack_of((2, 3, 1), 2)
    x, y = toy(40, 2)
    first = model.layers()[0][1].clone()
    model.fit(x * 0, y, epochs=1, generator=generator())
    assert torch.equal(model.layers()[0][1][..., :2], first[..., :2])
    assert (model.layers()[0][1][..., 2] != first[..., 2]).any()


# ------------------------------------------------------------------------------------------ the stack


def test_replicates_are_independent():
    x, y = toy()
    whole = stack_of((2, 8, 1)).fit(x, y, epochs=2, generator=generator(7))
    for r in range(3):
        alone = StackedPBP((2, 8, 1), 1)
        start = stack_of((2, 8, 1)).state_dict()
        alone.load_state_dict(
            {name: v[..., [r]] if name == "site" or v.dim() == 1 else v[[r]] for name, v in start.items()}
        )
        alone.fit(x[:, [r]], y[:, [r]], epochs=2, generator=generator(7))
        # batched products may be summed in another order
        for ours, theirs in zip(
            whole.predict(x[:20].transpose(0, 1)), alone.predict(x[:20, [r]].transpose(0, 1)), strict=True
        ):
            torch.testing.assert_close(ours[[r]], theirs, rtol=1e-8, atol=1e-10)


def test_one_bad_row_does_not_reach_other_replicates_nor_spoil_its_own():
    x, y = toy(30)
    wild = y.clone()
    wild[3, 1] = 1e200
    calm, struck = (stack_of((2, 8, 1)).fit(x, t, epochs=2, generator=generator(7)) for t in (y, wild))
    for (m, v), (n, w) in zip(calm.layers(), struck.layers(), strict=True):
        torch.testing.assert_close(m[[0, 2]], n[[0, 2]], rtol=1e-12, atol=0)
        assert n.isfinite().all() and w.isfinite().all() and (w > 0).all() and not torch.equal(m[1], n[1])
        assert (v > 0).all()


@pytest.mark.slow
def test_a_toy_problem_is_learned_with_calibrated_variance():
    replicates = 8
    x, y = toy(400, replicates, seed=20)
    model = StackedPBP((2, 20, 1), replicates, generator(1))
    model.fit(x[:150], y[:150], epochs=15, generator=generator(2))
    assert all((v > 0).all() for _, v in model.layers())
    mean, variance = (part.transpose(0, 1) for part in model.predict(x[150:].transpose(0, 1)))
    error = (mean - y[150:]).square()
    # the standardized target has variance 1; the noise alone about 0.03
    assert (error.mean(dim=0) < 0.2).all()
    inside = (error < 1.96**2 * variance).double().mean().item()
    # 2000 test points: 3 standard errors of 95 % are 1.5 points; the rest is for the Gaussian approximation
    assert 0.90 < inside < 0.99
    assert (variance > model.noise_variance()[:, None]).all()
    # chunks change nothing, and a shared input is each replicate's
    again = model.predict(x[150:].transpose(0, 1), chunk_size=17)[0].transpose(0, 1)
    torch.testing.assert_close(again, mean, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(
        model.predict(x[:9, 0])[1], model.predict(x[:9, 0].expand(replicates, 9, 2))[1], rtol=1e-12, atol=0
    )


def test_float32_data_are_taken_and_the_state_stays_float64():
    x, y = toy(20)
    model = stack_of((2, 4, 1)).fit(x.float(), y.float(), epochs=1, generator=generator())
    assert {t.dtype for t in model.state_dict().values()} == {F64}
    assert model.predict(x.float().transpose(0, 1))[0].shape == (3, 20, 1)


def test_data_with_holes_are_refused_and_change_nothing():
    model, (x, y) = stack_of((2, 4, 1)), toy(10)
    before = copy.deepcopy(model.state_dict())
    x[4, 2, 0] = math.nan
    with pytest.raises(ValueError, match=r"x has NaN or infinite values in replicates \[2\]"):
        model.fit(x, y, epochs=1)
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))


@pytest.mark.parametrize("variance", [1e-8, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("ratio", [-36.0, -20.0, -6.0, -1.0, -1e-3, 0.0, 1e-3, 1.0, 6.0, 36.0, 1e4])
def test_rectified_moments_equal_quadrature(ratio, variance):
    scale = variance**0.5
    ours = rectified_moments(torch.tensor(ratio * scale, dtype=F64), torch.tensor(variance, dtype=F64))
    t = abs(ratio)

    def moment(power):
        """E max(0, X)^power for X ~ N(-t, 1), the density's value at t taken out of the integral."""
        return integrate.quad(lambda u: u**power * math.exp(-t * u - 0.5 * u * u), 0.0, np.inf, epsabs=0.0)[0]

    density = math.exp(-0.5 * min(t, 1e3) ** 2) / math.sqrt(2.0 * math.pi)
    first, second = density * moment(1), density * moment(2)
    if ratio > 0:  # max(0, X) = X + max(0, -X)
        mean, var = ratio + first, 1.0 - second - 2.0 * t * first - first**2
    else:
        mean, var = first, second - first**2
    # relative, in both tails; rounding grows like t^4 eps
    assert ours.mean.item() == pytest.approx(mean * scale, rel=1e-9, abs=0)
    assert ours.variance.item() == pytest.approx(var * variance, rel=1e-9, abs=0)
    assert ours.mean_by_mean.item() == pytest.approx(special.ndtr(ratio), rel=1e-12, abs=0)


def test_derivatives_of_rectified_moments_equal_autograd_of_the_textbook_formulas():
    mean, variance = 2.0 * normal(200, seed=1), normal(200, seed=2).square() + 0.3
    m, v = mean.clone().requires_grad_(), variance.clone().requires_grad_()
    s = v.sqrt()
    phi, below = torch.exp(-0.5 * m * m / v) / math.sqrt(2.0 * math.pi), torch.special.ndtr(m / s)
    first = m * below + s * phi
    spread = (m * m + v) * below + m * s * phi - first.square()
    ours = rectified_moments(mean, variance)
    expected = (
        first.detach(),
        spread.detach(),
        *torch.autograd.grad(first.sum(), (m, v), retain_graph=True),
        *torch.autograd.grad(spread.sum(), (m, v)),
    )
    for value, other in zip(ours, expected, strict=True):
        # the textbook's variance loses digits where the mean is some standard deviations below zero
        torch.testing.assert_close(value, other, rtol=1e-8, atol=1e-11)


def test_units_without_variance_or_far_from_zero_are_finite():
    mean = torch.tensor([-1e200, -1e8, -1.0, -1e-300, 0.0, 1e-300, 1.0, 1e8], dtype=F64)
    for variance in (0.0, 1e-290, 1e-100, 1e-12):
        out = rectified_moments(mean, torch.full_like(mean, variance))
        assert all(part.isfinite().all() for part in out)
        # a sure value passes as it is, but within some scales of zero, where the spread, at least 1e-150, counts
        torch.testing.assert_close(out.mean, mean.clamp_min(0.0), rtol=1e-12, atol=max(variance**0.5, 1e-150))
        assert (out.variance >= 0).all() and (out.variance <= variance).all()


def test_the_gamma_has_the_moments_that_three_evidences_give():
    shape, rate = 6.0 + 50 * normal(40).square(), 2.0 + normal(40, seed=1).square()
    variance, square = normal(40, seed=2).square(), normal(40, seed=3).square()
    new_shape, new_rate, total = gamma_update(shape, rate, variance, square)
    z = [
        torch.from_numpy(stats.norm.pdf(square.sqrt(), scale=(variance + rate / (shape - 1 + k)).sqrt()))
        for k in range(3)
    ]
    torch.testing.assert_close(total, variance + rate / (shape - 1), rtol=1e-14, atol=0)
    first, second = shape / rate * z[1] / z[0], shape * (shape + 1) / rate**2 * z[2] / z[0]
    # the new shape is 1 / (a ratio - 1) with a ratio near 1: it is known to about shape * eps
    torch.testing.assert_close(new_shape / new_rate, first, rtol=1e-12, atol=0)
    torch.testing.assert_close(new_shape * (new_shape + 1) / new_rate**2, second, rtol=1e-12, atol=0)


def test_an_update_that_gives_no_gamma_is_refused():
    for square in (1e300, math.inf, math.nan):
        square = torch.tensor([square, 1.0], dtype=F64)
        shape, rate, _ = gamma_update(*(torch.full((2,), value, dtype=F64) for value in (6.0, 6.0, 0.5)), square)
        assert shape[0] == rate[0] == 6.0 and shape[1] != 6.0
