"""A normal posterior of a trained network's last layer, from the curvature of its loss: Laplace's method."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib._checks import check_choice, check_count, check_non_negative, check_positive, check_scale
from bnnlib._copies import copied
from bnnlib._noise import Source, draw_normal
from bnnlib._overrides import evaluating
from bnnlib.nn.base import StochasticLayer
from bnnlib.nn.curvature import Data, gauss_newton, passed
from bnnlib.nn.evidence import largest_evidence
from bnnlib.posteriors.settings import setting

LIKELIHOODS = ("classification", "regression")
_NUMBERS = 2**23  # in the Jacobians of a chunk


def to_laplace(
    model: nn.Module,
    data: Data,
    likelihood: str = "classification",
    *,
    prior_precision: float | None = None,
    noise_scale: float | None = None,
    batch_size: int = 256,
) -> LaplaceNetwork:
    """A copy of a trained network with a normal posterior around its last layer's weights, in one pass over the data.

    The last layer is the linear one that gives the outputs. The covariance is the inverse of H + prior_precision, where
    H is the generalized Gauss-Newton matrix of the loss at the trained weights (MacKay, 1992; Immer, Korzepa and Bauer,
    2021): exact for a linear model with normal noise that is at its optimum. What is not given of the prior's precision
    and the noise's scale makes the evidence largest (MacKay, 1992).

    Args:
        model: trained; any module that maps rows to outputs (rows, K). It is not changed, and no training follows.
        data: the training data, (x, y) or an iterable of such batches, as a DataLoader; on the model's device, without
            augmentation.
        likelihood: "classification" for logits of K classes and labels (n,); "regression" for numbers (n, K) with
            normal noise of one scale.
        prior_precision: of every weight, 1 / variance; n times the weight decay of the mean loss that it was trained
            with. None for the evidence's.
        noise_scale: standard deviation of the noise, of a regression; None for the evidence's.
        batch_size: rows in a pass, where data are (x, y).

    Returns:
        The `LaplaceNetwork`; `predict` draws from it, and its own `predictive` is in closed form.

    Raises:
        ValueError: a setting is not known, the data have no rows, their loss is not finite, labels are not those of two
            or more logits, no linear layer gives the outputs, or it has more than 6,000 weights.
        TypeError: the model does not return one tensor (rows, K).

    Example:
        >>> x = torch.randn(200, 3)
        >>> y = (x[:, 0] > x[:, 1]).long()
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        >>> posterior = to_laplace(network, (x, y))
        >>> predict(posterior, x, num_samples=20).shape, posterior.predictive(x).shape
        (torch.Size([20, 200, 2]), torch.Size([200, 2]))
    """
    check_choice("likelihood", likelihood, LIKELIHOODS)
    check_count("batch_size", batch_size)
    if noise_scale is not None and likelihood == "classification":
        raise ValueError("noise_scale is of a regression, and labels have none. Leave it out.")
    return LaplaceNetwork(model, data, likelihood, prior_precision, noise_scale, batch_size)


class LaplaceNetwork(StochasticLayer, nn.Module):
    """A trained network with a normal posterior of its last layer's weights, as `to_laplace` makes it.

    A pass draws the weights; within `mean_weights` they are the trained ones. `prior_precision` and `noise_scale` can
    be assigned, and move the posterior with them.

    Attributes:
        network: the trained network, frozen and in `eval()`.

    Example:
        >>> x = torch.randn(50, 3)
        >>> posterior = to_laplace(torch.nn.Linear(3, 1), (x, x[:, :1]), "regression", noise_scale=0.5)
        >>> mean, std = posterior.predictive(x)
        >>> mean.shape, bool((std > 0.5).all())
        (torch.Size([50, 1]), True)
    """

    prior_precision = setting("prior_precision", check_positive, 1.0)
    noise_scale = setting("noise_scale", check_scale, 1.0)
    # the loss on the data and how many numbers it is of, for the evidence: they travel as the settings do
    _fit = setting("_fit", check_non_negative, 0.0)
    _numbers = setting("_numbers", check_non_negative, 0.0)
    eigenvalues: Tensor  # of the Gauss-Newton matrix for unit noise
    eigenvectors: Tensor

    def __init__(
        self,
        model: nn.Module,
        data: Data,
        likelihood: str,
        prior_precision: float | None,
        noise_scale: float | None,
        batch_size: int,
    ) -> None:
        super().__init__()
        if any(isinstance(module, StochasticLayer) for module in model.modules()):
            raise ValueError(
                f"{type(model).__name__} has Bayesian layers already, and so a posterior. Give the network as it was."
            )
        self.network = copied(model).eval().requires_grad_(False)
        self.classes = likelihood == "classification"
        self.prior_precision = 1.0 if prior_precision is None else prior_precision
        self.noise_scale = 1.0 if noise_scale is None else noise_scale
        self._name, matrix, self._fit, self._numbers = gauss_newton(self.network, data, self.classes, batch_size)
        values, vectors = torch.linalg.eigh(matrix)
        like = next(self.network.parameters()).dtype
        self.register_buffer("eigenvalues", values.clamp_min(0.0).to(like))
        self.register_buffer("eigenvectors", vectors.to(like))
        known = 1.0 if self.classes else None if noise_scale is None else noise_scale**2
        self.prior_precision, variance = largest_evidence(
            self.eigenvalues.double(), self._square(), self._fit, self._numbers, prior_precision, known
        )
        self.noise_scale = math.sqrt(variance)

    @property
    def _layer(self) -> Any:
        return self.network.get_submodule(self._name)

    def _weight(self) -> Tensor:
        """The layer's weights with its biases as last column, (K, inputs)."""
        layer = self._layer
        return layer.weight if layer.bias is None else torch.cat([layer.weight, layer.bias[:, None]], dim=1)

    def _square(self) -> float:
        return float(self._weight().double().square().sum())

    def train(self, mode: bool = True) -> LaplaceNetwork:
        """As of any module, but that `network` stays in `eval()`: its posterior is that of the trained function."""
        super().train(mode)
        self.network.eval()
        return self

    def set_extra_state(self, state: Tensor) -> None:
        """Take over what `get_extra_state` gave; one of an older version leaves no evidence, rather than another's."""
        super().set_extra_state(state)
        if b'"_fit"' not in bytes(state.tolist()):
            self._numbers = 0.0

    def log_evidence(self) -> float:
        """Laplace's approximation of log p(data), in nats: to compare networks, priors and noise scales.

        Raises:
            ValueError: the state_dict that was loaded is of an older version, which did not keep the loss on the data.

        Example:
            >>> x = torch.randn(50, 3)
            >>> posterior = to_laplace(torch.nn.Linear(3, 1), (x, x[:, :1]), "regression")
            >>> before = posterior.log_evidence()
            >>> posterior.prior_precision *= 2
            >>> posterior.log_evidence() < before
            True
        """
        if not self._numbers:
            raise ValueError(
                "the state_dict that was loaded does not hold the loss on the data, which the evidence needs: it is of "
                "an older version. Make the posterior from the data with to_laplace."
            )
        variance, t = self.noise_scale**2, self.prior_precision
        values = self.eigenvalues.double() / variance
        occam = values.numel() * math.log(t) - float((values + t).log().sum())
        fit = -0.5 * (self._fit / variance + self._numbers * math.log(2.0 * math.pi * variance))
        return (-self._fit if self.classes else fit) + 0.5 * (occam - t * self._square())

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Divergence of the posterior to its prior, in nats; it has no gradient, since nothing of it is trained."""
        values, t = self.eigenvalues.double() / self.noise_scale**2, self.prior_precision
        trace = t / (values + t)
        return 0.5 * (trace - trace.log() - 1.0).sum() + 0.5 * t * self._square() if with_value else trace.new_zeros(())

    def draw(self, generator: Source = None) -> dict[str, Tensor]:
        """One draw of all random weights, by their names in `network`."""
        return self._drawer()(generator)

    def _drawer(self) -> Callable[[Source], dict[str, Tensor]]:
        layer, mean, scale, vectors = self._layer, self._weight(), self._scale(), self.eigenvectors.mT
        prefix = f"{self._name}." if self._name else ""

        def draw(generator: Source) -> dict[str, Tensor]:
            noise = draw_normal(mean, generator).flatten() * scale
            weight = mean + (noise[None] @ vectors).view_as(mean)
            if layer.bias is None:
                return {f"{prefix}weight": weight}
            return {f"{prefix}bias": weight[:, -1], f"{prefix}weight": weight[:, :-1]}

        return draw

    def _scale(self) -> Tensor:
        """Standard deviations along the eigenvectors."""
        return (self.eigenvalues / self.noise_scale**2 + self.prior_precision).rsqrt()

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Outputs for `x`, under a draw of the weights, or as `weight_mode` says."""
        held = self._held
        if held is None and self.weight_mode != "sample":
            return self.network(x)
        weights = self.draw(self._noise(generator)) if held is None else held
        return torch.func.functional_call(self.network, weights, (x,))

    @torch.no_grad()
    def linearized(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (rows, K) and covariance (rows, K, K) of the outputs under the posterior: normal, and exact."""
        unit, scale = torch.eye(len(self._weight())).to(self.eigenvectors), self._scale()
        means, covariances = [], []
        with evaluating(self):
            for part in x.split(max(1, _NUMBERS // (len(unit) * len(scale)))):
                output, calls = passed(self.network, {self._name: self._layer}, part)
                jacobians = torch.einsum("ko,ni->knoi", unit, calls[self._name][-1][0]).flatten(2)
                turned = jacobians @ self.eigenvectors * scale
                means.append(output)
                covariances.append(torch.einsum("knw,lnw->nkl", turned, turned))
        return torch.cat(means), torch.cat(covariances)

    def predictive(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """The prediction for inputs (rows, ...), in closed form.

        Returns:
            Of a regression mean and standard deviation of y, (rows, K) each, the noise included. Of a classifier the
            probabilities (rows, K): p_k in proportion to 1 / sum_j exp(-(f_k - f_j) / sqrt(1 + pi/8 v_kj)), where v_kj
            is the variance of f_k - f_j. It is the probit approximation (MacKay, 1992) of each pair of classes (Lu, Ie
            and Sha, 2020), and leaves out what moves all logits alike, which no data determine and no softmax sees.
        """
        mean, covariance = self.linearized(x)
        variance = covariance.diagonal(dim1=1, dim2=2)
        if not self.classes:
            return mean, (variance + self.noise_scale**2).sqrt()
        apart = variance[:, :, None] + variance[:, None] - 2.0 * covariance
        gaps = (mean[:, :, None] - mean[:, None]) / (1.0 + math.pi / 8.0 * apart.clamp_min(0.0)).sqrt()
        return (-torch.logsumexp(-gaps, dim=2)).softmax(dim=1)
