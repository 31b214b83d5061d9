"""Why a number of ours is worse than the published one: every declared cause is one that a stored run shows."""

from __future__ import annotations

import numpy as np
import pytest

from book import lab
from book.lab.published import Cause

DECLARED = {(name, cause) for name in lab.names() for value in lab.paper_values(name)[0] for cause in value.causes}


@pytest.mark.parametrize(("name", "cause"), sorted(DECLARED, key=str))
def test_a_declared_cause_is_shown_by_its_run(name: str, cause: Cause):
    """Of one published number at least, wholly or in part; otherwise it is a suspicion, and has no place there."""
    told = [row["cause"] + row["part"] for row in lab.compare(name)]
    assert any(cause.text in one and cause.run in one for one in told)


def test_on_uci_the_order_is_the_cause_at_three_quarters():
    told = {row["setting"]: row for row in lab.compare("sbnn-uci") if row["metric"] == "rmse_test_at_75"}
    assert told["energy"]["cause"] and told["yacht"]["cause"]


@pytest.mark.parametrize("method", ["Vanilla", "Dropout"])
def test_attacks_by_the_raw_gradient_are_weaker(method):
    sizes = [f"MNIST zeta={size}" for size in ("0.2", "0.5")]
    for size in sizes:
        own, raw = (lab.stored_values("aeb-fgsm", size, method, one) for one in ("accuracy", "accuracy_max_log"))
        gaps = raw - own
        assert len(gaps) >= 3 and gaps.mean() > 2 * gaps.std(ddof=1) / np.sqrt(len(gaps))
