"""How much to prune and when."""

from __future__ import annotations

from bnnlib._checks import check_non_negative, check_positive, check_probability


def smooth_sparsity(step: float, final_sparsity: float, base: float = 0.99, steps: float = 50) -> float:
    """Target share of zero weights after `step` steps, equation (aeb-pruning), Deng et al. (2019), Algorithm 1.

    S (1 - base^(k / steps)): it starts at 0 and comes close to S without reaching it.

    Args:
        step: k, from 0.
        final_sparsity: S, in [0, 1].
        base: strictly between 0 and 1; D in the paper.
        steps: those in which the distance to S shrinks by the factor `base`; U in the paper, one epoch.

    Raises:
        ValueError: a value is outside its range.

    Example:
        >>> round(smooth_sparsity(10_000, final_sparsity=0.9), 2)
        0.78
    """
    check_non_negative("step", step)
    check_probability("final_sparsity", final_sparsity)
    check_probability("base", base, open_interval=True)
    check_positive("steps", steps)
    return final_sparsity * (1.0 - base ** (step / steps))
