"""Posteriors on any parameters of any module: the form that `to_bayesian` gives to what has no layer of its own.

The module's class is replaced by a subclass that reads a draw where the module reads its weight. The names in the
state_dict stay, so that a deterministic checkpoint loads; beside each mean stand `NAME_rho` and what else the
posterior has. `torch.nn.utils.parametrize` would rename the parameters, and draw again at each reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, cast

import torch
from torch import Tensor, nn

from bnnlib._overrides import overrides, overriding
from bnnlib.nn.base import BayesianLayer
from bnnlib.nn.gaussian import _GaussianLayer
from bnnlib.nn.gaussian_spike_slab import _GaussianSpikeSlabLayer
from bnnlib.nn.noise import Source
from bnnlib.nn.selection import SelectingLayer
from bnnlib.nn.spike_slab import _SpikeSlabLayer

POSTERIORS: dict[str, type[BayesianLayer]] = {
    "gaussian": _GaussianLayer,
    "gaussian_spike_slab": _GaussianSpikeSlabLayer,
    "spike_slab": _SpikeSlabLayer,
}
Values = dict[str, Tensor]


class ParameterPosterior(BayesianLayer):
    """A module some of whose parameters have a posterior, as `to_bayesian` makes it of an `nn.LSTM` or any other.

    Each pass draws every random parameter once, however often the module reads it. Outside of a pass a parameter is
    its mean. What the layers of `bnnlib.nn` give as (weight, bias) is here a dict by the parameters' names.

    Example:
        >>> model = to_bayesian(torch.nn.LSTM(3, 4))
        >>> isinstance(model, ParameterPosterior), model(torch.randn(7, 1, 3))[0].shape
        (True, torch.Size([7, 1, 4]))
    """

    _base: type[nn.Module]
    _random: tuple[str, ...]

    inclusion_log_odds: Callable[[], Values]  # of the kinds that select

    # names whose posterior is that of a parameter of another module, with that module and its name there
    _owners: dict[str, tuple[ParameterPosterior, str]]

    def _own(self, name: str) -> Tensor:
        return cast(Tensor, self._parameters[name])  # never None where it is random

    def _groups(self) -> list[tuple[Tensor, ...]]:
        spread = [[getattr(self, f"{name}_{one}") for one in self._spread] for name in self._random]
        return [(self._own(name), *own) for name, own in zip(self._random, spread, strict=True)]

    def _parts(self, values: Sequence[Tensor]) -> Values:  # type: ignore[override]  # by names, where a layer has weight and bias
        return dict(zip(self._random, values, strict=True))

    def _means(self) -> list[str]:
        return list(self._random)

    def draw(self, generator: Source = None) -> Values:  # type: ignore[override]  # by names
        """One posterior draw by name; an embedding's padding row, which stands for nothing, stays as it is."""
        values = cast(Values, super().draw(generator))
        row = getattr(self, "padding_idx", None)
        for name in () if row is None else values:
            kept = torch.arange(len(values[name]), device=values[name].device).eq(cast(int, row))
            values[name] = torch.where(kept.unsqueeze(1), self._own(name), values[name])
        return values

    def mean(self) -> Values:  # type: ignore[override]  # by names, where a layer has weight and bias
        """Posterior means by name."""
        found = super().mean() if isinstance(self, _SpikeSlabLayer) else [group[0] for group in self._groups()]
        return found if isinstance(found, dict) else self._parts(found)

    def active(self) -> Values:  # type: ignore[override]  # by names, where a layer has weight and bias
        """Boolean masks by name."""
        if isinstance(self, SelectingLayer):
            return {name: odds > 0 for name, odds in self.inclusion_log_odds().items()}
        return self._parts([torch.ones_like(group[0], dtype=torch.bool) for group in self._groups()])

    def selected(self) -> Values:  # type: ignore[override]  # by names, where a layer has weight and bias
        """Means of what is active, 0 elsewhere, by name."""
        masks = self.active()
        return {name: self._own(name) * mask for name, mask in masks.items()}

    def num_active(self) -> Tensor:
        """Number of active entries, an expected number where gates are random; float64."""
        if isinstance(self, SelectingLayer):
            odds = self.inclusion_log_odds().values()
            return cast(Tensor, sum(torch.sigmoid(o).sum(dtype=torch.float64) for o in odds))
        return cast(Tensor, sum(mask.sum(dtype=torch.float64) for mask in self.active().values()))

    def num_weights(self) -> int:
        """Number of entries that have a posterior."""
        return sum(self._own(name).numel() for name in self._random)

    @property
    def inclusion_probability(self) -> Values:
        """Posterior probabilities that an entry is in, by name; without gradient.

        Raises:
            AttributeError: the posterior selects nothing.
        """
        return {name: torch.sigmoid(odds) for name, odds in self.inclusion_log_odds().items()}

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """Divergence to the prior over all random parameters in nats; one shared with another module counts there."""
        if not self._random:
            return next(p for p in self._parameters.values() if p is not None).new_zeros(())
        return super().kl_divergence(with_value)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the means as the module does, from PyTorch's own generator, and reset the posterior."""
        own = {name: self._parameters.pop(name) for name in self._posterior_keys}
        try:
            base: Any = self._base  # not every module has it
            base.reset_parameters(self)
        finally:
            self._parameters.update(own)
        self._reset_posterior()

    def _values(self) -> Values:
        held, mode = self._held, self.weight_mode
        if held is None:
            held = (
                self.draw(self._noise(None)) if mode == "sample" else self.mean() if mode == "mean" else self.selected()
            )
        return held | {name: owner._values()[own] for name, (owner, own) in self.__dict__.get("_owners", {}).items()}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, with its random parameters as `weight_mode` says."""
        if _passing(self) is not None:  # an attention module has drawn for its projection
            return self._base.forward(self, *args, **kwargs)
        readers = [self, *(child for child in self.children() if isinstance(child, ParameterPosterior))]
        if torch.compiler.is_compiling():
            # a graph cannot hold a context variable; what is traced is set and taken back by one thread
            for reader in readers:
                reader.__dict__["_traced"] = reader._values()
            try:
                return self._base.forward(self, *args, **kwargs)
            finally:
                for reader in readers:
                    reader.__dict__["_traced"] = None
        with overriding({reader: {"values": reader._values()} for reader in readers}):
            return self._base.forward(self, *args, **kwargs)

    def extra_repr(self) -> str:
        own = self._base.extra_repr(self)
        return f"{own}{', ' if own else ''}random={', '.join(self._random)}"

    def __reduce_ex__(self, protocol):
        kind = next(kind for kind in POSTERIORS.values() if isinstance(self, kind))
        return _blank, (self._base, kind, type(self)._random), self.__getstate__()


def _passing(module: ParameterPosterior) -> Values | None:
    """What the pass under way has drawn."""
    return module.__dict__.get("_traced") if torch.compiler.is_compiling() else overrides(module).get("values")


def _reader(name: str) -> property:
    def read(module: ParameterPosterior) -> Tensor:
        values = _passing(module)
        return module._own(name) if values is None else values[name]

    return property(read)


_RECURRENT = {
    # PyTorch keeps a list of its weights there, which all threads would share
    "_flat_weights": property(
        lambda self: [getattr(self, name, None) for name in self._flat_weights_names], lambda self, value: None
    ),
    "_update_flat_weights": lambda self: None,
    "flatten_parameters": lambda self: None,
}


_CLASSES: dict[tuple, type[ParameterPosterior]] = {}


def _class(base: type[nn.Module], kind: type[BayesianLayer], names: tuple[str, ...]) -> type[ParameterPosterior]:
    if (key := (base, kind, names)) in _CLASSES:
        return _CLASSES[key]
    body = {"_base": base, "_random": names, "__module__": __name__, "__doc__": ParameterPosterior.__doc__}
    body |= _RECURRENT if issubclass(base, nn.RNNBase) else {}
    body |= {name: _reader(name) for name in names}
    return _CLASSES.setdefault(key, type(f"Bayesian{base.__name__}", (ParameterPosterior, kind, base), body))


def tie(model: nn.Module) -> None:
    """Give parameters that several modules share one posterior: of the first of them.

    A pass of the model draws it once for all of its owners.
    """
    first: dict[int, tuple[ParameterPosterior, str]] = {}
    for module in [m for m in model.modules() if isinstance(m, ParameterPosterior)]:
        for name in module._random:
            key = id(module._parameters[name])
            if key not in first:
                first[key] = module, name
                continue
            # not a submodule, which it would be by setattr
            module.__dict__.setdefault("_owners", {})[name] = first[key]
            module._random = tuple(one for one in module._random if one != name)
            for spread in module._spread:
                del module._parameters[f"{name}_{spread}"]
                module._posterior_keys.remove(f"{name}_{spread}")
    if any(module.__dict__.get("_owners") for module in model.modules()):
        model.register_forward_pre_hook(_hold_shared)
        model.register_forward_hook(_let_go, always_call=True)


_HOLDING: ContextVar[tuple[AbstractContextManager, ...]] = ContextVar("bnnlib_holding", default=())


def _hold_shared(model: nn.Module, inputs: tuple) -> None:
    owners = {owner for module in model.modules() for owner, _ in module.__dict__.get("_owners", {}).values()}
    drawing = [owner for owner in owners if owner._held is None and owner.weight_mode == "sample"]
    holding = overriding({owner: {"held": owner.draw(owner._noise(None))} for owner in drawing})
    holding.__enter__()
    _HOLDING.set((*_HOLDING.get(), holding))


def _let_go(model: nn.Module, inputs: tuple, output: Any) -> None:
    *rest, holding = _HOLDING.get()
    _HOLDING.set(tuple(rest))
    holding.__exit__(None, None, None)


def _blank(base: type[nn.Module], kind: type[BayesianLayer], names: tuple[str, ...]) -> ParameterPosterior:
    own = _class(base, kind, names)
    return own.__new__(own)


def with_posterior(module: nn.Module, layer: str, names: Sequence[str], **settings) -> ParameterPosterior:
    """The module with a posterior on its parameters `names`, which are shared with it, not copied.

    Args:
        module: any, whose class has no posterior.
        layer: "gaussian", "gaussian_spike_slab" or "spike_slab".
        names: of parameters of its own.
        settings: as for the layers of that kind, but for the estimator, which is "weight".
    """
    new = _blank(type(module), POSTERIORS[layer], tuple(names))
    own = {k: v.copy() if isinstance(v, dict) else v for k, v in module.__dict__.items()}
    own.pop("_flat_weights", None)
    new.__dict__.update(own)
    new._init_posterior(**settings)
    return new
