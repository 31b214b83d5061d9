"""What chapters say of stored replicates, and assert where they say it; nothing is asked of what is not stored."""

from collections.abc import Sequence

from book import lab

Gap = tuple[float, float, int]  # mean difference, its standard error, and the pairs, as `lab.shows` takes it


def average(values: Sequence[float], form: str, runs: int | None = None) -> lab.Said:
    """The mean over replicates without an error; "(not run)" of none."""
    return lab.number(values.mean() if len(values) else None, form, runs)


def less(ours: Sequence[float], theirs: Sequence[float], overlap: float = 0.0) -> Gap:
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
    assert lab.shows(gap, sign), words or f"{pair[1]}: {pair[2]} and {pair[3]} are not as the text says"


def told(*pair: str, sign: int, digits: int = 2, words: str = "", profile: str | None = None) -> lab.Said:
    """`lab.difference` in so many digits, of which `holds` is asserted."""
    holds(*pair, sign=sign, words=words, profile=profile)
    return lab.difference(*pair, digits, profile=profile)
