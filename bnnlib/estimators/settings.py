"""Settings of both estimators: what they may be, and what "auto" stands for."""

import inspect
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from bnnlib._checks import check_choice, check_count, check_positive, check_scale
from bnnlib.functional import inclusion_probability_for
from bnnlib.posteriors.settings import check_open
from bnnlib.replicates.network import ACTIVATIONS

#: What `method=` of the estimators can be.
METHODS = ("spike_slab", "gaussian_spike_slab", "horseshoe", "gaussian", "sghmc")
_STEPS = 6000  # of the optimizer in all, where `epochs` is None
_SEARCH_STEPS = 1000  # of a candidate for held-out rows
USUAL_RATE, _CHAIN_RATE = 1.5e-2, 3e-3
WIDTHS = (16,)  # of the network that is tried beside the linear model
_PROBABILITIES = (0.01, 0.1, 0.5)  # lambda of the networks that are tried beside the theoretical one


@dataclass(eq=False, repr=False)
class Settings(BaseEstimator):
    """What is given to both estimators; see `SparseRegressor`."""

    method: str = "spike_slab"
    hidden: Sequence[int] | str = "auto"
    _: KW_ONLY
    activation: str = "relu"
    epochs: int | None = None
    batch_size: int = 128
    learning_rate: float | None = None
    prior_inclusion_probability: float | str | None = "auto"
    prior_scale: float | str = "auto"
    refit: bool | str = "auto"
    groups: Any = "auto"
    fdr: float | None = None
    n_replicates: int = 3
    n_draws: int = 100
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False
    # what one of the two estimators alone can be given
    noise, interval, class_weight = "constant", "posterior", cast(Any, None)

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        whole = inspect.signature(cls.__init__)  # else it would be that of __new__
        cls.__signature__ = whole.replace(parameters=list(whole.parameters.values())[1:])

    def __new__(cls, *_: Any, **given: Any) -> Self:
        names = inspect.signature(cls.__init__).parameters
        passes_on = any(one.kind is one.VAR_KEYWORD for one in names.values())
        if not passes_on and (unknown := sorted(given.keys() - names)):
            takes = ", ".join(cls._get_param_names())
            raise TypeError(f"{cls.__name__} does not know {', '.join(unknown)}. It takes {takes}.")
        return super().__new__(cls)

    def _count(self, name: str) -> int:
        """A setting that counts: 64.0 as 64, while the setting stays as it was given, as scikit-learn asks."""
        return check_count(name, getattr(self, name))

    def _check_settings(self) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("activation", self.activation, tuple(ACTIVATIONS))
        hidden: Any = self.hidden  # of any kind, as scikit-learn has it: what is given is checked when it is used
        if not is_auto(hidden):
            if isinstance(hidden, str) or not isinstance(hidden, Sequence | np.ndarray) or not len(hidden):
                raise ValueError(
                    f"hidden is {hidden!r}, but it must list the widths of the hidden layers: hidden=(16,), or be "
                    "'auto'."
                )
            for width in hidden:
                check_count("each width in hidden", width)
        if self.epochs is not None:
            self._count("epochs")
        for name in ("batch_size", "n_replicates", "n_draws"):
            self._count(name)
        if self.n_jobs is not None and (not isinstance(self.n_jobs, int | np.integer) or self.n_jobs == 0):
            raise ValueError(
                f"n_jobs is {self.n_jobs!r}, but it must be a number of threads, -1 for all cores, or None."
            )
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            raise ValueError(
                f"random_state is {self.random_state!r}, but it must be an integer from 0 to 2**32 - 1, a "
                "numpy.random.RandomState, or None."
            ) from error
        scale: Any = self.prior_scale
        if not is_auto(scale):
            check_scale("prior_scale", scale)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)
        given = self.prior_inclusion_probability
        if given is not None and not is_auto(given):
            check_open("prior_inclusion_probability", given)
        if self.fdr is not None:
            check_open("fdr", self.fdr)
        check_choice("noise", self.noise, ("constant", "heteroscedastic"))
        check_choice("interval", self.interval, ("posterior", "conformal"))
        if not isinstance(self.refit, bool | np.bool_) and not is_auto(self.refit):
            raise ValueError(f"refit is {self.refit!r}, but it must be True, False or 'auto'.")

    def _rate(self) -> float:
        return self.learning_rate or (_CHAIN_RATE if self.method == "sghmc" else USUAL_RATE)

    def _scale(self) -> float:
        return 1.0 if is_auto(self.prior_scale) else float(self.prior_scale)

    def _priors(self, sizes: Sequence[int], rows: int) -> list[float]:
        """Every lambda that is tried: the given one, or that of theory and larger ones; a learned one starts at 0.5."""
        given = self.prior_inclusion_probability
        if given is not None and not is_auto(given):
            return [float(given)]
        if self.method == "sghmc":
            return [0.5]
        several = given is not None and self.method == "spike_slab"
        return probabilities_to_try(sizes, rows)[: None if several else 1]

    def _refit_priors(self, sizes: Sequence[int], rows: int) -> list[float]:
        priors = self._priors(sizes, rows)
        return priors if len(priors) < 3 else [priors[0], priors[-1]]

    def _epochs(self, rows: int, searching: bool = False) -> int:
        if self.epochs is not None:
            return self._count("epochs")
        batches = -(-rows // self._count("batch_size"))
        return -(-(_SEARCH_STEPS if searching else _STEPS) // batches)


@dataclass(eq=False, repr=False)
class RegressorSettings(Settings):
    """What is given to a `SparseRegressor`."""

    _: KW_ONLY
    noise: str = "constant"
    interval: str = "posterior"


@dataclass(eq=False, repr=False)
class ClassifierSettings(Settings):
    """What is given to a `SparseClassifier`."""

    _: KW_ONLY
    class_weight: dict | str | None = None


def probabilities_to_try(sizes: Sequence[int], rows: int) -> list[float]:
    """lambda of theory, and larger ones."""
    theory = float(inclusion_probability_for(sizes, rows))
    return [theory, *(probability for probability in _PROBABILITIES if probability > 2.0 * theory)]


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
