"""What all posteriors share: settings, parameters beside the means, draws, counts, and the divergence's gradient."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from bnnlib._noise import Keyed, Source
from bnnlib.posteriors.kl_tokens import take_token
from bnnlib.posteriors.settings import PersistentSettings


class Random(Keyed, PersistentSettings):
    """Mixin of modules with random parts that have a distribution of their own: weights, noise on units, statistics.

    Example:
        >>> from bnnlib import nn
        >>> isinstance(nn.GaussianLinear(3, 2), Random), isinstance(nn.StochasticBatchNorm1d(3), Random)
        (True, True)
    """

    def draw(self, generator: Source = None) -> Any:
        """One draw of what is random."""
        raise NotImplementedError

    def _drawer(self) -> Callable[[Source], Any]:
        """`draw` for many draws of parameters that stay as they are: what does not change is computed once."""
        return self.draw

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Exact divergence of the posterior to the prior in nats: a scalar, or one number for each network of a stack.

        Args:
            with_value: with False the value is 0 and only the gradient is that of the divergence.
        """
        raise NotImplementedError

    def _kl_term(self) -> Tensor:
        """`kl_divergence(with_value=False)`, if possible from the last draw's backward pass."""
        token = take_token(self)
        return self.kl_divergence(with_value=False) if token is None else token

    def kl_gradient(self) -> Tensor:
        """A scalar of value 0 with the gradient of `kl_divergence`, if possible from the last draw's backward pass."""
        return self._kl_term()


