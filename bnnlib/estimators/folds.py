"""Rows held out within the training rows, and what two candidates say of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

_EFFORT = 400_000  # parameters of all networks that are trained side by side, at most
_TEMPERATURES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)  # of probabilities of classes
_DOUBT = 0.5  # rows of any label, on the side of what is not certain
_FAR_ROW = 10.0  # medians: what one row far outside may say of all others
_FEW, _SOME = 300, 2_000  # rows up to which five folds are made, and three
_ROWS = 4_000  # of a fold's held-out rows, at most: they judge as well as more


class Folds(NamedTuple):
    """Training and held-out rows of each fold; all folds have as many of them, as a stack of networks needs."""

    train: np.ndarray  # (folds, rows)
    test: np.ndarray  # (folds, rows)

    @property
    def number(self) -> int:
        return len(self.test)

    @classmethod
    def divide(cls, rows: int, labels: np.ndarray | None, effort: int, seed: int) -> Folds:
        """Five folds of few rows, three of more, and a fifth of many, but no more than 4,000 rows are held out.

        The classes of `labels` are spread evenly.

        `effort` is the number of parameters that one fold's candidates have together.
        """
        most = 5 if rows <= _FEW else 3 if rows <= _SOME else 1
        count = max(1, min(most, rows // 2, _EFFORT // max(1, effort)))
        order = np.random.default_rng(seed).permutation(rows)
        if labels is not None:
            order = order[np.argsort(labels[order], kind="stable")]
        share = max(count, 5 if rows >= 10 else 2, -(-rows // _ROWS))  # a single fold is a fifth
        size = rows // share
        test = np.stack([np.sort(order[fold::share][:size]) for fold in range(count)])
        train = np.stack([np.setdiff1d(np.arange(rows), held) for held in test])
        return cls(train, test)


class Held(NamedTuple):
    """What a candidate says of held-out rows; for numbers in units of the scaled target."""

    nll: np.ndarray  # negative log-likelihood of each row, in nats
    weights: np.ndarray
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    noise: np.ndarray | None = None  # variance of the noise, part of std's square
    log_p: np.ndarray | None = None  # of the classes, (n, K)
    labels: np.ndarray | None = None
    temperature: float = 1.0  # of the probabilities of classes

    @classmethod
    def of_labels(cls, log_p: np.ndarray, labels: np.ndarray, weights: np.ndarray, temperature: float = 1.0) -> Held:
        """Rows with labels under probabilities of the classes, which the temperature sharpens or flattens."""
        chosen = log_p[np.arange(len(labels)), labels] / temperature
        nll = np.logaddexp.reduce(log_p / temperature, axis=1) - chosen
        return cls(nll, weights, log_p=log_p, labels=labels, temperature=temperature)

    def tempered(self) -> Held:
        """The same at the temperature that meets the labels best (Guo et al., 2017), and half a row of any label.

        Rows that stand for less than one row each by their weights are as many as these say.

        A factorized posterior under a prior that fits few inputs leaves classes that lie far apart less certain than
        they are. Where every row is met the labels alone would have it certain.
        """
        if self.log_p is None or self.labels is None:
            return self
        tried = [self.of_labels(self.log_p, self.labels, self.weights, temperature) for temperature in _TEMPERATURES]
        best = min(tried, key=Held._doubted)
        return best if best._doubted() < self._doubted() - 1e-9 else self

    def _doubted(self) -> float:
        """The loss, with a share of a row of which every label is as likely."""
        log_p: Any = self.log_p
        log_p = log_p / self.temperature
        any_label = np.logaddexp.reduce(log_p, axis=1) - log_p.mean(axis=1)
        order = np.argsort(any_label)
        below = np.cumsum(self.weights[order])
        usual = any_label[order[np.searchsorted(below, 0.5 * below[-1])]]
        bounded = np.minimum(any_label, _FAR_ROW * usual)
        share = _DOUBT / min(len(log_p), float(self.weights.sum()))
        return self.loss() + share * float(np.average(bounded, weights=self.weights))

    def loss(self) -> float:
        return float(np.average(self.nll, weights=self.weights))

    @classmethod
    def joined(cls, parts: list[Held]) -> Held:
        arrays = zip(*(part[:-1] for part in parts), strict=True)
        whole: Any = [None if some[0] is None else np.concatenate(some) for some in arrays]
        return cls(*whole)


@np.errstate(invalid="ignore")  # two that diverged are infinite
def gain(held: Held, other: Held) -> tuple[float, float]:
    """Nats a row by which the first is better, and their standard error, by pairs."""
    differences, weights = other.nll - held.nll, held.weights / held.weights.sum()
    mean = float(weights @ differences)
    if len(differences) < 2:
        return mean, math.inf  # one row says nothing of its own error
    return mean, math.sqrt(float(np.square(weights) @ np.square(differences - mean)))


def better(held: Held, other: Held, errors: float = 1.0) -> bool:
    """Whether the first is better by more than so many standard errors."""
    mean, error = gain(held, other)
    return mean > errors * error + 1e-9
