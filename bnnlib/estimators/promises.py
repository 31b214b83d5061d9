"""Selections with a promise: inputs tested on rows held out, with a set false-discovery rate.

A model that was trained without a row predicts it twice: with the input as it is, and with a stand-in drawn given the
other inputs. Where the input tells nothing beyond them, the two are exchangeable, whatever the model is, and the mean
difference of the losses is 0 (Candes, Fan, Janson and Lv, 2018, J. R. Stat. Soc. B 80, 551-577; Watson and Wright,
2021, Machine Learning 110, 2107-2129). The step-up rule of Benjamini and Hochberg turns the p-values into a selection.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import stdtr
from sklearn.covariance import ledoit_wolf

from bnnlib.estimators.folds import Folds

#: Losses of held-out rows (copies, rows), in nats, of a fold's model at inputs (copies, rows, inputs).
Loss = Callable[[int, np.ndarray], np.ndarray]
_STAND_INS = 5  # draws of each stand-in


def p_values(
    x: np.ndarray, groups: list[np.ndarray], folds: Folds, loss: Loss, tested: np.ndarray, seed: int
) -> np.ndarray:
    """One-sided p-values that inputs matter given the others, (p,); 1 where no fold's model reads the input.

    Args:
        groups: columns of the scaled inputs that have a stand-in and a p-value together.
        loss: of the folds' models, on whose held-out rows inputs are tested.
        tested: mask of the inputs that some fold's model reads.
    """
    random, values = np.random.default_rng(seed), np.ones(x.shape[1])
    precision = np.linalg.pinv(ledoit_wolf(x)[0], hermitian=True)
    plain = [loss(fold, x[test][None])[0] for fold, test in enumerate(folds.test)]
    for some in (group for group in groups if tested[group].any()):
        own = np.linalg.pinv(precision[np.ix_(some, some)], hermitian=True)
        residual = (x - x.mean(axis=0)) @ precision[:, some] @ own  # of the group, given the others
        differences = []
        for fold, test in enumerate(folds.test):
            rows = np.repeat(x[test][None], _STAND_INS, axis=0)
            rows[:, :, some] += residual[random.integers(len(x), size=rows.shape[:2])] - residual[test]
            differences.append(loss(fold, rows).mean(axis=0) - plain[fold])
        gains = np.concatenate(differences)
        spread = gains.std(ddof=1) if len(gains) > 1 else 0.0
        if spread > 0:
            values[some] = stdtr(len(gains) - 1, -gains.mean() / spread * np.sqrt(len(gains)))
    return values


def step_up(p: np.ndarray, rate: float) -> np.ndarray:
    """Mask of the inputs that are selected at a false-discovery rate."""
    order = np.argsort(p)
    below = np.flatnonzero(p[order] <= rate * np.arange(1, len(p) + 1) / len(p))
    chosen = np.zeros(len(p), dtype=bool)
    chosen[order[: below[-1] + 1 if len(below) else 0]] = True
    return chosen
