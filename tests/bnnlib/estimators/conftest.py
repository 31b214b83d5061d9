"""Estimators that are fitted once."""

import pytest

pytest.importorskip("sklearn", reason="the extra 'estimators' is not installed")

from bnnlib.estimators import SparseClassifier, SparseRegressor
from tests.bnnlib.estimators.tables import QUICK, classes, table


@pytest.fixture(scope="session")
def regressor() -> SparseRegressor:
    return SparseRegressor(**QUICK).fit(*table())


@pytest.fixture(scope="session")
def classifier() -> SparseClassifier:
    return SparseClassifier(**QUICK).fit(*classes())
