"""A sparse Bayesian network for a label: probabilities, what is not known, and the inputs that matter."""

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from bnnlib._checks import check_count
from bnnlib.estimators.base import SparseEstimator
from bnnlib.estimators.likelihoods import logits
from bnnlib.estimators.rows import Rows
from bnnlib.estimators.search import Choice
from bnnlib.estimators.settings import ClassifierSettings
from bnnlib.estimators.uncertainty import Uncertainty
from bnnlib.metrics import entropy_split


class SparseClassifier(ClassifierMixin, SparseEstimator, ClassifierSettings):
    """Classification with a sparse Bayesian network, of two classes or more; labels are numbers or texts.

    Args:
        method, hidden, activation, epochs, batch_size, learning_rate, prior_inclusion_probability, prior_scale,
        refit, groups, fdr, n_replicates, n_draws, n_jobs, random_state, verbose: as for `SparseRegressor`.
        class_weight: how many rows a row of each label stands for, as a dict; "balanced" gives all classes the same
            weight. Probabilities are then those of a population with such shares.

    Attributes:
        classes_: the labels, sorted.
        temperature_: the averaged probabilities are raised to 1 / temperature_, which meets the held-out rows, and
            half a row more of any label, best: where no row is wrong they are not made certain.
        inclusion_probability_, path_inclusion_probability_, inclusion_range_, inclusion_spread_, selected_features_,
        support_, p_values_, feature_importances_, hidden_, candidates_, used_, original_, groups_, percent_active_,
        prior_inclusion_probability_, prior_scale_, n_epochs_, n_rows_, n_features_in_, feature_names_in_: as for
        `SparseRegressor`.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(150, 10))
        >>> y = np.where(X[:, 0] > X[:, 1], "left", "right")
        >>> model = SparseClassifier(hidden=(8,), epochs=200, learning_rate=0.03, random_state=0).fit(X, y)
        >>> model.predict_proba(X[:5]).shape, bool(model.score(X, y) > 0.9)
        ((5, 2), True)
    """

    def _start_targets(self, y: np.ndarray, classes: Any, weights: np.ndarray) -> int:
        check_classification_targets(y)
        self.temperature_ = 1.0
        self.classes_ = np.unique(y if classes is None else np.asarray(classes))
        if len(self.classes_) < 2:
            given = "classes is empty"
            if len(self.classes_):
                given = f"y has only one class among the rows of positive weight, {self.classes_.tolist()[0]!r}"
            raise ValueError(
                f"{given}, but there must be two or more to tell apart. Give rows of another class, or name all in "
                "partial_fit(..., classes=...)."
            )
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _read_targets(self, y: np.ndarray) -> np.ndarray:
        labels = np.searchsorted(self.classes_, y).clip(0, len(self.classes_) - 1)
        if (unknown := self.classes_[labels] != y).any():
            raise ValueError(
                f"y has the label {y[unknown].tolist()[0]!r}, but the classes are {self.classes_.tolist()}. Name all "
                "labels in the first partial_fit(..., classes=...), or fit anew."
            )
        return labels

    def _keep_held_out(self, rows: Rows, choice: Choice) -> None:
        if choice.held is not None:
            self.temperature_ = choice.held.temperature

    def _log_probabilities(self, X: np.ndarray, count: int, seed: int) -> list[Tensor]:
        return [torch.log_softmax(logits(outputs), dim=-1) for outputs, _ in self._outputs(X, count, seed)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes at new inputs, averaged over the posterior, shape (rows, classes).

        At `temperature_`; `sample_posterior` and `uncertainty` are of the posterior as it is.

        Raises:
            ValueError: X has other columns than in `fit`.
            NotFittedError: before `fit`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`, finite also where those are 0."""
        chunks = self._log_probabilities(self._new_rows(X), self._count("n_draws"), self.seed_)
        summed = torch.cat([chunk.logsumexp(dim=0) for chunk in chunks])
        return torch.log_softmax(summed / self.temperature_, dim=1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each row."""
        chosen = self.predict_proba(X).argmax(axis=1)
        return self.classes_[chosen]

    def uncertainty(self, X: Any) -> Uncertainty:
        """Entropy in nats, (total, aleatoric, epistemic): the third is the mutual information of label and weights."""
        chunks = self._log_probabilities(self._new_rows(X), self._count("n_draws"), self.seed_)
        parts = zip(*(entropy_split(chunk.exp()) for chunk in chunks), strict=True)
        return Uncertainty(*(torch.cat(part).numpy() for part in parts))

    def sample_posterior(self, X: Any, n_draws: int = 100, *, random_state: int | None = None) -> np.ndarray:
        """Draws of the probabilities at new inputs, each of one network: (n_draws * n_replicates, rows, classes).

        Args:
            X: shape (rows, inputs).
            n_draws: of each replicate; a chain gives at most those that it has kept.
            random_state: seed; by default that of the fit.
        """
        n_draws = check_count("n_draws", n_draws)
        seed = self.seed_ if random_state is None else random_state
        return torch.cat(self._log_probabilities(self._new_rows(X), n_draws, seed), dim=1).exp().numpy()
