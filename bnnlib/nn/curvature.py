"""The Gauss-Newton matrix of the loss in the weights of a network's last layer, summed over data."""

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib.nn.convert import shared_parameters

LARGEST = 6_000  # weights of the layer: their covariance has 36 million numbers

Data = tuple[Tensor, Tensor] | Iterable[tuple[Tensor, Tensor]]
Calls = dict[str, list[tuple[Tensor, Tensor]]]


@torch.no_grad()
def gauss_newton(network: nn.Module, data: Data, classes: bool, batch_size: int) -> tuple[str, Tensor, float, int]:
    """The sum over rows of J' L J.

    J is the Jacobian of the outputs with respect to the weights, L the Hessian of the negative log-likelihood with
    respect to the outputs: the identity for numbers with unit noise, diag(p) - pp' for classes (Schraudolph, 2002).
    Arguments and errors as for `to_laplace`.

    Returns:
        Name of the last layer; the matrix in float64, whose rows are for each output its weights and then its bias; sum
        of -log p(y), or of the squared errors; and how many numbers the outputs are.
    """
    total, fit, numbers, layers, name = None, 0.0, 0, _own_linear_layers(network), ""
    for x, y in _batches(data, batch_size):
        if len(x) == 0:
            continue
        output, calls = passed(network, layers, x)
        loss = float(_cross_entropy(output.double(), y) if classes else _squared_error(output.double(), y))
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss on the data is {loss}, so that nothing is known of its curvature. Look for NaN and "
                "infinite numbers in x, y and the weights of the network."
            )
        if total is None:
            name = _last(layers, output, calls)
            layers = {name: layers[name]}
        fit, numbers = fit + loss, numbers + output.numel()
        total = _added(total, calls[name][-1][0].double(), output, classes)
    if total is None:
        raise ValueError("data have no rows. Give the training data, (x, y) or batches of them.")
    return name, total.flatten(2).flatten(0, 1), fit, numbers


def _batches(data: Any, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(data, tuple | list) and len(data) == 2 and all(isinstance(part, Tensor) for part in data):
        x, y = data
        if len(x) != len(y):
            raise ValueError(f"x has {len(x)} rows and y has {len(y)}, but both need as many.")
        return zip(x.split(batch_size), y.split(batch_size), strict=True)
    return iter(data)


def _cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    if output.shape[1] < 2:
        raise ValueError(
            "the network has one output, but a classification needs a logit for each of two or more classes. "
            "Append the logit 0 in front of it, or train two outputs."
        )
    if not (y.is_floating_point() and y.shape == output.shape):  # which are probabilities
        if y.is_floating_point() or not ((y >= 0) & (y < output.shape[1])).all():
            raise ValueError(
                f"y has type {y.dtype} and values from {y.min():g} to {y.max():g}, but labels are integers "
                f"from 0 to {output.shape[1] - 1}. Leave other rows out, or say likelihood='regression'."
            )
        y = y.long()
    return F.cross_entropy(output, y, reduction="sum")


def _squared_error(output: Tensor, y: Tensor) -> Tensor:
    if y.numel() != output.numel():
        raise ValueError(
            f"y has shape {tuple(y.shape)}, but the outputs have {tuple(output.shape)}: a regression needs as many "
            "numbers."
        )
    return (output - y.reshape(output.shape)).square().sum()


def _own_linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The plain linear layers whose weights no other module shares, and nothing computes."""
    shared = shared_parameters(model)
    layers = {name: module for name, module in model.named_modules() if type(module) is nn.Linear}
    return {n: m for n, m in layers.items() if m._parameters.get("weight") is not None and id(m.weight) not in shared}


def passed(model: nn.Module, layers: dict[str, nn.Module], x: Tensor) -> tuple[Tensor, Calls]:
    """The outputs (rows, K), and what went into linear layers and came out of them, call by call.

    To inputs of a layer with a bias 1 is appended.
    """
    calls: Calls = {name: [] for name in layers}

    def note(name: str, layer: nn.Module, given: tuple[Tensor], output: Tensor) -> None:
        inputs = given[0] if layer.bias is None else F.pad(given[0], (0, 1), value=1.0)
        calls[name].append((inputs, output.clone()))  # a copy, for an activation may change the output in place

    hooks = [layer.register_forward_hook(partial(note, name)) for name, layer in layers.items()]
    try:
        output = model(x)
    finally:
        for hook in hooks:
            hook.remove()
    if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != len(x):
        given = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise TypeError(
            f"the model returned {given} for {len(x)} rows, but to_laplace needs one tensor (rows, outputs). Wrap the "
            "model in a module that returns it."
        )
    return output, calls


def _last(layers: dict[str, nn.Module], output: Tensor, calls: Calls) -> str:
    """The name of the linear layer whose output is that of the model."""
    for name, own in calls.items():
        if len(own) == 1 and own[0][1].shape == output.shape and torch.equal(own[0][1], output):
            if (number := sum(p.numel() for p in layers[name].parameters())) > LARGEST:
                raise ValueError(
                    f"{name} has {number:,} weights, and a full covariance is for {LARGEST:,} at most. Take a network "
                    "with a narrower last layer, or laplace-torch with Kronecker factors."
                )
            return name
    raise ValueError(
        "no linear layer gives the outputs of the model as they are, or another shares its weights. Give the network "
        "that ends in its linear layer, without softmax."
    )


def _added(total: Tensor | None, a: Tensor, output: Tensor, classes: bool) -> Tensor:
    """The sum over rows of L x aa', for inputs a (rows, inputs), added to that of rows before."""
    size = output.shape[1]
    total = a.new_zeros(size, a.shape[1], size, a.shape[1]) if total is None else total
    if classes:
        p = output.softmax(dim=1)
        columns = (p.sqrt().T[:, :, None] * (torch.eye(size).to(p)[:, None] - p)).double()  # their products sum up to L
        hessian = torch.einsum("cnk,cnl->kln", columns, columns)
    for k in range(size):
        for other in range(k, size if classes else k + 1):
            block = (a * hessian[k, other][:, None]).T @ a if classes else a.T @ a
            total[k, :, other] += block
            if other != k:
                total[other, :, k] += block.T
    return total
