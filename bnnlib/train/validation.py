"""The loss on rows that are held out, of the predictive that averages over draws."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from bnnlib._checks import check_count
from bnnlib._overrides import evaluating
from bnnlib.nn.base import drawers, one_draw
from bnnlib.train.batches import Data, Pair, checked_pair, pair_of
from bnnlib.train.checks import check_pairing, kind_of, label_weights


class Validation:
    """Held-out rows, and the loss of `fit` on them under a predictive of so many draws."""

    def __init__(self, data: Data, draws: int, size: int, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.draws, self.loss, self.size = check_count("validation_draws", draws), loss, size
        self.data = data if isinstance(data, DataLoader | Dataset) else checked_pair(data)
        self.average, self.size_of = _AVERAGES.get(kind_of(loss), _MEAN), label_weights(loss)
        self.unseen = True

    def _blocks(self, device: torch.device) -> Iterator[Pair]:
        if isinstance(self.data, tuple):
            x, y = self.data
            yield from (
                (a.to(device), b.to(device)) for a, b in zip(x.split(self.size), y.split(self.size), strict=True)
            )
            return
        loader = self.data if isinstance(self.data, DataLoader) else DataLoader(self.data, batch_size=self.size)
        yield from (pair_of(batch, device) for batch in loader)

    @torch.no_grad()
    def check(self, model: nn.Module, forward: Callable[[Tensor], Tensor], x: Tensor) -> None:
        """Refuse a model whose draws cannot be averaged; in `eval()` it may return a tensor where it did not before."""
        with torch.random.fork_rng(devices=[]), evaluating(model):
            self._drawn(forward, drawers(model), x, torch.Generator(x.device))

    def _drawn(self, forward: Callable[[Tensor], Any], layers: dict, x: Tensor, generator: torch.Generator) -> Any:
        """What the loss takes of one draw."""
        with one_draw(layers, generator):
            output = forward(x)
        if isinstance(output, Tensor):
            return self.average.of(output)
        if layers and self.draws > 1:
            raise TypeError(
                f"the model returned {type(output).__name__}, but a validation averages outputs over {self.draws} "
                "draws, which needs one tensor. Give validation_draws=1, or let the model return a tensor."
            )
        return output

    @torch.no_grad()
    def __call__(self, model: nn.Module, forward: Callable[[Tensor], Tensor], device: torch.device, seed: int) -> float:
        """The mean loss over the rows, or the labels that count; equal seeds are equal draws, the same for all rows."""
        total, rows, sizes = 0.0, 0, 0.0
        generator = torch.Generator(device)
        # a loader takes a number from PyTorch's generator, which may be that of the training
        with torch.random.fork_rng(devices=[]), evaluating(model):
            layers = drawers(model)
            draws = self.draws if layers else 1
            for x, y in self._blocks(device):
                generator.manual_seed(seed)
                outputs: Any = None
                for _ in range(draws):
                    output = self._drawn(forward, layers, x, generator)
                    outputs = output if outputs is None else self.average.add(outputs, output)
                mean = self.average.end(outputs, draws) if isinstance(outputs, Tensor) else outputs
                if self.unseen:
                    check_pairing(self.loss, mean, y)
                    self.unseen = False
                loss, size = float(self.loss(mean, y)), self.size_of(y)
                if size:  # the mean over no label is NaN
                    total += loss * size
                rows, sizes = rows + len(x), sizes + size
        if not rows:
            raise ValueError("the validation data have no rows, but they need at least one.")
        if not sizes:
            raise ValueError(
                "no label of the validation data counts: each is the loss's ignore_index or of a class of weight 0. "
                "Give rows with labels, or leave `validation` out."
            )
        return total / sizes


class _Average(NamedTuple):
    """How draws are averaged: what is taken of a draw's outputs, the sum of two, and what the total of all becomes."""

    of: Callable[[Tensor], Tensor]
    add: Callable[[Tensor, Tensor], Tensor]
    end: Callable[[Tensor, int], Tensor]


_MEAN = _Average(lambda outputs: outputs, torch.add, lambda total, draws: total / draws)  # for losses of numbers
# the log of the mean probability, from log probabilities, and from logits: log probabilities are logits too
_LOG = _Average(lambda outputs: outputs, torch.logaddexp, lambda total, draws: total - math.log(draws))
_CLASSES = _LOG._replace(of=lambda outputs: torch.log_softmax(outputs, dim=min(1, outputs.dim() - 1)))
# the logit of the mean probability, from logits
_BINARY = _Average(
    lambda outputs: torch.stack([F.logsigmoid(outputs), F.logsigmoid(-outputs)]),
    torch.logaddexp,
    lambda total, draws: total[0] - total[1],
)
_AVERAGES: dict[Any, _Average] = {
    **dict.fromkeys((F.cross_entropy, nn.CrossEntropyLoss), _CLASSES),
    **dict.fromkeys((F.nll_loss, nn.NLLLoss), _LOG),
    **dict.fromkeys((F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss), _BINARY),
}
