"""Physical compression: a network without its dead units, smaller in memory, on disk and in time."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnnlib._checks import check_probability
from bnnlib._overrides import evaluating
from bnnlib.nn.base import BayesianLayer, StochasticLayer, give_hooks, selected_weights
from bnnlib.nn.parameters import ParameterPosterior
from bnnlib.nn.structured_pruning import StructuredBayesianPruning
from bnnlib.pruning.compress.fold import fold_noise
from bnnlib.pruning.compress.graph import has_rule, outputs
from bnnlib.pruning.compress.layers import FULL_SIZES, SelectedLinear, keep_units, replace_module, sizes_of
from bnnlib.pruning.compress.units import Units
from bnnlib.pruning.ranking import to_deterministic

_DEFECT = "Otherwise this is a defect of bnnlib.pruning.compress: please report the network."


@torch.inference_mode(False)
@torch.no_grad()
def compress(model: nn.Module, example: Tensor, *, select_below: float = 0.9) -> nn.Module:
    """A physically smaller copy for inference, equal to the network of the active weights and units.

    Bayesian layers take the means of their active weights, as under `selected_weights`; noise on units moves into a
    neighboring layer; stochastic batch norm takes its running statistics. Then all units go that are 0 for every input
    or that no weight reads, in sums of residual networks those whose every term is; constant units go into the biases
    that follow, where no zeros are padded in between. A squeeze-and-excite gate loses the units that it multiplies.

    Linear layers, 2-d convolutions and batch norm are made smaller, and depthwise convolutions of as many outputs as
    inputs. Units also go through dropout, activations (`nn.PReLU` with one slope), 2-d pooling, flatten, sums and
    products. All else stays as it is, with every unit that it reads or makes: other convolutions, recurrent layers,
    attention, embeddings, other normalization, upsampling, softmax, concatenation; `blocked_units` says which units
    those are. A layer of which nothing is left keeps one unit, so that the shapes stay valid: `compression_report`
    lists it under "cut".

    Args:
        model: any network with zeros: from Structured Bayesian Pruning, a spike-and-slab posterior, group lasso, masks
            by hand. It may return one tensor, or tensors in tuples, lists, dicts and dataclasses. It is not changed,
            and need not be in eval().
        example: inputs (n, ...) as the network gets them, on its device; one row is enough.
        select_below: a linear layer with zero columns that cannot go as units (inputs of the network, single positions
            of a channel after flatten) picks its inputs (`SelectedLinear`) if it reads at most this share of them: then
            that is faster than multiplying by zeros. 1 always picks.

    Returns:
        The network in eval mode, with the names of its layers as they were; layers of noise are gone.

    Raises:
        TypeError: a layer draws at random without a deterministic form here, has a forward pass of its own, or could be
            made smaller but runs more than once, a module is compiled, or the forward pass cannot be followed.
        ValueError: example has no rows, or weights are computed by a hook or parametrization.
        RuntimeError: the compressed network computes something else, which is a defect.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).eval()
        >>> network[2].weight.data[:, :3] = 0.0  # nobody reads three of the four units
        >>> compress(network, torch.randn(2, 3))[0].out_features
        1
    """
    check_probability("select_below", select_below)
    example = check_example(example)[:2].clone()
    plain = plain_network(model, example)
    small = copy.deepcopy(plain)
    for layer in small.modules():
        if has_rule(layer) and not hasattr(layer, FULL_SIZES):
            setattr(layer, FULL_SIZES, sizes_of(layer))
    units = Units(small, example)
    cuts = [(reader.layer, reader.outputs.kept(), reader.inputs.kept()) for reader in units.readers]
    for layer, rows, columns in cuts:
        keep_units(layer, rows, columns)
    for follower, value in units.followers:
        keep_units(follower, value.kept())
    small = _select(small, select_below)
    _check_equal(model, small, example)
    return small


@torch.inference_mode(False)
@torch.no_grad()
def blocked_units(model: nn.Module, example: Tensor) -> list[dict[str, Any]]:
    """Which units of a network are off, which of those stay when `compress` makes it small, and what keeps them.

    A unit is off where noise, a factor or zero weights make it constant, or where nobody reads it. Units that live and
    die together (the terms of a sum, a gate and what it multiplies) are one row.

    Args:
        model, example: as for `compress`; the model is not changed.

    Returns:
        Rows {layers, units, off, stay, reasons}, JSON-able, for every set of units that has one that is off: names of
        what makes them; how many there are, are off, and stay although they are; and for each reason the number of
        units that it keeps, of which one may have several.

    Raises:
        TypeError, ValueError: as for `compress`.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Softmax(1), torch.nn.Linear(4, 1)).eval()
        >>> network[0].weight.data[:2] = 0.0  # two units are constant, and have their share in the others' softmax
        >>> (row,) = blocked_units(network, torch.randn(2, 3))
        >>> row["layers"], row["units"], row["off"], row["stay"], row["reasons"]
        (['0'], 4, 2, 2, {'they go into 1 (Softmax), for which compress has no rule': 2})
    """
    example = check_example(example)[:2].clone()
    return list(Units(plain_network(model, example), example).blocked())


def check_example(example: Tensor) -> Tensor:
    """Return inputs (n, ...) of at least one row."""
    if example.dim() < 2 or len(example) == 0:
        raise ValueError(f"example has shape {tuple(example.shape)}, but it must be rows of inputs: (n, ...).")
    return example


def plain_network(model: nn.Module, example: Tensor) -> nn.Module:
    """A copy in eval mode of full size that is deterministic and without noise: what `compress` starts from."""
    return fold_noise(deterministic_layers(model), example)


@torch.no_grad()
def deterministic_layers(model: nn.Module) -> nn.Module:
    """A copy in eval mode, plain layers in place of those with random weights or statistics; noise on units stays."""
    for name, module in model.named_modules():
        if hasattr(module, "_orig_mod"):  # of torch.compile, which cannot be followed
            raise TypeError(f"{name or 'the model'} is compiled. Put its ._orig_mod, the module inside, in its place.")
    check_weights(model)
    selected = {name: layer.selected() for name, layer in model.named_modules() if isinstance(layer, BayesianLayer)}
    for name, module in model.named_modules():
        if isinstance(module, ParameterPosterior):
            raise TypeError(
                f"{name or 'the model'} is a {type(module).__name__}, converted parameter by parameter, whose units "
                "cannot be taken out. Leave it out of to_bayesian."
            )
    model = to_deterministic(model)
    for name, values in selected.items():
        layer = model.get_submodule(name)
        for own, value in zip(("weight", "bias"), values, strict=True):
            if value is not None:
                layer.get_parameter(own).copy_(value)
    for name, module in list(model.named_modules()):
        if isinstance(module, StochasticLayer) and isinstance(module, _BatchNorm):
            model = replace_module(model, name, _plain_norm(module))
        elif isinstance(module, StructuredBayesianPruning):
            module.weight_mode = "selected"
    _check_layers(model)
    return model.eval()


def _plain_norm(layer: _BatchNorm) -> _BatchNorm:
    """Batch norm with the running statistics, which is what the stochastic one is under `selected_weights`."""
    kind = nn.BatchNorm2d if isinstance(layer, nn.BatchNorm2d) else nn.BatchNorm1d
    plain = kind(layer.num_features, layer.eps, layer.momentum, layer.affine).to(layer.running_mean)
    plain.load_state_dict({name: layer.state_dict()[name] for name in plain.state_dict()})
    give_hooks(layer, plain)
    return plain


def check_weights(model: nn.Module) -> None:
    """Refuse weights that a hook or parametrization computes."""
    kinds = (nn.Linear, nn.Conv2d, BayesianLayer)
    for name, module in model.named_modules():
        if isinstance(module, kinds) and not isinstance(module, ParameterPosterior) and "weight" in _computed(module):
            raise ValueError(
                f"{name or 'the model'} is a {type(module).__name__} whose weight is computed, by a pruning hook or "
                "weight norm. Make it permanent first, with torch.nn.utils.prune.remove(layer, 'weight') or "
                "torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight')."
            )


def _computed(module: nn.Module) -> set[str]:
    """Names that a layer reads as parameters and does not own as such."""
    return {name for name in ("weight", "bias") if name not in module._parameters}


def _check_layers(model: nn.Module) -> None:
    owners: dict[nn.Parameter, str] = {}
    others = {id(p) for m in model.modules() if not has_rule(m) for p in m.parameters(recurse=False)}
    for name, module in model.named_modules():
        shown = f"{name or 'the model'} is a {type(module).__name__}"
        if not has_rule(module):
            if isinstance(module, StochasticLayer):
                raise TypeError(
                    f"{shown}, which cannot be compressed: it draws at random, and has no deterministic form here."
                )
            continue
        if isinstance(module, _BatchNorm) and module.running_mean is None:
            raise ValueError(
                f"{shown} with track_running_stats=False, whose output depends on the other rows of the batch: a unit "
                "cannot leave it. Train with running statistics."
            )
        for key, parameter in list(module.named_parameters(recurse=False)):
            if id(parameter) in others:  # such as an embedding's, which stays whole
                setattr(module, key, nn.Parameter(parameter.detach().clone(), parameter.requires_grad))
            elif parameter in owners:
                raise TypeError(
                    f"{name}.{key} is the same tensor as {owners[parameter]}, so a unit cannot be removed from one "
                    "alone. Give each layer weights of its own."
                )
            owners[parameter] = f"{name}.{key}"


def _select(model: nn.Module, select_below: float) -> nn.Module:
    for name, module in list(model.named_modules()):
        if type(module) is nn.Linear:
            read = (module.weight != 0).any(0)
            index = read.nonzero().flatten() if read.any() else torch.zeros(1, dtype=torch.long, device=read.device)
            if len(index) < len(read) and len(index) <= select_below * len(read):
                model = replace_module(model, name, SelectedLinear(module, index))
    return model


@torch.no_grad()
def masked_output(model: nn.Module, example: Tensor) -> Any:
    """What a model of any layers computes in eval mode under `selected_weights`; its own modes come back after."""
    random = any(isinstance(module, StochasticLayer) for module in model.modules())
    with evaluating(model), selected_weights(model) if random else contextlib.nullcontext():
        return model(example)


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Without the ten-bit mantissas of TF32, by which convolutions of two sizes differ on a GPU."""
    cudnn, before = torch.backends.cudnn, torch.backends.cudnn.allow_tf32
    precision = torch.get_float32_matmul_precision()
    try:
        cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        yield
    finally:
        cudnn.allow_tf32 = before
        torch.set_float32_matmul_precision(precision)


