"""A stack of fully connected networks of one architecture, evaluated together by batched matrix products."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from bnnlib._checks import check_choice
from bnnlib._noise import Source
from bnnlib._overrides import evaluating
from bnnlib.replicates.posteriors import StackedPosterior

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class StackedMLP(nn.Module):
    """R independent fully connected networks that differ in weights and data but not in shape.

    Args:
        posterior: distribution of all weights (see `bnnlib.replicates.posteriors`); it fixes sizes and R.
        activation: "relu", "tanh" or "sigmoid".

    Shapes:
        input (R, batch, inputs) or, shared by all replicates, (batch, inputs); output (R, batch, outputs).

    Raises:
        ValueError: unknown activation.

    Example:
        >>> layout = Layout((5, 8, 1), replicates=10)
        >>> model = StackedMLP(StackedGaussian(layout, layout.kaiming_uniform(None)))
        >>> model(torch.randn(32, 5)).shape  # the same rows for all ten networks
        torch.Size([10, 32, 1])
    """

    def __init__(self, posterior: StackedPosterior, activation: str = "relu"):
        super().__init__()
        check_choice("activation", activation, ACTIVATIONS)
        self.posterior, self.activation = posterior, activation

    @property
    def replicates(self) -> int:
        return self.posterior.layout.replicates

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        source = self.posterior._noise(generator)
        return self.propagate(self.posterior.draw_layers(source), x, source)

    def mean_forward(self, x: Tensor) -> Tensor:
        """Outputs of the networks whose weights are the posterior means."""
        return self.propagate(self.posterior.layout.layers(self.posterior.mean()), x)

    def propagate(self, layers: Sequence[tuple[Tensor, ...]], x: Tensor, generator: Source = None) -> Tensor:
        """Outputs for given layers (from `posterior.draw_layers` or `layout.layers`)."""
        h = (x.expand(self.replicates, *x.shape) if x.dim() == 2 else x).transpose(1, 2)
        act = ACTIVATIONS[self.activation]
        for layer in layers[:-1]:
            h = act(self.posterior.linear(layer, h, generator))
        return self.posterior.linear(layers[-1], h, generator).transpose(1, 2)

    @torch.no_grad()
    def predict(
        self, x: Tensor, num_samples: int = 30, generator: torch.Generator | None = None, chunk_size: int = 2048
    ) -> Tensor:
        """Posterior draws of the outputs, shape (num_samples, R, batch, outputs), each draw with one set of weights.

        Memory beyond the result is bounded by `chunk_size` inputs at a time.
        """
        draws = []
        with evaluating(self):
            for _ in range(num_samples):
                layers = self.posterior.draw_layers(generator)
                draws.append(torch.cat([self.propagate(layers, part) for part in x.split(chunk_size, dim=-2)], dim=1))
        return torch.stack(draws)
