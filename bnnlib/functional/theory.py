"""The rates of section 4 of Bai, Song and Cheng (2020) and the prior inclusion probability that they lead to."""

import math
from collections.abc import Sequence
from itertools import pairwise

from bnnlib._checks import check_count, check_positive


def num_network_parameters(sizes: Sequence[int]) -> int:
    """Number T of weights and biases of a fully connected network with layer widths `sizes`, inputs first.

    Example:
        >>> num_network_parameters((784, 300, 100, 10))
        266610
    """
    if len(sizes) < 2:
        raise ValueError(f"sizes is {list(sizes)}, but a network needs at least an input and an output width.")
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))


def theoretical_inclusion_probability(
    num_parameters: int, num_hidden_layers: int, width: int, num_samples: int, num_inputs: int, delta: float = 0.1
) -> float:
    """lambda_opt of Theorem 4.1: log(1/lambda) = log T + delta [(L + 1) log N + log(sqrt(n) p)].

    Equation (svbnn-lambda-opt).

    Args:
        num_parameters: T, all weights and biases.
        num_hidden_layers: L.
        width: N, the units of a hidden layer.
        num_samples: n, the training observations.
        num_inputs: p.
        delta: the theorem's free constant; 0.1 in all of the paper's experiments.

    Raises:
        ValueError: a count is below 1 or delta is not positive.

    Example:
        >>> f"{theoretical_inclusion_probability(1000, 1, width=10, num_samples=500, num_inputs=90):.1e}"
        '2.9e-04'
    """
    counts = {"num_parameters": num_parameters, "num_hidden_layers": num_hidden_layers, "width": width}
    for name, value in (counts | {"num_samples": num_samples, "num_inputs": num_inputs}).items():
        check_count(name, value)
    check_positive("delta", delta)
    growth = (num_hidden_layers + 1) * math.log(width) + math.log(math.sqrt(num_samples) * num_inputs)
    return math.exp(-math.log(num_parameters) - delta * growth)


def inclusion_probability_for(sizes: Sequence[int], num_samples: int, delta: float = 0.1) -> float:
    """`theoretical_inclusion_probability` of a fully connected network given by its layer widths.

    Hidden layers of different widths count with the widest one, as the published descendants of the method do.

    Example:
        >>> f"{inclusion_probability_for((784, 400, 400, 10), num_samples=60_000):.1e}"
        '1.0e-07'
    """
    hidden = list(sizes[1:-1])
    if not hidden:
        raise ValueError(f"sizes is {list(sizes)}, but the rates need at least one hidden layer.")
    return theoretical_inclusion_probability(
        num_network_parameters(sizes), len(hidden), max(hidden), num_samples, sizes[0], delta
    )
