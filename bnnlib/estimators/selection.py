"""Which inputs a fit has selected, as scikit-learn's selectors tell it."""

from typing import Any

import numpy as np
import torch
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bnnlib.estimators.promises import step_up
from bnnlib.estimators.threads import threads
from bnnlib.functional import input_inclusion, path_inclusion

_IMPORTANCE_DRAWS = 30
_NEGLIGIBLE = 0.05  # share of a start in the evidence, over the largest


class Selection(SelectorMixin):
    """The part of an estimator that tells which inputs matter, after a fit."""

    network_: Any
    seed_: int
    n_features_in_: int
    used_: np.ndarray
    original_: np.ndarray
    path_inclusion_probability_: np.ndarray
    groups_: np.ndarray
    support_: np.ndarray
    fdr: Any

    def _look(self, paths: np.ndarray | None = None, shares: np.ndarray | None = None) -> None:
        """What has been selected, from the probabilities of the weights, or those given (starts, inputs) with shares.

        An input keeps the probabilities of the last network that read it.
        """
        weights, paths = self._joined(self.network_.inclusion()) if paths is None else (paths, paths)
        counted = paths if shares is None else paths[shares > _NEGLIGIBLE * shares.max()]
        estimates = {
            "inclusion_probability_": np.average(weights, axis=0, weights=shares),
            "path_inclusion_probability_": np.average(paths, axis=0, weights=shares),
            "inclusion_spread_": np.ptp(counted, axis=0),
            "inclusion_range_": np.stack([counted.min(axis=0), counted.max(axis=0)]),
        }
        sharing = self._sharing()
        for name, values in estimates.items():
            whole = np.array(getattr(self, name, np.zeros((*values.shape[:-1], self.n_features_in_))))
            whole[..., self.used_] = values / sharing[self.used_]
            setattr(self, name, whole[..., self.original_])
        chosen = self.path_inclusion_probability_ * sharing > 0.5
        chosen &= self.original_ == np.arange(self.n_features_in_)
        self.support_ = np.isin(self.groups_, self.groups_[chosen])

    def _sharing(self) -> np.ndarray:
        """Of each input, the number of groups with a copy of it, its own included (inputs,)."""
        pairs = np.unique(np.stack([self.original_, self.groups_]), axis=1)
        return np.bincount(pairs[0], minlength=self.n_features_in_)[self.original_]

    def _joined(self, inclusion: list[Tensor]) -> tuple[np.ndarray, np.ndarray]:
        """Of each start and input that the network reads, that a weight is in, and that a path is; of groups any."""
        groups = self.groups_[self.used_]
        if len(np.unique(groups)) < len(groups):
            number = torch.from_numpy(np.unique(groups, return_inverse=True)[1])
            member = torch.nn.functional.one_hot(number).expand(len(inclusion[0]), -1, -1).double()
            some = input_inclusion(member * input_inclusion(inclusion[0]).unsqueeze(-1))
            return some[:, number].numpy(), path_inclusion([member, *inclusion])[:, number].numpy()
        return input_inclusion(inclusion[0]).numpy(), path_inclusion(inclusion).numpy()

    def _promise(self, p: np.ndarray) -> None:
        """Select by the p-values of the inputs that are no copies, at the false-discovery rate that is set."""
        originals = np.unique(self.original_)
        self.p_values_ = np.ones(self.n_features_in_)
        tests, number = np.unique(self.groups_[originals], return_index=True)
        tested = np.isin(self.groups_, tests)
        self.p_values_[tested] = p[number][np.searchsorted(tests, self.groups_[tested])]
        self.support_ = np.isin(self.groups_, tests[step_up(p[number], self.fdr)])

    @property
    def selected_features_(self) -> np.ndarray:
        """Names (of a DataFrame) or numbers of the selected inputs."""
        check_is_fitted(self, "network_")
        chosen = np.flatnonzero(self.support_)
        names = getattr(self, "feature_names_in_", None)
        return chosen if names is None else names[chosen]

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each input in the size of all paths from inputs to outputs, (inputs,), with sum 1.

        The size of a path is the product of its weights' root mean squares, for scaled inputs.
        """
        check_is_fitted(self, "network_")
        with threads(self.n_jobs):
            total, generator = torch.zeros(1, dtype=torch.float64), torch.Generator().manual_seed(self.seed_)
            for layers, _ in self.network_.draws(_IMPORTANCE_DRAWS, generator):
                reached = torch.ones(len(layers[-1][0]), layers[-1][0].shape[1], 1, dtype=torch.float64)
                for weight, *_ in reversed(layers):
                    reached = weight.square().transpose(1, 2) @ reached
                total = total + reached.squeeze(-1).mean(dim=0).detach()
        sizes, shares = np.sqrt(np.asarray(total)), np.zeros(self.n_features_in_)
        shares[self.used_] = sizes / sizes.sum() if sizes.sum() > 0 else 0.0
        return shares

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self, "network_")
        return self.support_
