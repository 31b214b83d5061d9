"""Learn an independent proposal from the target's density: by its acceptance rate, by the bound of it, or by VI."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bnnlib._checks import DivergedError, check_choice, check_count, check_positive
from bnnlib._terminal import progress_bar
from bnnlib.functional import acceptance_rate_loss, log_acceptance_ratio, symmetric_kl_loss
from bnnlib.sampling.densities import Density
from bnnlib.sampling.kernels import Kernel, LogProb, State, check_log_density, decide

OBJECTIVES = ("acceptance", "symmetric_kl", "vi")
_LOOK = 128  # steps between two looks at the loss: a look waits for the device


@dataclass(frozen=True)
class Learned:
    """How a proposal was learned.

    Attributes:
        loss: (steps,), of the objective, in nats ("acceptance": minus a rate).
        acceptance: (steps,), the batch's acceptance rate; of all pairs of the chain's points and the proposed ones.
        state: of the chain that gave the points; None where they were given or not needed.

    Example:
        >>> learn_proposal(lambda x: -x.square().sum(dim=-1) / 2, DiagonalGaussian(2), num_steps=10).acceptance.shape
        torch.Size([10])
    """

    loss: Tensor
    acceptance: Tensor
    state: State | None


def learn_proposal(
    log_prob: LogProb,
    density: Density,
    objective: str = "acceptance",
    *,
    num_steps: int = 2000,
    batch_size: int = 256,
    learning_rate: float = 5e-3,
    clip: float = 10.0,
    samples: Tensor | None = None,
    state: State | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Learned:
    """Fit `density` to the target in place, equations (mh-loss-ar) (13), (mh-loss-kl) (15) or (mh-loss-vi).

    Points of the target come from independent Metropolis-Hastings with the current proposal, `batch_size` chains that
    each make one step a step of learning (the density-based setting of Table 2). In "acceptance" each of them is
    paired with each proposed point. Adam with a rate that falls to 0 along a cosine.

    Args:
        log_prob: log density of the target, in nats up to a constant; differentiable.
        density: what is learned, from `bnnlib.sampling`.
        objective: "acceptance", "symmetric_kl" or "vi", which is KL(q || p) alone and needs no points of the target.
        num_steps: of the optimizer.
        batch_size: proposed points a step, and chains.
        learning_rate: of Adam at the start.
        clip: largest norm of the gradient.
        samples: exact points of the target (count, dim) in place of the chain, if you have them.
        state: of the chain to go on with, `Learned.state` of an earlier call with the same target and batch size.
        generator: of all randomness, on the density's device.
        progress: whether to show a bar.

    Raises:
        TypeError: the density cannot be learned: it lacks parameters, or draws with gradients.
        ValueError: an unknown objective, a number out of range, samples or a state of another shape, or a log_prob that
            is not finite at the density's first draws.
        DivergedError: the loss is NaN or infinite.

    Example:
        >>> density = DiagonalGaussian(2)
        >>> learned = learn_proposal(lambda x: -(x - 1.0).square().sum(dim=-1) / 2, density, "vi", num_steps=10)
        >>> learned.loss.shape
        torch.Size([10])
    """
    check_choice("objective", objective, OBJECTIVES)
    check_count("num_steps", num_steps)
    check_count("batch_size", batch_size)
    check_positive("learning_rate", learning_rate)
    check_positive("clip", clip)
    if not isinstance(density, Density):
        raise TypeError(f"density is a {type(density).__name__}, but it must be a Density, such as RealNVP(dim).")
    if samples is not None and (samples.dim() != 2 or not len(samples) or samples.shape[1] != density.dim):
        raise ValueError(f"samples has shape {tuple(samples.shape)}, but must be (count, {density.dim}), count >= 1.")
    if state is not None and state.position.shape != (batch_size, density.dim):
        raise ValueError(
            f"state has positions {tuple(state.position.shape)}, but they must be ({batch_size}, {density.dim}): one "
            "chain for each proposed point."
        )
    optimizer = torch.optim.Adam(density.parameters(), lr=learning_rate)
    starting: State | None = None
    if samples is not None and objective != "vi":
        starts = [Kernel(log_prob).start(part) for part in samples.split(batch_size)]
        starting = State(*(torch.cat(parts) for parts in zip(*starts, strict=True)))
    elif objective != "vi" and state is None:
        state = Kernel(log_prob).start(density.rsample(batch_size, generator).detach())
    losses, rates = [], []
    with progress_bar(progress, num_steps, "step") as bar:
        for step in range(num_steps):
            offered, log_q = density.rsample_with_log_prob(batch_size, generator)
            log_p = check_log_density("log_prob", log_prob(offered), offered)
            if objective == "vi":
                loss, rate = (log_q - log_p).mean(), log_q.new_tensor(math.nan)
            else:
                if starting is not None:
                    points = starting.position
                    rows = torch.randint(len(points), (batch_size,), generator=generator, device=points.device)
                    state = State(points[rows], starting.log_prob[rows], starting.cache)
                assert state is not None  # given, started or made of the samples
                there = density.log_prob(state.position)
                pairs = log_acceptance_ratio(state.log_prob[:, None], log_p, log_q, there[:, None])
                own = pairs.diagonal()
                loss = acceptance_rate_loss(pairs) if objective == "acceptance" else symmetric_kl_loss(own)
                rate = -acceptance_rate_loss(pairs.detach())
                if samples is None:
                    move = State(offered.detach(), log_p.detach(), state.cache)
                    state = decide(state, move, own.detach(), generator).state
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(density.parameters(), clip)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * 0.5 * (1.0 + math.cos(math.pi * step / num_steps))
            optimizer.step()
            losses.append(loss.detach())
            rates.append(rate.detach())
            bar.update(1)
            if (step % _LOOK == 0 or step == num_steps - 1) and not loss.isfinite():
                raise DivergedError(
                    f"the loss {objective!r} is {loss.item()} at step {step}. Lower learning_rate ({learning_rate:g}) "
                    "or clip, start from a wider density, or look for NaN in log_prob.",
                    where=f"step {step}",
                    value=loss.item(),
                )
    return Learned(torch.stack(losses), torch.stack(rates), None if samples is not None else state)
