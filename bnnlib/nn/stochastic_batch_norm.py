"""Batch normalization whose statistics stay random at test time: Stochastic Batch Normalization (papers/004, 1.2).

`train()` is ordinary batch norm, and the moments of the batch statistics are followed on the side; `eval()` draws
mean and scale from the fitted r(mu) r(sigma), equation (sbn-factorized).
"""

from __future__ import annotations

from typing import Self
from weakref import WeakValueDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._noise import Source, draw_normal
from bnnlib._overrides import overrides
from bnnlib.functional.stochastic_batch_norm import (
    StatisticMoments,
    batch_norm,
    check_values,
    moment_weights,
    sample_statistics,
    welford_update_,
)
from bnnlib.nn.base import StochasticLayer, check_choice

STATISTICS = ("scale", "variance")
DRAWS = ("batch", "object")
Statistics = tuple[Tensor, Tensor]
_VARIANCE_FLOOR = 1e-6  # the published code takes the logarithm of the variance plus this
_SPREADS = ("running_mean_variance", "running_log_scale_variance")
_BUFFERS = ("running_mean", _SPREADS[0], "running_var", _SPREADS[1], "num_batches_tracked")
_LAYERS: WeakValueDictionary[int, _StochasticBatchNorm] = WeakValueDictionary()  # by id, for compiled graphs
_LIBRARY = torch.library.Library("bnnlib", "FRAGMENT")
_LIBRARY.define(
    "track(int layer, Tensor mean, Tensor variance, Tensor(a!) running_mean, Tensor(b!) mean_variance, "
    "Tensor(c!) running_var, Tensor(d!) log_scale_variance, Tensor(e!) batches) -> ()"
)
_LIBRARY.impl("track", lambda layer, *tensors: _LAYERS[layer]._take(*tensors), "CompositeExplicitAutograd")
torch.library.register_fake("bnnlib::track", lambda *arguments: None, lib=_LIBRARY)


def _normalized(layer: _StochasticBatchNorm, input: Tensor, mean: Tensor, variance: Tensor, eps: float) -> Tensor:
    """`F.batch_norm` with given statistics, which in some versions of PyTorch refuses an `eps` of 0."""
    cudnn = torch.backends.cudnn.enabled
    return torch.batch_norm(input, layer.weight, layer.bias, mean, variance, False, 0.0, eps, cudnn)


