"""A sparse Bayesian network for a number, or several: mean, noise, intervals and the inputs that matter."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from torch import Tensor

from bnnlib._checks import check_count
from bnnlib.estimators.base import SparseEstimator
from bnnlib.estimators.conformal import Conformal
from bnnlib.estimators.rows import Rows, moments, quantile_levels
from bnnlib.estimators.scatter import Errors, Scatter, learn
from bnnlib.estimators.search import Choice
from bnnlib.estimators.settings import RegressorSettings
from bnnlib.estimators.uncertainty import Uncertainty
from bnnlib.functional import mixture_quantile


class SparseRegressor(RegressorMixin, SparseEstimator, RegressorSettings):
    """Regression with a sparse Bayesian network: raw units in, raw units out.

    Inputs and targets are scaled inside, and the standard deviation of the noise is learned. By default candidates are
    compared on rows held out within training: a sparse linear model, and networks of 16 hidden units whose weights are
    in with different prior probabilities, reading all inputs or those selected. The simpler one predicts unless the
    richer one is better by more than a standard error. Every prediction is of y, with its noise. Several outputs share
    a network, each with noise of its own, and an input is selected where it matters for one of them.

    Args:
        method: "spike_slab" (Dirac spike and slab, exact zeros; Bai, Song and Cheng, 2020), "gaussian_spike_slab"
            (Saha, Liu and Liang, 2024), "horseshoe" (a scale for every input and unit), "gaussian" (dense), or "sghmc"
            (draws of a chain whose spike-and-slab prior is learned; Deng, Zhang, Liang and Lin, 2019).
        hidden: widths of the hidden layers; "auto" for 16 units, or none where held-out rows do not ask for them: that
            is the sparse linear model, whatever the method. "gaussian", which selects nothing, does not try it.
        activation: "relu", "tanh" or "sigmoid".
        epochs: passes over the data; None for as many as make 6,000 steps, and 1,000 for a candidate. Where a network
            predicts, up to five are trained so, one after the other: minutes. For a fast look set hidden=(8,),
            epochs=300 and learning_rate=0.03.
        batch_size: rows in a step.
        learning_rate: of Adam, by default 0.015; for "sghmc" of SGD on the mean loss, by default 0.003.
        prior_inclusion_probability: lambda of every weight; None for the theoretical choice
            (`bnnlib.functional.inclusion_probability_for`), "auto" to choose among it and larger ones. With "sghmc"
            the share that the learned prior starts from, by default a half.
        prior_scale: standard deviation of the slab, for scaled data; "auto" for 1, and for the linear model's choice.
        refit: after inputs have been selected, train a second network of these alone, which predicts, and up to two
            more while the selection shrinks; "auto" where held-out rows are better. Without it the noise also holds
            what the few weights that many inputs leave in cannot draw, and intervals are wider.
        groups: inputs that are in or out together: a label for each, None for one of its own. "auto" groups the dummies
            of a column, which are 0-1 columns of which at most one is 1 in a row: those whose names differ after the
            last "_" alone, and without names neighbors of which exactly one is 1. None groups nothing.
        fdr: false-discovery rate of `support_`: every input is tested on held-out rows against a stand-in drawn given
            the others (`p_values_`). None selects inputs with path probability above a half.
        noise: "constant", or "heteroscedastic" where its standard deviation may depend on the inputs: held-out rows say
            whether it does, a sparse linear model or network of its logarithm learns how, and rows count in inverse
            proportion to its square.
        interval: "posterior" for quantiles of the posterior's draws of y, which are right where the model is;
            "conformal" for predicted standard deviations times what rows held out within training ask for, more where
            errors nearby, by prediction and selected inputs, are larger (Lei et al., 2018).
        n_replicates: networks from different first weights, trained as one stack; predictions and probabilities are
            averages over them. The linear model averages over 8 starts at least.
        n_draws: posterior draws of each behind a prediction.
        n_jobs: threads of PyTorch during fit and predict, -1 for all cores; None for one, the fastest for few units.
        random_state: seed of weights, batches and draws.
        verbose: a progress bar for every training, with what is trained.

    Attributes:
        inclusion_probability_: of each input, 1 - prod (1 - phi) over its outgoing weights.
        path_inclusion_probability_: of each input, that a path of weights that are in joins it to the output.
        inclusion_range_, inclusion_spread_: of each input, smallest and largest path probability over the starts
            (2, inputs), and their difference.
        selected_features_: names (of a DataFrame) or numbers of the inputs with path probability above a half.
        support_: the same as a Boolean mask. Of inputs that are copies the first stands for all; of a group all or none
            are selected, and have one probability, that any of them is in.
        p_values_: of each input, where `fdr` is set.
        feature_importances_: of each input, its share in the size of all paths to the output.
        hidden_: widths of the network that predicts; () is the linear model.
        candidates_: what was compared, with the mean loss of held-out rows in nats, and how far each is behind.
        original_: number of the first input that each one copies, its own without.
        groups_: number of each input's group.
        used_: numbers of the inputs that the predicting network reads.
        percent_active_: share of weights that are in, in percent of those of a network that reads every input.
        conformity_scores_, conformity_places_: of the held-out rows, their errors over predicted standard deviations
            and where they lie, with interval="conformal".
        noise_scale_: standard deviation of the noise, in the units of y; where it depends on the inputs the root of its
            mean square over the training rows, and `uncertainty(X).aleatoric` is its square row by row.
        noise_inclusion_probability_: of each input, that the noise depends on it, with noise="heteroscedastic".
        prior_inclusion_probability_, prior_scale_, n_epochs_, n_rows_, n_features_in_, feature_names_in_: as used.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(150, 10))
        >>> y = 3 * X[:, 0] - 2 * X[:, 1] + 0.1 * rng.normal(size=150)
        >>> model = SparseRegressor(hidden=(8,), epochs=200, learning_rate=0.03, random_state=0).fit(X, y)
        >>> model.selected_features_
        array([0, 1])
        >>> mean, interval = model.predict(X[:5], return_interval=True)
        >>> mean.shape, interval.shape
        ((5,), (5, 2))
    """

    target_mean_: Any
    target_scale_: Any
    _scatter: Scatter | None = None  # of the noise, where it depends on the inputs
    _crossed: np.ndarray

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _start_targets(self, y: np.ndarray, classes: Any, weights: np.ndarray) -> int:
        if classes is not None:
            raise ValueError(
                "classes are given to a regressor, which has none. Leave them out or use SparseClassifier."
            )
        if y.ndim == 2 and (self.noise != "constant" or self.interval != "posterior"):
            raise ValueError(
                f"y has {y.shape[1]} columns, but noise={self.noise!r} and interval={self.interval!r} are for one. Fit "
                "each column alone: sklearn.multioutput.MultiOutputRegressor(model), or leave both at their defaults."
            )
        mean, scale = moments(y.reshape(len(y), -1), weights)
        self.target_mean_, self.target_scale_ = (mean, scale) if y.ndim == 2 else (float(mean[0]), float(scale[0]))
        return y[:1].size

    def _read_targets(self, y: np.ndarray) -> np.ndarray:
        if y.shape[1:] != np.shape(self.target_mean_):
            raise ValueError(
                f"y has shape {y.shape}, but the fit that is there has {np.size(self.target_mean_)} outputs. Give as "
                "many columns, or fit anew."
            )
        return (y - self.target_mean_) / self.target_scale_

    def _weighed(self, rows: Rows, choice: Choice) -> Rows | None:
        held: Any = choice.held
        self._scatter, self._crossed = None, np.ones(1)
        if self.noise == "constant":
            return None
        square, variance = np.square(rows.y[choice.rows] - held.mean), np.square(held.std)
        errors = Errors(rows.x[choice.rows], square, variance - held.noise, held.noise, rows.weights[choice.rows])
        self.noise_inclusion_probability_ = np.zeros(self.n_features_in_)
        self._scatter, self._crossed = learn(self, errors)
        if self._scatter is None:
            return None
        self.noise_inclusion_probability_[self.used_] = self._scatter.inclusion()
        weights = self._scatter.weighed(rows.x, rows.weights, self.seed_)
        self._crossed /= self._scatter.unit**2
        return rows._replace(weights=weights)

    def _precise(self, rows: Rows) -> Rows:
        if self._scatter is None:
            return rows
        precision = self._scatter.precision(rows.x[:, np.unique(self.original_)], self.seed_)
        return rows._replace(weights=rows.weights * precision)

    def _keep_held_out(self, rows: Rows, choice: Choice) -> None:
        held: Any = choice.held
        if self.interval == "conformal" and held is not None and held.mean is not None:
            std = np.sqrt(np.square(held.std) + held.noise * (self._crossed - 1.0))
            scores = np.abs(rows.y[choice.rows] - held.mean) / std
            conformal = Conformal.of(scores, self._places(rows.x[choice.rows], held.mean))
            self.conformity_scores_, self.conformity_places_ = conformal
        del self._crossed

    def _places(self, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Where scaled rows of the inputs that are no copies lie: predicted mean and selected inputs."""
        selected = np.searchsorted(np.unique(self.original_), np.flatnonzero(self.support_))
        return np.column_stack([mean, x[:, selected]])

    def _end(self) -> None:
        super()._end()
        draws = self.network_.draws(self._count("n_draws"), torch.Generator().manual_seed(self.seed_))
        scales = [scale for _, scale in draws if scale is not None]
        noise = torch.cat(scales).square().mean(dim=0).sqrt()
        self.noise_scale_ = self.target_scale_ * (noise.numpy() if noise.dim() else float(noise))
        if self._scatter is not None:
            self.noise_scale_ *= self._scatter.spread

    def predict(
        self, X: Any, return_std: bool = False, return_interval: bool = False, *, level: float = 0.95
    ) -> np.ndarray | tuple[np.ndarray, ...]:
        """Mean of y at new inputs, and how far it may lie from it, the noise included.

        Args:
            X: shape (rows, inputs), in their own units.
            return_std: also the standard deviation of y.
            return_interval: also the interval of y, of the kind that `interval` says.
            level: share that the interval holds.

        Returns:
            mean (rows,), or a tuple of mean, std (rows,) where asked for, and interval (rows, 2) where asked for; of
            several outputs (rows, outputs) and (rows, outputs, 2).

        Raises:
            ValueError: X has other columns than in `fit`, `level` is out of range, or a conformal interval's held-out
                rows are too few for it.
            NotFittedError: before `fit`.
        """
        X = self._new_rows(X)
        low, high = quantile_levels(level)
        means, stds, intervals = [], [], []
        conformal = return_interval and self.interval == "conformal"
        for draws, scale in self._functions(X, self._count("n_draws"), self.seed_):
            means.append(draws.mean(dim=0))
            if return_std or conformal:
                stds.append((draws.var(dim=0, correction=0) + scale.square().mean(dim=0)).sqrt())
            if return_interval and not conformal:
                intervals.append(torch.stack([mixture_quantile(draws, scale, q) for q in (low, high)]))
        answers = [self._raw(torch.cat(means))]
        if return_std:
            answers.append(self.target_scale_ * torch.cat(stds).numpy())
        if conformal:
            answers.append(self._conformal(X, torch.cat(means), torch.cat(stds), level))
        elif return_interval:
            answers.append(np.moveaxis(self._raw(torch.cat(intervals, dim=1)), 0, -1))
        return answers[0] if len(answers) == 1 else tuple(answers)

    def _conformal(self, X: np.ndarray, mean: Tensor, std: Tensor, level: float) -> np.ndarray:
        if not hasattr(self, "conformity_scores_"):
            raise ValueError(
                "interval is 'conformal', but no rows were held out: `fit` does that where interval is 'conformal' "
                "before, `partial_fit` does not. Call fit, or set interval='posterior'."
            )
        places = self._places(self._scaled(X)[:, np.unique(self.original_)], mean.numpy())
        held_out = Conformal(self.conformity_scores_, self.conformity_places_)
        half = std * torch.from_numpy(held_out.factors(places, level))
        return self._raw(torch.stack([mean - half, mean + half], dim=1))

    def uncertainty(self, X: Any) -> Uncertainty:
        """Variance of y, in squared units: (total, aleatoric, epistemic), the noise's and that of E[y | x, weights].

        Raises:
            ArithmeticError: y varies so much, or so little, that its squares are no floating-point numbers.
        """
        X, parts = self._new_rows(X), []
        least, most = np.sqrt([np.finfo(float).tiny, np.finfo(float).max])
        for scale in np.ravel(self.target_scale_):
            if not least < scale < most:
                raise ArithmeticError(
                    f"y has a standard deviation of {scale:.3g}, the square of which is no floating-point number. "
                    "Fit y in another unit, or ask for predict(X, return_std=True)."
                )
        for draws, scale in self._functions(X, self._count("n_draws"), self.seed_):
            spread = draws.var(dim=0, correction=0)
            parts.append((scale.square().mean(dim=0).expand_as(spread), spread))
        aleatoric, epistemic = (self.target_scale_**2 * torch.cat(part).numpy() for part in zip(*parts, strict=True))
        return Uncertainty(aleatoric + epistemic, aleatoric, epistemic)

    def _functions(self, X: np.ndarray, count: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Chunk by chunk of rows: scaled functions (draws, rows), and noise scales, (draws, 1) or (draws, rows).

        Of several outputs (draws, rows, outputs) and (draws, 1, outputs).
        """
        start = 0
        for outputs, scale in self._outputs(X, count, seed):
            assert scale is not None  # as for labels
            if self._scatter is not None:
                some = X[start : start + outputs.shape[1]]
                factors = self._scatter.factors(self._scaled(some)[:, np.unique(self.original_)], count, seed)
                scale, start = scale * factors[torch.arange(len(scale)) % len(factors)], start + len(some)
            yield (outputs.squeeze(-1) if np.ndim(self.target_mean_) == 0 else outputs), scale

    def sample_posterior(
        self, X: Any, n_draws: int = 100, *, noise: bool = False, random_state: int | None = None
    ) -> np.ndarray:
        """Draws of the regression function at new inputs, each one network of the posterior.

        Args:
            X: shape (rows, inputs).
            n_draws: of each replicate; a chain gives at most those that it has kept.
            noise: draws of y in place of its mean.
            random_state: seed; by default that of the fit.

        Returns:
            (n_draws * n_replicates, rows[, outputs]), in the units of y.
        """
        X = self._new_rows(X)
        seed = self.seed_ if random_state is None else random_state
        parts = [
            (draws, scale.expand_as(draws))
            for draws, scale in self._functions(X, check_count("n_draws", n_draws), seed)
        ]
        draws, scale = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
        if noise:
            generator = torch.Generator().manual_seed(seed + 1)
            draws = draws + scale * torch.empty_like(draws).normal_(generator=generator)
        return self._raw(draws)

    def _raw(self, values: Tensor) -> np.ndarray:
        return self.target_mean_ + self.target_scale_ * values.numpy()
