"""The generators of the experiments on images: trained, judged as they are, and inverted."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bnnlib.sampling import LatentProposal
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.implicit_acceptance.experiments.judge import Judge
from chapters.implicit_acceptance.inversion import invert
from chapters.implicit_acceptance.networks import VAE, dcgan_critic, dcgan_generator
from chapters.implicit_acceptance.training import train_vae, train_wgan_gp
from chapters.shared.images import load_images
from chapters.shared.stages import Stages
from chapters.shared.training import falling

SHEET = 32_000  # bytes of images in an array for a picture, of the first replicate


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    params = cell.params
    if cell.method == "Raw":
        steps = params["generator"]["steps"]
    elif any(one.get("falling") for one in params.get("candidates", {}).values()):
        steps = params["discriminator"]["iterations"][-1]
    else:
        return {}
    return {"learning rate": (partial(falling, steps=steps), range(steps))}


def raw_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]]
) -> CellResult:
    """Train the generator, which is the product, and judge what it makes."""
    params, data, options = cell.params, load_images(cell.params, device), cell.params["generator"]
    x, latent_dim, replicate = data["train"][0], params["latent_dim"], cell.replicates[0]
    start = torch.Generator().manual_seed(100_000 + replicate)
    plan = {"steps": options["steps"], "batch_size": options["batch_size"], "learning_rate": options["learning_rate"]}
    plan |= {"schedule": partial(falling, steps=options["steps"]), "checkpoint": checkpoint}
    plan |= {"generator": torch.Generator(device).manual_seed(101_000 + replicate)}
    shape, width = tuple(params["shape"]), options["width"]
    if cell.setting == "VAE":
        model = VAE(latent_dim, shape, width, generator=start).to(device, memory_format=torch.channels_last)
        training = train_vae(model, x, latent_dim, likelihood=options["likelihood"], **plan)
        decoder, parts = model.decoder, {"decoder": model.decoder, "encoder": model.encoder}
    else:
        decoder = dcgan_generator(latent_dim, shape, width, generator=start)
        decoder = decoder.to(device, memory_format=torch.channels_last)
        critic = dcgan_critic(shape, width, generator=start).to(device, memory_format=torch.channels_last)
        training = train_wgan_gp(decoder, critic, x, latent_dim, critic_steps=options["critic_steps"], **plan)
        parts = {"decoder": decoder}
    images = latent_proposal(decoder.eval(), params, device).decode(latents(params, replicate, device))
    ends = training.history[-100:].mean(dim=0)
    values = Judge(params, products[0]["model"], data, device).values(images)
    values |= {f"train_{name}": float(end) for name, end in zip(training.names, ends, strict=True)}
    arrays = {"sheet": sheet(images)} if replicate == 0 else {}
    return CellResult(rows_of(cell, values), arrays, {name: part.state_dict() for name, part in parts.items()})


def inversion_cell(
    cell: Cell, device: torch.device, checkpoint: Checkpoint | None, products: Sequence[dict[str, Any]]
) -> CellResult:
    """Latents of training images, for the discriminator, and of the held-out ones, where chains start: the product.

    Found by reconstruction, from a random start, or from the encoder's mean where there is an encoder.
    """
    params, data, options = cell.params, load_images(cell.params, device), cell.params["inversion"]
    decoder, latent_dim, stages = load_decoder(params, products[0], device), params["latent_dim"], Stages(checkpoint)
    parts = {"train": data["train"][0][: options["images"]], "held_out": data["validation"][0][: params["samples"]]}
    for name in list(parts)[len(stages.finished) :]:
        generator = torch.Generator(device).manual_seed(102_000 + 10 * cell.replicates[0] + len(stages.finished))
        start = None
        if "encoder" in products[0]:
            encoder = dcgan_critic(tuple(params["shape"]), params["generator"]["width"], 2 * latent_dim).to(device)
            encoder.load_state_dict(products[0]["encoder"])
            with torch.no_grad():
                start = torch.cat([encoder(part).chunk(2, dim=1)[0] for part in parts[name].split(1000)])
        plan = {"steps": options["steps"], "penalty": options["penalty"], "start": start, "generator": generator}
        found = invert(decoder, parts[name], latent_dim, **plan)
        stages.finish({"latents": found.latents, "error": float(found.errors.mean())})
    values = {f"inversion_{name}": one["error"] for name, one in zip(parts, stages.finished, strict=True)}
    norm = stages.finished[1]["latents"].square().sum(dim=1).mean().sqrt() / math.sqrt(latent_dim)
    product = {name: one["latents"] for name, one in zip(parts, stages.finished, strict=True)}
    return CellResult(rows_of(cell, values | {"inversion_norm": float(norm)}), product=product)


def load_decoder(params: dict[str, Any], product: dict[str, Any], device: torch.device) -> nn.Module:
    """The trained generator, in evaluation mode."""
    decoder = dcgan_generator(params["latent_dim"], tuple(params["shape"]), params["generator"]["width"])
    decoder.load_state_dict(product["decoder"])
    return decoder.to(device, memory_format=torch.channels_last).eval()


def latent_proposal(
    decoder: nn.Module, params: dict[str, Any], device: torch.device, angle: float | None = None
) -> LatentProposal:
    """Proposals of the generator: independent ones, or at an angle in its latent space."""
    return LatentProposal(decoder, params["latent_dim"], math.pi / 2 if angle is None else angle, device=device)


def latents(params: dict[str, Any], replicate: int, device: torch.device) -> Tensor:
    """Those of the images that stand for the generator as it is."""
    generator = torch.Generator(device).manual_seed(107_000 + replicate)
    return torch.randn(params["samples"], params["latent_dim"], generator=generator, device=device)


def sheet(images: Tensor) -> np.ndarray:
    """The first images as bytes, for a picture."""
    images = images[: SHEET // images[0].numel()]
    return (255.0 * images).round().clamp(0, 255).byte().cpu().numpy()
