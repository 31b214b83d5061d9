"""What chapters say of stored replicates is asserted where they say it."""

import pytest

from book import lab
from chapters.shared.said import holds, told

PAIR = ("an experiment", "a setting", "one", "other", "metric")


@pytest.mark.parametrize(("gap", "side"), [((1.0, 0.1, 5), 1), ((-1.0, 0.1, 5), -1), ((0.1, 0.1, 5), 0)])
def test_a_difference_is_said_only_with_the_side_that_the_text_gives_it(gap, side, monkeypatch):
    monkeypatch.setattr(lab, "paired_difference", lambda *_: gap)
    monkeypatch.setattr(lab, "difference", lambda *_, **__: "said")
    assert told(*PAIR, sign=side) == "said"
    for sign in {-1, 0, 1} - {side}:
        with pytest.raises(AssertionError, match="a setting: one and other are not as the text says"):
            holds(*PAIR, sign=sign)
        with pytest.raises(AssertionError, match="our words"):
            told(*PAIR, sign=sign, words="our words")
