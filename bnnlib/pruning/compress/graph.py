"""The forward pass of a network as a graph, and what each of its steps does to channels."""

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn.modules.batchnorm import _BatchNorm

from bnnlib.nn.structured_pruning import StructuredBayesianPruning
from bnnlib.pruning.compress.layers import SelectedLinear, activated

Modules = Mapping[str, nn.Module]
Layer = nn.Linear | nn.Conv2d | _BatchNorm  # LAYERS but for the noise
LAYERS = (nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, StructuredBayesianPruning, SelectedLinear)
_SAME = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d)
_POOL_CALLS = (F.max_pool2d, F.avg_pool2d, F.adaptive_max_pool2d, F.adaptive_avg_pool2d)
_HOMOGENEOUS = (nn.ReLU, nn.LeakyReLU)  # f(s x) = s f(x) for s >= 0
_HOMOGENEOUS_CALLS = (F.relu, F.relu_, torch.relu, torch.relu_, F.leaky_relu, "relu", "relu_")
_ACTIVATIONS = (
    nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.ReLU6, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign,
    nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid,
)  # fmt: skip
_ACTIVATION_CALLS = (
    F.elu, F.selu, F.celu, F.gelu, F.silu, F.mish, F.relu6, F.sigmoid, F.tanh, F.softplus, F.softsign, F.hardtanh,
    F.hardswish, F.hardsigmoid, F.logsigmoid, torch.sigmoid, torch.tanh, "sigmoid", "tanh",
)  # fmt: skip
PRODUCT = (operator.mul, operator.imul, torch.mul, "mul", "mul_")
_BINARY = (operator.add, operator.iadd, torch.add, operator.sub, torch.sub, "add", "add_", "sub", *PRODUCT)
_SIZES = (torch.reshape, "view", "reshape")
_SHAPES = (torch.unsqueeze, torch.squeeze, "unsqueeze", "squeeze")
_PLAIN = (int, float, bool, str, torch.Size, torch.dtype, torch.device, slice, type(None))


def has_rule(module: nn.Module) -> bool:
    """Whether a module is one of the layers that can be made smaller, or noise."""
    return type(module) in LAYERS or activated(module)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        # PyTorch's own modules are whole, unless noise has been put into them
        noisy = any(isinstance(inner, StructuredBayesianPruning) for inner in module.modules())
        return isinstance(module, LAYERS) or (super().is_leaf_module(module, name) and not noisy)


def trace(model: nn.Module, example: Tensor) -> tuple[fx.Graph, dict[str, nn.Module]]:
    """The graph of the forward pass, with the shape of each tensor in `meta`, and the modules by name."""
    try:
        graph = _Tracer().trace(model)
        ShapeProp(fx.GraphModule(model, graph)).propagate(example)
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TypeError(
            f"the forward pass of {type(model).__name__} cannot be followed with torch.fx on an example of shape "
            f"{tuple(example.shape)}: {first.rstrip('.')}. It must run, and not branch on values or shapes of tensors."
        ) from error
    modules = dict(model.named_modules())
    called = [node.target for node in graph.nodes if node.op == "call_module"]
    for name in called:
        if has_rule(modules[name]) and called.count(name) > 1:
            raise TypeError(
                f"{name} is a {type(modules[name]).__name__} that runs {called.count(name)} times in one forward pass, "
                "so a unit cannot be removed for one of them alone. Give each place a layer of its own."
            )
    return graph, modules


def outputs(result: Any) -> list[Tensor]:
    """The tensors of what a forward pass returns, in order: of one tensor, tuples, lists, dicts and dataclasses."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, Mapping):
        parts = list(result.values())
    elif isinstance(result, (tuple, list)):
        parts = list(result)
    elif dataclasses.is_dataclass(result):
        parts = [getattr(result, field.name) for field in dataclasses.fields(result)]
    else:
        parts = []
    return [tensor for part in parts for tensor in outputs(part)]


def shape(node: Any) -> tuple[int, ...] | None:
    """The shape of a node's result; None if it is not one tensor."""
    meta = node.meta.get("tensor_meta") if isinstance(node, fx.Node) else None
    size = getattr(meta, "shape", None)
    return None if size is None else tuple(size)


def tensor_shape(node: Any) -> tuple[int, ...]:
    """The shape of a node's result that is one tensor."""
    return cast(tuple[int, ...], shape(node))


def module_of(node: fx.Node, modules: Modules) -> Any:
    """The module that a "call_module" node calls."""
    return modules[str(node.target)]


