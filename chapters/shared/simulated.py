"""The simulated data of Bai, Song and Cheng (2020), section 6, of Deng et al. (2019), and of Saha et al. (2024)."""

import math
from itertools import pairwise

import torch
from torch import Tensor

from bnnlib import datasets
from bnnlib._checks import check_count, check_non_negative, check_positive, check_probability

# The dense teacher's parameters are drawn once, so that all replicates estimate the same function.
_TEACHER_SEED = 20201
DENSE_SIZES = (20, 6, 6, 1)
NUM_SPARSE_INPUTS = 100
NUM_SIMULATION_TWO_INPUTS = 200
DESIGNS = ("uniform", "normal")
GRADED_FUNCTIONS = ("linear", "nonlinear")


def _design(num_samples: int, num_inputs: int, generator: torch.Generator | None, design: str = "uniform") -> Tensor:
    check_count("num_samples", num_samples)
    if design not in DESIGNS:
        raise ValueError(f"design is {design!r}, but it must be one of {', '.join(DESIGNS)}.")
    x = torch.empty(num_samples, num_inputs)
    return x.normal_(generator=generator) if design == "normal" else x.uniform_(-1.0, 1.0, generator=generator)


def _with_noise(x: Tensor, f: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor, Tensor]:
    f = f.unsqueeze(-1)
    return x, f + torch.empty_like(f).normal_(generator=generator), f


