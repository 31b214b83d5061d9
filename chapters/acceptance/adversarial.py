"""Learn a proposal that only draws, for a target known by samples: GANs derived as Metropolis-Hastings."""

import torch
from torch import Tensor, nn

from bnnlib._checks import DivergedError, check_count, check_positive
from bnnlib._terminal import progress_bar
from bnnlib.functional import acceptance_probability, acceptance_rate_loss, markov_cross_entropy, symmetric_kl_loss

ADVERSARIAL_OBJECTIVES = ("acceptance", "symmetric_kl")


def learn_adversarial_proposal(
    samples: Tensor,
    network: nn.Module,
    score: nn.Module,
    objective: str = "symmetric_kl",
    *,
    latent_dim: int,
    num_steps: int = 2000,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    score_steps: int = 1,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Tensor:
    """Fit a generator in place, equation (mh-adversarial): the sample-based setting of Table 2.

    The discriminator of pairs D(x, x') = sigmoid(score(x) - score(x')), equation (mh-discriminator), is trained to tell
    (data, proposed) from (proposed, data). At its optimum the difference of scores is log p(x) q(x') / p(x') q(x),
    minus the log ratio of the acceptance test. The generator then lowers (mh-loss-ar) or (mh-loss-kl) on it; the second
    is the generator's loss of a GAN.

    Args:
        samples: points of the target (count, ...).
        network: the generator, maps noise (batch, latent_dim) to points.
        score: maps points to one number each, (batch,) or (batch, 1).
        objective: "acceptance" or "symmetric_kl".
        latent_dim: of the noise, standard normal.
        num_steps: of the generator's optimizer.
        batch_size: pairs in a step.
        learning_rate: of both, Adam with betas (0.5, 0.99).
        score_steps: of the discriminator for one of the generator.
        generator: of all randomness.
        progress: whether to show a bar.

    Returns:
        Acceptance rate by the discriminator, (num_steps,): an estimate that is as good as the discriminator.

    Raises:
        ValueError: an unknown objective, a number out of range, no samples, points of another shape than the samples',
            or other than one score a point.
        DivergedError: the loss is NaN or infinite.
    """
    if objective not in ADVERSARIAL_OBJECTIVES:
        raise ValueError(f"objective is {objective!r}, but it must be one of {', '.join(ADVERSARIAL_OBJECTIVES)}.")
    counts = {"latent_dim": latent_dim, "num_steps": num_steps, "batch_size": batch_size, "score_steps": score_steps}
    for name, value in counts.items():
        check_count(name, value)
    check_positive("learning_rate", learning_rate)
    if samples.dim() < 2 or not len(samples):
        raise ValueError(f"samples has shape {tuple(samples.shape)}, but it must be (count, ...) with count >= 1.")
    optimizers = [
        torch.optim.Adam(module.parameters(), lr=learning_rate, betas=(0.5, 0.99)) for module in (network, score)
    ]

    def drawn() -> Tensor:
        noise = torch.randn(batch_size, latent_dim, generator=generator, device=samples.device, dtype=samples.dtype)
        points = network(noise)
        if points.shape[1:] != samples.shape[1:]:
            raise ValueError(
                f"the generator returns points {tuple(points.shape[1:])}, but the samples are "
                f"{tuple(samples.shape[1:])}. Change its last layer, or reshape."
            )
        return points

    def log_ratio(points: Tensor) -> Tensor:
        rows = torch.randint(len(samples), (batch_size,), generator=generator, device=samples.device)
        scores = score(points)
        if scores.numel() != batch_size:
            raise ValueError(
                f"the score returns {tuple(scores.shape)} for {batch_size} points, but it must be one number each, "
                f"({batch_size},) or ({batch_size}, 1)."
            )
        return scores.reshape(-1) - score(samples[rows]).reshape(-1)

    rates = []
    with progress_bar(progress, num_steps, "step") as bar:
        for step in range(num_steps):
            for _ in range(score_steps):
                log_d = nn.functional.logsigmoid(-log_ratio(drawn().detach()))
                _descend(optimizers[1], markov_cross_entropy(log_d, log_d))
            found = log_ratio(drawn())
            # not E |1 - xi| / 2: with the discriminator held, it drives points away from where too few of them are
            loss = symmetric_kl_loss(found) if objective == "symmetric_kl" else acceptance_rate_loss(found)
            _descend(optimizers[0], loss)
            rates.append(acceptance_probability(found.detach()).mean())
            bar.update(1)
            if (step % 128 == 0 or step == num_steps - 1) and not loss.isfinite():
                raise DivergedError(
                    f"the loss {objective!r} is {loss.item()} at step {step}. Lower learning_rate "
                    f"({learning_rate:g}), or take objective='symmetric_kl', whose gradient does not grow.",
                    where=f"step {step}",
                    value=loss.item(),
                )
    return torch.stack(rates)


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
