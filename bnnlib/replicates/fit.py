"""Training of a stack: one optimizer, one permutation of the rows an epoch, every replicate on its own data."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bnnlib._callbacks import CheckpointLike
from bnnlib._checks import DivergedError, check_count, check_positive, check_scale
from bnnlib._memory import keep_pages
from bnnlib.replicates.network import StackedMLP

StepHook = Callable[[StackedMLP, int], None]
Loss = Callable[[Tensor, Tensor], Tensor]
EpochHook = Callable[[StackedMLP, int, torch.optim.Optimizer], None]


def gaussian_nll(output: Tensor, target: Tensor) -> Tensor:
    """-log N(target; output, 1) averaged over the batch and summed over replicates, without its constant.

    Example:
        >>> gaussian_nll(torch.zeros(2, 8, 1), torch.ones(2, 8, 1))  # half a squared error, two networks
        tensor(1.)
    """
    return 0.5 * (output - target).square().sum() / target.shape[1]


class GaussianLikelihood(nn.Module):
    """-log N(target; output, scale^2), one noise scale a replicate, learned with the weights; a loss of `fit_stacked`.

    Args:
        replicates: R.
        initial_scale: initial standard deviation of the noise, in units of the target.
        minimum: the scale stays above it, so that a network that interpolates does not run off to scale 0.

    Shapes:
        output, target (R, batch, outputs).

    Raises:
        ValueError: a scale is not positive.

    Example:
        >>> likelihood = GaussianLikelihood(10)
        >>> likelihood.scale().shape
        torch.Size([10])
    """

    def __init__(self, replicates: int, initial_scale: float = 0.5, minimum: float = 1e-3):
        super().__init__()
        self.minimum = float(check_scale("minimum", minimum))
        start = math.log(check_scale("initial_scale", initial_scale))
        self.log_scale = nn.Parameter(torch.full((check_count("replicates", replicates), 1), start))

    def scale(self) -> Tensor:
        """Standard deviations of the noise, shape (R,)."""
        return self.log_scale.detach().exp().clamp_min(self.minimum).squeeze(1)

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return self._losses(output, target).sum() / target.shape[1]

    def _losses(self, output: Tensor, target: Tensor) -> Tensor:
        with torch.no_grad():  # of the parameter itself: behind a clamp in the graph it would have no way back
            self.log_scale.clamp_(min=math.log(self.minimum))
        log_scale = self.log_scale.unsqueeze(1)
        return 0.5 * (output - target).square() * torch.exp(-2.0 * log_scale) + log_scale


def check_finite(model: StackedMLP, epoch: int, learning_rate: float) -> None:
    """Raise when a replicate has diverged."""
    state = torch.cat([parameter.detach() for parameter in model.posterior.parameters()], dim=1)
    bad = (~state.isfinite().all(dim=1)).nonzero().flatten().tolist()
    if bad:
        raise DivergedError(
            f"After epoch {epoch} the parameters of replicates {bad} are NaN or infinite. Lower the learning rate (now "
            f"{learning_rate:g}) or check their data for NaN; the other replicates are not affected."
        )


def fit_stacked(
    model: StackedMLP,
    x: Tensor,
    y: Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: torch.Generator | None = None,
    kl_scale: float | Tensor | Callable[[int], float | Tensor] = 1.0,
    loss: Loss = gaussian_nll,
    schedule: Callable[[int], float] | None = None,
    after_step: StepHook | None = None,
    after_epoch: EpochHook | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    checkpoint: CheckpointLike | None = None,
) -> None:
    """Minimize mean NLL + kl_scale * KL / n for all replicates at once, by Adam.

    The gradient of a replicate depends on its own data and weights only, so the stack trains as the networks would
    alone. Rows are visited in one random order an epoch, shared by the replicates, whose data are independent anyway.

    Args:
        model: the stack.
        x: inputs, shape (n, R, inputs): rows first, so that a batch is gathered as contiguous memory.
        y: targets, shape (n, R, outputs).
        epochs, batch_size, learning_rate: of the training; the last batch of an epoch may be smaller.
        generator: of permutations and noise, on the model's device; a checkpoint needs one.
        kl_scale: 1 for the exact negative ELBO (svbnn-elbo); below 1 the posterior is tempered. A tensor (R, 1) gives
            each replicate its own, for the posteriors of a Gaussian spike and slab. A function of the epoch (from 0)
            gives one of these for each, such as a rise from 0 to 1 (`SparseVD` is trained so).
        loss: called as loss(output, target), the mean NLL over the batch summed over replicates; the parameters of a
            module, such as `GaussianLikelihood`, are trained too.
        schedule: function of the epoch (from 0); the learning rate is multiplied by it.
        after_step: called as after_step(model, step); pruning schedules hang here.
        after_epoch: called as after_epoch(model, epoch, optimizer) once an epoch; curves hang here.
        optimizer: over the parameters of model and loss, to go on with its moments.
        checkpoint: is read before the first epoch and written after one when it is due: the resumed run is the
            uninterrupted one bit for bit.

    Raises:
        ValueError: shapes do not fit, a count or rate is not positive, `kl_scale` is a tensor that the posterior does
            not take, or there is a checkpoint without a generator.
        DivergedError: a replicate's parameters stopped being finite.

    Example:
        >>> layout, x = Layout((5, 1), replicates=10), torch.randn(64, 10, 5)
        >>> y, model = x[..., :1].clone(), StackedMLP(StackedDeterministic(layout, layout.kaiming_uniform(None)))
        >>> before = gaussian_nll(model(x.transpose(0, 1)), y.transpose(0, 1))
        >>> fit_stacked(model, x, y, epochs=20, batch_size=16, learning_rate=0.05)
        >>> bool(gaussian_nll(model(x.transpose(0, 1)), y.transpose(0, 1)) < before / 10)
        True
    """
    keep_pages()
    check_count("epochs", epochs)
    check_count("batch_size", batch_size)
    check_positive("learning_rate", learning_rate)
    if x.dim() != 3 or y.dim() != 3 or x.shape[:2] != y.shape[:2] or x.shape[1] != model.replicates:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}, but they must be "
            f"(n, {model.replicates}, inputs) and (n, {model.replicates}, outputs): "
            "stack your data sets along the second dimension."
        )
    inputs, outputs = model.posterior.layout.sizes[0], model.posterior.layout.sizes[-1]
    # a loss of one's own may have targets of another width, such as labels, or weights beside them
    counted = loss is gaussian_nll or type(loss) is GaussianLikelihood
    if x.shape[-1] != inputs or (counted and y.shape[-1] != outputs):
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}, but the layout has {inputs} inputs and {outputs} "
            f"outputs: x must be (n, {model.replicates}, {inputs}) and y (n, {model.replicates}, {outputs})."
        )
    if checkpoint and generator is None:
        raise ValueError("there is a checkpoint but no generator, whose state it must hold. Pass torch.Generator().")
    n = len(x)
    trained = {"model": model} | ({"loss": loss} if isinstance(loss, nn.Module) else {})
    optimizer = optimizer or torch.optim.Adam(
        [parameter for part in trained.values() for parameter in part.parameters()], lr=learning_rate, fused=True
    )
    parts, first_epoch = trained | {"optimizer": optimizer}, 0
    if checkpoint and generator and (state := checkpoint.load()):
        for name, part in parts.items():
            part.load_state_dict(state[name])
        generator.set_state(state["generator"])
        first_epoch = state["epoch"] + 1
    batch_x, batch_y = (t.new_empty(min(batch_size, n), *t.shape[1:]) for t in (x, y))
    steps_per_epoch = -(-n // batch_size)
    model.train()
    for epoch in range(first_epoch, epochs):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (schedule(epoch) if schedule else 1.0)
        scale = kl_scale(epoch) if callable(kl_scale) else kl_scale
        order = torch.randperm(n, generator=generator, device=x.device)
        for k, rows in enumerate(order.split(batch_size)):
            # into a buffer: a fresh allocation of this size costs more in page faults than the copy itself
            bx = torch.index_select(x, 0, rows, out=batch_x[: len(rows)]).transpose(0, 1)
            by = torch.index_select(y, 0, rows, out=batch_y[: len(rows)]).transpose(0, 1)
            objective = loss(model(bx, generator), by)
            if isinstance(scale, Tensor) or scale:
                objective = objective + model.posterior.kl_gradient(scale / n)
            optimizer.zero_grad()
            objective.backward()
            optimizer.step()
            if after_step:
                after_step(model, epoch * steps_per_epoch + k)
        if epoch % 10 == 9 or epoch == epochs - 1:
            check_finite(model, epoch, learning_rate)
        if after_epoch:
            after_epoch(model, epoch, optimizer)
        if checkpoint and generator and checkpoint.due():
            saved = {name: part.state_dict() for name, part in parts.items()}
            checkpoint.save(saved | {"generator": generator.get_state(), "epoch": epoch})
    model.eval()
