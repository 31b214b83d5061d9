"""One chain on several devices through Lightning Fabric: batches are divided, gradients are averaged.

    def train(team, network, x, y):                    # at the top level of a module: other processes import it
        network = network.to(team.device)
        divided = team.wrap(network)                   # the network on this process's share of each batch
        sampler = SGHMC(network.parameters(), lr=1e-6, generator=torch.Generator(team.device).manual_seed(0))
        ...
        energy = len(x) * F.cross_entropy(divided(x[rows]), team.share(y[rows]))

    launch(train, network, x, y, devices=4, device="cuda")

Every process runs the same code with the same seeds, so order, augmentation and the sampler's noise are the same
everywhere, and with averaged gradients the copies of the network stay equal without ever being sent. Batch norm takes
its statistics over the whole batch, so that the chain is that of one device up to rounding.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from bnnlib._checks import check_count

_NO_FABRIC = "several devices need Lightning Fabric: install the extra, pip install 'bnnlib[dist]', or use one device."


class Team:
    """The processes that compute one chain together, seen from one of them.

    Args:
        device: where this process computes.
        rank, size: number of this process, and of all.
        fabric: the `lightning_fabric.Fabric` of the process, None for a team of one.
    """

    def __init__(self, device: torch.device, rank: int = 0, size: int = 1, fabric: Any = None) -> None:
        self.device, self.rank, self.size, self.fabric = device, rank, size, fabric

    def share(self, batch: Tensor) -> Tensor:
        """This process's rows of a batch.

        Args:
            batch: (n, ...), the same on every process.

        Returns:
            (n / size, ...), consecutive rows.

        Raises:
            ValueError: n is no multiple of the number of devices; the mean of means would not be the mean.
        """
        if len(batch) % self.size:
            raise ValueError(
                f"a batch of {len(batch)} cannot be divided among {self.size} devices into equal parts. "
                "Use a batch size that is a multiple of the number of devices and divides the number of observations."
            )
        return batch.chunk(self.size)[self.rank] if self.size > 1 else batch

    def wrap(self, model: nn.Module) -> nn.Module:
        """A module that maps a whole batch to the outputs for this process's share and averages the gradients.

        The parameters stay those of `model`, which may be used alone for evaluation. Its batch-norm layers are replaced
        by ones that take mean and variance over the shares of all processes.
        """
        if self.size == 1:
            return model
        model = _with_common_statistics(model, self.device.type)
        return _Divided(model, self.fabric.setup_module(model), self)


class _Divided(nn.Module):
    def __init__(self, model: nn.Module, divided: nn.Module, team: Team) -> None:
        super().__init__()
        self.divided, self.model, self.team = divided, model, team

    def forward(self, batch: Tensor) -> Tensor:
        return self.divided(self.team.share(batch))

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        # of the model alone: what several devices saved goes on with one, and the other way round
        return self.model.state_dict(*arguments, **options)

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        return self.model.load_state_dict(*arguments, **options)


def launch(function: Callable[..., Any], *arguments: Any, devices: int = 1, device: str | torch.device = "cpu") -> Any:
    """Call function(team, *arguments) in one process for each device and return what the first one returns.

    Args:
        function: of the top level of a module, unless `devices` is 1; its result consists of tensors, numbers, strings,
            None, and lists, tuples and dicts of them.
        arguments: pickled into the processes.
        devices: how many; with 1 the function runs in this process and Fabric is not needed.
        device: "cpu" or "cuda"; one process on a CPU has the number of threads of this one.

    Raises:
        RuntimeError: Lightning Fabric is not installed.
        ValueError: there are fewer GPUs than asked for.
    """
    device = torch.device(device)
    if check_count("devices", devices) == 1:
        return function(Team(device), *arguments)
    if device.type == "cuda" and torch.cuda.device_count() < devices:
        raise ValueError(
            f"{devices} devices were asked for, but there are {torch.cuda.device_count()} GPUs here. Ask for fewer."
        )
    try:
        from lightning_fabric import Fabric
        from lightning_fabric.strategies import DDPStrategy
    except ImportError as error:
        raise RuntimeError(_NO_FABRIC) from error
    fabric = Fabric(accelerator=device.type, devices=devices, strategy=DDPStrategy(start_method="spawn"))
    with tempfile.TemporaryDirectory() as folder:
        # through a file: the pipe that Fabric returns results by fills up and blocks beyond some kilobytes
        path = Path(folder) / "result.pt"
        member: Callable[..., None] = _member  # the annotation of launch knows no arguments behind the first
        fabric.launch(member, function, arguments, str(path), torch.get_num_threads())
        return torch.load(path, weights_only=True)


def _member(fabric: Any, function: Callable[..., Any], arguments: tuple, path: str, threads: int) -> None:
    if fabric.device.type == "cpu":
        torch.set_num_threads(threads)
    result = function(Team(fabric.device, fabric.global_rank, fabric.world_size, fabric), *arguments)
    if fabric.global_rank == 0:
        torch.save(result, path)


def _with_common_statistics(model: nn.Module, kind: str) -> nn.Module:
    if kind == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(model)
    if isinstance(model, nn.modules.batchnorm._BatchNorm):
        return _CommonBatchNorm.of(model)
    for name, child in model.named_children():
        setattr(model, name, _with_common_statistics(child, kind))
    return model


class _CommonBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over the shares of all processes, for CPUs, where `nn.SyncBatchNorm` does not work."""

    # None, and not read, without track_running_stats
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    @classmethod
    def of(cls, layer: nn.modules.batchnorm._BatchNorm) -> _CommonBatchNorm:
        """The same layer, with the very same parameters and buffers."""
        common = cls(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
        common._parameters, common._buffers, common.training = layer._parameters, layer._buffers, layer.training
        return common

    def _check_input_dim(self, x: Tensor) -> None:
        pass  # what the replaced layer was given has the right dimension

    def forward(self, x: Tensor) -> Tensor:
        if not self.training and self.track_running_stats:
            return super().forward(x)
        x = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x  # sums need the digits
        dims, shape = [0, *range(2, x.dim())], [1, -1] + [1] * (x.dim() - 2)
        count = x.numel() / x.shape[1] * dist.get_world_size()
        mean = _Sum.apply(x.sum(dims)) / count
        centered = x - mean.view(shape)
        variance = _Sum.apply(centered.square().sum(dims)) / count
        if self.track_running_stats:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                rate = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                self.running_mean.lerp_(mean, rate)
                self.running_var.lerp_(variance * (count / (count - 1.0)), rate)
        scale = torch.rsqrt(variance + self.eps)
        if not self.affine:
            return centered * scale.view(shape)
        return centered * (scale * self.weight).view(shape) + self.bias.view(shape)


class _Sum(torch.autograd.Function):
    """Sum over all processes; so is its gradient, because each process's energy depends on everybody's input."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient
