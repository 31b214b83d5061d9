"""What Bayesian layers share: modes, state and the contexts that steer a whole model."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from bnnlib._checks import check_choice
from bnnlib._noise import Source
from bnnlib._overrides import overrides, overriding
from bnnlib.posteriors import Posterior, Random

WEIGHT_MODES = ("sample", "mean", "selected")
NESTED = "_nested_before"  # attribute of a transformer encoder of `to_bayesian`: its `use_nested_tensor` before
Parameters = tuple[Tensor, Tensor | None]


class StochasticLayer(Random):
    """Mixin of modules with random parts that have a distribution of their own: weights, noise on units, statistics.

    The layer draws in `train()` and in `eval()`; `weight_mode` ("sample", "mean" or "selected") says otherwise,
    usually through the contexts `mean_weights`, `selected_weights` and `held_weights`.

    Example:
        >>> layer = GaussianLinear(3, 2)
        >>> isinstance(layer, StochasticLayer), isinstance(StochasticBatchNorm1d(3), StochasticLayer)
        (True, True)
    """

    # context of a forward pass in training, called with the model, that serves all its layers of the class at once
    training_pass: ClassVar[staticmethod[[nn.Module], AbstractContextManager] | None] = None

    _weight_mode = "sample"

    @property
    def weight_mode(self) -> str:
        """What `forward` uses: draws ("sample"), means ("mean") or the means of what is active ("selected")."""
        return overrides(self).get("weight_mode", self._weight_mode)

    @weight_mode.setter
    def weight_mode(self, mode: str) -> None:
        self._weight_mode = check_choice("weight_mode", mode, WEIGHT_MODES)

    @property
    def _held(self) -> Any:
        return overrides(self).get("held")


class BayesianLayer(Posterior, StochasticLayer):
    """What layers whose weights have a posterior distribution share; the shape comes from `BayesianLinear` or
    `BayesianConv2d`.

    The posterior comes from one of the families of `bnnlib.posteriors`.

    Example:
        >>> isinstance(SpikeSlabLinear(3, 2, prior_inclusion_probability=0.1), BayesianLayer)
        True
    """

    weight: Tensor
    bias: Tensor | None

    def _means(self) -> Sequence[str]:
        return ("weight", "bias")

    def _parts(self, values: Sequence[Tensor], fill: float | None = None) -> Any:
        """(weight, bias); bias is None for a layer without one."""
        return values[0], values[1] if len(values) == 2 else None

    def percent_active(self) -> float:
        """Share of the layer's weights and biases that are active, in percent."""
        return float(super().percent_active())

    def forward(self, input: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Output for `input`, with weights as `weight_mode` says.

        Args:
            input: as for the deterministic layer.
            generator: source of the noise; by default the key of `redraw`, else the generator of `use_generator`,
                else PyTorch's global one.

        Raises:
            ValueError: the generator is on another kind of device than the weights.
        """
        held, mode = self._held, self.weight_mode
        if held is not None:
            return self._affine(input, *held)
        if mode == "sample":
            return self._sample_forward(input, self._noise(generator))
        return self._affine(input, *(self.mean() if mode == "mean" else self.selected()))

    def _sample_forward(self, input: Tensor, generator: Source) -> Tensor:
        return self._affine(input, *self.draw(generator))

    def _affine(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        raise NotImplementedError

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the means as PyTorch's layer does, U(-1/sqrt(fan_in), 1/sqrt(fan_in)), and reset the posterior."""
        bound = 1.0 / math.sqrt(max(self.weight[0].numel(), 1))
        with torch.no_grad():
            for mean in (self.weight, self.bias):
                if mean is not None:
                    mean.uniform_(-bound, bound, generator=generator)
        if "_posterior_keys" in self.__dict__:  # nn.Linear calls this before the posterior exists
            self._reset_posterior()

    def _add_parameter(self, name: str, like: Tensor | None) -> None:
        super()._add_parameter(name, like)
        # PyTorch's fused transformer layer reads weights without calling the layers, which would then never sample; it
        # leaves alone a layer with a hook
        if _fence not in self._forward_pre_hooks.values():
            self.register_forward_pre_hook(_fence)

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing_keys, *rest) -> None:
        missing: list[str] = []
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *rest)
        # the checkpoint of a deterministic network has the means and nothing else: the rest keeps its initial values
        deterministic = not any(prefix + key in state_dict for key in self._posterior_keys)
        spared = {prefix + key for key in self._posterior_keys} if deterministic else set()
        missing_keys.extend(key for key in missing if key not in spared)

    def extra_repr(self) -> str:
        settings = [f"{n}={getattr(self, n):.4g}" for n in self._all_settings() if not n.startswith("initial_")]
        return ", ".join([super().extra_repr(), *settings])

    @classmethod
    def from_deterministic(cls, layer: nn.Module, **settings) -> Self:
        """This kind of layer around the parameters of a deterministic one, which become the posterior means.

        Args:
            layer: an `nn.Linear` or `nn.Conv2d`, as this class is; its parameters and hooks are shared, not copied.
            settings: the keyword arguments of this class that the deterministic layer does not have.

        Raises:
            TypeError: the layer is of another type, or its weight is computed (pruning masks, weight norm).
        """
        kind = nn.Linear if issubclass(cls, nn.Linear) else nn.Conv2d
        if type(layer) is not kind or not isinstance(layer._parameters.get("weight"), nn.Parameter):
            raise TypeError(
                f"{cls.__name__} replaces a plain nn.{kind.__name__} with a weight parameter of its own, not "
                f"{type(layer).__name__}. Remove parametrizations and pruning hooks first "
                "(torch.nn.utils.parametrize.remove_parametrizations, torch.nn.utils.prune.remove)."
            )
        new = cls.__new__(cls)
        new.__dict__.update({k: v.copy() if isinstance(v, dict) else v for k, v in layer.__dict__.items()})
        new._init_posterior(**settings)
        return new


