"""scikit-learn's own checks of what an estimator promises: at short settings, and by night at the default ones."""

import os

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bnnlib.estimators import SparseClassifier, SparseRegressor

# short trainings of small networks: most checks are of the interface, and those of accuracy ask for little
TINY = {"hidden": (8,), "epochs": 80, "batch_size": 256, "learning_rate": 0.05, "n_draws": 20, "random_state": 0}
TINY |= {"prior_inclusion_probability": None, "refit": True, "n_replicates": 1}
# some 70 checks of each, with fits of seconds: three minutes of two cores, for which BNNLIB_NIGHTLY=1 asks
DEFAULTS = [SparseRegressor(), SparseClassifier()] if os.environ.get("BNNLIB_NIGHTLY") else []
SHUFFLED = "rows are visited and held out in a random order, as in scikit-learn's own stochastic estimators"


def known(estimator) -> dict[str, str]:
    """Weights are the same as repeated rows in law, not in every number."""
    return {f"check_sample_weight_equivalence_on_{kind}_data": SHUFFLED for kind in ("dense", "sparse")}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([*DEFAULTS, SparseRegressor(**TINY), SparseClassifier(**TINY)], expected_failed_checks=known)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
