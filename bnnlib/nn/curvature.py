"""The generalized Gauss-Newton matrix (GGN) of a network's loss: what `to_laplace` makes a posterior of.

H = sum over rows of J' L J, where J is the Jacobian of the outputs with respect to the weights, and L the Hessian of
the negative log-likelihood with respect to the outputs: the identity for numbers with unit noise, diag(p) - pp' for
classes (Schraudolph, 2002). A layer's weights are a matrix (groups, outputs, inputs), with its biases as last column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.nn.convert import NORMALIZATION

LARGEST = 6_000  # weights of a full covariance: 36 million numbers, and their eigenvectors
KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d)
Passed = dict[str, list[tuple[Tensor, Tensor]]]  # input and output of every call of a layer, by its name


def path(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def batches(data: Any, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of (x, y), or those that are given.

    Raises:
        ValueError: x and y have different numbers of rows.
    """
    if isinstance(data, tuple | list) and len(data) == 2 and all(isinstance(part, Tensor) for part in data):
        x, y = data
        if len(x) != len(y):
            raise ValueError(f"x has {len(x)} rows and y has {len(y)}, but both need as many.")
        return zip(x.split(batch_size), y.split(batch_size), strict=True)
    return iter(data)


def candidates(
    model: nn.Module, trained: set[str], where: Callable[[str, nn.Module], bool] | None
) -> tuple[dict[str, nn.Module], list[str]]:
    """Layers by name whose curvature can be had, and in words what else has been `trained`.

    Raises:
        ValueError: there is no such layer.
    """
    owners = Counter(id(p) for module in model.modules() for p in module._parameters.values() if p is not None)
    layers, left = {}, []
    for name, module in model.named_modules():
        own = {key: p for key, p in module._parameters.items() if p is not None}
        if not any(path(name, key) in trained for key in own):
            continue
        if type(module) in KINDS and "weight" in own and all(owners[id(p)] == 1 for p in own.values()):
            if where is None or where(name, module):
                layers[name] = module
        elif not isinstance(module, NORMALIZATION):
            left.append(f"{name or 'the model itself'} ({type(module).__name__})")
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no layer to give a posterior: to_laplace takes plain "
            f"{', '.join('nn.' + kind.__name__ for kind in KINDS)} modules with weights of their own that `where` "
            "accepts and that are not frozen: requires_grad_(True) thaws them."
        )
    return layers, left


def passed(model: nn.Module, layers: Mapping[str, nn.Module], x: Tensor) -> tuple[Tensor, Passed]:
    """The outputs of a pass, with a graph, and what went into the layers and came out of them."""
    seen: Passed = {name: [] for name in layers}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
            output = output if output.requires_grad else output.detach().requires_grad_()
            seen[name].append((inputs[0].detach(), output))
            return output.clone()  # which an activation may change in place

        return hook

    hooks = [layer.register_forward_hook(keep(name)) for name, layer in layers.items()]
    try:
        with torch.enable_grad():
            return model(x), seen
    finally:
        for hook in hooks:
            hook.remove()


def check_output(output: Any, rows: int) -> None:
    """Refuse what is not one tensor (rows, outputs).

    Raises:
        TypeError: it is not.
    """
    if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != rows:
        given = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise TypeError(
            f"the model returned {given} for {rows} rows, but to_laplace needs one tensor (rows, outputs). Wrap the "
            "model in a module that returns it."
        )


def check_rows_kept(name: str, a: Tensor, rows: int) -> None:
    """Refuse a layer that does not have the model's rows first.

    Raises:
        ValueError: it does not.
    """
    if len(a) != rows:
        raise ValueError(
            f"{name} is called with {len(a)} rows where the model is given {rows}: the closed form needs rows first in "
            "every layer. Draw with bnnlib.nn.predict."
        )


def groups(layer: Any) -> int:
    return getattr(layer, "groups", 1)


def inputs_of(layer: Any, x: Tensor) -> Tensor:
    """What each output of a layer is the product of its weights with: (rows, positions, groups, inputs)."""
    if isinstance(layer, nn.Linear):
        columns = x.reshape(len(x), -1, 1, x.shape[-1])
    else:
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        x = F.pad(x, layer._reversed_padding_repeated_twice, mode=mode)
        sizes = [layer.kernel_size, layer.dilation, layer.stride]
        if isinstance(layer, nn.Conv1d):
            x, sizes = x.unsqueeze(2), [(1, *size) for size in sizes]
        kernel, dilation, stride = sizes
        columns = F.unfold(x, kernel, dilation, 0, stride).transpose(1, 2)
        columns = columns.unflatten(2, (layer.groups, -1))
    return columns if layer.bias is None else F.pad(columns, (0, 1), value=1.0)


def gradients_of(layer: Any, gradient: Tensor) -> Tensor:
    """A gradient with respect to a layer's output in the same order: (rows, positions, groups, outputs)."""
    if isinstance(layer, nn.Linear):
        return gradient.reshape(len(gradient), -1, 1, gradient.shape[-1])
    return gradient.flatten(2).transpose(1, 2).unflatten(2, (layer.groups, -1))


def roots(outputs: Tensor, classes: bool) -> Tensor:
    """Columns whose outer products sum up to L, (K, rows, K)."""
    if not classes:
        return torch.eye(outputs.shape[1]).to(outputs)[:, None].expand(-1, len(outputs), -1)
    p = outputs.detach().softmax(dim=1)
    return p.sqrt().T[:, :, None] * (torch.eye(p.shape[1]).to(p)[:, None] - p)