def _fence(module: nn.Module, inputs: tuple) -> None:
    """A hook that does nothing."""


def give_hooks(layer: nn.Module, plain: nn.Module) -> None:
    """Give a layer the hooks on the passes of the one whose place it takes, but for the fence."""
    for key, hooks in vars(layer).items():
        if key.startswith(("_forward_", "_backward_", "_is_full_")):
            plain.__dict__[key] = copy.copy(hooks)
    for number, hook in list(plain._forward_pre_hooks.items()):
        if hook is _fence:
            del plain._forward_pre_hooks[number]


def bayesian_layers(model: nn.Module) -> list[StochasticLayer]:
    """The distinct layers of a model that draw weights, noise or statistics, in the order of `model.modules()`.

    Raises:
        ValueError: there are none.

    Example:
        >>> model = torch.nn.Sequential(GaussianLinear(3, 4), torch.nn.ReLU(), GaussianLinear(4, 1))
        >>> len(bayesian_layers(model))
        2
    """
    layers: list[StochasticLayer] = [module for module in model.modules() if isinstance(module, StochasticLayer)]
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no Bayesian layers, so there is no posterior to use. Build it from the "
            "layers of bnnlib.nn, or convert it with bnnlib.nn.to_bayesian(model)."
        )
    return layers


def sampling_layers(model: nn.Module) -> list[StochasticLayer]:
    """The layers of a model that draw at this point, outside of any mode that says otherwise."""
    return [m for m in model.modules() if isinstance(m, StochasticLayer) and m.weight_mode == "sample"]


@contextmanager
def _mode(model: nn.Module, mode: str) -> Iterator[nn.Module]:
    with overriding({layer: {"weight_mode": mode, "held": None} for layer in bayesian_layers(model)}):
        yield model


def mean_weights(model: nn.Module):
    """Context in which every Bayesian layer uses its posterior mean weights.

    As all contexts of `bnnlib.nn` it holds in this thread or asyncio task, and in no other.

    Raises:
        ValueError: the model has no Bayesian layers.

    Example:
        >>> layer, x = GaussianLinear(3, 2), torch.ones(1, 3)
        >>> with mean_weights(layer):
        ...     print(torch.equal(layer(x), layer(x)))
        True
    """
    return _mode(model, "mean")


def selected_weights(model: nn.Module):
    """Context in which layers that select weights use only the active ones (for spike-and-slab the
    median-probability model).

    Layers without selection use their means.

    Raises:
        ValueError: the model has no Bayesian layers.

    Example:
        >>> layer = SpikeSlabLinear(3, 2, prior_inclusion_probability=0.1, initial_inclusion_probability=0.4)
        >>> with torch.no_grad(), selected_weights(layer):
        ...     print(layer(torch.ones(1, 3)))  # nothing is more likely in than out
        tensor([[0., 0.]])
    """
    return _mode(model, "selected")


@contextmanager
def held_weights(model: nn.Module, generator: torch.Generator | None = None) -> Iterator[nn.Module]:
    """Context in which one posterior draw of all weights, taken at its start, serves every forward pass.

    One function of the posterior instead of fresh noise in each call; also layers that train by local
    reparameterisation or flipout then use a draw of their weights.

    Raises:
        ValueError: the model has no Bayesian layers.

    Example:
        >>> layer, x = GaussianLinear(3, 2), torch.ones(1, 3)
        >>> with held_weights(layer):
        ...     print(torch.equal(layer(x), layer(x)))
        True
    """
    with overriding({layer: {"held": layer.draw(generator)} for layer in bayesian_layers(model)}):
        yield model


def drawers(model: nn.Module) -> dict[StochasticLayer, Callable[[torch.Generator | None], Any]]:
    """How the layers that sample draw; those in mean or selected mode stay as they are."""
    return {layer: layer._drawer() for layer in sampling_layers(model)}


@contextmanager
def one_draw(draws: dict, generator: torch.Generator | None = None) -> Iterator[None]:
    """`held_weights` for the layers of `drawers`."""
    with overriding({layer: {"held": draw(generator)} for layer, draw in draws.items()}):
        yield