def kind(node: fx.Node, modules: Modules) -> str:
    """What a node does to channels.

    "layer", "noise", "same" (nothing), "homogeneous" or "elementwise" (a function of each entry), "pool", "flatten",
    "reshape" (of what is behind the channels), "binary" (two tensors), "gate" (a product of all positions of a channel
    with one number), "plain" (no tensor comes out) or "other".
    """
    after, target = shape(node), node.target
    if after is None:
        return "other" if _holds_tensors(node) else "plain"
    if node.op == "call_module":
        return _module_kind(module_of(node, modules), node)
    before = shape(node.args[0]) if node.args else None
    if node.op not in ("call_function", "call_method") or before is None:
        return "other"
    tensors = [arg for arg in node.all_input_nodes if shape(arg) is not None]
    if target in _BINARY and not node.kwargs and len(node.args) == 2:
        if len(tensors) == 2:
            left, right = (tensor_shape(tensor) for tensor in tensors)
            if left == right:
                return "binary"
            return "gate" if target in PRODUCT and _gates(left, right) else "other"
        return "elementwise" if isinstance(node.args[1], (int, float)) else "other"
    if target == "expand_as" and len(tensors) == 2 and _gates(before, after) and before[:2] == after[:2]:
        return "same"  # of as many channels as what it is expanded as
    if len(tensors) != 1:
        return "other"
    if target in _HOMOGENEOUS_CALLS:
        return "homogeneous"
    if target in _ACTIVATION_CALLS:
        return "elementwise"
    if target in _POOL_CALLS or (target in (torch.mean, "mean") and _keeps_channels(node)):
        return "pool"
    if _behind(node) == {slice}:
        return "pool"  # of single positions
    if target == "contiguous" or (target is F.dropout and not _argument(node, 2, "training", True)):
        return "same"
    # torchvision's, by its name, since that library is not needed here
    if getattr(target, "__name__", "") == "stochastic_depth" and not _argument(node, 3, "training", True):
        return "same"
    if target in (torch.flatten, "flatten") or (
        target in _SIZES and len(_given_size(node)) == 2 and _computed_channels(node)
    ):
        return "flatten" if _flattens(before, after) else "other"
    follows = target in _SHAPES or (target in _SIZES and _computed_channels(node))
    if (follows or _behind(node) == {type(None)}) and len(before) > 1:
        return "reshape" if before[:2] == after[:2] else "other"
    return "other"


def described(node: fx.Node, modules: Modules) -> str:
    """What a node is, in words of the network."""
    if node.op == "call_module":
        return f"{node.target} ({type(module_of(node, modules)).__name__})"
    if node.op == "call_method":
        return f".{node.target}()"
    return f"{node.target if isinstance(node.target, str) else getattr(node.target, '__name__', node.name)}()"


def _holds_tensors(node: fx.Node) -> bool:
    """Whether tensors are in what a node gives, which is not one tensor."""
    if node.op == "output" or "tensor_meta" in node.meta:
        return True
    kind = node.meta.get("type", type(None))
    return not issubclass(kind, (*_PLAIN, tuple, list, dict))  # a dataclass, say


def _gates(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    """Whether one of two shapes has the other's rows and channels, and a single position."""
    same = len(left) == len(right) > 2 and left[:2] == right[:2]
    return same and any(math.prod(size[2:]) == 1 for size in (left, right))


def _module_kind(module: nn.Module, node: fx.Node) -> str:
    if has_rule(module):
        return "noise" if isinstance(module, StructuredBayesianPruning) else "layer"
    names = ((_SAME, "same"), (_HOMOGENEOUS, "homogeneous"), (_ACTIVATIONS, "elementwise"), (_POOLS, "pool"))
    for types, name in names:
        if type(module) in types:
            return name
    if type(module) is nn.PReLU and module.num_parameters == 1:
        return "homogeneous"
    flat = type(module) is nn.Flatten and _flattens(tensor_shape(node.args[0]), tensor_shape(node))
    return "flatten" if flat else "other"


def _behind(node: fx.Node) -> set[type]:
    """The kinds of what an index has behind all rows and channels, `[:, :, ...]`; none where it is no such index."""
    index: Any = node.args[1] if node.target is operator.getitem else None
    whole = isinstance(index, tuple) and index[:2] == (slice(None), slice(None))
    return {type(part) for part in index[2:]} if whole else set()


def _flattens(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    return len(before) >= 2 and after == (before[0], math.prod(before[1:]))


def _computed_channels(node: fx.Node) -> bool:
    size = _given_size(node)
    # a size that is typed in would not fit a smaller network; one that the pass reads off its tensors does
    return len(size) > 1 and (isinstance(size[1], fx.Node) or size[1] == -1)


def _given_size(node: fx.Node) -> tuple:
    given = node.args[1] if len(node.args) > 1 else ()
    return tuple(given) if isinstance(given, (tuple, list)) else tuple(node.args[1:])


def _keeps_channels(node: fx.Node) -> bool:
    dims = _argument(node, 1, "dim", None)
    rank = len(tensor_shape(node.args[0]))
    dims = (dims,) if isinstance(dims, int) else dims
    return dims is not None and all(dim % rank >= 2 for dim in dims)


def _argument(node: fx.Node, position: int, name: str, default: Any) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def changes_constants(node: fx.Node, modules: Modules) -> bool:
    """Whether an average counts zeros around the border, or divides by another number than it has entries."""
    if node.op == "call_module":
        module = module_of(node, modules)
        if type(module) is not nn.AvgPool2d:
            return False
        zeros = module.count_include_pad and module.padding not in (0, (0, 0))
        return zeros or module.divisor_override is not None
    zeros, divisor = _argument(node, 3, "padding", 0) not in (0, (0, 0)), _argument(node, 6, "divisor_override", None)
    return node.target is F.avg_pool2d and (zeros or divisor is not None)


def evaluate(node: fx.Node, modules: Modules) -> Callable[..., Tensor]:
    """The function of the entries that a node of kind "elementwise", "homogeneous", "binary" or "gate" is."""
    if node.op == "call_module":
        module = module_of(node, modules)
        if type(module) is nn.PReLU:  # which takes numbers of its own dtype and device alone
            return lambda value: F.leaky_relu(value, module.weight.item())
        return module

    def call(*values: Tensor) -> Tensor:
        given = iter(values)
        args = [next(given) if isinstance(arg, fx.Node) else arg for arg in node.args]
        if isinstance(node.target, str):  # the name of a method
            return getattr(args[0], node.target)(*args[1:])
        return node.target(*args, **node.kwargs)

    return call
