"""Pictures of the chapter on Structured Bayesian Pruning: the noise, its divergence and its signal-to-noise ratio.

The explorers are in `explorers`, the pictures of results in `results`.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from book.display.style import INK, PALETTE, figure, line_styles, panel_letters, sparse_markers, style_context
from chapters.unit_noise import formulas

LOWER, UPPER = -20.0, 0.0  # the published bounds of log theta
LOCAL, SHARED = PALETTE[0], PALETTE[1]


def _double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def minus(text: str) -> str:
    """The text with true minus signs, as matplotlib's tick labels have."""
    return text.replace("-", "−")


def log_density(v: Tensor, location: float, scale: float) -> Tensor:
    """Log density of log theta, that of theta times theta: equation (sbp-log-normal) on the logarithmic scale.

    Args:
        v: log theta, any shape.
        location, scale: mu and sigma.
    """
    v = v.double()
    mean, scale = (torch.full_like(v, float(value)) for value in (location, scale))
    return formulas.truncated_log_normal_log_density(v.exp(), mean, scale) + v


def densities(posteriors: Sequence[tuple[float, float]] = ((-0.5, 0.25), (-2.0, 1.2), (-3.0, 8.0))) -> Figure:
    """Truncated log-normal densities and their prior: flat in log theta, falling as 1 / theta on the natural scale.

    Args:
        posteriors: (mu, sigma) of up to six units.
    """
    v = torch.linspace(LOWER + 1e-9, UPPER - 1e-9, 1601, dtype=torch.float64)
    theta = torch.linspace(1e-3, 1.0 - 1e-9, 800, dtype=torch.float64)
    names = {}
    for location, scale in posteriors:
        snr = float(formulas.truncated_log_normal_snr(_double(location), _double(scale)))
        names[minus(f"μ = {location:g}, σ = {scale:g}: SNR {snr:.2g}")] = location, scale
    prior = f"prior: SNR {formulas.truncated_log_uniform_snr(LOWER, UPPER):.2g}"
    with style_context():
        fig, (left, right) = figure(2, height=3.8)
        looks = line_styles([prior, *names])
        looks[prior]["color"], looks[list(names)[2 % len(names)]]["color"] = INK, PALETTE[0]
        left.semilogy(v, torch.full_like(v, 1 / (UPPER - LOWER)), **looks[prior])
        right.semilogy(theta, formulas.truncated_log_uniform_log_density(theta).exp(), **looks[prior])
        for name, (location, scale) in names.items():
            left.semilogy(v, log_density(v, location, scale).exp(), **looks[name])
            right.semilogy(theta, (log_density(theta.log(), location, scale) - theta.log()).exp(), **looks[name])
        left.set(xlabel="log θ", ylabel="density", title="of log θ", ylim=(1e-3, 8), xlim=(LOWER, UPPER))
        right.set(xlabel="θ", title="of θ", ylim=(1e-2, 60), xlim=(0, 1))
        for panel in (left, right):
            sparse_markers(panel)
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize="small")
        panel_letters([left, right])
    return fig


def plane(locations: Sequence[float], log_scales: Sequence[float]) -> dict[str, np.ndarray]:
    """SNR and divergence over the plane of both parameters, equations (sbp-snr) and (sbp-kl).

    Args:
        locations: mu, at least -20.
        log_scales: log sigma.

    Returns:
        {"snr", "kl"}: arrays of shape (log_scales, locations), the divergence in nats.
    """
    scale, mean = torch.meshgrid(_double(*log_scales).exp(), _double(*locations), indexing="ij")
    snr, kl = formulas.truncated_log_normal_snr(mean, scale), formulas.truncated_log_normal_kl(mean, scale)
    return {"snr": snr.numpy(), "kl": kl.numpy()}


def printed_forms(mean: Tensor, scale: Tensor) -> dict[str, Tensor]:
    """KL, E theta and SNR by the formulas as they are printed, in the arguments' own precision: what overflows.

    Args:
        mean, scale: mu and sigma on [-20, 0], one shape.

    Returns:
        {"kl", "mean", "snr"} in that shape; NaN, infinite or wrong where exponentials overflow or Phi underflows.
    """
    alpha, beta = (LOWER - mean) / scale, (UPPER - mean) / scale
    cdf = torch.special.ndtr
    z = cdf(beta) - cdf(alpha)

    def density(x: Tensor) -> Tensor:
        return torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)

    kl = math.log(UPPER - LOWER) - 0.5 * math.log(2 * math.pi * math.e) - torch.log(scale) - torch.log(z)
    kl = kl - (alpha * density(alpha) - beta * density(beta)) / (2 * z)
    first = torch.exp(mean + 0.5 * scale.square()) / z * (cdf(scale - alpha) - cdf(scale - beta))
    second = torch.exp(2 * mean + 2 * scale.square()) / z * (cdf(2 * scale - alpha) - cdf(2 * scale - beta))
    return {"kl": kl, "mean": first, "snr": first / torch.sqrt(second - first.square())}


