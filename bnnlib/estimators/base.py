"""What the regressor and the classifier share: settings, scaling, training, selection and draws."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import ConvergenceWarning as SklearnWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from bnnlib._checks import check_count, check_positive, check_scale
from bnnlib.estimators.files import Saved
from bnnlib.estimators.likelihoods import Categorical
from bnnlib.estimators.sampled import Sampled
from bnnlib.estimators.variational import Variational
from bnnlib.functional import inclusion_probability_for, input_inclusion, path_inclusion
from bnnlib.nn.base import check_choice
from bnnlib.posteriors.settings import check_open
from bnnlib.replicates import Layout
from bnnlib.replicates.network import ACTIVATIONS

#: What `method=` of the estimators can be.
METHODS = ("spike_slab", "gaussian_spike_slab", "horseshoe", "gaussian", "sghmc")
_STEPS = 6000  # of the optimizer in all, where `epochs` is None
_LEARNING_RATE = {"sghmc": 3e-3}
_USUAL_RATE = 1e-2
_ROUNDS = 3  # networks of selected inputs at most, after the first of all
_ROWS = 2048  # in one forward pass of all draws


class ConvergenceWarning(SklearnWarning):
    """A fit ended before its probabilities settled; the message says what to raise. It is one of scikit-learn's too.

    Example:
        >>> import numpy as np, warnings
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", ConvergenceWarning)
        ...     try:
        ...         SparseRegressor(epochs=1).fit(X, X[:, 0])
        ...     except ConvergenceWarning as warning:
        ...         print("Raise epochs" in str(warning))
        True
    """


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


class SparseEstimator(Saved, BaseEstimator):
    """Settings and work of both estimators; see `SparseRegressor`."""

    # as scikit-learn has it, attributes of a fit appear with the fit
    network_: Variational | Sampled
    input_mean_: np.ndarray
    input_scale_: np.ndarray
    support_: np.ndarray
    used_: np.ndarray

    def __init__(
        self,
        method: str = "spike_slab",
        hidden: Sequence[int] = (16,),
        *,
        activation: str = "relu",
        epochs: int | None = None,
        batch_size: int = 128,
        learning_rate: float | None = None,
        prior_inclusion_probability: float | None = None,
        prior_scale: float = 1.0,
        refit: bool = True,
        n_replicates: int = 1,
        n_draws: int = 100,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.hidden = hidden
        self.activation = activation
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.prior_inclusion_probability = prior_inclusion_probability
        self.prior_scale = prior_scale
        self.refit = refit
        self.n_replicates = n_replicates
        self.n_draws = n_draws
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # what the two do differently
    def _read_targets(self, y: np.ndarray) -> Tensor:
        """Targets (n, 1) for the network, by the scaling or classes of the fit."""
        raise NotImplementedError

    def _start_targets(self, y: np.ndarray, classes: Any) -> int:
        """Learn scaling or classes; returns the number of the network's outputs."""
        raise NotImplementedError

    def _likelihood(self) -> nn.Module:
        raise NotImplementedError

    def _count(self, name: str) -> int:
        """A setting that counts: 64.0 as 64, while the setting stays as it was given, as scikit-learn asks."""
        return check_count(name, getattr(self, name))

    def _check_settings(self) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("activation", self.activation, tuple(ACTIVATIONS))
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Sequence | np.ndarray) or len(self.hidden) == 0:
            raise ValueError(
                f"hidden is {self.hidden!r}, but it must list the widths of the hidden layers: hidden=(16,)."
            )
        for width in self.hidden:
            check_count("each width in hidden", width)
        if self.epochs is not None:
            self._count("epochs")
        for name in ("batch_size", "n_replicates", "n_draws"):
            self._count(name)
        check_scale("prior_scale", self.prior_scale)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)
        if self.prior_inclusion_probability is not None:
            check_open("prior_inclusion_probability", self.prior_inclusion_probability)

    def fit(self, X: Any, y: Any) -> SparseEstimator:
        """Scale the data, train from new weights, and look at what has been selected.

        Args:
            X: array or DataFrame of shape (n, inputs), in its own units.
            y: (n,) targets or labels.

        Returns:
            The estimator.

        Raises:
            ValueError: a setting or the data are not what they must be; the message says which and what is allowed.
            DivergedError: training left the finite numbers.

        Warns:
            ConvergenceWarning: the inclusion probabilities still sit near their start, or still move.
        """
        self._check_settings()
        X, y = self._checked(X, y, reset=True)
        self._start(X, y, None)
        steps = -(-len(X) // self._count("batch_size"))
        epochs = -(-_STEPS // steps) if self.epochs is None else self._count("epochs")
        self._train(X, y, epochs, len(X), warm_up=True)
        for _ in range(_ROUNDS if self.refit else 0):
            if not 0 < self.support_.sum() < len(self.used_):
                break
            before = self.used_, self.network_
            misfit = self._misfit(X, y) if self.method == "sghmc" else math.inf
            self._refit(X, y, epochs)
            # a chain of few rows and inputs drops some that it needs: without them its draws leave more unexplained
            if self.method == "sghmc" and self._misfit(X, y) > misfit:
                self.used_, self.network_ = before
                self._look()
                break
        return self

    def _misfit(self, X: np.ndarray, y: np.ndarray) -> float:
        """Negative log-likelihood of the training rows, the mean over rows and draws, in nats."""
        found = 0.0
        for (outputs, scale), target in zip(
            self._outputs(X, self._count("n_draws"), self.seed_), self._read_targets(y).split(_ROWS), strict=True
        ):
            if scale is None:
                found += float(Categorical()(outputs, target)) / len(outputs) * len(target)
            else:
                each = 0.5 * ((outputs - target).squeeze(-1) / scale).square() + scale.log()
                found += float(each.mean(dim=0).sum())
        return found / len(X)

    def _refit(self, X: np.ndarray, y: np.ndarray, epochs: int) -> None:
        """Another network, of the selected inputs alone, predicts, and may select fewer.

        Among many inputs a weight costs log(1 / lambda) nats, ten for two hundred inputs: more than the last ones that
        the function needs would gain, so that the noise takes their share. Among the selected ones lambda is larger.
        A spike that is not at zero and a chain keep weights of other inputs too, which draw noise as if it were
        function.
        """
        self.used_ = np.flatnonzero(self.support_)
        sizes = (len(self.used_), *self.network_.stack.posterior.layout.sizes[1:])
        self.network_ = self._build(sizes, self._probability(sizes, len(X)))
        self._learn(X, y, epochs, len(X), warm_up=True)
        self._look()

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, *, epochs: int = 1, num_data: int | None = None
    ) -> SparseEstimator:
        """Go on where the training stands, with the scaling, classes and optimizer that there are; at first, start.

        Args:
            X, y: as for `fit`: the same data to train longer, or a part of data that do not fit into memory.
            classes: all labels that will come, where the first call does not have them all; for classifiers.
            epochs: more of them over these rows.
            num_data: rows that X stands for, against which the prior is weighed; by default its own.

        Returns:
            The estimator. The first call decides the scaling: give it enough rows.

        Raises:
            ValueError: as for `fit`, or a label is none of the classes.
        """
        epochs = check_count("epochs", epochs)
        first = not hasattr(self, "network_")
        if first:
            self._check_settings()
        X, y = self._checked(X, y, reset=first)
        if first:
            self._start(X, y, classes)
        count = len(X) if num_data is None else check_count("num_data", num_data, minimum=len(X))
        return self._train(X, y, epochs, count, warm_up=False)

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, Any]:
        if isinstance(X, torch.utils.data.DataLoader | torch.utils.data.Dataset):
            raise TypeError(
                f"X is a {type(X).__name__}, but it must be an array or a DataFrame of shape (rows, inputs). Give the "
                "arrays, chunk by chunk with partial_fit, or use bnnlib.train.fit with a network of your own."
            )
        multi = {"multi_output": False, "y_numeric": is_regressor(self)}
        return validate_data(self, X, y, reset=reset, dtype=np.float64, ensure_min_samples=2 if reset else 1, **multi)

    def _start(self, X: np.ndarray, y: np.ndarray, classes: Any) -> None:
        self.seed_ = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.input_mean_, self.input_scale_ = moments(X)
        outputs = self._start_targets(y, classes)
        sizes = (X.shape[1], *(int(width) for width in self.hidden), outputs)
        self.used_ = np.arange(X.shape[1])
        self.prior_inclusion_probability_ = self._probability(sizes, len(X))
        self.network_ = self._build(sizes, self.prior_inclusion_probability_)
        self.n_epochs_ = 0

    def _probability(self, sizes: Sequence[int], rows: int) -> float:
        """lambda as given, or by theory; the learned prior of "sghmc" starts from a half."""
        if self.prior_inclusion_probability is not None:
            return float(self.prior_inclusion_probability)
        return 0.5 if self.method == "sghmc" else float(inclusion_probability_for(sizes, rows))

    def _build(self, sizes: Sequence[int], probability: float) -> Variational | Sampled:
        rate = self.learning_rate or _LEARNING_RATE.get(self.method, _USUAL_RATE)
        layout, generator = Layout(sizes, self._count("n_replicates")), torch.Generator().manual_seed(self.seed_)
        kind = Sampled if self.method == "sghmc" else partial(Variational, self.method)
        return kind(layout, self._likelihood(), self.activation, rate, probability, self.prior_scale, generator)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.input_mean_) / self.input_scale_)[:, self.used_]

    def _train(self, X: np.ndarray, y: np.ndarray, epochs: int, num_data: int, warm_up: bool) -> SparseEstimator:
        self._learn(X, y, epochs, num_data, warm_up)
        self.n_epochs_ += epochs
        self._look()
        if warm_up and (words := self.network_.unsettled()):
            warnings.warn(
                f"after {self.n_epochs_} epochs {words}. Raise epochs, or call partial_fit with the same data to go "
                "on; a larger learning_rate gets there sooner.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _learn(self, X: np.ndarray, y: np.ndarray, epochs: int, num_data: int, warm_up: bool) -> None:
        x, target = torch.from_numpy(self._scaled(X)).float(), self._read_targets(y)
        with threads(self.n_jobs):
            self.network_.train_on(x, target, epochs, self._count("batch_size"), num_data, bool(self.verbose), warm_up)

    def _look(self) -> None:
        """What has been selected, from the probabilities of the weights; an input keeps those of its last network."""
        layout = self.network_.stack.posterior.layout
        sizes = (self.n_features_in_, *layout.sizes[1:])
        share = self.network_.counted(layout) / self.network_.counted(Layout(sizes, 1))
        self.sparsity_ = share * self.network_.sparsity()
        inclusion = self.network_.inclusion()
        if len(self.used_) == self.n_features_in_:
            self.inclusion_probability_, self.path_inclusion_probability_ = np.empty((2, self.n_features_in_))
        self.inclusion_probability_[self.used_] = input_inclusion(inclusion[0]).mean(dim=0).numpy()
        self.path_inclusion_probability_[self.used_] = path_inclusion(inclusion).mean(dim=0).numpy()
        self.support_ = self.path_inclusion_probability_ > 0.5
        chosen = np.flatnonzero(self.support_)
        names = getattr(self, "feature_names_in_", None)
        self.selected_features_ = chosen if names is None else names[chosen]

    def _new_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "network_")
        return validate_data(self, X, reset=False, dtype=np.float64)

    def _outputs(self, X: np.ndarray, count: int, seed: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Chunk by chunk of rows: outputs of all draws, (draws, rows, outputs), and noise scales (draws, 1) or None.

        The draws are the same for every chunk, and those of one network after those of another.
        """
        stack = self.network_.stack
        with threads(self.n_jobs), torch.no_grad():
            for rows in torch.from_numpy(self._scaled(X)).split(_ROWS):
                generator = torch.Generator().manual_seed(seed)
                outputs, scales = [], []
                for layers, scale in self.network_.draws(count, generator):
                    outputs.append(stack.propagate(layers, rows))
                    scales.append(scale)
                known = None if scales[0] is None else torch.cat([one for one in scales if one is not None])[:, None]
                yield torch.cat(outputs), known


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the columns; a constant column has scale 1."""
    mean, scale = values.mean(axis=0), values.std(axis=0)
    # found by comparison: rounding in the mean would leave a tiny scale, which blows noise up
    return mean, np.where((values.max(axis=0) == values.min(axis=0)) | ~(scale > 0), 1.0, scale)


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Let PyTorch use `n_jobs` threads, -1 for all cores, None for as many as it does anyway."""
    if n_jobs is None:
        yield
        return
    from joblib import effective_n_jobs

    before = torch.get_num_threads()
    torch.set_num_threads(effective_n_jobs(n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def quantile_levels(level: float) -> tuple[float, float]:
    """Lower and upper probability of the central interval that holds `level`.

    Raises:
        ValueError: the level is not strictly between 0 and 1.
    """
    if not (isinstance(level, int | float | np.floating) and math.isfinite(level) and 0.0 < level < 1.0):
        raise ValueError(f"level is {level!r}, but it must be a share strictly between 0 and 1: 0.95 for 95 %.")
    return 0.5 - level / 2.0, 0.5 + level / 2.0
