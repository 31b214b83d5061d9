"""How much to prune and when."""

from bnnlib._checks import check_count, check_non_negative, check_positive, check_probability


def agp_sparsity(
    step: int, *, final_sparsity: float, begin_step: int, end_step: int, initial_sparsity: float = 0.0
) -> float:
    """Target share of zero weights at `step`, the cubic ramp of Zhu and Gupta (2018), equation (svbnn-agp).

    s_t = s_f + (s_i - s_f) (1 - (t - t_0) / (t_1 - t_0))^3 between begin_step t_0 and end_step t_1, constant outside.

    Raises:
        ValueError: a sparsity is outside [0, 1], the last below the first, a step is no count or end_step not after
            begin_step.

    Example:
        >>> [round(agp_sparsity(step, final_sparsity=0.8, begin_step=0, end_step=100), 3) for step in (0, 50, 100)]
        [0.0, 0.7, 0.8]
    """
    check_probability("final_sparsity", final_sparsity)
    check_probability("initial_sparsity", initial_sparsity)
    if final_sparsity < initial_sparsity:
        raise ValueError(
            f"final_sparsity is {final_sparsity:g}, but it must be at least initial_sparsity = {initial_sparsity:g}: "
            "pruned weights do not come back."
        )
    check_count("begin_step", begin_step, 0)
    if check_count("end_step", end_step) <= begin_step:
        raise ValueError(f"end_step is {end_step}, but it must come after begin_step = {begin_step}.")
    progress = min(max((step - begin_step) / (end_step - begin_step), 0.0), 1.0)
    return final_sparsity + (initial_sparsity - final_sparsity) * (1.0 - progress) ** 3


def lottery_ticket_sparsities(final_sparsity: float, rounds: int) -> list[float]:
    """Share of zero weights after each round of iterative pruning: every round removes the same share of what is left.

    1 - (1 - final_sparsity)^(k / rounds) for k = 1..rounds (Frankle and Carbin, 2018), equation (svbnn-lottery).

    Raises:
        ValueError: final_sparsity is not strictly between 0 and 1, or rounds is below 1.

    Example:
        >>> [round(share, 3) for share in lottery_ticket_sparsities(0.875, rounds=3)]
        [0.5, 0.75, 0.875]
    """
    check_probability("final_sparsity", final_sparsity, open_interval=True)
    check_count("rounds", rounds)
    return [1.0 - (1.0 - final_sparsity) ** (k / rounds) for k in range(1, rounds + 1)]


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
