"""Training of a discriminator of pairs: the part of Algorithm 1 that comes before its chains."""

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import Tensor

from bnnlib._callbacks import CheckpointLike
from bnnlib._checks import check_count, check_non_negative
from bnnlib.sampling.discriminators import (
    GenerativeProposal,
    PairDiscriminator,
    check_rows,
    check_same_rows,
    discriminator_loss,
    states_of,
)
from chapters.implicit_acceptance.steps import StepLoop, Training, average_weights, check_average


def train_discriminator(
    discriminator: PairDiscriminator,
    data: Tensor,
    proposal: GenerativeProposal,
    *,
    steps: int,
    loss: str = "ub",
    batch_size: int = 64,
    latents: Tensor | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    logit_penalty: float = 1e-3,
    schedule: Callable[[int], float] | None = None,
    average: float = 0.0,
    augment: Callable[..., Tensor] | None = None,
    generator: torch.Generator | None = None,
    checkpoint: CheckpointLike | None = None,
    snapshots: Sequence[int] = (),
    progress: bool = False,
) -> Training:
    """Tell data from what the proposal makes of them, each step with fresh proposals.

    Args:
        discriminator: trained in place.
        data: rows of the target's sample, shape (n, ...).
        proposal: gives y for each x; an independent one needs no latents.
        steps: to reach in total; a run that resumes at step 300 of 800 does 500 more.
        loss: "ub", "mce" or "cce", see `discriminator_loss`.
        batch_size: pairs in a step, drawn with replacement.
        latents: of the data, (n, k), see `inversion.invert`; needed where the proposal moves latents.
        optimizer: over the discriminator's parameters; by default Adam, learning rate 2e-4, betas (0.5, 0.999), of
            DCGAN.
        logit_penalty: see `discriminator_loss`. An addition: beyond the bound the loss has no gradient, and a network
            that shot there would not come back.
        schedule: function of the step (from 0) that multiplies the optimizer's learning rates, for the time of the
            training.
        average: in [0, 1). With 0 the discriminator ends as the last step leaves it. Otherwise it ends, and the
            snapshots are taken, at the mean of the weights after each step so far, where a step counts this factor less
            than the next one: the noise of single steps is averaged out.
        augment: called as augment(points, generator=...) on data and on proposals alike.
        generator: of batches and proposals, on the device of the data; by default PyTorch's own.
        checkpoint, progress: as for `bnnlib.train.fit`.
        snapshots: numbers of steps after which the discriminator's state is kept.

    Returns:
        History (steps, 1) of the loss in nats, and the snapshots.

    Raises:
        ValueError: a count, the loss, the data, the latents, or the shape of what the proposal gives do not fit.
        DivergedError: the loss is NaN or infinite.
        KeyboardInterrupt: on Ctrl-C, once the step under way is complete and the checkpoint written.

    Example:
        >>> from bnnlib.sampling import IndependentDiscriminator, PointProposal
        >>> data = torch.randn(100, 2)
        >>> discriminator = IndependentDiscriminator(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0)))
        >>> proposal = PointProposal(draw=lambda count, generator: 2 * torch.randn(count, 2, generator=generator))
        >>> training = train_discriminator(discriminator, data, proposal, steps=10)
        >>> training.steps
        10
    """
    check_count("batch_size", batch_size)
    check_non_negative("logit_penalty", logit_penalty)
    check_average(average)
    check_rows("data", data)
    states = states_of(proposal, data, latents, "data")
    parameters = discriminator.parameters()
    optimizer = optimizer or torch.optim.Adam(parameters, lr=2e-4, betas=(0.5, 0.999))
    rates = [group["lr"] for group in optimizer.param_groups]
    mean = deepcopy(discriminator) if average else discriminator
    loop = StepLoop(
        ({"average": mean} if average else {}) | {"discriminator": discriminator},
        {"discriminator": optimizer},
        generator,
        names=("loss",),
        identity={"rows": len(data), "batch_size": batch_size, "loss": loss}
        | ({"average": average} if average else {}),
        checkpoint=checkpoint,
        snapshots=snapshots,
    )

    def step(number: int) -> list[Tensor]:
        if schedule is not None:
            factor = check_non_negative("schedule(step)", schedule(number))
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
        rows = torch.randint(len(data), (batch_size,), generator=loop.generator, device=data.device)
        x = data[rows]
        with torch.no_grad():
            state = proposal.draw(batch_size, loop.generator) if states is None else states[rows]
            y = proposal.decode(state if states is None else proposal.move(state, loop.generator))
        check_same_rows(y, x)
        if augment is not None:
            x, y = (augment(points, generator=loop.generator) for points in (x, y))
        value = loop.descend("discriminator", discriminator_loss(discriminator, x, y, loss, logit_penalty))
        if average:
            average_weights(mean, discriminator, average, number)
        return [value]

    try:
        training = loop.go(step, steps, progress)
    finally:
        if schedule is not None:
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
    if average:
        discriminator.load_state_dict(mean.state_dict())
    return training
