"""The spike-and-slab prior on groups of weights of Ke and Fan (2023), section 3: two weight decays, one chosen a group.

A group of m weights is N(0, 1 / (N wd1)) in the slab and N(0, 1 / (N wd0)) in the spike, wd0 > wd1: the weight decays
of a mean loss over N observations. The E-step depends on a group through its mean square alone.
"""

import math

import torch
from torch import Tensor

from bnnlib._checks import check_choice, check_count, check_positive, check_probability
from bnnlib.functional.spike_slab import log_odds

KINDS = ("input", "output", "kernel")


def _checked(spike: float, slab: float, num_data: float, size: int, prior_slab_probability: float) -> None:
    for name, value in (("spike", spike), ("slab", slab), ("num_data", num_data)):
        check_positive(name, value)
    check_count("size", size)
    check_probability("prior_slab_probability", prior_slab_probability, open_interval=True)
    if spike <= slab:
        raise ValueError(
            f"the spike's weight decay wd0 is {spike:g} and the slab's wd1 {slab:g}, but the spike must be the "
            "stronger one, or large groups would be shrunk and small ones left. Exchange the two."
        )


def group_slab_log_odds(
    mean_square: Tensor,
    spike: float,
    slab: float,
    num_data: float,
    size: int = 1,
    prior_slab_probability: float = 0.5,
) -> Tensor:
    """log of P(slab | group) / P(spike | group), equation (avo-slab-odds), in nats.

    log(pi / (1 - pi)) + (m / 2) log(wd1 / wd0) + (m / 2) N (wd0 - wd1) q.

    Args:
        mean_square: q, the groups' mean squares, any shape.
        spike, slab: the weight decays wd0 > wd1 of a mean loss.
        num_data: N.
        size: m, weights in a group.
        prior_slab_probability: pi, strictly between 0 and 1.

    Raises:
        ValueError: the spike is not the stronger decay, or a value is out of its range.

    Example:
        >>> group_slab_log_odds(torch.tensor([0.0, 0.1]), spike=1e-2, slab=5e-4, num_data=1000, size=4)
        tensor([-5.9915, -4.0915])
    """
    _checked(spike, slab, num_data, size, prior_slab_probability)
    constant = log_odds(prior_slab_probability) + 0.5 * size * math.log(slab / spike)
    return constant + 0.5 * size * num_data * (spike - slab) * mean_square


def group_slab_probability(
    mean_square: Tensor,
    spike: float,
    slab: float,
    num_data: float,
    size: int = 1,
    prior_slab_probability: float = 0.5,
) -> Tensor:
    """P(slab | group), equation (avo-slab-probability); arguments and errors as for `group_slab_log_odds`.

    Example:
        >>> group_slab_probability(torch.tensor([0.0, 1.0]), spike=1e-2, slab=5e-4, num_data=1000, size=4)
        tensor([0.0025, 1.0000])
    """
    return torch.sigmoid(group_slab_log_odds(mean_square, spike, slab, num_data, size, prior_slab_probability))


def group_threshold(
    spike: float, slab: float, num_data: float, size: int = 1, prior_slab_probability: float = 0.5
) -> float:
    """Mean square above which a group belongs to the slab, equation (avo-threshold); 0 where every group does.

    [log(wd0 / wd1) - (2 / m) log(pi / (1 - pi))] / (N (wd0 - wd1)); at equal prior odds the group's size cancels. The
    code has 0.01 where this is 0.039.

    Args and errors: as for `group_slab_log_odds`.

    Example:
        >>> round(group_threshold(spike=1e-2, slab=5e-4, num_data=1000), 4)
        0.3153
    """
    _checked(spike, slab, num_data, size, prior_slab_probability)
    prior = log_odds(prior_slab_probability)
    return max(0.0, (math.log(spike / slab) - 2.0 * prior / size) / (num_data * (spike - slab)))


def _dims(weight: Tensor, kind: str, batch_dims: int) -> tuple[int, ...]:
    """Dimensions that a group extends over."""
    check_choice("kind", kind, KINDS)
    first, last = batch_dims, weight.dim()
    needed = 3 if kind == "kernel" else 2
    if last - first < needed:
        raise ValueError(
            f"kind {kind!r} needs weights of at least {needed} dimensions (out, in, ...) behind {batch_dims} of a "
            f"stack, but this one has the shape {tuple(weight.shape)}."
        )
    kernel = tuple(range(first + 2, last))
    return {"input": (first, *kernel), "output": (first + 1, *kernel), "kernel": kernel}[kind]


def group_size(weight: Tensor, kind: str, batch_dims: int = 0) -> int:
    """Weights in one group; arguments and errors as for `group_mean_square`.

    Example:
        >>> group_size(torch.zeros(20, 3, 5, 5), "input")
        500
    """
    return math.prod(weight.shape[dim] for dim in _dims(weight, kind, batch_dims))


def group_mean_square(weight: Tensor, kind: str, batch_dims: int = 0) -> Tensor:
    """Mean square of every group, equation (avo-group-mean-square).

    Args:
        weight: (out, in) or (out, in, *kernel), behind `batch_dims` dimensions of a stack.
        kind: "input" for all weights that read one input or input channel, "output" for all that make one unit or
            output channel, "kernel" for the weights of one pair of channels.
        batch_dims: leading dimensions, each entry of which has groups of its own.

    Returns:
        A tensor that broadcasts against `weight`: its shape with 1 for the dimensions that a group extends over.

    Raises:
        ValueError: unknown kind, or the weight has too few dimensions for it.

    Example:
        >>> group_mean_square(torch.tensor([[1.0, 0.0], [3.0, 0.0]]), "input")
        tensor([[5., 0.]])
    """
    return weight.square().mean(dim=_dims(weight, kind, batch_dims), keepdim=True)


def group_range(weight: Tensor, kind: str, batch_dims: int = 0) -> Tensor:
    """max - min over every group, by which the code removes channels, equation (avo-range).

    It is 0 for a group of equal weights however large they are. Arguments, shape and errors as for
    `group_mean_square`.

    Example:
        >>> group_range(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), "input")
        tensor([[2., 0.]])
    """
    dims = _dims(weight, kind, batch_dims)
    return weight.amax(dim=dims, keepdim=True) - weight.amin(dim=dims, keepdim=True)