class _StochasticBatchNorm(StochasticLayer, nn.modules.batchnorm._BatchNorm):
    """What the layers for vectors and for images share; the other base is `nn.BatchNorm1d` or `nn.BatchNorm2d`."""

    running_mean: Tensor
    running_var: Tensor
    running_mean_variance: Tensor
    running_log_scale_variance: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        *,
        statistic: str = "scale",
        draws: str = "batch",
        device=None,
        dtype=None,
    ):
        super().__init__(num_features, eps, momentum, affine, device=device, dtype=dtype)
        self._init_statistics(statistic=statistic, draws=draws)

    def _init_statistics(self, *, statistic: str = "scale", draws: str = "batch") -> None:
        self.statistic = check_choice("statistic", statistic, STATISTICS)
        self.draws = check_choice("draws", draws, DRAWS)
        _LAYERS[id(self)] = self
        for name in _SPREADS:
            self.register_buffer(name, torch.zeros_like(self.running_mean))
        self._moment_count = 0

    @classmethod
    def from_deterministic(cls, layer: nn.Module, **settings) -> Self:
        """This layer around the parameters and running statistics of a plain one, without moments yet.

        Args:
            layer: an `nn.BatchNorm1d` or `nn.BatchNorm2d`, as this class is; parameters, buffers and hooks are shared.
            settings: statistic, draws.

        Raises:
            TypeError: the layer is of another type.
            ValueError: the layer keeps no running statistics, or a setting is unknown.
        """
        kind = nn.BatchNorm1d if issubclass(cls, nn.BatchNorm1d) else nn.BatchNorm2d
        if type(layer) is not kind:
            raise TypeError(f"{cls.__name__} replaces a plain nn.{kind.__name__}, not {type(layer).__name__}.")
        if not layer.track_running_stats or layer.running_mean is None:
            raise ValueError(
                f"the {kind.__name__} has track_running_stats=False, so it uses batch statistics in eval() too and has "
                "no running ones to start from. Build it with track_running_stats=True."
            )
        new = cls.__new__(cls)
        new.__dict__.update({k: v.copy() if isinstance(v, (dict, set)) else v for k, v in layer.__dict__.items()})
        new._init_statistics(**settings)
        return new

    @property
    def moment_count(self) -> int:
        """Batches that the moments are of; spreads exist from 2 on."""
        return self._moment_count

    def _log_scale(self, running_var: Tensor | None = None) -> Tensor:
        """m_sigma; kept as running_var, so that the running statistics are those of a plain layer."""
        variance = self.running_var if running_var is None else running_var
        if self.statistic == "scale":
            return variance.add(self.eps).log_().mul_(0.5)
        return variance.clamp_min(_VARIANCE_FLOOR).log_().mul_(0.5)

    def moments(self) -> StatisticMoments:
        """m_mu, s_mu, m_sigma, s_sigma of equation (sbn-factorized), each of shape (C,).

        For statistic="variance" sigma^2 is var(B) + 1e-6, to which eps is added later, as in the published code.

        Raises:
            ValueError: fewer than two batches were seen, so that the spreads are not defined.
        """
        if self._moment_count < 2:
            raise ValueError(
                f"{type(self).__name__}({self.num_features}) has the moments of {self._moment_count} batches, but a "
                "spread needs at least 2. Fit them with bnnlib.nn.match_moments(model, batches) or by training, or use "
                "the running statistics: with bnnlib.nn.mean_weights(model)."
            )
        spreads = self.running_mean_variance.sqrt(), self.running_log_scale_variance.sqrt()
        return StatisticMoments(self.running_mean.clone(), spreads[0], self._log_scale(), spreads[1])

    def draw(self, generator: Source = None) -> Statistics:
        """One draw of (mu, sigma), each of shape (C,), for all rows; both are independent over features.

        Raises:
            ValueError: the moments are not fitted yet.
        """
        return self._draw((), generator)

    def _draw(self, rows: tuple[int, ...], generator: Source) -> Statistics:
        moments = self.moments()
        noise = draw_normal(moments.mean.new_empty(2, *rows, self.num_features), generator)
        return sample_statistics(moments, noise)

    def mean(self) -> Statistics:
        """The statistics of the deterministic network: m_mu and the geometric mean exp(m_sigma), each (C,)."""
        return self.running_mean, self._log_scale().exp_()

    def kl_divergence(self, with_value: bool = True) -> Tensor:
        """0: the statistics are drawn from what the data give, not from a posterior that is held to a prior."""
        return self.running_mean.new_zeros(())

    def forward(self, input: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Normalized `input`: with its own statistics in `train()`, else as `weight_mode` says.

        Args:
            input: (n, C) or (n, C, L), for images (n, C, H, W).
            generator: source of the noise; by default the key of `redraw`, else the generator of `use_generator`,
                else PyTorch's global one.

        Raises:
            ValueError: shape or number of features do not fit, in `train()` there is one value a feature, in `eval()`
                moments are drawn from that are not fitted yet, or the generator is on another kind of device.
        """
        self._check_input_dim(input)
        if input.shape[1] != self.num_features:
            raise ValueError(f"input has {input.shape[1]} features, but the layer normalizes {self.num_features}.")
        if self.training:
            return self._train_forward(input)
        held = self._held
        if held is None and self.weight_mode != "sample":
            return _normalized(self, input, self.running_mean, self.running_var, self.eps)
        whole = self.statistic == "scale"  # eps is part of sigma; else it is added to the square
        if held is None and overrides(self).get("draws", self.draws) == "object":
            mean, scale = self._draw((len(input),), self._noise(generator))
            scale = scale if whole else scale.square_().add_(self.eps).sqrt_()
            return batch_norm(input, mean, scale, self.weight, self.bias)
        mean, scale = held if held is not None else self.draw(self._noise(generator))
        return _normalized(self, input, mean, scale.square(), 0.0 if whole else self.eps)

    def _train_forward(self, input: Tensor) -> Tensor:
        values = check_values(input)
        if not self.track_running_stats:
            return F.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)
        # with momentum 1 the kernel leaves the batch's own mean and unbiased variance there, for nothing
        mean, variance = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
        output = F.batch_norm(input, mean, variance, self.weight, self.bias, True, 1.0, self.eps)
        self._track(mean, variance * ((values - 1) / values))  # not in place: autograd has kept both
        return output

    @torch.no_grad()
    def _track(self, *statistics: Tensor) -> None:
        tensors = *statistics, *(getattr(self, name) for name in _BUFFERS)
        if torch.compiler.is_compiling():  # the count is a Python number, which a graph would freeze
            torch.ops.bnnlib.track(id(self), *tensors)
        else:
            self._take(*tensors)

    def _take(self, mean, variance, running_mean, mean_variance, running_var, log_scale_variance, batches) -> None:
        """Take the statistics of a batch into the moments, equation (sbn-welford); the buffers may be copies."""
        batches.add_(1)
        self._moment_count += 1
        weights = moment_weights(self._moment_count, self.momentum)
        welford_update_(running_mean, mean_variance, mean, weights)
        log_scale = self._log_scale(running_var)
        floor = self.eps if self.statistic == "scale" else _VARIANCE_FLOOR
        value = variance.add(floor).log_().mul_(0.5)
        welford_update_(log_scale, log_scale_variance, value, weights)
        torch.exp(log_scale.mul_(2.0), out=running_var)
        if self.statistic == "scale":
            running_var.sub_(self.eps).clamp_min_(0.0)  # below 0 by rounding alone

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        _LAYERS[id(self)] = self

    def reset_running_stats(self) -> None:
        """Forget running statistics and moments."""
        super().reset_running_stats()
        if "_moment_count" in self.__dict__:  # nn.BatchNorm calls this before they exist
            self._forget()

    def _forget(self) -> None:
        self._moment_count = 0
        for name in _SPREADS:
            getattr(self, name).zero_()

    def get_extra_state(self) -> Tensor:
        """The count of batches. Not a buffer: reading it in every step would wait for a GPU."""
        return torch.tensor(self._moment_count, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Take over what `get_extra_state` gave."""
        self._moment_count = int(state)

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing_keys, *rest) -> None:
        own = {prefix + key for key in (*_SPREADS, "_extra_state")}
        missing: list[str] = []
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *rest)
        plain = own.isdisjoint(state_dict)
        if plain:  # a network with plain batch norm: its running statistics have no spread yet
            self._forget()
        missing_keys.extend(key for key in missing if not (plain and key in own))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, statistic={self.statistic!r}, draws={self.draws!r}"


