"""Physical compression: a network without its dead units, smaller in memory, on disk and in time.

A mask of zeros makes a network neither smaller nor faster. Here units that are 0 for every input, and units that nobody
reads, leave the network for good; what is left are ordinary PyTorch layers with fewer channels.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnnlib._checks import check_probability
from bnnlib.nn.base import BayesianLayer, StochasticLayer, selected_weights
from bnnlib.nn.parameters import ParameterPosterior
from bnnlib.nn.structured_pruning import StructuredBayesianPruning
from bnnlib.pruning.compress.fold import fold_noise
from bnnlib.pruning.compress.graph import LAYERS
from bnnlib.pruning.compress.layers import SelectedLinear, replace_module
from bnnlib.pruning.compress.units import Units
from bnnlib.pruning.ranking import to_deterministic

_SUPPORTED = (
    "nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, the layers of bnnlib.nn, and modules without parameters"
)


@torch.inference_mode(False)
@torch.no_grad()
def compress(model: nn.Module, example: Tensor, *, select_below: float = 0.9) -> nn.Module:
    """A physically smaller copy for inference, equal to the network of the active weights and units.

    Bayesian layers take the means of their active weights, as under `selected_weights`; noise on units moves into a
    neighboring layer; stochastic batch norm takes its running statistics. Then all units go that are 0 for every input
    or that no weight reads, in sums of residual networks those whose every term is; constant units go into the biases
    that follow, where no zeros are padded in between. Removal is by torch-pruning's dependency graph.

    Grouped convolutions, apart from depthwise ones, keep their channels, and so does all that runs through operations
    without a rule here (softmax, concatenation, ...). A layer of which nothing is left keeps one unit, which nobody
    reads, so that the shapes stay valid: `compression_report` lists it under "cut".

    Args:
        model: any network with zeros: from Structured Bayesian Pruning, a spike-and-slab posterior, group lasso, masks
            by hand. It is not changed, and need not be in eval().
        example: inputs (n, ...) as the network gets them, on its device; one row is enough.
        select_below: a linear layer with zero columns that cannot go as units (inputs of the network, single positions
            of a channel after flatten) picks its inputs (`SelectedLinear`) if it reads at most this share of them.
            Above that the zeros stay: picking would take longer than multiplying by them. 1 always picks.

    Returns:
        The network in eval mode, with the names of its layers as they were; layers of noise are gone.

    Raises:
        TypeError: a layer is not supported, which the message names, runs more than once, or the forward pass cannot
            be followed.
        ValueError: example has no rows, or weights are computed by a hook or parametrization.
        ImportError: torch-pruning is not installed.
        RuntimeError: the compressed network computes something else, which is a defect.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).eval()
        >>> with torch.no_grad():
        ...     network[2].weight[:, :3] = 0.0  # nobody reads three of the four units
        >>> small = compress(network, torch.randn(2, 3))
        >>> small[0].out_features
        1
    """
    check_probability("select_below", select_below)
    if example.dim() < 2 or len(example) == 0:
        raise ValueError(f"example has shape {tuple(example.shape)}, but it must be rows of inputs: (n, ...).")
    example = example[:2].clone()
    plain = plain_network(model, example)
    small = copy.deepcopy(plain)
    units = Units(small, example)
    _remove(small, units, example)
    small = _select(small, select_below)
    _check_equal(model, small, example)
    return small


def plain_network(model: nn.Module, example: Tensor) -> nn.Module:
    """A copy in eval mode of full size that is deterministic and without noise: what `compress` starts from."""
    return fold_noise(deterministic_layers(model), example)


@torch.no_grad()
def deterministic_layers(model: nn.Module) -> nn.Module:
    """A copy in eval mode with plain layers in place of those with random weights or statistics; noise on units stays.

    Raises:
        TypeError, ValueError: as for `compress`.
    """
    _check_weights(model)
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
    return plain


def _check_weights(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)) and module._parameters.get("weight") is None:
            raise ValueError(
                f"{name or 'the model'} is a {type(module).__name__} whose weight is computed, by a pruning hook or "
                "weight norm. Make it permanent first, with torch.nn.utils.prune.remove(layer, 'weight') or "
                "torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight')."
            )


def _check_layers(model: nn.Module) -> None:
    owners: dict[nn.Parameter, str] = {}
    for name, module in model.named_modules():
        shown = f"{name or 'the model'} is a {type(module).__name__}"
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        if type(module) not in LAYERS:
            if own or isinstance(module, StochasticLayer):
                raise TypeError(
                    f"{shown}, which cannot be compressed: compress does not know which of its "
                    f"{'parameters' if own else 'draws'} belong to which unit. Supported are {_SUPPORTED}."
                )
            continue
        if isinstance(module, _BatchNorm) and module.running_mean is None:
            raise ValueError(
                f"{shown} with track_running_stats=False, whose output depends on the other rows of the batch: a unit "
                "cannot leave it. Train with running statistics."
            )
        for key, parameter in module.named_parameters(recurse=False):
            if parameter in owners:
                raise TypeError(
                    f"{name}.{key} is the same tensor as {owners[parameter]}, so a unit cannot be removed from one "
                    "alone. Give each layer weights of its own."
                )
            owners[parameter] = f"{name}.{key}"


def _remove(model: nn.Module, units: Units, example: Tensor) -> None:
    """Take the units that nobody reads out of the model, in place."""
    planned: dict[nn.Linear | nn.Conv2d, int] = {}
    removals: list[tuple[nn.Linear | nn.Conv2d, list[int]]] = []
    for channels in units.channel_sets():
        if not channels.producers:
            continue
        keep = channels.read.clone()
        if not keep.any():
            keep[0] = True
        planned.update(dict.fromkeys(channels.producers, int(keep.sum())))
        if not keep.all():
            removals.append((channels.producers[0], (~keep).nonzero().flatten().tolist()))
    if not removals:
        return
    pruning = _torch_pruning()
    graph = pruning.DependencyGraph()
    trainable = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    with torch.enable_grad():  # torch-pruning follows the graph of the gradients
        for parameter in model.parameters():
            parameter.requires_grad_(True)
        # a tuple: torch-pruning would take the rows of a tensor for the arguments
        graph.build_dependency(model, example_inputs=(example,), verbose=False)
    for layer, indices in removals:
        linear = isinstance(layer, nn.Linear)
        function = pruning.prune_linear_out_channels if linear else pruning.prune_conv_out_channels
        graph.get_pruning_group(layer, function, indices).prune()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trainable[name])
        parameter.grad = None
    names = {module: name for name, module in model.named_modules()}
    for layer, count in planned.items():
        if len(layer.weight) != count:
            raise RuntimeError(
                f"torch-pruning left {len(layer.weight)} units of {names[layer]}, but {count} were planned. This is a "
                "defect of bnnlib.pruning.compress: please report the network."
            )


def _torch_pruning():
    try:
        import torch_pruning
    except ImportError as error:
        raise ImportError(
            "compress removes units with torch-pruning, which is not installed. Install it with "
            "pip install 'bnnlib[compress]' or pip install torch-pruning."
        ) from error
    return torch_pruning


def _select(model: nn.Module, select_below: float) -> nn.Module:
    for name, module in list(model.named_modules()):
        if type(module) is nn.Linear:
            read = (module.weight != 0).any(0)
            index = read.nonzero().flatten() if read.any() else torch.zeros(1, dtype=torch.long, device=read.device)
            if len(index) < len(read) and len(index) <= select_below * len(read):
                model = replace_module(model, name, SelectedLinear(module, index))
    return model


@torch.no_grad()
def masked_output(model: nn.Module, example: Tensor) -> Tensor:
    """What a model of any layers computes in eval mode under `selected_weights`; its own modes come back after."""
    training = {module: module.training for module in model.modules()}
    random = any(isinstance(module, StochasticLayer) for module in model.modules())
    try:
        with selected_weights(model) if random else contextlib.nullcontext():
            return model.eval()(example)
    finally:
        for module, mode in training.items():
            module.training = mode


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
    with full_precision():
        expected = masked_output(model, example)
        difference = float((small(example) - expected).abs().max())
    # far above rounding, which sums in another order change, and far below what a unit too many or too few does
    allowed = 1e3 * torch.finfo(expected.dtype).eps * float(expected.abs().max().clamp_min(1.0))
    if not difference <= allowed:
        raise RuntimeError(
            f"the compressed {type(model).__name__} differs from the masked one by {difference:.3g} on the example. "
            "Does its forward pass use a number of channels, draw at random in eval(), or give NaN? Otherwise this is "
            "a defect of bnnlib.pruning.compress: please report the network."
        )
