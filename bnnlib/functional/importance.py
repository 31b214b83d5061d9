"""What inclusion probabilities of weights say of a network's inputs: along paths (Saha et al., 2024, 3.5), or whole."""

from collections.abc import Sequence

import torch
from torch import Tensor


def path_importance(inclusion: Sequence[Tensor]) -> Tensor:
    """psi, the mean over all paths from an input to an output of the product of the weights' probabilities.

    Equation (sbnn-psi), (3.18) of the paper, which has one output; with more, the mean runs over them too. The product
    is averaged layer by layer, in float64.

    Args:
        inclusion: P of each layer, inputs first, shapes (..., n_l, n_(l-1)): rows are units, columns what they read.

    Returns:
        Tensor (..., n_0) of float64 in [0, 1].

    Raises:
        ValueError: there is no layer, one is empty, or two neighbors do not fit.

    Example:
        >>> path_importance([torch.tensor([[0.5, 1.0]]), torch.tensor([[0.5]])])
        tensor([0.2500, 0.5000], dtype=torch.float64)
    """
    if not inclusion:
        raise ValueError("inclusion is empty, but importance needs the probabilities of at least one layer.")
    for index, layer in enumerate(inclusion):
        if layer.dim() < 2 or 0 in layer.shape:
            raise ValueError(
                f"inclusion[{index}] has shape {tuple(layer.shape)}, but a layer needs (..., units, inputs), both at "
                "least 1."
            )
        if index and layer.shape[-1] != inclusion[index - 1].shape[-2]:
            raise ValueError(
                f"inclusion[{index}] reads {layer.shape[-1]} units, but the layer before has "
                f"{inclusion[index - 1].shape[-2]}. List the layers from the inputs to the outputs."
            )
    top = inclusion[-1].double().mean(dim=-2, keepdim=True)  # (..., 1, n_L)
    for layer in reversed(inclusion[:-1]):
        top = top @ layer.double() / layer.shape[-2]
    return top.squeeze(-2)


def scaled_importance(psi: Tensor) -> Tensor:
    """phi, psi shifted and scaled to the range [0, 1] over the inputs, equation (sbnn-phi), (3.19) of the paper.

    Args:
        psi: (..., inputs).

    Raises:
        ValueError: psi has no inputs, or has NaN.

    Returns:
        Tensor in psi's shape; 0 for all inputs where they are equally important, since their order then says nothing.

    Example:
        >>> scaled_importance(torch.tensor([0.1, 0.2, 0.3]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    if psi.numel() == 0 or psi.isnan().any():
        raise ValueError(
            f"psi of shape {tuple(psi.shape)} is empty or has NaN, so its inputs have no order. Take it from "
            "path_importance; NaN comes from a network that has diverged."
        )
    low, high = psi.amin(dim=-1, keepdim=True), psi.amax(dim=-1, keepdim=True)
    spread = high - low
    return torch.where(spread > 0, (psi - low) / torch.where(spread > 0, spread, 1.0), torch.zeros_like(psi))


def input_inclusion(inclusion: Tensor) -> Tensor:
    """1 - prod_k (1 - phi_kj): the probability that at least one weight that leaves input j is in.

    The indicators of a variational posterior are independent, so this is exact.

    Args:
        inclusion: phi of the first layer, shape (..., units, inputs).

    Returns:
        Tensor (..., inputs) of float64; through logarithms, so that 200 small probabilities keep their digits.

    Raises:
        ValueError: there are fewer than two dimensions.

    Example:
        >>> input_inclusion(torch.tensor([[0.5, 0.0], [0.5, 1.0]]))
        tensor([0.7500, 1.0000], dtype=torch.float64)
    """
    if inclusion.dim() < 2:
        raise ValueError(f"inclusion has shape {tuple(inclusion.shape)}, but a layer needs (..., units, inputs).")
    return -torch.expm1(torch.log1p(-inclusion.double()).sum(dim=-2))


def path_inclusion(inclusion: Sequence[Tensor]) -> Tensor:
    """Probability that a path of weights that are in joins an input to an output.

    From the outputs back, a unit is joined where one of its weights to a joined unit is in:
    r_j = 1 - prod_k (1 - phi_kj r_k), with r = 1 at the outputs. Exact for one hidden layer and one output; with more,
    units share the paths behind them, and by Harris's inequality the product is an upper bound.

    Args:
        inclusion: phi of each layer, inputs first, shapes (..., n_l, n_(l-1)): rows are units, columns what they read.

    Returns:
        Tensor (..., n_0) of float64, nowhere above `input_inclusion` of the first layer.

    Raises:
        ValueError: there is no layer, or two neighbors do not fit.

    Example:
        >>> path_inclusion([torch.tensor([[0.5, 1.0]]), torch.tensor([[0.5]])])
        tensor([0.2500, 0.5000], dtype=torch.float64)
    """
    path_importance(inclusion)  # the same conditions
    joined = input_inclusion(inclusion[-1].double())
    for layer in reversed(inclusion[:-1]):
        joined = input_inclusion(layer.double() * joined.unsqueeze(-1))
    return joined