class StochasticBatchNorm1d(_StochasticBatchNorm, nn.BatchNorm1d):
    """Batch norm of vectors or sequences with random statistics, equation (sbn-factorized), (8) of the paper.

    In `train()` it is `nn.BatchNorm1d`, and follows the moments of mu(B) and log sigma(B) over the batches. In `eval()`
    it draws mu ~ N(m_mu, s_mu^2) and sigma ~ LogN(m_sigma, s_sigma^2), independently for every feature. In mean mode
    it is `nn.BatchNorm1d` with m_mu and the geometric mean of the variances, which are `running_mean` and
    `running_var`. The state_dict of a network with plain batch norm loads; moments are then fitted with
    `match_moments`.

    Args:
        num_features, eps, affine, device, dtype: as for `nn.BatchNorm1d`.
        momentum: of the moments, bias-corrected from the first batch on; None weighs all batches equally.
        statistic: "scale" for sigma = sqrt(var(B) + eps), the divisor itself, as in (8); "variance" for the published
            code, LogN on var(B) + 1e-6, to which eps is added after drawing. log sigma^2 = 2 log sigma: they differ
            only where eps enters.
        draws: "batch" for one draw a forward pass, shared by the rows (published), or "object" for an independent one
            for each row, equation (sbn-virtual). A draw held by `held_weights` is shared in both cases.

    Shapes:
        input and output (n, C) or (n, C, L).

    Raises:
        ValueError: statistic or draws is unknown.

    Example:
        >>> layer = StochasticBatchNorm1d(3)
        >>> layer(torch.randn(8, 3)).shape
        torch.Size([8, 3])
    """


class StochasticBatchNorm2d(_StochasticBatchNorm, nn.BatchNorm2d):
    """Batch norm of images with random statistics, one mean and scale a channel; as `StochasticBatchNorm1d`.

    Shapes:
        input and output (n, C, H, W).

    Example:
        >>> layer = StochasticBatchNorm2d(3)
        >>> layer(torch.randn(8, 3, 5, 5)).shape
        torch.Size([8, 3, 5, 5])
    """