def dense_teacher(num_samples: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Simulation I (A): a dense 20-6-6-1 sigmoid network, parameters U(0, 1), inputs U(-1, 1).

    Returns:
        x (num_samples, 20), y = f + noise (num_samples, 1), f (num_samples, 1).
    """
    x = _design(num_samples, DENSE_SIZES[0], generator)
    fixed = torch.Generator().manual_seed(_TEACHER_SEED)
    h = x
    for layer, (fan_in, fan_out) in enumerate(pairwise(DENSE_SIZES)):
        weight, bias = torch.rand(fan_in, fan_out, generator=fixed), torch.rand(fan_out, generator=fixed)
        h = h @ weight + bias
        h = torch.sigmoid(h) if layer < len(DENSE_SIZES) - 2 else h
    return _with_noise(x, h[:, 0], generator)


def sparse_teacher_function(x: Tensor) -> Tensor:
    """The sparse tanh teacher in place of Simulation I (B)'s, which is in the supplement, not at hand; (svbnn-teacher).

    Five of the inputs, three and two hidden units, eleven edges and no bias:
    u = tanh(3 x1 - 2 x2), v = tanh(4 x3 + 2 x4), w = tanh(3 x5), f = 4 tanh(2 u - 2 v) + 3 tanh(2 v + 2 w).

    Args:
        x: (..., at least 5).
    """
    u = torch.tanh(3.0 * x[..., 0] - 2.0 * x[..., 1])
    v = torch.tanh(4.0 * x[..., 2] + 2.0 * x[..., 3])
    w = torch.tanh(3.0 * x[..., 4])
    return 4.0 * torch.tanh(2.0 * u - 2.0 * v) + 3.0 * torch.tanh(2.0 * v + 2.0 * w)


def sparse_teacher(num_samples: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Simulation I (B): `sparse_teacher_function` of 100 inputs U(-1, 1), of which the first five matter.

    Returns:
        x (num_samples, 100), y = f + noise (num_samples, 1), f (num_samples, 1).
    """
    x = _design(num_samples, NUM_SPARSE_INPUTS, generator)
    return _with_noise(x, sparse_teacher_function(x), generator)


def simulation_two_function(x: Tensor) -> Tensor:
    """f0(x) = 7 x2 / (1 + x1^2) + 5 sin(x3 x4) + 2 x5, equation (11) of the paper, (svbnn-simulation-two).

    Args:
        x: (..., at least 5).
    """
    return 7.0 * x[..., 1] / (1.0 + x[..., 0].square()) + 5.0 * torch.sin(x[..., 2] * x[..., 3]) + 2.0 * x[..., 4]


def simulation_two(
    num_samples: int, generator: torch.Generator | None = None, design: str = "uniform"
) -> tuple[Tensor, Tensor, Tensor]:
    """Simulation II: `simulation_two_function` of 200 inputs, of which the first five matter.

    Args:
        design: "uniform" for U(-1, 1), which the published code draws, or "normal" for N(0, 1), which the text states.

    Returns:
        x (num_samples, 200), y = f + noise (num_samples, 1), f (num_samples, 1).

    Raises:
        ValueError: unknown design or no samples.
    """
    x = _design(num_samples, NUM_SIMULATION_TWO_INPUTS, generator, design)
    return _with_noise(x, simulation_two_function(x), generator)


def correlated_regression(
    num_samples: int,
    coefficients: Tensor,
    generator: torch.Generator | None = None,
    *,
    correlation: float = 0.6,
    noise_variance: float = 3.0,
) -> tuple[Tensor, Tensor]:
    """The large-p-small-n regression of Deng et al. (2019), section 5.1: y = x beta + noise.

    Args:
        coefficients: beta, shape (p,).
        correlation: rho of the inputs' covariance rho^|i - j|; the inputs are a stationary autoregression over j.
        noise_variance: of the noise, 3 in the paper.

    Returns:
        x (num_samples, p), y (num_samples,).

    Raises:
        ValueError: no samples, a correlation outside [0, 1), or a negative variance.
    """
    check_count("num_samples", num_samples)
    check_non_negative("noise_variance", noise_variance)
    if not 0.0 <= correlation < 1.0:
        raise ValueError(f"correlation is {correlation:g}, but it must be at least 0 and below 1.")
    x = torch.empty(num_samples, len(coefficients)).normal_(generator=generator)
    for j in range(1, x.shape[1]):
        x[:, j] = correlation * x[:, j - 1] + math.sqrt(1.0 - correlation**2) * x[:, j]
    noise = torch.empty(num_samples).normal_(generator=generator)
    return x, x @ coefficients + math.sqrt(noise_variance) * noise


def two_inputs(
    num_samples: int, alpha: float, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Experiment 1 of Saha, Liu and Liang (2024): y = (1 - alpha) x1 + alpha x2 + noise, all of them N(0, 1).

    Args:
        alpha: share of the second input, in [0, 1]; equal generators give equal inputs and noise for every alpha.

    Returns:
        x (num_samples, 2), y (num_samples, 1), f (num_samples, 1).

    Raises:
        ValueError: no samples, or alpha is outside [0, 1].
    """
    check_probability("alpha", alpha)
    x = _design(num_samples, 2, generator, "normal")
    return _with_noise(x, (1.0 - alpha) * x[:, 0] + alpha * x[:, 1], generator)


def graded_function(x: Tensor, function: str = "nonlinear") -> Tensor:
    """f(x) = x, or f(x) = exp(|x|) - 2 x + sin(2 pi x): what Experiments 2 to 4 of Saha et al. (2024) sum over inputs.

    Args:
        x: any shape.
        function: "linear" or "nonlinear".

    Raises:
        ValueError: unknown function.
    """
    if function not in GRADED_FUNCTIONS:
        raise ValueError(f"function is {function!r}, but it must be one of {', '.join(GRADED_FUNCTIONS)}.")
    return x if function == "linear" else torch.exp(x.abs()) - 2.0 * x + torch.sin(2.0 * math.pi * x)


def graded_regression(
    num_samples: int,
    num_inputs: int,
    alpha: float,
    generator: torch.Generator | None = None,
    *,
    function: str = "nonlinear",
    activity: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y = sum_j f(x_j) beta_j Z_j + noise, equation (sbnn-data), (4.1) of Saha et al. (2024); x and noise N(0, 1).

    Equal generators give equal inputs and noise for every alpha, function and activity, and nested sets of active ones.

    Args:
        num_inputs: D.
        alpha: of the effects beta_j = j / alpha, j = 1 .. D.
        function: "linear" or "nonlinear", see `graded_function`.
        activity: pi, the probability that an input matters (Z_j = 1); 1 in Experiment 2.

    Returns:
        x (num_samples, D), y (num_samples, 1), f (num_samples, 1), and the effects beta_j Z_j (D,).

    Raises:
        ValueError: a count or alpha is not positive, activity is outside [0, 1], or the function is unknown.
    """
    check_count("num_inputs", num_inputs)
    check_positive("alpha", alpha)
    check_probability("activity", activity)
    x = _design(num_samples, num_inputs, generator, "normal")
    active = torch.empty(num_inputs).uniform_(generator=generator) < activity
    effects = torch.arange(1, num_inputs + 1) / alpha * active
    return *_with_noise(x, graded_function(x, function) @ effects, generator), effects


SIMULATED = "simulated"


def simulated_split(split: int) -> datasets.Dataset:
    """Rows that stand for a set where no data are wanted."""
    generator = torch.Generator().manual_seed(split)
    x = torch.randn(150, 4, generator=generator)
    y = 3.0 * x[:, :1] + x[:, 1:2].tanh() + 0.3 * torch.randn(150, 1, generator=generator)
    return datasets.Dataset(SIMULATED, x[:120], y[:120], x[120:], y[120:], task="regression")
