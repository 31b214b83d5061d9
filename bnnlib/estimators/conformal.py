"""Intervals that keep what they promise on rows held out, and are wider where errors are larger."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from sklearn.neighbors import NearestNeighbors

from bnnlib.estimators.folds import Held, better

_SHARE, _LEAST = 0.1, 10  # of the held-out rows that stand near another one, and their least number


class Conformal(NamedTuple):
    """What turns a predicted standard deviation into half an interval (Lei et al., 2018, section 5.2).

    A score is an error over its predicted standard deviation. Where scores near each other in `places` tell the size of
    a new one better than their mean over all rows, intervals follow them.
    """

    scores: np.ndarray  # (n,)
    places: np.ndarray  # (n, d), d = 0 where nearness tells nothing

    @classmethod
    def of(cls, scores: np.ndarray, places: np.ndarray) -> Conformal:
        """Decide from held-out rows whether nearness tells something."""
        near, every = cls(scores, places), cls(scores, places[:, :0])
        # a single row has no neighbor
        return near if len(scores) > 1 and better(near._sizes_told(), every._sizes_told()) else every

    def _sizes_told(self) -> Held:
        size = np.maximum(self._size(None), 1e-12)
        # a row's score under an exponential distribution of the mean of its neighbours
        return Held(np.log(size) + self.scores / size, np.ones(len(size)))

    def _size(self, places: np.ndarray | None) -> np.ndarray:
        """Mean score of the nearest held-out rows; of each one among the others, for None."""
        if not self.places.shape[1]:
            return np.full(len(self.scores) if places is None else len(places), self.scores.mean())
        count = min(max(_LEAST, int(_SHARE * len(self.scores))), len(self.scores) - 1)
        neighbours = NearestNeighbors(n_neighbors=count).fit(self.places)
        return self.scores[neighbours.kneighbors(places, return_distance=False)].mean(axis=1)

    def factors(self, places: np.ndarray, level: float) -> np.ndarray:
        """By how many predicted standard deviations an interval reaches to either side at new places (rows, d)."""
        rank = math.ceil((len(self.scores) + 1) * level - 1e-9)
        if rank > len(self.scores):
            most = 1.0 - 1.0 / (len(self.scores) + 1)
            raise ValueError(
                f"level is {level}, but {len(self.scores)} held-out rows can promise {most:.3f} at most. Take a lower "
                "level, or interval='posterior'."
            )
        relative = np.sort(self.scores / np.maximum(self._size(None), 1e-12))
        return relative[rank - 1] * self._size(places[:, : self.places.shape[1]])