class Posterior(Random):
    """A posterior of weights beside their prior; a family gives it formulas, a layer or a stack a shape.

    A family states its settings and, in `_spread`, the parameters that each mean has beside it; `_start` are their
    initial values. A shape says in `_means` which parameters are means, in `_parts` in which form values are given
    out, and in `_dim` over which dimension of the parameters the divergence is summed (None: over all).

    Example:
        >>> from bnnlib import nn
        >>> isinstance(nn.SpikeSlabLinear(3, 2, prior_inclusion_probability=0.1), Posterior)
        True
    """

    _spread: ClassVar[tuple[str, ...]] = ()
    _dim: ClassVar[int | None] = None
    _posterior_keys: list[str]

    @classmethod
    def _arguments(cls) -> list[inspect.Parameter]:
        """What a constructor takes beside the shape: the settings, and what `_init_posterior` has of its own."""
        kind = inspect.Parameter.KEYWORD_ONLY
        own = [p for p in inspect.signature(cls._init_posterior).parameters.values() if p.kind is kind]
        return [inspect.Parameter(n, kind, default=setting.default) for n, setting in cls._all_settings().items()] + own

    def _init_posterior(self, **settings: Any) -> None:
        """Check the settings and add the parameters that stand beside the means."""
        names = self._all_settings()
        given = inspect.Signature([p for p in self._arguments() if p.name in names]).bind(**settings)
        given.apply_defaults()
        for name, value in given.arguments.items():
            setattr(self, name, value)
        self._add_spread()
        self._reset_posterior()

    def _add_spread(self) -> None:
        for mean in self._means():
            for name in self._spread_of(mean):
                own = self._parameters[mean]
                self._add_parameter(f"{mean}_{name}", own)
                if own is not None and not own.requires_grad:  # what is frozen stays so
                    self.get_parameter(f"{mean}_{name}").requires_grad_(False)

    def _add_parameter(self, name: str, like: Tensor | None) -> None:
        self.register_parameter(name, None if like is None else nn.Parameter(torch.empty_like(like)))
        self.__dict__.setdefault("_posterior_keys", []).append(name)

    @torch.no_grad()
    def _reset_posterior(self) -> None:
        """Set what `_init_posterior` added to its initial values."""
        for mean in self._means():
            for name, value in zip(self._spread_of(mean), self._start(), strict=False):
                if (spread := self._parameters[f"{mean}_{name}"]) is not None:
                    spread.fill_(value)

    def _start(self) -> tuple[float, ...]:
        """Initial values of what `_spread` names."""
        return ()

    def _means(self) -> Sequence[str]:
        """Names of the parameters that are means; one may be None."""
        return ("weight",)

    def _spread_of(self, mean: str) -> tuple[str, ...]:
        return self._spread

    def _rows(self, parameter: Tensor) -> Tensor:
        """What of a parameter has a posterior."""
        return parameter

    def _groups(self) -> list[tuple[Any, ...]]:
        """(mean, *spread) of all means that there are."""
        for name in self._means():
            if name not in self._parameters:
                raise TypeError(
                    f"{type(self).__name__} has no parameter {name!r} of its own any more: a pruning hook, weight norm "
                    "or another parametrization computes it, and a posterior has no mean then. Prune or parametrize "
                    "before to_bayesian, which leaves such layers as they are, or take it back: "
                    f"torch.nn.utils.prune.remove(layer, {name!r}), or remove_parametrizations(layer, {name!r}) of "
                    "torch.nn.utils.parametrize."
                )
        return [
            tuple(self._rows(cast(Tensor, self._parameters[n])) for n in (m, *(f"{m}_{s}" for s in self._spread_of(m))))
            for m in self._means()
            if self._parameters[m] is not None
        ]

    def _parts(self, values: Sequence[Tensor], fill: float | None = None) -> Any:
        """The form in which values, one for each group, are given out.

        Args:
            fill: stands where there is no posterior; by default the parameter does.
        """
        raise NotImplementedError

    def _prepared(self, *group: Any) -> tuple[Any, ...]:
        """What of a group does not change from draw to draw."""
        return group

    def _value(self, *arguments: Any) -> Tensor:
        """One draw from what `_prepared` gave and a source of noise."""
        raise NotImplementedError

    def _fixed(self) -> Callable[[Source], Any]:
        groups = [self._prepared(*group) for group in self._groups()]
        return lambda source: self._parts([self._value(*group, source) for group in groups])

    def draw(self, generator: Source = None) -> Any:
        """One draw of all weights, in the shapes of the parameters."""
        return self._fixed()(generator)

    def _drawer(self) -> Callable[[Source], Any]:
        """`draw` for many draws; its own where a subclass has one."""
        first = next(kind for kind in type(self).__mro__ if {"draw", "_value"} & set(vars(kind)))
        return self._fixed() if "_value" in vars(first) else self.draw

    def _mean_values(self) -> list[Tensor]:
        return [mean for mean, *_ in self._groups()]

    def mean(self) -> Any:
        """Posterior means."""
        return self._parts(self._mean_values())

    def _masks(self) -> list[Tensor]:
        return [torch.ones_like(mean, dtype=torch.bool) for mean, *_ in self._groups()]

    def active(self) -> Any:
        """Boolean masks of the weights that stay in the selected network."""
        return self._parts(self._masks(), True)

    def selected(self) -> Any:
        """Means of what is active, 0 elsewhere: the network that remains after selection."""
        return self._parts([v * mask for v, mask in zip(self._selectable(), self._masks(), strict=True)])

    def _selectable(self) -> list[Tensor]:
        """The means that `selected` keeps, or not."""
        return self._mean_values()

    def _counted(self) -> list[Tensor]:
        """What each weight counts."""
        return self._masks()

    def num_active(self) -> Tensor:
        """Number of active weights, float64; where they have inclusion probabilities the expected one, their sum."""
        none = torch.zeros((), dtype=torch.float64, device="cpu")
        return sum((counted.sum(self._dim, dtype=torch.float64) for counted in self._counted()), none)

    def num_weights(self) -> int:
        """Number of weights, of one network."""
        return sum(mean.numel() // (1 if self._dim is None else len(mean)) for mean, *_ in self._groups())

    def percent_active(self) -> Any:
        """Share of the weights that are active, in percent."""
        return 100.0 * self.num_active() / self.num_weights()


class _Selecting(Posterior):
    """A posterior with the log-odds of inclusion of every weight, as parameters or in closed form."""

    def _odds(self) -> list[Tensor]:
        raise NotImplementedError

    @torch.no_grad()
    def inclusion_log_odds(self) -> Any:
        """Log-odds of inclusion, without gradient: the score that ranks weights, which never rounds to 1."""
        return self._parts(self._odds(), math.inf)

    @property
    def inclusion_probability(self) -> Any:
        """Posterior probability that a weight is in; without gradient."""
        return self._parts(self._counted(), 1.0)

    @torch.no_grad()
    def _masks(self) -> list[Tensor]:
        """Where the probability exceeds 1/2: the median-probability model."""
        return [odds > 0 for odds in self._odds()]

    @torch.no_grad()
    def _counted(self) -> list[Tensor]:
        return [torch.sigmoid(odds) for odds in self._odds()]
