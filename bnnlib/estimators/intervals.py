"""Intervals of a regressor that stands in a pipeline or behind a transformed target."""

from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline

from bnnlib.estimators.regressor import SparseRegressor


def predict_interval(model: Any, X: Any, *, level: float = 0.95) -> np.ndarray:
    """Central intervals of y at new inputs, in the units that y has outside.

    A monotone transformation takes quantiles to quantiles, so that the interval of the transformed target, taken back,
    is that of the target.

    Args:
        model: a fitted `SparseRegressor`, or a `Pipeline` or `TransformedTargetRegressor` (or both) that ends in one.
        X: shape (rows, inputs), as the whole model takes them.
        level: share that the interval holds.

    Returns:
        Lower and upper bounds, shape (rows, 2), of several outputs (rows, outputs, 2).

    Raises:
        TypeError: the model ends in something else.

    Example:
        >>> import numpy as np
        >>> from sklearn.compose import TransformedTargetRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 3))
        >>> y = np.exp(X[:, 0] + 0.1 * rng.normal(size=100))
        >>> inner = SparseRegressor(random_state=0, epochs=20)
        >>> model = TransformedTargetRegressor(inner, func=np.log, inverse_func=np.exp)
        >>> predict_interval(model.fit(X, y), X[:5]).shape
        (5, 2)
    """
    if isinstance(model, Pipeline):
        return predict_interval(model[-1], model[:-1].transform(X) if len(model) > 1 else X, level=level)
    if isinstance(model, TransformedTargetRegressor):
        inside = predict_interval(model.regressor_, X, level=level)
        flat = inside.reshape(len(inside), -1, 2)
        bounds = [model.transformer_.inverse_transform(flat[:, :, bound]) for bound in (0, 1)]
        return np.sort(np.stack(bounds, axis=-1), axis=-1).reshape(inside.shape)  # a falling transformation swaps them
    if not isinstance(model, SparseRegressor):
        raise TypeError(
            f"{type(model).__name__} has no intervals: the model must be, or end in, a SparseRegressor, also behind a "
            "Pipeline or a TransformedTargetRegressor."
        )
    return model.predict(X, return_interval=True, level=level)[1]