def pulled_back(output: Tensor, seen: Passed, columns: Tensor) -> list[dict[str, list[Tensor]]]:
    """For every column (rows, K) of `columns` the gradients with respect to the outputs of the layers' calls."""
    tensors = [out for calls in seen.values() for _, out in calls]
    found = []
    for number, column in enumerate(columns):
        last = number == len(columns) - 1
        each = torch.autograd.grad(output, tensors, column, retain_graph=not last, allow_unused=True)
        gradients = iter([torch.zeros_like(t) if g is None else g for g, t in zip(each, tensors, strict=True)])
        found.append({name: [next(gradients) for _ in calls] for name, calls in seen.items()})
    return found


class Factors:
    """Sums of the two factors of every layer's block, A (inputs) and G (outputs): KFAC (Martens and Grosse, 2015).

    Positions of a convolution, or of a sequence, count like rows (Grosse and Martens, 2016; "expand" in Eschenhagen et
    al., 2023). The block is A x G / M, for M rows and positions: exact for one row and position, and for a linear layer
    that alone is the network with L the same for all rows.
    """

    def __init__(self) -> None:
        self.sums: dict[str, list[Any]] = {}

    def add(self, layers: Mapping[str, nn.Module], output: Tensor, seen: Passed, classes: bool) -> None:
        pulled = pulled_back(output, seen, roots(output, classes))
        for name, calls in seen.items():
            for call, (given, _) in enumerate(calls):
                a = inputs_of(layers[name], given).flatten(0, 1).double()
                total: list[Any] = [torch.einsum("ngi,ngj->gij", a, a), 0.0, len(a)]
                for one in pulled:
                    g = gradients_of(layers[name], one[name][call]).flatten(0, 1).double()
                    total[1] = total[1] + torch.einsum("ngi,ngj->gij", g, g)
                before = self.sums.get(name)
                self.sums[name] = total if before is None else [x + y for x, y in zip(before, total, strict=True)]

    def block(self, name: str) -> Kronecker:
        a, g, count = self.sums[name]
        return Kronecker(a / count, g)


class Block(nn.Module):
    """A positive semidefinite matrix over a layer's weights by its eigenvectors."""

    def eigenvalues(self) -> Tensor:
        """(groups, outputs, inputs)."""
        raise NotImplementedError

    def rotated(self, weight: Tensor, back: bool = False) -> Tensor:
        """Weights (..., groups, outputs, inputs) in the eigenvectors' coordinates, or back from there."""
        raise NotImplementedError


class Kronecker(Block):
    """A block A x G by its eigenvectors, (groups, ., .) each."""

    def __init__(self, a: Tensor, g: Tensor) -> None:
        super().__init__()
        for name, matrix in (("inputs", a), ("outputs", g)):
            values, vectors = torch.linalg.eigh(matrix)
            self.register_buffer(f"{name}_values", values.clamp_min(0.0))
            self.register_buffer(f"{name}_vectors", vectors)

    def eigenvalues(self) -> Tensor:
        own: Any = self
        return own.outputs_values[:, :, None] * own.inputs_values[:, None, :]

    def rotated(self, weight: Tensor, back: bool = False) -> Tensor:
        own: Any = self
        g, a = own.outputs_vectors, own.inputs_vectors
        return g @ weight @ a.mT if back else g.mT @ weight @ a


class Full(Block):
    """A block of a linear layer as a whole matrix (outputs, inputs, outputs, inputs) by its eigenvectors."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.shape = matrix.shape[:2]
        values, vectors = torch.linalg.eigh(matrix.flatten(2).flatten(0, 1))
        self.register_buffer("values", values.clamp_min(0.0))
        self.register_buffer("vectors", vectors)

    def eigenvalues(self) -> Tensor:
        own: Any = self
        return own.values.view(1, *self.shape)

    def rotated(self, weight: Tensor, back: bool = False) -> Tensor:
        own: Any = self
        matrix = own.vectors.mT if back else own.vectors
        return (weight.flatten(-2) @ matrix).unflatten(-1, self.shape)


def giving(output: Tensor, layers: Mapping[str, nn.Module], seen: Passed) -> str:
    """The name of the linear layer whose output is that of the model.

    Raises:
        ValueError: there is none.
    """
    for name, calls in seen.items():
        if isinstance(layers[name], nn.Linear) and len(calls) == 1 and calls[0][1].shape == output.shape:
            if torch.equal(calls[0][1], output):
                return name
    raise ValueError("no linear layer gives the outputs of the model as they are. Take structure='kfac'.")


def check_small(name: str, layers: Mapping[str, nn.Module]) -> str:
    """The name of a layer that a full covariance is not too large for.

    Raises:
        ValueError: it is.
    """
    number = sum(p.numel() for p in layers[name].parameters())
    if number > LARGEST:
        raise ValueError(
            f"{name} has {number:,} weights, and a full covariance is for {LARGEST:,} at most. Take structure='kfac', "
            f"where=lambda name, module: name == {name!r} for this layer alone."
        )
    return name


def add_full(total: Tensor | None, layer: nn.Module, output: Tensor, given: Tensor, classes: bool) -> Tensor:
    """The sum over rows of L x aa' for a linear layer that gives the outputs, (K, inputs, K, inputs)."""
    a = inputs_of(layer, given).flatten(0, 2).double()
    size = output.shape[1]
    total = a.new_zeros(size, a.shape[1], size, a.shape[1]) if total is None else total
    columns = roots(output, classes).double()
    hessian = torch.einsum("cnk,cnl->kln", columns, columns)
    for k in range(size):
        for other in range(k, size if classes else k + 1):
            block = (a * hessian[k, other][:, None]).T @ a
            total[k, :, other] += block
            if other != k:
                total[other, :, k] += block.T
    return total
