"""What chapters say of stored replicates is asserted where they say it."""

import numpy as np
import pytest

from book import lab
from chapters.shared.said import holds, less, told

PAIR = ("an experiment", "a setting", "one", "other", "metric")


@pytest.mark.parametrize(("gap", "side"), [((1.0, 0.1, 5), 1), ((-1.0, 0.1, 5), -1), ((0.1, 0.1, 5), 0)])
def test_a_difference_is_said_only_with_the_side_that_the_text_gives_it(gap, side, monkeypatch):
    monkeypatch.setattr(lab, "paired_difference", lambda *_: gap)
    monkeypatch.setattr(lab, "difference", lambda *pair, profile: (*pair, profile))
    assert told(*PAIR, sign=side) == (*PAIR, 2, None)
    assert told(*PAIR, sign=side, digits=3, profile="book") == (*PAIR, 3, "book")
    for sign in {-1, 0, 1} - {side}:
        with pytest.raises(AssertionError, match=r"a setting: .* metric of one less other is -?[01]\S*, .* 5 pairs"):
            holds(*PAIR, sign=sign)
        with pytest.raises(AssertionError, match="our words"):
            told(*PAIR, sign=sign, words="our words")


def test_a_difference_is_of_the_profile_that_is_asked_for(monkeypatch):
    found = {None: (1.0, 0.1, 5), "book": (-1.0, 0.1, 5)}
    monkeypatch.setattr(lab, "paired_difference", lambda *pair: found[pair[-1]])
    holds(*PAIR, sign=1)
    holds(*PAIR, sign=-1, profile="book")


def test_replicates_that_one_side_lacks_are_no_difference():
    assert less(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == (2.0, 0.0, 2)
    assert less(np.array([3.0, 4.0]), np.array([1.0]))[2] == 0
