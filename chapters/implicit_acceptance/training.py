"""Training of generators: Wasserstein GAN with gradient penalty (Gulrajani et al., 2017), variational autoencoder."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib._callbacks import CheckpointLike
from bnnlib._checks import check_count, check_non_negative, check_positive
from bnnlib.functional.gaussian import gaussian_kl
from chapters.implicit_acceptance.networks import VAE, Encoding
from chapters.implicit_acceptance.steps import StepLoop, Training

LIKELIHOODS = ("bernoulli", "gaussian")


def gradient_penalty(critic: Callable[[Tensor], Tensor], first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """Mean of (|grad critic(u)| - 1)^2 at u = second + share (first - second): 0 for a critic of slope 1.

    Args:
        critic: rows to numbers (n,), without batch norm.
        first, second: rows, shape (n, ...).
        share: in [0, 1], one for a row, shape (n,).
    """
    between = torch.lerp(second, first, share.view(-1, *[1] * (first.dim() - 1))).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    # the root has no derivative at 0, where a dead critic would give NaN
    norm = (gradient.flatten(1).square().sum(dim=1) + 1e-12).sqrt()
    return (norm - 1.0).square().mean()


def train_wgan_gp(
    decoder: nn.Module,
    critic: nn.Module,
    data: Tensor,
    latent_dim: int,
    *,
    steps: int,
    batch_size: int = 64,
    critic_steps: int = 5,
    penalty: float = 10.0,
    learning_rate: float = 1e-4,
    schedule: Callable[[int], float] | None = None,
    generator: torch.Generator | None = None,
    checkpoint: CheckpointLike | None = None,
    progress: bool = False,
) -> Training:
    """Train a generator against a critic of slope about 1, both with Adam, betas (0, 0.9).

    Args:
        decoder: the generator, latents (n, latent_dim) to rows (n, ...); left in the mode it came in.
        critic: rows to numbers (n,), without batch norm.
        data: rows, shape (n, ...), on the device of the networks.
        latent_dim: k, of the latents, N(0, I).
        steps: of the generator, to reach in total.
        batch_size: rows in a step.
        critic_steps: steps of the critic before each of the generator.
        penalty: factor of `gradient_penalty`.
        learning_rate: of both; Gulrajani et al. take 1e-4.
        schedule: function of the step (from 0) that multiplies it.
        generator: of batches, latents and shares, on the device of the data; by default PyTorch's own.
        checkpoint, progress: as for `bnnlib.train.fit`.

    Returns:
        History (steps, 3): the critic's estimate of the Wasserstein distance, its penalty, the generator's loss.

    Raises:
        ValueError: a count, the data, or the shape that the decoder gives do not fit.
        DivergedError: a loss is NaN or infinite.
        KeyboardInterrupt: on Ctrl-C, once the step under way is complete and the checkpoint written.
    """
    for name, count in (("batch_size", batch_size), ("critic_steps", critic_steps), ("latent_dim", latent_dim)):
        check_count(name, count)
    check_non_negative("penalty", penalty)
    check_positive("learning_rate", learning_rate)
    _check_data(data)
    optimizers = {
        name: torch.optim.Adam(network.parameters(), lr=learning_rate, betas=(0.0, 0.9))
        for name, network in (("decoder", decoder), ("critic", critic))
    }
    loop = StepLoop(
        {"decoder": decoder, "critic": critic},
        optimizers,
        generator,
        names=("distance", "penalty", "generator"),
        identity={"rows": len(data), "batch_size": batch_size, "critic_steps": critic_steps},
        checkpoint=checkpoint,
    )

    def made(count: int) -> Tensor:
        latents = torch.randn(count, latent_dim, generator=loop.generator, device=data.device)
        points = decoder(latents)
        if points.shape[1:] != data.shape[1:]:
            raise ValueError(
                f"the generator gives rows of shape {tuple(points.shape[1:])}, but the data have "
                f"{tuple(data.shape[1:])}: they must be equal. Use a generator of this size, or resize the data."
            )
        return points

    def step(number: int) -> list[Tensor]:
        factor = 1.0 if schedule is None else check_non_negative("schedule(step)", schedule(number))
        for optimizer in optimizers.values():
            optimizer.param_groups[0]["lr"] = learning_rate * factor
        for _ in range(critic_steps):
            x = data[torch.randint(len(data), (batch_size,), generator=loop.generator, device=data.device)]
            with torch.no_grad():
                y = made(batch_size)
            share = torch.rand(batch_size, generator=loop.generator, device=data.device)
            slope = gradient_penalty(critic, x, y, share)
            scores = critic(torch.cat([x, y]))
            distance = scores[:batch_size].mean() - scores[batch_size:].mean()
            loop.descend("critic", penalty * slope - distance)
        critic.requires_grad_(False)  # its gradients are not needed here
        try:
            loss = loop.descend("decoder", -critic(made(batch_size)).mean())
        finally:
            critic.requires_grad_(True)
        return [distance.detach(), slope.detach(), loss]

    return loop.go(step, steps, progress)


def evidence_lower_bound(encoding: Encoding, images: Tensor, likelihood: str = "bernoulli") -> tuple[Tensor, Tensor]:
    """Log-likelihood of the images and KL of their latents, means over the images in nats; the ELBO is the difference.

    Args:
        encoding: what a `VAE` returns for the images.
        images: shape (n, ...), in [0, 1].
        likelihood: "bernoulli" takes a gray value as the probability of white (no density of it); "gaussian" has one
            standard deviation for all pixels, the best one for the batch (Rybkin et al., 2021).

    Raises:
        ValueError: there is no such likelihood.
    """
    if likelihood not in LIKELIHOODS:
        raise ValueError(f"likelihood is {likelihood!r}, but it must be one of {', '.join(LIKELIHOODS)}.")
    pixels = images[0].numel()
    if likelihood == "bernoulli":
        errors = F.binary_cross_entropy_with_logits(encoding.logits, images, reduction="sum")
        log_likelihood = -errors / len(images)
    else:
        variance = F.mse_loss(encoding.logits.sigmoid(), images)
        log_likelihood = -0.5 * pixels * (math.log(2.0 * math.pi) + 1.0 + variance.log())
    kl = gaussian_kl(encoding.mean, encoding.log_scale.exp(), 1.0).sum() / len(images)
    return log_likelihood, kl


def train_vae(
    vae: VAE,
    data: Tensor,
    latent_dim: int,
    *,
    steps: int,
    batch_size: int = 128,
    likelihood: str = "bernoulli",
    learning_rate: float = 1e-3,
    schedule: Callable[[int], float] | None = None,
    generator: torch.Generator | None = None,
    checkpoint: CheckpointLike | None = None,
    progress: bool = False,
) -> Training:
    """Maximize the evidence lower bound with Adam, one draw of the latents for an image.

    Args:
        vae: with latents of length latent_dim.
        data: images in [0, 1], on its device.
        steps: to reach in total.
        batch_size, learning_rate, schedule, generator, checkpoint, progress: as for `train_wgan_gp`.
        likelihood: see `evidence_lower_bound`.

    Returns:
        History (steps, 2): the negative ELBO and the KL, in nats an image.

    Raises:
        ValueError: a count, the data or the likelihood do not fit.
        DivergedError: the loss is NaN or infinite.
        KeyboardInterrupt: on Ctrl-C, once the step under way is complete and the checkpoint written.
    """
    check_count("batch_size", batch_size)
    check_positive("learning_rate", learning_rate)
    _check_data(data)
    low, high = float(data.min()), float(data.max())
    if not 0.0 <= low <= high <= 1.0:
        raise ValueError(f"the images run from {low:g} to {high:g}, but they must be in [0, 1]. Rescale them.")
    optimizer = torch.optim.Adam(vae.parameters(), lr=learning_rate)
    loop = StepLoop(
        {"vae": vae},
        {"vae": optimizer},
        generator,
        names=("negative_elbo", "kl"),
        identity={"rows": len(data), "batch_size": batch_size},
        checkpoint=checkpoint,
    )

    def step(number: int) -> list[Tensor]:
        factor = 1.0 if schedule is None else check_non_negative("schedule(step)", schedule(number))
        optimizer.param_groups[0]["lr"] = learning_rate * factor
        x = data[torch.randint(len(data), (batch_size,), generator=loop.generator, device=data.device)]
        noise = torch.randn(batch_size, latent_dim, generator=loop.generator, device=data.device)
        log_likelihood, kl = evidence_lower_bound(vae(x, noise), x, likelihood)
        return [loop.descend("vae", kl - log_likelihood), kl]

    return loop.go(step, steps, progress)


def _check_data(data: Tensor) -> None:
    if data.dim() < 2 or len(data) == 0:
        raise ValueError(f"data have shape {tuple(data.shape)}, but they must be rows (n, ...) with n > 0.")
