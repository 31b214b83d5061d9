"""The classifier: labels of any kind, probabilities, and the two kinds of not knowing."""

import numpy as np
import pytest

from bnnlib.estimators import SparseClassifier
from tests.bnnlib.estimators.tables import QUICK, classes


@pytest.mark.slow
def test_finds_the_inputs_and_tells_the_classes(classifier):
    x, labels = classes(seed=3)
    assert classifier.classes_.tolist() == ["no", "yes"] and classifier.selected_features_.tolist() == [1, 4]
    probabilities = classifier.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    # the labels are random: the best rule is right in nine cases of ten
    assert classifier.score(x, labels) > 0.8
    assert np.array_equal(classifier.predict(x), classifier.classes_[probabilities.argmax(axis=1)])


@pytest.mark.slow
def test_entropy_splits(classifier):
    x, _ = classes(seed=3)
    total, aleatoric, epistemic = classifier.uncertainty(x)
    np.testing.assert_allclose(total, aleatoric + epistemic, atol=1e-12)
    assert (epistemic >= 0).all() and (total <= np.log(2) + 1e-12).all() and epistemic.max() > 1e-4


def test_draws_average_to_the_probabilities(classifier):
    x, _ = classes(rows=10, seed=3)
    draws = classifier.sample_posterior(x, classifier.n_draws)
    assert draws.shape == (100, 10, 2)
    np.testing.assert_allclose(draws.mean(axis=0), classifier.predict_proba(x))


def test_partial_fit_knows_classes_that_come_later():
    x, labels = classes()
    one = labels == "no"
    model = SparseClassifier(**QUICK).partial_fit(x[one], labels[one], classes=["yes", "no"])
    model.partial_fit(x, labels, epochs=2)
    assert model.classes_.tolist() == ["no", "yes"] and model.predict_proba(x).shape == (300, 2)
    with pytest.raises(ValueError, match=r"y has the label 'perhaps', but the classes are \['no', 'yes'\]\."):
        model.partial_fit(x[:2], ["no", "perhaps"])


def test_logarithms_are_finite_where_probabilities_are_not_above_zero():
    x = np.linspace(-1.0, 1.0, 60)[:, None]
    model = SparseClassifier("gaussian", (4,), epochs=200, learning_rate=0.03, random_state=0).fit(x, x[:, 0] > 0)
    for model.temperature_ in (1.0, 0.7):
        far = model.predict_log_proba(1e5 * x)
        assert np.isfinite(far).all() and (model.predict_proba(1e5 * x) == 0).any()
        np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1.0, rtol=1e-12)