def _against(panel: Axes, x: np.ndarray, printed: Tensor, ours: Tensor, reach: tuple[float, float]) -> None:
    """Both curves, with shading where the printed form is off by more than a tenth, or no number."""
    printed, ours = printed.double().numpy(), ours.double().numpy()
    with np.errstate(invalid="ignore", over="ignore"):
        wrong = ~(np.abs(printed - ours) <= 0.1 * np.abs(ours))
    inside = np.where(np.isfinite(printed), np.clip(printed, *reach), np.nan)
    looks = line_styles(["bnnlib", "printed form, float32"], markers=False)
    panel.plot(x, ours, **looks["bnnlib"] | {"lw": 4, "alpha": 0.55})
    panel.plot(x, inside, **looks["printed form, float32"])
    said = "no number, or 10 % off"
    panel.fill_between(x, *reach, where=wrong, color=SHARED, alpha=0.16, lw=0, step="mid", label=said, zorder=0)
    panel.set(ylim=reach, xlim=(x[0], x[-1]))


def stability() -> Figure:
    """The printed formulas in single precision against ours: wide noise (a), and a location beyond the interval (b)."""
    log_scale, locations = torch.linspace(-9, 5, 561), torch.linspace(-20, 5, 501)
    wide = torch.full_like(log_scale, -3.0), log_scale.exp()
    moved = locations, torch.full_like(locations, 0.3)
    with style_context():
        fig, (left, right) = figure(2, height=3.7)
        exact = formulas.truncated_log_normal_snr(*wide)
        left.set_yscale("log")
        _against(left, log_scale.numpy(), printed_forms(*wide)["snr"], exact, (0.1, 2e4))
        divergence = formulas.truncated_log_normal_kl(*moved)
        _against(right, locations.numpy(), printed_forms(*moved)["kl"], divergence, (0.0, 12.0))
        left.set(xlabel="log σ", title="SNR at μ = −3")
        right.set(xlabel="μ", title="KL at σ = 0.3 (nats)")
        fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
        panel_letters([left, right])
    return fig


def gradient_spread(
    sizes: Sequence[int], draws: int, units: int, scale: float, generator: torch.Generator | None
) -> dict[str, np.ndarray]:
    """Standard deviation of the estimated gradient of the data term (sbp-data-term) in one unit's mu, over batch sizes.

    The model is a linear one, y = sum_i theta_i x_i + noise with standard normal x. Every draw has a new mini-batch;
    the gradient is that of the mean over its objects.

    Args:
        sizes: numbers of objects in a mini-batch.
        draws: mini-batches, from which the deviation is estimated.
        units: number of inputs, each with noise mu = -scale and sigma = scale.
        scale: of the noise.
        generator: of objects and noise.

    Returns:
        {"local": one theta for each object and unit, "shared": one for each unit}, shape (sizes,) each.
    """
    found: dict[str, list[float]] = {"local": [], "shared": []}
    for size in sizes:
        x = torch.randn(draws, size, units, generator=generator, dtype=torch.float64)
        y = x.sum(-1) + torch.randn(draws, size, generator=generator, dtype=torch.float64)
        for name, rows in (("local", size), ("shared", 1)):
            uniform = torch.rand(draws, rows, units, generator=generator, dtype=torch.float64)
            mean = torch.full_like(uniform, -scale).requires_grad_()
            theta = formulas.truncated_log_normal_sample(mean, torch.full_like(uniform, scale), uniform)
            log_likelihood = -0.5 * (y - (theta * x).sum(-1)).square().mean(1)
            gradient = torch.autograd.grad(log_likelihood.sum(), mean)[0].sum(1)
            found[name].append(float(gradient.std(0).mean()))  # all units have the same deviation
    return {name: np.array(values) for name, values in found.items()}
