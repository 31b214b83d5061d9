"""A stack of small networks that loses its removed inputs while it is trained.

An input whose weights are all 0 for good changes nothing, so its column is taken out of the data, the weights and the
optimizer's state: after the first prunings a step costs a hundredth.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.optim import AdaptiveVariational, GroupSpikeSlab


class StackedReLU(nn.Module):
    """R ReLU networks of one shape, each with an input matrix of its own.

    Args:
        sizes: widths of the layers, inputs first.
        replicates: R.
        generator: of the first weights, U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)) as torch.nn.Linear draws them.

    Shapes:
        input (R, inputs, batch), output (R, batch).
    """

    def __init__(self, sizes: tuple[int, ...], replicates: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            bound = fan_in**-0.5
            for group, width in ((self.weights, fan_in), (self.biases, 1)):
                values = torch.empty(replicates, fan_out, width).uniform_(-bound, bound, generator=generator)
                group.append(nn.Parameter(values))

    def forward(self, x: Tensor) -> Tensor:
        h, layers = x, list(zip(self.weights, self.biases, strict=True))
        for weight, bias in layers[:-1]:
            h = torch.relu(torch.baddbmm(bias, weight, h))
        weight, bias = layers[-1]
        return torch.baddbmm(bias, weight, h)[:, 0]


def mean_loss(output: Tensor, y: Tensor, classify: bool) -> Tensor:
    """The networks' mean losses, shape (R,): squared errors, or cross-entropies in nats."""
    if classify:
        return F.binary_cross_entropy_with_logits(output, y, reduction="none").mean(dim=1)
    return (output - y).square().mean(dim=1)


class Columns:
    """Which inputs a stack still reads, and the data with those alone.

    Args:
        x: all inputs, (n, R, p), rows first so that a batch is gathered as contiguous memory.
        y: targets (n, R).
    """

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.whole, self.x, self.y = x, x, y
        self.index = torch.arange(x.shape[2], device=x.device).expand(x.shape[1], -1)
        self._buffer = x.new_empty(0)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs (R, inputs left, batch) and targets (R, batch) of some rows."""
        shape = (len(rows), *self.x.shape[1:])
        if self._buffer.shape != shape:
            self._buffer = self.x.new_empty(shape)
        # into a buffer: a fresh allocation of this size costs more in page faults than the copy itself
        torch.index_select(self.x, 0, rows, out=self._buffer)
        return self._buffer.permute(1, 2, 0), self.y.index_select(0, rows).t()

    def keep(self, index: Tensor) -> None:
        """Read only the inputs `index` (R, k) of all inputs; also to take over a checkpoint."""
        self.index = index.to(self.whole.device)
        self.x = self.whole.gather(2, self.index.expand(len(self.whole), *index.shape))

    def place(self, x: Tensor) -> Tensor:
        """Other rows, (R, p, n), with the inputs that are left."""
        return x.gather(1, self.index.unsqueeze(2).expand(-1, -1, x.shape[2]))

    def spread(self, weight: Tensor) -> Tensor:
        """First-layer weights (R, out, inputs left) as (R, out, p), with 0 for what was taken out."""
        full = weight.new_zeros(*weight.shape[:2], self.whole.shape[2])
        return full.scatter_(2, self.index.unsqueeze(1).expand(-1, weight.shape[1], -1), weight)


@torch.no_grad()
def compact(
    columns: Columns,
    model: StackedReLU,
    kept: Tensor,
    optimizer: torch.optim.Optimizer,
    prior: GroupSpikeSlab | None = None,
) -> bool:
    """Take out the inputs that no network keeps, if a tenth or more of them is to go.

    Networks that keep fewer than the others carry some removed inputs along, whose weights stay 0.

    Args:
        columns, model, optimizer, prior: of one training.
        kept: Boolean (R, inputs left).

    Returns:
        Whether anything was done.
    """
    most = max(1, int(kept.sum(dim=1).max()))
    if most > 0.9 * kept.shape[1]:
        return False
    local = kept.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
    take(model, local, optimizer, prior)
    columns.keep(columns.index.gather(1, local))
    return True


@torch.no_grad()
def take(
    model: StackedReLU, local: Tensor, optimizer: torch.optim.Optimizer, prior: GroupSpikeSlab | None = None
) -> None:
    """Keep the columns `local` (R, k) of the first layer and of all that is known of it."""
    weight = model.weights[0]

    def part(value: Tensor) -> Tensor:
        return value.gather(2, local.unsqueeze(1).expand(-1, value.shape[1], -1)).contiguous()

    # a copy: state may hold a tensor of the old shape under the same key
    state = {key: part(v) if torch.is_tensor(v) and v.dim() == 3 else v for key, v in optimizer.state[weight].items()}
    weight.grad = None
    weight.data = part(weight.data)
    optimizer.state[weight] = state
    for values in (prior.decay, prior.masks) if prior is not None else ():
        values["inputs"] = part(values["inputs"])


def adaptive(model: StackedReLU, *args, **options) -> AdaptiveVariational:
    """The optimizer over all parameters of a stack; one network that diverges must not stop the others."""
    optimizer = AdaptiveVariational(model.parameters(), *args, **options)
    optimizer.check_every = 0
    return optimizer
