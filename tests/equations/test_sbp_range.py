"""The truncated log-normal against quadrature over the whole parameter range: divergence, moments, SNR, gradients."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from chapters.unit_noise import formulas

NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
STEPS = np.array([0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 9.0, 13.0, 18.0, 26.0, 40.0])
AROUND = np.concatenate([-STEPS[6::-1], [0.0], STEPS[:7]])
FUNCTIONS = {
    "kl": formulas.truncated_log_normal_kl,
    "mean": formulas.truncated_log_normal_mean,
    "second": formulas.truncated_log_normal_second_moment,
    "snr": formulas.truncated_log_normal_snr,
}


@dataclass
class Quadrature:
    """By quantity: the value; derivatives in the mean and in log(scale); what bounds those by Cauchy and Schwarz."""

    value: dict[str, np.ndarray]
    slope: dict[str, list[np.ndarray]]
    size: dict[str, list[np.ndarray]]


def quadrature(mean, scale, lower=-20.0, upper=0.0) -> Quadrature:
    """Gauss-Legendre panels around the mode, the nearer end and the modes under the weights theta and theta^2.

    With L = log theta and t = (mode - L) / scale the density is proportional to exp(-h), h = t (t + 2 g) / 2 and
    g = max((mean - upper) / scale, 0): no large numbers cancel. A derivative of E f in a parameter is the covariance
    of f with the score, so the derivatives need neither the formulas of the library nor differences.
    """
    m, s = (np.asarray(v, dtype=np.float64)[:, None] for v in (mean, scale))
    x, width = (m - upper) / s, (upper - lower) / s
    g = np.maximum(x, 0.0)
    low, high = np.minimum(x, 0.0), np.minimum(width, (m - lower) / s)
    unit, fine = 1.0 / np.maximum(1.0, g), 1.0 / np.maximum(1.0, np.maximum(g, 2.0 * s))
    edges = [low, high, 0.0 * x, unit * STEPS, -unit * STEPS, low + fine * STEPS, AROUND - s, AROUND - 2.0 * s]
    edges = np.sort(np.clip(np.concatenate(edges, axis=1), low, high), axis=1)
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]
    t = (edges[:, :-1, None] + half * (1.0 + NODES)).reshape(len(m), -1)
    h = t * (0.5 * t + g)
    q = (half * WEIGHTS).reshape(t.shape) * np.exp(-h)
    z = q.sum(axis=1, keepdims=True)
    q /= z

    def e(f):
        return (q * f).sum(axis=1, keepdims=True)

    def centered(f):
        return f - e(f)

    tilted, top = np.exp(-s * t), np.exp(np.minimum(m, upper))
    first, second = e(tilted), e(tilted**2)
    noise = centered(np.expm1(-s * t))  # theta - E theta without the loss of digits where the scale is small
    variance = e(noise**2)
    value = {"kl": np.log(width / z) - e(h), "mean": top * first, "second": top**2 * second}
    value["snr"] = first / np.sqrt(variance)
    # integrands whose covariance with the score is the derivative
    parts = {
        "kl": [-centered(h)],
        "mean": [top * noise],
        "second": [top**2 * centered(np.expm1(-2.0 * s * t))],
        "snr": [value["snr"] * noise / first, -0.5 * value["snr"] * centered(noise**2) / variance],
    }
    scores = centered(-t / s), centered(2.0 * h)
    spread = [np.sqrt(e(score**2)) for score in scores]
    return Quadrature(
        {k: v[:, 0] for k, v in value.items()},
        {k: [sum(e(f * score) for f in fs)[:, 0] for score in scores] for k, fs in parts.items()},
        {k: [sum(np.sqrt(e(f**2)) * sd for f in fs)[:, 0] for sd in spread] for k, fs in parts.items()},
    )


def whole_range() -> tuple[np.ndarray, np.ndarray]:
    """mean in [-20, 5], log scale in [-20, 5]: corners, ends of the interval, borders of regions, random points."""
    rng = np.random.default_rng(0)
    means = [-20.0, -20 + 1e-9, -19.99, -15.0, -3.0, -0.1, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.1, 1.0, 5.0]
    logs = [-20.0, -15.0, -10.0, -5.0, -4.0, -3.001, math.log(0.05), -2.99, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    grid = np.array([(m, v) for m in means for v in logs])
    anywhere = rng.uniform(-20.0, 5.0, (300, 2))
    # x = (mean - upper) / scale around 0 and on both sides of 30, where asymptotic series take over
    log_scale = rng.uniform(-20.0, math.log(5.0 / 31.0), 300)
    x = np.concatenate([rng.uniform(-3.0, 3.0, 100), rng.uniform(29.9, 30.1, 150), rng.uniform(5.0, 31.0, 50)])
    x[100:104] = 30.0
    border = np.stack([np.clip(x * np.exp(log_scale), -20.0, 5.0), log_scale], axis=1)
    mean, log_scale = np.concatenate([grid, anywhere, border]).T
    return mean, np.exp(log_scale)


@pytest.fixture(scope="module")
def problems():
    """By dtype the arguments, exact in it, and the quadrature at exactly these."""
    found = {}
    for dtype in (torch.float64, torch.float32):
        mean, scale = (torch.from_numpy(v).to(dtype) for v in whole_range())
        found[dtype] = mean, scale, quadrature(mean.double().numpy(), scale.double().numpy())
    return found


def check_values(name, mean, scale, reference, tolerance, *interval):
    """Relative errors; of divergences below 1e-4, where the posterior is nearly the prior, relative to 1e-4."""
    found, exact = FUNCTIONS[name](mean, scale, *interval).detach(), torch.from_numpy(reference.value[name])
    assert found.dtype == mean.dtype and found.isfinite().all()
    error = (found.double() - exact).abs() / exact.abs().clamp_min(1e-4 if name == "kl" else 0.0)
    i = error.argmax()
    assert error[i] < tolerance, f"{name} at {mean[i]:.17g}, {scale[i]:.17g}: {found[i]:.12g}, not {exact[i]:.12g}"


def check_slopes(name, mean, scale, reference, tolerance, *interval):
    """Errors relative to the bound by Cauchy and Schwarz, because some derivatives cancel to 0."""
    leaves = mean.clone().requires_grad_(), scale.clone().requires_grad_()
    found = torch.autograd.grad(FUNCTIONS[name](*leaves, *interval).sum(), leaves)
    slopes = found[0].double(), found[1].double() * scale.double()
    # rounding of the terms of size 1 that cancel where the divergence is nearly 0
    floors = (1e-12 / scale.double(), 1e-12) if name == "kl" else (0.0, 0.0)
    for kind, ours, exact, size, floor in zip(
        ("mean", "log scale"), slopes, reference.slope[name], reference.size[name], floors, strict=True
    ):
        assert ours.isfinite().all()
        exact, allowed = torch.from_numpy(exact), tolerance * torch.from_numpy(size) + floor
        i = ((ours - exact).abs() / allowed).argmax()
        assert (ours - exact)[i].abs() <= allowed[i], (
            f"d {name} / d {kind} at {mean[i]:.17g}, {scale[i]:.17g}: {ours[i]:.12g}, not {exact[i]:.12g}"
        )


# equation: sbp-kl, sbp-mean, sbp-second-moment, sbp-snr
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-8), (torch.float32, 1e-6)])
def test_values_over_the_whole_range(problems, name, dtype, tolerance):
    """To 1e-8 in float64. In float32 the arguments are exact and the result is rounded once: 1e-6 leaves room."""
    check_values(name, *problems[dtype], tolerance)


# equation: sbp-snr-stable
def test_the_ratio_is_a_second_difference_of_the_cumulant_generating_function():
    # the start, two units in use, one pushed against the upper end, two near the prior, one far outside
    mean = np.array([0.0, -3.0, -0.5, 2.0, -10.0, -1.0, 5.0])
    scale = np.array([math.exp(-5.0), 0.3, 1.5, 0.4, 6.0, 60.0, math.exp(-3.0)])
    moments = quadrature(mean, scale).value
    snr = formulas.truncated_log_normal_snr(torch.from_numpy(mean), torch.from_numpy(scale)).numpy()
    # the difference loses digits for narrow noise: that is why the library sums cumulants there
    difference = np.log(moments["second"]) - 2 * np.log(moments["mean"])
    np.testing.assert_allclose(np.log1p(snr**-2), difference, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_over_the_whole_range(problems, name, dtype):
    check_slopes(name, *problems[dtype], 1e-6)


@pytest.mark.parametrize("lower, upper", [(-1.0, 0.0), (-3.5, -2.5), (0.0, 1.5), (-30.0, 4.0), (-20.0, 0.5)])
def test_other_intervals(lower, upper):
    rng = np.random.default_rng(1)
    # as wide a scale, in units of the interval, as the published one has; what cancels beyond is lost to rounding
    widest = 5.0 + math.log((upper - lower) / 20.0)
    mean, scale = rng.uniform(lower, upper + 5.0, 150), np.exp(rng.uniform(-12.0, widest, 150))
    reference = quadrature(mean, scale, lower, upper)
    mean, scale = torch.from_numpy(mean), torch.from_numpy(scale)
    for name in FUNCTIONS:
        check_values(name, mean, scale, reference, 1e-8, lower, upper)
        check_slopes(name, mean, scale, reference, 1e-6, lower, upper)


def test_the_divergence_is_never_negative_and_the_moments_obey_their_order():
    rng = np.random.default_rng(2)
    mean, log_scale = (torch.from_numpy(rng.uniform(-20.0, 5.0, 20_000)).float() for _ in range(2))
    scale = log_scale.exp()
    assert (formulas.truncated_log_normal_kl(mean, scale) >= 0).all()
    first, second = (
        formulas.truncated_log_normal_mean(mean, scale),
        formulas.truncated_log_normal_second_moment(mean, scale),
    )
    assert ((first >= math.exp(-20.0) * (1 - 1e-6)) & (first <= 1)).all()
    assert ((second <= first * (1 + 1e-6)) & (second >= first.double().square() * (1 - 1e-6))).all()
    assert (formulas.truncated_log_normal_snr(mean, scale) > 0).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_shapes_and_types_are_the_arguments(name):
    for shape in ((), (0,), (3,), (2, 3)):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            value = FUNCTIONS[name](torch.full(shape, -0.5, dtype=dtype), torch.full(shape, 0.25, dtype=dtype))
            assert value.shape == shape and value.dtype == dtype and value.isfinite().all()
