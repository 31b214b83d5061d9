"""Generators and critics of small images after DCGAN (Radford et al., 2016), and a variational autoencoder."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bnnlib._checks import check_count

# side of an image: (side of the first map, channels of the maps from the smallest, in multiples of the width)
_MAPS = {28: (7, (4, 2)), 32: (4, (4, 2, 1))}


def dcgan_generator(
    latent_dim: int, shape: tuple[int, int] = (1, 28), width: int = 32, *, generator: torch.Generator | None = None
) -> nn.Sequential:
    """Latents to images: a linear layer and transposed 4 x 4 convolutions, each of which doubles the side.

    Batch norm and ReLU stand between the layers; the last ones, named `logits` and `pixels`, give the logit of a
    pixel and its sigmoid.

    Args:
        latent_dim: k, the length of a latent.
        shape: channels and side of the images; the side is 28 or 32.
        width: channels are its multiples: 4 and 2 for side 28, and 4, 2 and 1 for side 32. DCGAN has 64 to 128.
        generator: of the initial weights, on the CPU, U(-1, 1)/sqrt(fan_in); None means PyTorch's global one.

    Shapes:
        input (n, k), or (n, k, 1, 1); output (n, channels, side, side), in [0, 1].

    Raises:
        ValueError: a count is below 1, or there is no network for this side.
    """
    channels, start, maps = _plan(shape, width)
    layers: dict[str, nn.Module] = {
        "flatten": nn.Flatten(),
        "linear": nn.Linear(check_count("latent_dim", latent_dim), maps[0] * start * start, bias=False),
        "unflatten": nn.Unflatten(1, (maps[0], start, start)),
    }
    for index, (ins, outs) in enumerate(zip(maps, [*maps[1:], channels], strict=True), 1):
        last = index == len(maps)
        layers |= {f"norm{index}": nn.BatchNorm2d(ins), f"relu{index}": nn.ReLU()}
        layers["logits" if last else f"conv{index}"] = nn.ConvTranspose2d(ins, outs, 4, 2, 1, bias=last)
    return _drawn(layers | {"pixels": nn.Sigmoid()}, generator)


def dcgan_critic(
    shape: tuple[int, int] = (1, 28), width: int = 32, outputs: int = 1, *, generator: torch.Generator | None = None
) -> nn.Sequential:
    """Images to numbers without a bound: the generator in reverse, with leaky ReLU of slope 0.2 and no batch norm.

    As a critic of WGAN-GP, which allows no batch norm, as a discriminator, or with several outputs as an encoder.

    Args:
        shape, width, generator: as for `dcgan_generator`.
        outputs: numbers for an image.

    Shapes:
        input (n, channels, side, side); output (n,) for one output, else (n, outputs).

    Raises:
        ValueError: a count is below 1, or there is no network for this side.
    """
    channels, start, maps = _plan(shape, width)
    layers: dict[str, nn.Module] = {}
    for index, (ins, outs) in enumerate(zip([channels, *maps[:0:-1]], maps[::-1], strict=True), 1):
        layers |= {f"conv{index}": nn.Conv2d(ins, outs, 4, 2, 1), f"relu{index}": nn.LeakyReLU(0.2)}
    layers["flatten"] = nn.Flatten()
    layers["linear"] = nn.Linear(maps[0] * start * start, check_count("outputs", outputs))
    if outputs == 1:
        layers["squeeze"] = nn.Flatten(0)
    return _drawn(layers, generator)


class Encoding(NamedTuple):
    """What a `VAE` returns: logits of the pixels, and mean and log standard deviation of the latents (n, k)."""

    logits: Tensor
    mean: Tensor
    log_scale: Tensor


class VAE(nn.Module):
    """Variational autoencoder with a convolutional encoder and the decoder of `dcgan_generator`.

    Args:
        latent_dim, shape, width, generator: as for `dcgan_generator`, which makes the attribute `decoder`; the
            `encoder` is a `dcgan_critic` with two outputs for each latent.

    Raises:
        ValueError: a count is below 1, or there is no network for this side.
    """

    def __init__(
        self,
        latent_dim: int,
        shape: tuple[int, int] = (1, 28),
        width: int = 32,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.decoder = dcgan_generator(latent_dim, shape, width, generator=generator)
        self.encoder = dcgan_critic(shape, width, 2 * latent_dim, generator=generator)

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log standard deviation of the latents given the images, each (n, k)."""
        return self.encoder(images).chunk(2, dim=1)

    def forward(self, images: Tensor, noise: Tensor) -> Encoding:
        """Encode, draw latents with the standard normal noise (n, k), and decode."""
        mean, log_scale = self.encode(images)
        return Encoding(self.decoder[:-1](mean + log_scale.exp() * noise), mean, log_scale)


def _plan(shape: tuple[int, int], width: int) -> tuple[int, int, list[int]]:
    channels, side = shape
    check_count("width", width)
    check_count("channels", channels)
    if side not in _MAPS:
        raise ValueError(
            f"the side is {side}, but it must be {' or '.join(map(str, _MAPS))}. Pad or resize the images."
        )
    start, factors = _MAPS[side]
    return channels, start, [factor * width for factor in factors]


def _drawn(layers: dict[str, nn.Module], generator: torch.Generator | None) -> nn.Sequential:
    model = nn.Sequential()
    for name, layer in layers.items():
        model.add_module(name, layer)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
                bound = 1.0 / math.sqrt(module.weight[0].numel())  # PyTorch's own choice
                for values in (module.weight, module.bias):
                    if values is not None:
                        values.uniform_(-bound, bound, generator=generator)
    return model
