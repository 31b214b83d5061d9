"""From a network with plain batch norm to a stochastic one: conversion, and fitting the moments of its statistics."""

import copy
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from bnnlib._copies import copied, replaced
from bnnlib._noise import use_generator
from bnnlib._overrides import evaluating
from bnnlib.nn.stochastic_batch_norm import StochasticBatchNorm1d, StochasticBatchNorm2d, _StochasticBatchNorm

_LAYERS = {nn.BatchNorm1d: StochasticBatchNorm1d, nn.BatchNorm2d: StochasticBatchNorm2d}
_BatchNorm = nn.modules.batchnorm._BatchNorm
Batches = Iterable[Tensor | tuple[Tensor, ...]]


def to_stochastic_batch_norm(
    model: nn.Module,
    *,
    where: Callable[[str, nn.Module], bool] | None = None,
    statistic: str = "scale",
    draws: str = "batch",
) -> nn.Module:
    """A copy of `model` in which every batch norm layer is a stochastic one around the same parameters and statistics.

    In mean mode the copy computes what the model computes. Drawing needs `match_moments`, or training, first.

    Args:
        model: any module, trained or not; it is not changed. Layers that are stochastic already stay as they are.
        where: called as where(name, module) on each batch norm layer; return False to leave it deterministic.
        statistic, draws: as for `StochasticBatchNorm1d`.

    Raises:
        ValueError: there is nothing to convert, or a layer has no stochastic form (BatchNorm3d, SyncBatchNorm, a
            subclass) or no running statistics; it is named.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        >>> type(to_stochastic_batch_norm(model)[1]).__name__
        'StochasticBatchNorm1d'
    """
    model = copied(model)
    new: dict[nn.Module, nn.Module] = {}
    for name, module in model.named_modules():
        if not isinstance(module, _BatchNorm) or isinstance(module, _StochasticBatchNorm):
            continue
        if where is not None and not where(name, module):
            continue
        label = f"{name or 'the model itself'} ({type(module).__name__})"
        if type(module) not in _LAYERS:
            raise ValueError(
                f"{label} has no stochastic form: only BatchNorm1d and BatchNorm2d have. Leave it deterministic with "
                "where=lambda name, module: ..., or replace it by one of these first (SyncBatchNorm computes the same "
                "as BatchNorm2d on one device)."
            )
        try:
            new[module] = _LAYERS[type(module)].from_deterministic(module, statistic=statistic, draws=draws)
        except ValueError as error:
            raise ValueError(f"{label} cannot be converted: {error}") from None
    if not new:
        raise ValueError(
            f"{type(model).__name__} has no BatchNorm1d or BatchNorm2d that `where` accepts, so there is nothing to "
            "make stochastic."
        )
    return replaced(model, new)


def stochastic_batch_norms(model: nn.Module) -> dict[str, _StochasticBatchNorm]:
    """The stochastic batch norm layers of a model by their names."""
    layers = {name: module for name, module in model.named_modules() if isinstance(module, _StochasticBatchNorm)}
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no stochastic batch norm. Convert its batch norm with "
            "bnnlib.nn.to_stochastic_batch_norm(model)."
        )
    return layers


def dropout_layers(model: nn.Module) -> list[nn.Module]:
    """The dropout layers of a model: PyTorch's, `bnnlib.models.Dropout`, any whose class name has "Dropout" in it."""
    return [module for module in model.modules() if "Dropout" in type(module).__name__]


def match_moments(
    model: nn.Module, batches: Batches, *, dropout: bool = False, generator: torch.Generator | None = None
) -> int:
    """Fit r(mu) r(sigma) of every layer to the statistics of training batches, equation (sbn-moments). No gradients.

    The network runs with batch statistics in all stochastic layers, as in training, and with everything else in
    `eval()`. All batches count equally and replace what the moments were; the layers' `momentum` stays.

    Args:
        model: with stochastic batch norm, trained or pretrained as a plain network; its modes are restored.
        batches: of training inputs, tensors (n, ...) or tuples that begin with one, on the model's device and in
            random order. Their size should be that of training: it decides how much the statistics scatter.
        dropout: leave dropout on, for `predict_dropout`: what it does to the variance is then part of the statistics.
        generator: of the masks of `bnnlib.models.Dropout`.

    Returns:
        The number of batches.

    Raises:
        ValueError: there are no stochastic layers, or fewer than two batches. The moments are then, and after any
            other error, as before.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), StochasticBatchNorm1d(4))
        >>> match_moments(model, torch.randn(20, 16, 3))  # 20 batches of 16 rows
        20
    """
    layers = list(stochastic_batch_norms(model).values())
    saved = [(layer.momentum, copy.deepcopy(layer.state_dict())) for layer in layers]
    try:
        with use_generator(generator):
            count = _run(model, layers, batches, dropout)
        if count < 2:
            raise ValueError(f"batches gave {count} batches, but a spread needs at least 2: pass x.split(batch_size).")
    except BaseException:
        for layer, (_, state) in zip(layers, saved, strict=True):
            layer.load_state_dict(state)
        raise
    finally:
        for layer, (momentum, _) in zip(layers, saved, strict=True):
            layer.momentum = momentum
    return count


@torch.no_grad()
def _run(model: nn.Module, layers: list[_StochasticBatchNorm], batches: Batches, dropout: bool) -> int:
    count = 0
    dropping = [part for layer in dropout_layers(model) for part in layer.modules()] if dropout else []
    with evaluating(model, training=[*dropping, *layers]):
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
        for batch in batches:
            model(batch if isinstance(batch, Tensor) else batch[0])
            count += 1
    return count
