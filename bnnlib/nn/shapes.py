"""The shapes of `nn.Linear` and `nn.Conv2d`, stated once for all kinds of Bayesian layers."""

import inspect
from typing import ClassVar, Literal

from torch import Tensor, nn

from bnnlib.nn.base import BayesianLayer

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


class _Shape(BayesianLayer):
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        if "__init__" not in vars(cls) and parameters[-1].name == "settings":
            # for help() and editors: what the shape takes, what the kind of layer adds, where the parameters live
            *shape, device, dtype, _ = parameters
            parameters = [*shape, *cls._arguments(), device, dtype]
        cls.__signature__ = inspect.Signature(parameters)


class BayesianLinear(_Shape, nn.Linear):
    """The shape of `nn.Linear`, to which a subclass adds a posterior with its `settings`."""

    bias: Tensor | None  # type: ignore[assignment]  # the stub of nn.Linear leaves out that it can be None

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, device=None, dtype=None, **settings):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self._init_posterior(**settings)

    def _affine(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return nn.functional.linear(input, weight, bias)


class BayesianConv2d(_Shape, nn.Conv2d):
    """The shape of `nn.Conv2d`, as `BayesianLinear`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        *,
        device=None,
        dtype=None,
        **settings,
    ):
        geometry = (stride, padding, dilation, groups, bias, padding_mode)
        super().__init__(in_channels, out_channels, kernel_size, *geometry, device=device, dtype=dtype)
        self._init_posterior(**settings)

    def _affine(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._conv_forward(input, weight, bias)
