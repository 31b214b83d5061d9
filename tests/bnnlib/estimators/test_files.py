"""Files: what is saved comes back, and nothing that is damaged loads."""

import numpy as np
import pytest

from bnnlib.estimators import DamagedFileError, SparseClassifier, SparseRegressor
from tests.bnnlib.estimators.tables import QUICK, classes, table


@pytest.mark.slow
def test_a_classifier_with_labels_of_text_comes_back(classifier, tmp_path):
    x, _ = classes(rows=20, seed=3)
    again = SparseClassifier.load(classifier.save(tmp_path / "model.bnn"))
    assert again.predict(x).tolist() == classifier.predict(x).tolist()
    assert again.classes_.dtype == classifier.classes_.dtype


def test_settings_alone_can_be_saved(tmp_path):
    again = SparseRegressor.load(SparseRegressor(**QUICK, verbose=True).save(tmp_path / "model.bnn"))
    assert again.get_params() == SparseRegressor(**QUICK, verbose=True).get_params()
    assert not hasattr(again, "network_")
    for weights in ({"no": 1.0, "yes": 2.0}, {"array": 1.0, "texts": 2.0}, {np.int64(0): 1.0, 1: np.float64(2.0)}):
        model = SparseClassifier(class_weight=weights)
        assert SparseClassifier.load(model.save(tmp_path / "model.bnn")).class_weight == weights


@pytest.mark.slow
def test_the_wrong_file_says_what_it_is(classifier, tmp_path):
    path = classifier.save(tmp_path / "model.bnn")
    with pytest.raises(DamagedFileError, match=r"holds a SparseClassifier, not a SparseRegressor"):
        SparseRegressor.load(path)
    with pytest.raises(FileNotFoundError):
        SparseRegressor.load(tmp_path / "other.bnn")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedFileError, match="its checksum does not fit"):
        SparseClassifier.load(path)
    path.write_text("x,y\n1,2\n")
    with pytest.raises(DamagedFileError, match="does not begin as an estimator"):
        SparseRegressor.load(path)


def test_a_random_state_that_is_no_number_is_refused(tmp_path):
    model = SparseRegressor(**QUICK | {"random_state": np.random.RandomState(0), "epochs": 1, "method": "gaussian"})
    with pytest.raises(TypeError, match="random_state"):
        model.fit(*table(rows=20)).save(tmp_path / "model.bnn")
