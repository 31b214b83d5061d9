"""Small tables with inputs in units of their own, and settings that learn them in a second or two."""

import numpy as np

# 1,000 steps at three times the usual rate: enough for three strong inputs of eight and a network of six units
QUICK = {"hidden": (6,), "epochs": 1000, "batch_size": 300, "learning_rate": 0.03, "random_state": 0}
QUICK |= {"prior_inclusion_probability": None, "refit": True, "n_replicates": 1}  # one candidate, one start
SHORT = {"epochs": 60, "batch_size": 64, "learning_rate": 0.03, "random_state": 0}


def table(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eight inputs in units of their own, of which 1, 4 and 6 matter, and a target around 1,000 with noise 2."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, 8))
    y = 1000.0 + 10.0 * z[:, 1] - 8.0 * z[:, 4] + 6.0 * np.abs(z[:, 6]) + 2.0 * rng.normal(size=rows)
    return 50.0 + z * np.logspace(-2, 3, 8), y


def classes(rows: int = 300, seed: int = 0, names=("no", "yes")) -> tuple[np.ndarray, np.ndarray]:
    """The same inputs, and labels that 1 and 4 decide."""
    x, _ = table(rows, seed)
    z = (x - 50.0) / np.logspace(-2, 3, 8)
    score = 4.0 * z[:, 1] - 4.0 * z[:, 4] + np.random.default_rng(seed + 1).logistic(size=rows)
    edges = np.quantile(score, np.linspace(0, 1, len(names) + 1)[1:-1])
    return x, np.asarray(names)[np.searchsorted(edges, score)]
