"""scikit-learn's own checks of what an estimator promises; none is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from bnnlib.estimators import SparseClassifier, SparseRegressor

# short trainings of small networks: most checks are of the interface, and those of accuracy ask for little
TINY = {"hidden": (8,), "epochs": 150, "batch_size": 256, "learning_rate": 0.05, "n_draws": 20, "random_state": 0}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([SparseRegressor(**TINY), SparseClassifier(**TINY)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
