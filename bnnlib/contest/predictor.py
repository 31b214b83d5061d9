"""What all methods return: one thing that predicts, says what it selects and what it weighs."""

import inspect
import io
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib._checks import check_count
from bnnlib.contest.places import layers_of
from bnnlib.contest.problem import Problem, predictive_nll
from bnnlib.nn import predict
from bnnlib.nn.base import StochasticLayer
from bnnlib.nn.selection import SelectingLayer
from bnnlib.pruning import SelectedLinear, compress, prunable_weights, save_compressed, save_csr, to_csr
from bnnlib.pruning.compress.network import plain_network
from bnnlib.pruning.compress.report import flops

Draws = Callable[..., Tensor]


def posterior_draws(model: nn.Module, x: Tensor, num_samples: int, generator: torch.Generator) -> Tensor:
    """Outputs (S, n, K) under draws of the weights, or the one output (1, n, K) of a network without any."""
    if any(isinstance(module, StochasticLayer) for module in model.modules()):
        return inspect.unwrap(predict)(model, x, num_samples, generator=generator)
    return torch.cat([model(rows) for rows in x.split(4096)])[None]


@dataclass
class Predictor:
    """A trained method.

    Args:
        model: the network; with random layers, or plain.
        problem: that it was trained on.
        draws: called as draws(model, x, num_samples, generator); returns outputs (S, n, K), with a graph where
            gradients are enabled.
        variance: of the noise that training ended with; NaN for a classification.
        networks: how many sets of weights a deployer ships: members of an ensemble, draws of a chain.
        selects: the method sets weights or units to 0 by itself.
        cost: what training took, {"steps": ..., "seconds": ...} of the process's own time.
        notes: what the method says about its run.

    Example:
        >>> problem = Problem(torch.randn(8, 3), torch.randn(8, 1), torch.randn(2, 3), torch.randn(2, 1))
        >>> predictor = Predictor(torch.nn.Sequential(torch.nn.Linear(3, 1)), problem)
        >>> predictor.predict(torch.randn(5, 3)).shape, predictor.sparsity
        (torch.Size([1, 5, 1]), 0.0)
    """

    model: nn.Module
    problem: Problem
    draws: Draws = posterior_draws
    variance: float = math.nan
    networks: int = 1
    selects: bool = False
    cost: dict[str, float] = field(default_factory=dict)
    notes: dict[str, float] = field(default_factory=dict)

    @torch.no_grad()
    def predict(self, x: Tensor, num_samples: int = 30, seed: int = 0) -> Tensor:
        """Outputs (S, n, K): predictions of numbers, or logits. A method without draws has S = 1.

        Raises:
            ValueError: num_samples is no count.
        """
        return self.differentiable(x, num_samples, seed)

    def differentiable(self, x: Tensor, num_samples: int = 30, seed: int = 0) -> Tensor:
        """As `predict`, with gradients for x, which attacks need."""
        check_count("num_samples", num_samples)
        self.model.eval()
        return self.draws(self.model, x, num_samples, torch.Generator(x.device).manual_seed(seed))

    @torch.no_grad()
    def shipped(self, x: Tensor) -> Tensor:
        """Outputs (S, n, K) of what is shipped: of `deployed` alone, or of all `networks` where there are several."""
        if self.networks > 1:
            return self.predict(x, self.networks)
        return torch.cat([self.deployed(rows) for rows in x.split(4096)])[None]

    def fitted_variance(self, num_samples: int = 30) -> float:
        """Variance of the noise with the lowest validation NLL, by golden section in its logarithm."""
        outputs, y = self.predict(self.problem.x_validation, num_samples), self.problem.y_validation
        low, high, ratio = math.log(1e-5), math.log(1e3), (math.sqrt(5.0) - 1.0) / 2.0
        while high - low > 1e-3:
            left, right = high - ratio * (high - low), low + ratio * (high - low)
            if predictive_nll(outputs, y, math.exp(left)) < predictive_nll(outputs, y, math.exp(right)):
                high = right
            else:
                low = left
        return math.exp((low + high) / 2.0)

    @cached_property
    def deployed(self) -> nn.Module:
        """The plain network that is shipped: means of what is active, zeros elsewhere, without noise."""
        return plain_network(self.model, self.problem.example)

    @property
    def sparsity(self) -> float:
        """Share of zeros among the weights of linear and convolutional layers of `deployed`."""
        weights = list(prunable_weights(self.deployed).values())
        return sum(int((w == 0).sum()) for w in weights) / sum(w.numel() for w in weights)

    def compress(self) -> nn.Module:
        """The physically smaller network, see `bnnlib.pruning.compress`."""
        return compress(self.deployed, self.problem.example, select_below=1.0)

    @property
    def selected(self) -> Tensor:
        """Which inputs (K,) of a network for tables still reach its output, booleans."""
        first = next(iter(layers_of(self.compress(), self.problem.example).values()))
        if not isinstance(first, SelectedLinear):
            return (first.weight != 0).any(dim=0)
        kept = torch.zeros(self.problem.x.shape[1], dtype=torch.bool, device=self.problem.x.device)
        kept[first.index] = bool((first.weight != 0).any())  # a layer of which nothing is left keeps one unit
        return kept

    @torch.no_grad()
    def inclusion(self, num_samples: int = 200, seed: int = 0) -> Tensor:
        """Probability (K,) that an input reaches the output, where gates are drawn by their inclusion probabilities.

        Equation (side-inclusion).

        Weights without such a probability are in or out as in `deployed`. For networks of linear layers in a row.
        """
        generator = torch.Generator(self.problem.x.device).manual_seed(seed)
        named = layers_of(self.deployed, self.problem.example)
        plain: list[Any] = list(named.values())
        gated = [self.model.get_submodule(name) for name in named]
        for before, after in pairwise(plain):
            if before.out_features != after.in_features:
                raise ValueError(
                    f"a layer with {before.out_features} outputs stands before one with {after.in_features} inputs: "
                    "inclusion of inputs is for linear layers in a row."
                )
        reached = torch.ones(num_samples, plain[-1].out_features, dtype=torch.bool, device=generator.device)
        for layer, module in zip(reversed(plain), reversed(gated), strict=True):
            gates = (layer.weight != 0).expand(num_samples, -1, -1)
            if isinstance(module, SelectingLayer):
                probability = module.inclusion_probability.expand(num_samples, -1, -1)
                gates = torch.bernoulli(probability, generator=generator).bool()
            reached = (gates & reached[:, :, None]).any(dim=1)
        return reached.float().mean(dim=0)

    def flops(self) -> int:
        """Operations of what is shipped for one row, all `networks` together; a multiply-add counts as 2."""
        return self.networks * flops(self.compress(), self.problem.example[:1])

    def size_in_bytes(self) -> dict[str, int]:
        """Bytes of the files that a deployer could ship, all `networks` together: {"dense", "csr", "compressed"}.

        Equation (side-bytes) takes the smallest.
        """
        plain, file = self.deployed, io.BytesIO()
        torch.save(plain.state_dict(), file)
        with tempfile.TemporaryDirectory() as folder:
            save_csr(to_csr(plain), Path(folder, "csr"))
            save_compressed(self.compress(), Path(folder, "small"))
            sizes = {"csr": Path(folder, "csr").stat().st_size, "compressed": Path(folder, "small").stat().st_size}
        return {name: self.networks * size for name, size in {"dense": file.tell(), **sizes}.items()}
