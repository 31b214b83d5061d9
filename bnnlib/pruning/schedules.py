"""How much to prune and when."""

from __future__ import annotations

from bnnlib._checks import check_count, check_probability


def agp_sparsity(
    step: int, *, final_sparsity: float, begin_step: int, end_step: int, initial_sparsity: float = 0.0
) -> float:
    """Target share of zero weights at `step`, the cubic ramp of Zhu and Gupta (2018), equation (svb-agp).

    s_t = s_f + (s_i - s_f) (1 - (t - t_0) / (t_1 - t_0))^3 between begin_step t_0 and end_step t_1, constant outside.

    Raises:
        ValueError: a sparsity is outside [0, 1] or end_step is not after begin_step.
    """
    check_probability("final_sparsity", final_sparsity)
    check_probability("initial_sparsity", initial_sparsity)
    if end_step <= begin_step:
        raise ValueError(f"end_step is {end_step}, but it must come after begin_step = {begin_step}.")
    progress = min(max((step - begin_step) / (end_step - begin_step), 0.0), 1.0)
    return final_sparsity + (initial_sparsity - final_sparsity) * (1.0 - progress) ** 3


def lottery_ticket_sparsities(final_sparsity: float, rounds: int) -> list[float]:
    """Share of zero weights after each round of iterative pruning: every round removes the same share of what is left.

    1 - (1 - final_sparsity)^(k / rounds) for k = 1..rounds (Frankle and Carbin, 2018), equation (svb-lottery).

    Raises:
        ValueError: final_sparsity is not strictly between 0 and 1, or rounds is below 1.
    """
    check_probability("final_sparsity", final_sparsity, open_interval=True)
    check_count("rounds", rounds)
    return [1.0 - (1.0 - final_sparsity) ** (k / rounds) for k in range(1, rounds + 1)]
