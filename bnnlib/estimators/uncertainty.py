"""What is not known about each row."""

from typing import NamedTuple

import numpy as np


class Uncertainty(NamedTuple):
    """What is not known about each row: the whole, the noise's part, and the part that more data would take away.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 3))
        >>> model = SparseRegressor(method="gaussian", epochs=5, random_state=0).fit(X, X[:, 0])
        >>> uncertainty = model.uncertainty(X[:5])
        >>> bool(np.allclose(uncertainty.total, uncertainty.aleatoric + uncertainty.epistemic))
        True
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
