"""Posteriors on any parameters of any module: the form that `to_bayesian` gives to what has no layer of its own.

The module's class is replaced by a subclass that reads a draw where the module reads its weight. The names in the
state_dict stay, so that a deterministic checkpoint loads; beside each mean stand `NAME_rho` and what else the
posterior has. `torch.nn.utils.parametrize` would rename the parameters, and draw again at each reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, cast

import torch
from torch import Tensor, nn

from bnnlib._overrides import overrides, overriding
from bnnlib.nn.base import BayesianLayer, give_hooks
from bnnlib.posteriors import Gaussian, GaussianSpikeSlab, Posterior, SpikeSlab

POSTERIORS: dict[str, type[Posterior]] = {
    "gaussian": Gaussian,
    "gaussian_spike_slab": GaussianSpikeSlab,
    "spike_slab": SpikeSlab,
}
Values = dict[str, Tensor]


class ParameterPosterior(BayesianLayer):
    """A module some of whose parameters have a posterior, as `to_bayesian` makes it of an `nn.LSTM` or any other.

    Each pass draws every random parameter once, however often the module reads it. Outside of a pass a parameter is
    its mean. What the layers of `bnnlib.nn` give as (weight, bias) is here a dict by the parameters' names. One that is
    shared with another module counts there alone: `percent_active` is NaN where that leaves none.

    Example:
        >>> model = to_bayesian(torch.nn.LSTM(3, 4))
        >>> isinstance(model, ParameterPosterior), model(torch.randn(7, 1, 3))[0].shape
        (True, torch.Size([7, 1, 4]))
    """

    _base: type[nn.Module]
    _random: tuple[str, ...]

    # names whose posterior is that of a parameter of another module, with that module and its name there
    _owners: dict[str, tuple[ParameterPosterior, str]]

    def _own(self, name: str) -> Tensor:
        return cast(Tensor, self._parameters[name])  # never None where it is random

    def _means(self) -> Sequence[str]:
        return self._random

    def _padding(self) -> int | None:
        return cast("int | None", getattr(self, "padding_idx", None))

    def _rows(self, parameter: Tensor) -> Tensor:
        """All but an embedding's padding row, which stands for nothing and has no posterior."""
        row = self._padding()
        return parameter if row is None else torch.cat([parameter[:row], parameter[row + 1 :]])

    def _parts(self, values: Sequence[Tensor], fill: float | None = None) -> Values:
        """Values by name; the padding row is that of the parameter, or `fill`."""
        parts, row = dict(zip(self._random, values, strict=True)), self._padding()
        if row is None:
            return parts
        for name, value in parts.items():
            own = self._own(name)[row : row + 1]
            own = own if fill is None else torch.full_like(own, fill, dtype=value.dtype)
            parts[name] = torch.cat([value[:row], own, value[row:]])
        return parts

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

    @torch.no_grad()
    def plain(self, means: dict[int, nn.Parameter]) -> nn.Module:
        """A module of the class that this one was converted from, with the posterior means and no other parameters.

        Args:
            means: new parameters by the id of the one whose mean they hold, so that what modules share stays shared.
        """
        own: dict[str, Any] = {key: v.copy() if isinstance(v, dict | list) else v for key, v in self.__dict__.items()}
        for key in ("_owners", "_posterior_keys", *(f"_{name}" for name in self._all_settings())):
            own.pop(key, None)
        values = self.mean()
        parameters = {key: p for key, p in own["_parameters"].items() if key not in self._posterior_keys}
        for key, parameter in parameters.items():
            owner, name = self.__dict__.get("_owners", {}).get(key, (self, key))
            value = values.get(key) if owner is self else owner.mean()[name]
            if value is not None:
                parameters[key] = means.setdefault(id(parameter), nn.Parameter(value.detach().clone()))
        module = self._base.__new__(self._base)
        module.__dict__.update(own | {"_parameters": parameters})
        give_hooks(self, module)
        if isinstance(module, nn.RNNBase):
            module._init_flat_weights()
        return module

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


def _class(base: type[nn.Module], kind: type[Posterior], names: tuple[str, ...]) -> type[ParameterPosterior]:
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
            module._random = tuple(part for part in module._random if part != name)
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


def _blank(base: type[nn.Module], kind: type[Posterior], names: tuple[str, ...]) -> ParameterPosterior:
    own = _class(base, kind, names)
    return own.__new__(own)


def with_posterior(module: nn.Module, layer: str, names: Sequence[str], **settings) -> ParameterPosterior:
    """The module with a posterior of a `layer`'s family on its parameters `names`, shared with it and not copied.

    The settings are those of the layers of that kind, but for the estimator, which is "weight".
    """
    new = _blank(type(module), POSTERIORS[layer], tuple(names))
    own = {k: v.copy() if isinstance(v, dict) else v for k, v in module.__dict__.items()}
    own.pop("_flat_weights", None)
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        own["sparse"] = False  # the divergence has a gradient in every row
    new.__dict__.update(own)
    new._init_posterior(**settings)
    return new
