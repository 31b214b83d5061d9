"""Rows as they are given and as they are trained on: what is refused with advice, weights, copies of inputs."""

import math
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

_DIGITS = 9  # of scaled inputs that copies share


class Rows(NamedTuple):
    """Scaled training rows."""

    x: np.ndarray  # (n, p)
    y: np.ndarray  # (n,), scaled numbers, or labels from 0; (n, outputs) of several numbers
    classes: int  # 0 for numbers
    weights: np.ndarray  # (n,), all 1 where none are given

    @property
    def outputs(self) -> int:
        return self.classes if self.classes > 2 else self.y[:1].size

    def part(self, which: np.ndarray) -> Self:
        """Some of the rows."""
        return self._replace(x=self.x[which], y=self.y[which], weights=self.weights[which])

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Inputs (n, p) and targets for a network: (n, 1) or (n, outputs), with the weights one column more."""
        x = torch.from_numpy(self.x).float()
        y = torch.from_numpy(self.y.reshape(len(self.y), -1))
        if (self.weights != 1.0).any():
            return x, torch.cat([y, torch.from_numpy(self.weights[:, None])], dim=1).float()
        return x, y if self.classes else y.float()


def check_inputs(X: Any) -> Any:
    """The inputs, tensors as those of the host; what no array of numbers can be made of is refused by its column."""
    if isinstance(X, torch.utils.data.DataLoader | torch.utils.data.Dataset):
        raise TypeError(
            f"X is a {type(X).__name__}, but it must be an array or a DataFrame of shape (rows, inputs). Give the "
            "arrays, chunk by chunk with partial_fit, or use bnnlib.train.fit with a network of your own."
        )
    if isinstance(X, Tensor) or hasattr(X, "toarray"):
        return X.detach().cpu() if isinstance(X, Tensor) else X
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        columns = [(f"the column {name!r}", X.iloc[:, number]) for number, name in enumerate(X.columns)]
    else:
        held = np.asarray(X)
        plain = held.ndim != 2 or held.dtype.kind not in "OUSfmM"
        columns = [] if plain else [(f"column {number}", column) for number, column in enumerate(held.T)]
    for what, column in columns:
        values = np.asarray(column)
        texts = [v for v in values.tolist() if isinstance(v, str | bytes)] if values.dtype.kind in "OUST" else []
        if texts and not all(_is_number(text) for text in texts):
            raise ValueError(
                f"X has text in {what}, such as {texts[0]!r}, but inputs must be numbers. Make a 0-1 input of every "
                "category: make_pipeline(make_column_transformer((OneHotEncoder(), [...]), remainder='passthrough'), "
                "model), or pandas.get_dummies. could not convert string to float"
            )
        if values.dtype.kind in "mM":
            raise ValueError(
                f"X has dates or times in {what}, but inputs must be numbers. Turn them into some, such "
                "as days since the first one, the month or the hour, or leave the column out."
            )
        if "Sparse" in str(getattr(column, "dtype", "")):
            raise ValueError(f"X is sparse in {what}, but inputs must be dense. Give X.sparse.to_dense().")
        if (missing := _missing(values)).any():
            raise ValueError(
                f"Input X contains NaN: {int(missing.sum())} of {len(values)} values are missing in {what}. Fill them "
                "in: make_pipeline(SimpleImputer(add_indicator=True), model), or leave these rows out."
            )
    return X


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _missing(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind != "O":
        return values != values
    # pandas' NA is of no truth, not even of NA != NA
    return np.array(
        [
            v is None or type(v).__name__ == "NAType" or (np.ndim(v) == 0 and bool(v != v))
            for v in values.ravel().tolist()
        ],
        dtype=bool,
    )


def check_targets(y: Any, numbers: bool) -> Any:
    """The targets, unless some are missing, labels are of several kinds, or numbers are written as text or dates."""
    if hasattr(y, "toarray"):
        return y  # scikit-learn says what to do with sparse ones
    y = y.detach().cpu() if isinstance(y, Tensor) else y
    held = np.asarray(y)
    if y is not None and (missing := _missing(held)).any():
        raise ValueError(
            f"Input y contains NaN: {int(missing.sum())} of {held.size} values are missing. Leave these rows out."
        )
    # objects too, which scikit-learn turns into numbers where it can
    values = held.ravel().tolist() if held.dtype.kind in "OSTU" else []
    texts = [value for value in values if isinstance(value, str | bytes)]
    if not numbers:
        kind = bytes if texts and isinstance(texts[0], bytes) else str  # NumPy's texts are of a class of their own
        if others := [value for value in values if texts and not isinstance(value, kind)]:
            raise ValueError(
                f"y mixes labels such as {texts[0]!r} and {others[0]!r}, which have no order. Give labels of one type: "
                "y.astype(str)."
            )
        # scikit-learn makes numbers of the Booleans of pandas
        return y.astype(bool) if str(getattr(y, "dtype", "")) == "boolean" else y
    if held.dtype.kind in "mM":
        raise ValueError(
            "y holds dates or times, but regression needs numbers. Turn them into some, such as days since the first."
        )
    if texts:
        raise ValueError(
            f"y holds text, such as {texts[0]!r}, but regression needs numbers. Use SparseClassifier for labels, "
            "and y.astype(float) for numbers that were read as text."
        )
    return y


def moments(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the columns; a constant column has scale 1."""

    def size(x: np.ndarray) -> np.ndarray:  # its power of two; sums and squares of huge and tiny numbers are no floats
        return np.frexp(np.abs(x).max(axis=0))[1]

    power = size(values)
    mean = np.ldexp(np.average(np.ldexp(values, -power), axis=0, weights=weights), power)
    power = size(values - mean)
    square = np.square(np.ldexp(values - mean, -power))
    scale = np.ldexp(np.sqrt(np.average(square, axis=0, weights=weights)), power)
    # found by comparison: rounding in the mean would leave a tiny scale, which blows noise up
    return mean, np.where((values.max(axis=0) == values.min(axis=0)) | ~(scale > 0), 1.0, scale)


def originals(x: np.ndarray) -> np.ndarray:
    """For every scaled input the number of the first one that it copies, its own without (p,).

    Inputs that are each other's straight line tell the same: degrees Celsius and Fahrenheit, or a sign turned.
    """
    if len(x) < 3:  # two points always lie on a line
        return np.arange(x.shape[1])
    largest = np.abs(x).argmax(axis=0)
    values = np.round(x * np.where(x[largest, np.arange(x.shape[1])] < 0, -1.0, 1.0), _DIGITS) + 0.0
    first: dict[bytes, int] = {}
    return np.array(
        [j if not values[:, j].any() else first.setdefault(values[:, j].tobytes(), j) for j in range(x.shape[1])]
    )


def quantile_levels(level: float) -> tuple[float, float]:
    """Lower and upper probability of the central interval that holds `level`."""
    if not (isinstance(level, int | float | np.floating) and math.isfinite(level) and 0.0 < level < 1.0):
        raise ValueError(f"level is {level!r}, but it must be a share strictly between 0 and 1: 0.95 for 95 %.")
    return 0.5 - level / 2.0, 0.5 + level / 2.0
