"""Sparse Bayesian networks as estimators of scikit-learn: raw units in, raw units out.

from bnnlib.estimators import SparseRegressor
model = SparseRegressor(random_state=0).fit(X, y)
mean, interval = model.predict(X_new, return_interval=True)
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "bnnlib.estimators follows the conventions of scikit-learn, which is not installed. Install the extra: "
        "`pip install 'bnnlib[estimators]'`, or scikit-learn itself. The rest of bnnlib works without it."
    ) from error

from bnnlib._files import DamagedFileError
from bnnlib.estimators.calibration import plot_calibration
from bnnlib.estimators.classifier import SparseClassifier
from bnnlib.estimators.intervals import predict_interval
from bnnlib.estimators.notes import ConvergenceWarning, SelectionWarning
from bnnlib.estimators.plots import plot_dependence, plot_inclusion, plot_path
from bnnlib.estimators.regressor import SparseRegressor
from bnnlib.estimators.settings import METHODS
from bnnlib.estimators.uncertainty import Uncertainty

__all__ = [
    "METHODS",
    "ConvergenceWarning",
    "DamagedFileError",
    "SelectionWarning",
    "SparseClassifier",
    "SparseRegressor",
    "Uncertainty",
    "plot_calibration",
    "plot_dependence",
    "plot_inclusion",
    "plot_path",
    "predict_interval",
]
