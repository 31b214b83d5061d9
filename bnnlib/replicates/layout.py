"""Where the weights of each layer lie inside the flat parameter vector of one network of a stack."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from bnnlib._checks import check_count
from bnnlib.functional import num_network_parameters

PerReplicate = float | Sequence[float] | Tensor


class Layout:
    """Flat storage order of a stack of fully connected networks: weight (fan_out x fan_in), bias, layer by layer.

    One flat tensor for all layers means one noise draw and one pass of elementwise operations a step at any depth.

    Args:
        sizes: layer widths, inputs first.
        replicates: networks in the stack.

    Raises:
        ValueError: fewer than two sizes, or a size below 1.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> layout.num_layers, layout.kaiming_uniform(None).shape
        (2, torch.Size([10, 57]))
    """

    def __init__(self, sizes: Sequence[int], replicates: int):
        self.sizes = tuple(check_count("a layer width", size) for size in sizes)
        self.num_parameters = num_network_parameters(self.sizes)
        self.replicates = check_count("replicates", replicates)
        self.splits = [n for a, b in self.pairs for n in (a * b, b)]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(fan_in, fan_out) of each layer."""
        return list(pairwise(self.sizes))

    @property
    def num_layers(self) -> int:
        return len(self.sizes) - 1

    def layers(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Views (replicates, fan_out, fan_in) and (replicates, fan_out, 1) of every layer's weights and biases."""
        parts = iter(flat.split(self.splits, dim=1))  # one autograd node: its backward is a single concatenation
        return [
            (next(parts).unflatten(1, (fan_out, fan_in)), next(parts).unsqueeze(2)) for fan_in, fan_out in self.pairs
        ]

    def column(self, name: str, value: PerReplicate) -> Tensor:
        """A setting of the replicates as a float64 column, (1, 1) for one number or (replicates, 1).

        Args:
            name: how the caller calls the setting; used in the message.
            value: one number, or one for each replicate.

        Raises:
            ValueError: there are neither one nor R values.
        """
        column = torch.as_tensor(value, dtype=torch.float64).reshape(-1, 1)
        if len(column) not in (1, self.replicates):
            raise ValueError(
                f"{name} has {len(column)} values, but there are {self.replicates} replicates: give one number, or one "
                "for each replicate."
            )
        return column

    def weight_mask(self, device=None) -> Tensor:
        """Boolean (parameters,): True for weights, False for biases."""
        return torch.cat([torch.full((n,), k % 2 == 0, device=device) for k, n in enumerate(self.splits)])

    def share_of_weights(self, mask: Tensor) -> Tensor:
        """Share in percent of the weights of each network that a mask (replicates, parameters) has; biases aside."""
        # a product, not an index: a mask as an index has a size that a GPU would be waited for
        kept = (mask & self.weight_mask(mask.device)).sum(dim=1, dtype=torch.float64)
        return 100.0 * kept / sum(self.splits[::2])

    def uniform(
        self, low: float, high: float, generator: torch.Generator | None, dtype=torch.float32, device=None
    ) -> Tensor:
        """Initial values U(low, high) for all weights and biases, shape (replicates, parameters).

        Args:
            generator: of the values; they lie on its device.
            device: where they lie without a generator; by default PyTorch's default device.
        """
        device = device if generator is None else generator.device
        values = torch.empty(self.replicates, self.num_parameters, dtype=dtype, device=device)
        return values.uniform_(low, high, generator=generator)

    def kaiming_uniform(self, generator: torch.Generator | None, dtype=torch.float32, device=None) -> Tensor:
        """Initial values as torch.nn.Linear draws them: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for weights and biases."""
        flat = self.uniform(-1.0, 1.0, generator, dtype, device)
        bounds = [1.0 / math.sqrt(fan_in) for fan_in, fan_out in self.pairs for _ in range((fan_in + 1) * fan_out)]
        return flat * torch.tensor(bounds, dtype=dtype, device=flat.device)
