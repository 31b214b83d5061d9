"""The statistics of batches, of which stochastic batch norm fits the moments: in a pass, and collected over many."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from bnnlib._overrides import evaluating
from bnnlib.functional import batch_statistics
from bnnlib.nn.batch_moments import Batches

_BatchNorm = nn.modules.batchnorm._BatchNorm


@contextmanager
def training_statistics(model: nn.Module) -> Iterator[nn.Module]:
    """Context in which all batch norm, plain or stochastic, normalizes with its batch and keeps nothing of it.

    Everything else, dropout too, is in `eval()`.
    """
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no batch norm, so its outputs do not depend on the batch.")
    tracking = [layer.track_running_stats for layer in layers]
    with evaluating(model, training=layers):
        try:
            for layer in layers:
                layer.track_running_stats = False
            yield model
        finally:
            for layer, old in zip(layers, tracking, strict=True):
                layer.track_running_stats = old


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


@torch.no_grad()
def collect_statistics(model: nn.Module, batches: Batches) -> dict[str, tuple[Tensor, Tensor]]:
    """mu(B) and log sigma(B) of every batch norm layer over batches: a sample of (sbn-likelihood), to compare with.

    Args:
        model: with plain or stochastic batch norm; neither its statistics nor its modes change.
        batches: as for `bnnlib.nn.match_moments`.

    Returns:
        For each layer's name two tensors (batches, C). sigma is sqrt(var(B) + eps).

    Raises:
        ValueError: the model has no batch norm, or there are no batches.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        >>> {name: mean.shape for name, (mean, log_scale) in collect_statistics(model, torch.randn(20, 16, 3)).items()}
        {'1': torch.Size([20, 4])}
    """
    found: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def keep(name: str):
        def hook(layer: _BatchNorm, inputs: tuple[Tensor, ...]) -> None:
            found.setdefault(name, []).append(batch_statistics(_wide(inputs[0]), layer.eps))

        return hook

    handles = [
        module.register_forward_pre_hook(keep(name))
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm)
    ]
    try:
        with training_statistics(model):
            for batch in batches:
                model(batch if isinstance(batch, Tensor) else batch[0])
    finally:
        for handle in handles:
            handle.remove()
    if not found:
        raise ValueError("batches is empty, so there are no statistics. Pass x.split(batch_size).")
    parts = {name: zip(*values, strict=True) for name, values in found.items()}
    return {name: (torch.stack(means), torch.stack(scales)) for name, (means, scales) in parts.items()}
