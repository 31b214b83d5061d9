"""What chapters say of stored replicates, and assert where they say it; nothing is asked of what is not stored."""

import numpy as np

from book import lab

Gap = tuple[float, float, int]  # mean difference, its standard error, and the pairs, as `lab.shows` takes it


def average(values: np.ndarray, form: str, runs: int | None = None) -> lab.Said:
    """The mean over replicates without an error; "(not run)" of none. Without `runs` as many as the values know of."""
    return lab.number(values.mean() if len(values) else None, form, runs)


def less(ours: np.ndarray, theirs: np.ndarray, overlap: float = 0.0) -> Gap:
    """Replicates less others of the same seeds; of none where one has more than the other."""
    return lab.estimate(ours - theirs if len(ours) == len(theirs) else [], overlap)


def holds(*pair: str, sign: int, words: str = "", profile: str | None = None) -> None:
    """Assert that a method less another is decided on one side of zero, or with 0 that it is not.

    Args:
        pair: name, setting, method, other, metric, as for `lab.paired_difference`.
        sign: 1 or -1 for the side, 0 for undecided.
        words: what the text says, for whoever reads that it no longer holds.
        profile: of another result than the best.
    """
    gap = lab.paired_difference(*pair, profile)
    _, setting, method, other, metric = pair
    found = f"{gap[0]:.3g}, standard error {gap[1]:.2g}, {gap[2]} pairs"
    said = words or f"{setting}: {method} and {other} are not as the text says"
    assert lab.shows(gap, sign), f"{said}: {metric} of {method} less {other} is {found}, and the side told is {sign}"


def told(*pair: str, sign: int, digits: int = 2, words: str = "", profile: str | None = None) -> lab.Said:
    """`lab.difference` in so many digits, of which `holds` is asserted."""
    holds(*pair, sign=sign, words=words, profile=profile)
    return lab.difference(*pair, digits, profile=profile)
