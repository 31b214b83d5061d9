"""A normal posterior around the weights of any trained network, from the curvature of its loss: Laplace's method."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._checks import check_count, check_positive, check_scale
from bnnlib._noise import Source, draw_normal
from bnnlib._overrides import evaluating
from bnnlib.nn.base import StochasticLayer, check_choice
from bnnlib.nn.calls import UncalledWarning
from bnnlib.nn.curvature import (
    Block,
    Factors,
    Full,
    add_full,
    batches,
    candidates,
    check_output,
    check_rows_kept,
    check_small,
    giving,
    gradients_of,
    groups,
    inputs_of,
    passed,
    path,
    pulled_back,
    roots,
)
from bnnlib.nn.evidence import largest_evidence
from bnnlib.posteriors.settings import setting

LIKELIHOODS = ("classification", "regression")
STRUCTURES = ("last_layer", "kfac")
_NUMBERS = 2**23  # in the Jacobians of a chunk

Data = tuple[Tensor, Tensor] | Iterable[tuple[Tensor, Tensor]]


def to_laplace(
    model: nn.Module,
    data: Data,
    likelihood: str = "classification",
    structure: str = "last_layer",
    *,
    prior_precision: float | None = None,
    noise_scale: float | None = None,
    where: Callable[[str, nn.Module], bool] | None = None,
    batch_size: int = 256,
) -> LaplaceNetwork:
    """A copy of a trained network with a normal posterior around its weights, in one pass over the data.

    The covariance is the inverse of H + prior_precision, where H is the generalized Gauss-Newton matrix of the loss at
    the trained weights (MacKay, 1992; Immer, Korzepa and Bauer, 2021). "last_layer" takes the linear layer that gives
    the outputs, with its full covariance: exact for a linear model with normal noise that is at its optimum. "kfac"
    takes all linear layers and convolutions, each with a Kronecker-factored block (Ritter, Botev and Barber, 2018).
    What is not given of the prior's precision and the noise's scale makes the evidence largest (MacKay, 1992).

    Args:
        model: trained; any module that maps rows to outputs (rows, K). It is not changed, and no training follows.
        data: the training data, (x, y) or an iterable of such batches, as a DataLoader; on the model's device, without
            augmentation.
        likelihood: "classification" for logits of K classes and labels (n,); "regression" for numbers (n, K) with
            normal noise of one scale.
        structure: "last_layer" or "kfac". The price of a pass is K + 1 backward passes with "kfac", and one forward
            pass without.
        prior_precision: of every weight, 1 / variance; n times the weight decay of the mean loss that it was trained
            with. None for the evidence's.
        noise_scale: standard deviation of the noise, of a regression; None for the evidence's.
        where: with "kfac", called as where(name, module); False leaves a layer deterministic.
        batch_size: rows in a pass, where data are (x, y).

    Returns:
        The `LaplaceNetwork`; `predict` draws from it, and its own `predictive` is in closed form.

    Raises:
        ValueError: a setting is not known, there is no such layer, or its full covariance has more than 6,000 rows.
        TypeError: the model does not return one tensor (rows, K).

    Warns:
        UserWarning: parameters of other kinds of layers stay deterministic; normalization is passed over in silence.
        UncalledWarning: a layer's weights are read without calling it.

    Example:
        >>> x = torch.randn(200, 3)
        >>> y = (x[:, 0] > x[:, 1]).long()
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        >>> posterior = to_laplace(network, (x, y), structure="kfac")
        >>> predict(posterior, x, num_samples=20).shape, posterior.predictive(x).shape
        (torch.Size([20, 200, 2]), torch.Size([200, 2]))
    """
    check_choice("likelihood", likelihood, LIKELIHOODS)
    check_choice("structure", structure, STRUCTURES)
    check_count("batch_size", batch_size)
    if noise_scale is not None and likelihood == "classification":
        raise ValueError("noise_scale is of a regression, and labels have none. Leave it out.")
    return LaplaceNetwork(model, data, likelihood, structure, prior_precision, noise_scale, where, batch_size)


class LaplaceNetwork(StochasticLayer, nn.Module):
    """A trained network with a normal posterior of its weights, as `to_laplace` makes it.

    A pass draws the weights; within `mean_weights` they are the trained ones. `prior_precision` and `noise_scale` can
    be assigned, and move the posterior with them.

    Attributes:
        network: the trained network, frozen and in `eval()`.
        log_likelihood: of the training data at the trained weights, in nats.

    Example:
        >>> x = torch.randn(50, 3)
        >>> posterior = to_laplace(torch.nn.Linear(3, 1), (x, x[:, :1]), "regression", noise_scale=0.5)
        >>> mean, std = posterior.predictive(x)
        >>> mean.shape, bool((std > 0.5).all())
        (torch.Size([50, 1]), True)
    """

    prior_precision = setting("prior_precision", check_positive, 1.0)
    noise_scale = setting("noise_scale", check_scale, 1.0)

    def __init__(
        self,
        model: nn.Module,
        data: Data,
        likelihood: str,
        structure: str,
        prior_precision: float | None,
        noise_scale: float | None,
        where: Callable[[str, nn.Module], bool] | None,
        batch_size: int,
    ) -> None:
        super().__init__()
        if any(isinstance(module, StochasticLayer) for module in model.modules()):
            raise ValueError(
                f"{type(model).__name__} has Bayesian layers already, and so a posterior. Give the network as it was."
            )
        self.network = copy.deepcopy(model).eval().requires_grad_(False)
        self.classes = likelihood == "classification"
        self.prior_precision = 1.0 if prior_precision is None else prior_precision
        self.noise_scale = 1.0 if noise_scale is None else noise_scale
        trained = {name for name, p in model.named_parameters(remove_duplicate=False) if p.requires_grad}
        layers, left = candidates(self.network, trained, where if structure == "kfac" else None)
        if left and structure == "kfac":
            said = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
            warnings.warn(f"these have no Laplace posterior and stay deterministic: {said}.", stacklevel=4)
        self._names, self._sizes = list(layers), (0, 0)  # of the data: rows and numbers
        self.blocks = nn.ModuleList(self._curvature(layers, data, structure, batch_size))
        known = 1.0 if self.classes else None if noise_scale is None else noise_scale**2
        self.prior_precision, variance = largest_evidence(
            self._eigenvalues(), self._square(), self._fit, self._sizes[1], prior_precision, known
        )
        self.noise_scale = math.sqrt(variance)

    # building

    def _curvature(self, layers: dict[str, nn.Module], data: Data, structure: str, batch_size: int) -> list[Block]:
        factors, total, last, rows, numbers, fit = Factors(), None, "", 0, 0, 0.0
        for x, y in batches(data, batch_size):
            output, seen = passed(self.network, layers, x)
            check_output(output, len(x))
            rows, numbers = rows + len(x), numbers + output.numel()
            fit += self._loss(output.detach().double(), y)
            if structure == "kfac":
                factors.add(layers, output, seen, self.classes)
                continue
            last = last or check_small(giving(output, layers, seen), layers)
            total = add_full(total, layers[last], output.detach(), seen[last][-1][0], self.classes)
        if not rows:
            raise ValueError("data have no rows. Give the training data, (x, y) or batches of them.")
        self._sizes, self._fit = (rows, numbers), fit
        if total is not None:
            self._names = [last]
            blocks: list[Block] = [Full(total)]
        else:
            self._names = [name for name in layers if name in factors.sums]
            if silent := [name for name in layers if name not in factors.sums]:
                warnings.warn(
                    f"{type(self.network).__name__} has not called {', '.join(silent[:5])}: it reads these weights in "
                    "another way, and they stay deterministic.",
                    UncalledWarning,
                    stacklevel=5,
                )
            blocks = [factors.block(name) for name in self._names]
        like = next(self.network.parameters())
        return [block.to(like.dtype) for block in blocks]

    def _loss(self, output: Tensor, y: Tensor) -> float:
        """Sum of -log p(y), or of the squared errors."""
        if self.classes:
            return float(F.cross_entropy(output, y, reduction="sum"))
        if y.numel() != output.numel():
            raise ValueError(
                f"y has shape {tuple(y.shape)}, but the outputs have {tuple(output.shape)}: a regression needs as many "
                "numbers."
            )
        return float((output - y.reshape(output.shape)).square().sum())

    def _eigenvalues(self) -> Tensor:
        return torch.cat([block.eigenvalues().flatten().double() for block in self._by_name().values()])

    def _by_name(self) -> dict[str, Block]:
        blocks: Any = self.blocks
        return dict(zip(self._names, blocks, strict=True))

    def _square(self) -> float:
        return float(sum(self._weight(name).double().square().sum() for name in self._names))

    def _weight(self, name: str) -> Tensor:
        """A layer's weights with its biases, (groups, outputs, inputs)."""
        layer: Any = self.network.get_submodule(name)
        weight = layer.weight.flatten(1)
        if layer.bias is not None:
            weight = torch.cat([weight, layer.bias[:, None]], dim=1)
        return weight.unflatten(0, (groups(layer), -1))

    # what it is for

    @property
    def log_likelihood(self) -> float:
        """Of the training data at the trained weights, in nats."""
        if self.classes:
            return -self._fit
        variance = self.noise_scale**2
        return -0.5 * (self._fit / variance + self._sizes[1] * math.log(2.0 * math.pi * variance))

    def log_evidence(self) -> float:
        """Laplace's approximation of log p(data), in nats: to compare networks, priors and noise scales.

        Example:
            >>> x = torch.randn(50, 3)
            >>> posterior = to_laplace(torch.nn.Linear(3, 1), (x, x[:, :1]), "regression")
            >>> before = posterior.log_evidence()
            >>> posterior.prior_precision *= 2
            >>> posterior.log_evidence() < before
            True
        """
        values, t = self._eigenvalues() / self.noise_scale**2, self.prior_precision
        occam = values.numel() * math.log(t) - float((values + t).log().sum())
        return self.log_likelihood + 0.5 * (occam - t * self._square())

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Divergence of the posterior to its prior, in nats; it has no gradient, since nothing of it is trained."""
        values, t = self._eigenvalues() / self.noise_scale**2, self.prior_precision
        trace = t / (values + t)
        return 0.5 * (trace - trace.log() - 1.0).sum() + 0.5 * t * self._square() if with_value else trace.new_zeros(())

    def draw(self, generator: Source = None) -> dict[str, Tensor]:
        """One draw of all random weights, by their names in `network`."""
        return self._drawer()(generator)

    def _drawer(self) -> Callable[[Source], dict[str, Tensor]]:
        parts: list[Any] = [
            (name, self.network.get_submodule(name), self._weight(name), self._scale(block), block)
            for name, block in self._by_name().items()
        ]

        def draw(generator: Source) -> dict[str, Tensor]:
            drawn: dict[str, Tensor] = {}
            for name, layer, mean, scale, block in parts:
                weight = (mean + block.rotated(draw_normal(mean, generator) * scale, back=True)).flatten(0, 1)
                if layer.bias is not None:
                    drawn[path(name, "bias")] = weight[:, -1]
                    weight = weight[:, :-1]
                drawn[path(name, "weight")] = weight.view_as(layer.weight)
            return drawn

        return draw

    def _scale(self, block: Block) -> Tensor:
        """Standard deviations along the eigenvectors."""
        return (block.eigenvalues() / self.noise_scale**2 + self.prior_precision).rsqrt()

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Outputs for `x`, under a draw of the weights, or as `weight_mode` says."""
        held = self._held
        if held is None and self.weight_mode != "sample":
            return self.network(x)
        weights = self.draw(self._noise(generator)) if held is None else held
        return torch.func.functional_call(self.network, weights, (x,))

    def linearized(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (rows, K) and covariance (rows, K, K) of the outputs, for a network that is linear in its weights.

        The outputs around the trained weights, f + J (w - w'), are normal, exactly (Immer, Korzepa and Bauer, 2021):
        with the Gauss-Newton matrix these fit better than draws of the weights, which bend the network.
        """
        layers = {name: self.network.get_submodule(name) for name in self._names}
        blocks = self._by_name()
        outputs = math.prod(self.network(x[:1]).shape[1:])
        rows = max(1, _NUMBERS // (outputs * max(block.eigenvalues().numel() for block in blocks.values())))
        means, covariances = [], []
        with evaluating(self):
            for part in x.split(rows):
                output, seen = passed(self.network, layers, part)
                check_output(output, len(part))
                pulled = pulled_back(output, seen, roots(output, classes=False))
                covariance = output.new_zeros(len(part), outputs, outputs)
                for name, calls in seen.items():
                    if not calls:
                        continue
                    jacobians: Any = 0.0
                    for call, (given, _) in enumerate(calls):
                        a = inputs_of(layers[name], given)
                        g = torch.stack([gradients_of(layers[name], one[name][call]) for one in pulled])
                        check_rows_kept(name, a, len(part))
                        jacobians = jacobians + torch.einsum("knpgo,npgi->kngoi", g, a)
                    turned = (blocks[name].rotated(jacobians) * self._scale(blocks[name])).flatten(2)
                    covariance += torch.einsum("knw,lnw->nkl", turned, turned)
                means.append(output.detach())
                covariances.append(covariance.detach())
        return torch.cat(means), torch.cat(covariances)

    def predictive(
        self, x: Tensor, num_samples: int | None = None, generator: torch.Generator | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The prediction of the linearized network, in closed form.

        Args:
            x: inputs, (rows, ...).
            num_samples: of a classifier, average the softmax over so many draws of the linearized outputs in place of
                the closed form: what that approximates.
            generator: of these draws.

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
        if num_samples is not None:
            values, vectors = torch.linalg.eigh(covariance)
            root = vectors * values.clamp_min(0.0).sqrt()[:, None]
            noise = draw_normal(mean.expand(check_count("num_samples", num_samples), -1, -1), generator)
            return (mean + (root @ noise.unsqueeze(-1)).squeeze(-1)).softmax(dim=-1).mean(dim=0)
        apart = variance[:, :, None] + variance[:, None] - 2.0 * covariance
        gaps = (mean[:, :, None] - mean[:, None]) / (1.0 + math.pi / 8.0 * apart.clamp_min(0.0)).sqrt()
        return (-torch.logsumexp(-gaps, dim=2)).softmax(dim=1)
