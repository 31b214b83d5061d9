"""What the regressor and the classifier share: settings, training, selection and draws."""

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor

from bnnlib._checks import DivergedError, check_count
from bnnlib.estimators.files import Saved
from bnnlib.estimators.groups import group_numbers, members
from bnnlib.estimators.likelihoods import Categorical, SharedGaussian
from bnnlib.estimators.linear import Linear
from bnnlib.estimators.notes import tell
from bnnlib.estimators.rows import Rows, check_inputs, check_targets, moments, originals
from bnnlib.estimators.sampled import Sampled
from bnnlib.estimators.search import SELECTING, Choice, choose, held_outputs
from bnnlib.estimators.selection import Selection
from bnnlib.estimators.settings import USUAL_RATE, WIDTHS, Settings, is_auto
from bnnlib.estimators.threads import threads
from bnnlib.estimators.variational import Variational
from bnnlib.replicates import Layout

_ROUNDS = 3  # networks of selected inputs at most, after the first of all
_ROWS = 2048  # in one forward pass of all draws
_FEW_DRAWS = 10
_OUTSIDE = 10.0  # standard deviations of y: what no network that learned from it says


class SparseEstimator(Selection, Saved, Settings):
    """Settings and work of both estimators; see `SparseRegressor`."""

    # as scikit-learn has it, attributes of a fit appear with the fit
    hidden_: tuple[int, ...]
    input_mean_: np.ndarray
    input_scale_: np.ndarray
    _unsettled: str | None = None
    _tells = False  # the rows held out are met better than by their mean, or the shares of their classes
    _idle = ""  # why there is nothing to select

    # what the two do differently
    def _read_targets(self, y: np.ndarray) -> np.ndarray:
        """Targets (n,) for the network, by the scaling or classes of the fit."""
        raise NotImplementedError

    def _start_targets(self, y: np.ndarray, classes: Any, weights: np.ndarray) -> int:
        """Learn scaling or classes; returns the number of the network's outputs."""
        raise NotImplementedError

    def _weighed(self, rows: Rows, choice: Choice) -> Rows | None:
        """The rows, weighed by their noise, where it is not the same for all."""
        return None

    def _precise(self, rows: Rows) -> Rows:
        """The rows of a later part of the data, weighed by the noise that `fit` has learned."""
        return rows

    def _keep_held_out(self, rows: Rows, choice: Choice) -> None:
        """What rows held out say of predictions, once inputs are selected."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Scale the data, choose among candidates, train from new weights, and look at what has been selected.

        Args:
            X: array or DataFrame of shape (n, inputs), in its own units.
            y: (n,) targets or labels; for a regressor also (n, outputs).
            sample_weight: (n,), how many rows each one stands for.

        Returns:
            The estimator. One that was interrupted, or that failed, is what it was before.

        Raises:
            ValueError: a setting or the data are not what they must be; the message says which and what is allowed.
            DivergedError: training left the finite numbers, or ended far from y.

        Warns:
            ConvergenceWarning: the inclusion probabilities still sit near their start, or still move; a candidate
                diverged; or the noise is larger than the spread of y.
            SelectionWarning: nothing is selected, inputs are copies, or a selection depends on the start.
        """
        self._check_settings()
        work = copy.copy(self)
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(work, name)
        work._unsettled = None
        work._fit(X, y, sample_weight)
        self.__dict__ = work.__dict__
        tell(self)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        rows, sizes = self._started(X, y, None, sample_weight)
        with threads(self.n_jobs):
            choice = choose(self, rows, sizes)
            if (weighed := self._weighed(rows, choice)) is not None:
                rows, choice = weighed, choose(self, weighed, sizes)
            self.candidates_, self._tells, self._idle = list(choice.table), choice.tells, choice.idle
            epochs = self._epochs(len(rows.x))
            explored: Any = choice.explored
            if choice.linear:
                self._make((rows.x.shape[1], rows.outputs), choice.probability, choice.scale)
                self.network_.ascend(rows, self.seed_)
                self._look(explored.inclusion, explored.shares)
            else:
                if choice.doubtful:
                    self._look(explored.inclusion, explored.shares)
                else:
                    self._learn(rows, sizes, choice.selecting, epochs)
                    self._look()
                if choice.refit:
                    self._refit(rows, choice, epochs)
                elif choice.doubtful or choice.probability != choice.selecting:
                    self._learn(rows, sizes, choice.probability, epochs)
            if choice.p_values is not None:
                self._promise(choice.p_values)
            self._keep_held_out(rows, choice)
            self._end()

    def _refit(self, rows: Rows, choice: Choice, epochs: int) -> None:
        """Another network, of the selected inputs alone, predicts, and may select fewer.

        Among many inputs a weight costs log(1 / lambda) nats, more than the last ones that the function needs would
        gain, so that the noise takes their share; among the selected ones lambda is larger. A spike that is not at zero
        and a chain keep weights of other inputs too, which draw noise as if it were function.
        """
        for _ in range(_ROUNDS):
            inside = np.flatnonzero(self.support_[self.used_])
            if not 0 < len(inside) < len(self.used_):
                break
            rows = rows._replace(x=rows.x[:, inside])
            self.used_ = self.used_[inside]
            sizes = (len(inside), *self.hidden_, rows.outputs)
            dense = choice.held is not None and choice.probability > SELECTING
            probability = choice.probability if dense else self._refit_priors(sizes, len(rows.x))[0]
            self._learn(rows, sizes, probability, epochs)
            if dense:
                break  # its probabilities say little about which inputs matter
            self._look()

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        epochs: int = 1,
        num_data: int | None = None,
    ) -> Self:
        """Go on where the training stands, with the scaling, classes and optimizer that there are; at first, start.

        A first call with `hidden="auto"` trains a network of 16 hidden units under the theoretical prior: candidates
        need all rows, and `fit`.

        Args:
            X, y: as for `fit`: the same data to train longer, or a part of data that do not fit into memory.
            classes: all labels that will come, where the first call does not have them all; for classifiers.
            sample_weight: as for `fit`.
            epochs: more of them over these rows.
            num_data: rows that X stands for, against which the prior is weighed; by default its own.

        Returns:
            The estimator. The first call decides the scaling: give it enough rows.

        Raises:
            ValueError: as for `fit`, or a label is none of the classes.
            DivergedError: the training left the finite numbers; the estimator is as before the call.
        """
        epochs = check_count("epochs", epochs)
        work, fresh = copy.copy(self), not hasattr(self, "network_")
        if fresh:
            self._check_settings()
            if self.noise == "heteroscedastic":
                raise ValueError(
                    "noise is 'heteroscedastic', which rows held out decide: partial_fit has none. Call fit first, on "
                    "as many rows as fit into memory, or set noise='constant'."
                )
        with threads(self.n_jobs):
            if fresh:
                rows, sizes = work._started(X, y, classes, sample_weight)
                work._make(sizes, self._priors(sizes, len(rows.x))[0])
            else:
                rows = work._precise(work._scaled_rows(*work._checked(X, y, sample_weight, reset=False)))
                rows = rows._replace(x=rows.x[:, self.used_])
                work.network_ = copy.deepcopy(self.network_)  # an interrupted call leaves the old one
            count = len(rows.x) if num_data is None else check_count("num_data", num_data, minimum=len(rows.x))
            work._train(rows, epochs, count, warm_up=False)
            work.n_epochs_ += epochs
            work._look()
            work._end()
        self.__dict__.update(vars(work))
        return self

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[np.ndarray, Any, np.ndarray]:
        X, numbers, least = check_inputs(X), is_regressor(self), 2 if reset else 1
        y = check_targets(y, numbers)
        several = {"multi_output": numbers and np.asarray(y).shape[1:] not in ((), (1,)), "y_numeric": numbers}
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, order="C", ensure_min_samples=least, **several)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, y)
        kept = weights > 0
        if kept.sum() < least:
            raise ValueError(
                f"{kept.sum()} of {len(kept)} rows have a positive sample_weight, but at least {least} are needed: a "
                "row of weight 0 is left out."
            )
        self._total_weight = float(weights.sum())
        return (X, y, weights) if kept.all() else (X[kept], y[kept], weights[kept])

    def _started(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> tuple[Rows, tuple[int, ...]]:
        """Scaling, seed and sizes of the network; the rows, of inputs that are no copies."""
        X, y, weights = self._checked(X, y, sample_weight, reset=True)
        self.seed_ = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.n_rows_ = len(X)
        self.input_mean_, self.input_scale_ = moments(X, weights)
        outputs = self._start_targets(y, classes, weights)
        rows = self._scaled_rows(X, y, weights)
        self.original_ = originals(rows.x)
        self.used_ = np.unique(self.original_)
        self.groups_ = group_numbers(self.groups, X, getattr(self, "feature_names_in_", None))
        widths = WIDTHS if is_auto(self.hidden) else tuple(int(width) for width in self.hidden)
        return rows._replace(x=rows.x[:, self.used_]), (len(self.used_), *widths, outputs)

    def _scaled_rows(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Rows:
        return Rows(self._scaled(X), self._read_targets(y), len(getattr(self, "classes_", ())), weights)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return (X - self.input_mean_) / self.input_scale_

    def _build(self, sizes: Sequence[int], probability: Any, replicates: int | None = None) -> Any:
        count = self._count("n_replicates") if replicates is None else replicates
        scale, generator = getattr(self, "prior_scale_", self._scale()), torch.Generator().manual_seed(self.seed_)
        likelihood = SharedGaussian(count, sizes[-1]) if is_regressor(self) else Categorical()
        common = Layout(sizes, count), likelihood, self.activation
        if len(sizes) == 2:
            return Linear(*common, USUAL_RATE, probability, scale, generator, groups=members(self.groups_[self.used_]))
        if self.method == "sghmc":
            return Sampled(*common, self._rate(), float(np.ravel(probability)[0]), scale, generator)
        return Variational(self.method, *common, self._rate(), probability, scale, generator)

    def _make(self, sizes: tuple[int, ...], probability: float, scale: float | None = None) -> None:
        """A new network."""
        self.hidden_, self.n_epochs_ = tuple(sizes[1:-1]), 0
        self.prior_inclusion_probability_, self.prior_scale_ = probability, self._scale() if scale is None else scale
        self.network_ = self._build(sizes, probability)

    def _learn(self, rows: Rows, sizes: tuple[int, ...], probability: float, epochs: int) -> None:
        """A new network, trained."""
        self._make(sizes, probability)
        self._train(rows, epochs, len(rows.x), warm_up=True)
        self.n_epochs_ = epochs
        self._unsettled = self._unsettled or self.network_.unsettled()

    def _train(self, rows: Rows, epochs: int, num_data: int, warm_up: bool) -> None:
        told = f"network of {rows.x.shape[1]} inputs" if self.verbose else False
        self.network_.train_on(*rows.tensors(), epochs, self._count("batch_size"), num_data, told, warm_up)
        x, y, weights = torch.from_numpy(rows.x[:_ROWS]).float(), rows.y[:_ROWS], rows.weights[:_ROWS]
        outputs, noise = held_outputs(self.network_, x, self.seed_, _FEW_DRAWS)
        squares = outputs.double().square().mean(dim=(0, 1, 3))
        size, most = np.average(squares.numpy(), weights=weights) ** 0.5, 0.0 if noise is None else float(noise.max())
        # later parts of the data may lie elsewhere: of them only what is finite is asked; of logits a hundred is much
        usual = np.average(np.square(y.reshape(len(y), -1)).mean(axis=1), weights=weights) ** 0.5
        # where rows are light the prior speaks, whose draws may be large
        judged = warm_up and rows.weights.sum() >= 0.5 * len(rows.weights)
        spread = (100.0 if rows.classes else max(1.0, float(usual))) if judged else math.inf
        if not size < _OUTSIDE * spread or not most < _OUTSIDE**2 * spread:
            raise DivergedError(
                f"the training diverged: scaled outputs are as large as {float(outputs.abs().max()):.2g} and the noise "
                f"{most:.2g}. Lower learning_rate, now {self._rate():g}"
                + ("." if warm_up else ", or give X and y in the units of the first call.")
            )

    def _end(self) -> None:
        """What is known once the network that predicts is trained."""
        layout = self.network_.stack.posterior.layout
        sizes = (self.n_features_in_, *layout.sizes[1:])
        share = self.network_.counted(layout) / self.network_.counted(Layout(sizes, 1))
        self.percent_active_ = share * self.network_.sparsity()

    def _new_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "network_")
        return validate_data(self, check_inputs(X), reset=False, dtype=np.float64)

    def _outputs(self, X: np.ndarray, count: int, seed: int) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Chunk by chunk of rows: outputs of all draws, (draws, rows, outputs), and noise scales or None.

        The scales are (draws, 1), of several outputs (draws, 1, outputs). The draws are the same for every chunk, and
        those of one network after those of another.
        """
        stack = self.network_.stack
        with threads(self.n_jobs), torch.no_grad():
            for rows in torch.from_numpy(self._scaled(X)[:, self.used_]).split(_ROWS):
                outputs, scales = [], []
                for layers, scale in self.network_.draws(count, torch.Generator().manual_seed(seed)):
                    outputs.append(stack.propagate(layers, rows))
                    scales.append(scale)
                yield torch.cat(outputs), None if scales[0] is None else torch.cat(scales)[:, None]
