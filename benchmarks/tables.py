"""Tables for `benchmarks.estimators` that need no network: bundled with scikit-learn, of UCI, and simulated.

Settings of the estimators were chosen on the tables of TUNED (and on null data); the others were kept to check with.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn import datasets as bundled
from sklearn.datasets import make_friedman1

from bnnlib import datasets

TEST_ROWS = 1000  # of a simulation
#: Which the defaults were chosen on.
TUNED = ("wine_cultivars", "iris", "breast_cancer_30", "breast_cancer", "digits_300", "diabetes_30", "diabetes")
TUNED += ("friedman_100", "five_of_200", "linear_100_200", "logistic_50")


@dataclass
class Split:
    """One division of a set: raw inputs and targets, whether these are labels, and what is known of a simulation."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    labels: bool
    noise: float = 1.0
    relevant: np.ndarray | None = None  # a mask of the inputs that matter, where the truth is known

    def scaled(self) -> tuple[np.ndarray, np.ndarray]:
        mean, scale = self.x.mean(axis=0), self.x.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        return (self.x - mean) / scale, (self.test_x - mean) / scale


Simulation = Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray, int]]


def _linear(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    x = rng.normal(size=(rows, inputs))
    return x, 2.0 * x[:, :5] @ np.array([1, -1, 1, -1, 1.0]) + rng.normal(size=rows), 5


def _correlated(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Neighbors are correlated by 0.9; every second one of the first ten inputs would be told from its neighbors."""
    noise, x = rng.normal(size=(rows, inputs)), np.zeros((rows, inputs))
    x[:, 0] = noise[:, 0]
    for j in range(1, inputs):
        x[:, j] = 0.9 * x[:, j - 1] + np.sqrt(1 - 0.81) * noise[:, j]
    order = [0, 10, 20, 30, *(j for j in range(inputs) if j not in (0, 10, 20, 30))]
    x = x[:, order]
    return x, x[:, :4] @ np.array([1.0, -1.0, 1.0, -1.0]) + rng.normal(size=rows), 4


def _dense(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    x = rng.normal(size=(rows, inputs))
    return x, x @ rng.normal(size=inputs) / np.sqrt(inputs) + rng.normal(size=rows), inputs


def _null(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    return rng.normal(size=(rows, inputs)), rng.normal(size=rows), 0


def _copied(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The third input is the first one in other units."""
    x, y, _ = _linear(rng, rows, inputs)
    noise = y - 2.0 * x[:, :5] @ np.array([1, -1, 1, -1, 1.0])
    x[:, 2] = 32.0 + 1.8 * x[:, 0]
    return x, 2.0 * (x[:, 0] - x[:, 1]) + noise, 2


def _tossed(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    return rng.normal(size=(rows, inputs)), rng.integers(0, 2, rows), 0


def _logistic(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    x = rng.normal(size=(rows, inputs))
    return x, (2.0 * (x[:, 0] - x[:, 1]) + rng.logistic(size=rows) > 0).astype(int), 2


def _rare(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    x = rng.normal(size=(rows, inputs))
    return x, (2.0 * (x[:, 0] + x[:, 1]) + rng.logistic(size=rows) > 4.5).astype(int), 2


def _xor(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    x = rng.normal(size=(rows, inputs))
    return x, ((x[:, 0] * x[:, 1] > 0) ^ (rng.uniform(size=rows) < 0.05)).astype(int), 2


def _friedman(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    x, y = make_friedman1(rows, inputs, noise=1.0, random_state=int(rng.integers(2**31)))
    return x, y, 5


def _wave(rng: np.random.Generator, rows: int, inputs: int) -> tuple[np.ndarray, np.ndarray, int]:
    x = rng.uniform(-2, 2, size=(rows, inputs))
    return x, np.sin(2.0 * x[:, 0]) + 0.3 * rng.normal(size=rows), 1


# name: (simulation, rows, inputs, labels)
SIMULATED: dict[str, tuple[Simulation, int, int, bool]] = {
    "logistic_50": (_logistic, 50, 20, True),
    "logistic_200": (_logistic, 200, 50, True),
    "rare_300": (_rare, 300, 10, True),
    "xor_400": (_xor, 400, 8, True),
    "linear_100_200": (_linear, 100, 200, False),
    "linear_100_2000": (_linear, 100, 2000, False),
    "correlated_150": (_correlated, 150, 50, False),
    "dense_150": (_dense, 150, 60, False),
    "null_100": (_null, 100, 20, False),
    "wave_60": (_wave, 60, 1, False),
    "friedman_100": (_friedman, 100, 10, False),
    "friedman_400": (_friedman, 400, 30, False),
    "linear_300_10000": (_linear, 300, 10_000, False),
    "null_200": (_null, 200, 50, False),
    "null_labels_200": (_tossed, 200, 50, True),
    "copied_200": (_copied, 200, 20, False),
}
#: Which ask what a method selects, and not how well it predicts.
SELECTIONS = ("null_200", "null_labels_200", "copied_200")
# name: (set, rows of training; None for nine tenths)
STORED: dict[str, tuple[str, int | None]] = {
    "wine_cultivars": ("load_wine", None),
    "iris": ("load_iris", None),
    "breast_cancer_30": ("load_breast_cancer", 30),
    "breast_cancer_100": ("load_breast_cancer", 100),
    "breast_cancer": ("load_breast_cancer", None),
    "digits_300": ("load_digits", 300),
    "diabetes_30": ("load_diabetes", 30),
    "diabetes_100": ("load_diabetes", 100),
    "diabetes": ("load_diabetes", None),
    "yacht_50": ("yacht", 50),
    "boston_50": ("boston", 50),
    "boston": ("boston", None),
    "concrete_100": ("concrete", 100),
    "concrete": ("concrete", None),
    "energy_200": ("energy", 200),
    "wine_100": ("wine", 100),
    "kin8nm_500": ("kin8nm", 500),
    "power_200": ("power", 200),
    "protein_1000": ("protein", 1000),
    "protein_41000": ("protein", 41_000),
}
NAMES = (*STORED, *SIMULATED)


def load(name: str, number: int) -> Split:
    """Division `number` of a table; a simulation is drawn anew."""
    if name in SIMULATED:
        simulation, rows, inputs, labels = SIMULATED[name]
        x, y, relevant = simulation(np.random.default_rng([number, rows, inputs]), rows + TEST_ROWS, inputs)
        mask = np.arange(inputs) < relevant
        return Split(x[:rows], y[:rows], x[rows:], y[rows:], labels, relevant=mask)
    source, count = STORED[name]
    if source.startswith("load_"):
        data = getattr(bundled, source)()
        x, y, labels = data.data, data.target, source != "load_diabetes"
    else:
        held = datasets.load(source, download=False, split=0)
        parts = (held.train_x, held.test_x), (held.train_y, held.test_y)
        x, y = (np.concatenate([part.numpy() for part in some]).astype(float) for some in parts)
        y, labels = y.ravel(), False
    order = np.random.default_rng(number).permutation(len(x))
    if labels:  # every class among the first rows
        order = np.concatenate([one for one in _dealt(order, y)])
    count = count or len(x) * 9 // 10
    train, test = order[:count], order[count : count + 4 * TEST_ROWS]
    return Split(x[train], y[train], x[test], y[test], labels)


def _dealt(order: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """An order whose first rows hold two of every class."""
    first = np.concatenate([order[labels[order] == label][:2] for label in np.unique(labels)])
    return [first, order[~np.isin(order, first)]]
