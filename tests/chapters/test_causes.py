"""Why a number of ours is worse than the published one: every declared cause is one that a stored run shows."""

import pytest

from book import lab
from book.lab.intervals import estimate, side
from book.lab.published import Cause

DECLARED = {(name, cause) for name in lab.names() for value in lab.paper_values(name)[0] for cause in value.causes}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cause"), sorted(DECLARED, key=str))
def test_a_declared_suspect_has_a_run_that_says_something(name: str, cause: Cause):
    """Whether it explains a number or not: without a stored run it is a suspicion, and has no place there."""
    told = [row["cause"] + row["tried"] for row in lab.compare(name)]
    assert any(cause.text in one and cause.run in one for one in told)


def test_the_order_explains_nothing_of_a_closed_form():
    """Weights ranked by another rule than p* say nothing of p*, wherever their errors land."""
    rows = [row for row in lab.compare("sbnn-uci") if "by |m| / sigma" in row["cause"]]
    assert not rows


@pytest.mark.parametrize("method", ["Vanilla", "Dropout"])
def test_attacks_by_the_raw_gradient_are_weaker(method):
    sizes = [f"MNIST zeta={size}" for size in ("0.2", "0.5")]
    for size in sizes:
        own, raw = (lab.stored_values("aeb-fgsm", size, method, one) for one in ("accuracy", "accuracy_max_log"))
        gaps = raw - own
        assert side(*estimate(gaps)) == 1