def _check_equal(model: nn.Module, small: nn.Module, example: Tensor) -> None:
    called = f"the compressed {type(model).__name__}"
    with full_precision():
        expected = outputs(masked_output(model, example))
        if not expected:
            raise TypeError(
                f"{type(model).__name__} returns no tensor, or in an object that is no tuple, list, dict or dataclass, "
                "so that nothing says whether the compressed one is right. Wrap it in a module that returns tensors."
            )
        try:
            given = outputs(small(example))
        except (RuntimeError, ValueError, IndexError) as error:
            raise RuntimeError(
                f"{called} does not run on the example: {error}. Does its forward pass have a number of channels in "
                f"it? Read it off the tensor instead, as in x.flatten(1) or x.view(len(x), -1). {_DEFECT}"
            ) from error
    for output, wanted in zip(given, expected, strict=True):
        difference = float((output.double() - wanted.double()).abs().max()) if output.numel() else 0.0
        scale = float(wanted.double().abs().max().clamp_min(1.0)) if wanted.numel() else 1.0
        # far above rounding, which sums in another order change, and far below what a unit too many or too few does
        eps = torch.finfo(wanted.dtype).eps if wanted.is_floating_point() else 0.0
        if not difference <= 1e3 * eps * scale:
            raise RuntimeError(
                f"{called} differs from the masked one by {difference:.3g} on the example. Does its forward pass use a "
                f"number of channels, draw at random in eval() or give NaN, or a hook change a layer? {_DEFECT}"
            )
