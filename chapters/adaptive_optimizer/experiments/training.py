"""One training of a stack of networks on the problems of Ke and Fan (2023), by the optimizer of the chapter.

What the methods share is here: data, schedule, traces, resuming. They differ in what is done to the inputs:

prior      the published method: after the warm-up every epoch begins with an E-step and the removal of small groups
none       one weight decay, and nothing is removed
magnitude  half of the epochs like that, then the largest inputs by mean square are kept, as many as matter
lasso      a group lasso by proximal steps in half of the epochs; inputs that are 0 by then stay removed

Half of the epochs end with a cycle of the step size. The code's clock is one epoch ahead, so that the epoch before the
half is the first and hottest of the next cycle, after which no input of the lasso is 0: these are judged before it.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from bnnlib._checks import DivergedError
from bnnlib.functional import group_mean_square
from bnnlib.optim import GroupSpikeSlab
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell
from chapters.adaptive_optimizer.networks import Columns, StackedReLU, adaptive, compact, mean_loss
from chapters.adaptive_optimizer.problems import BATCH_SIZE, NUM_TEST, PROBLEMS, Problem, cyclic_lr

SAVE_EVERY = 10  # epochs between looks at whether a checkpoint is due


def sizes_of(params: dict[str, Any]) -> tuple[int, ...]:
    return (params["num_inputs"], *PROBLEMS[params["problem"]].sizes[1:])


def data_of(params: dict[str, Any], replicates: tuple[int, ...]) -> dict[str, Tensor]:
    """Training rows x (n, R, p), y (n, R); test rows x (R, p, m), y and f (R, m); set by the replicates' numbers."""
    problem, rows = PROBLEMS[params["problem"]], params["num_train"]
    sets = [problem.draw(rows + NUM_TEST, 110_000 + r, params["num_inputs"]) for r in replicates]
    x = torch.empty(rows, len(sets), params["num_inputs"])
    for index, one in enumerate(sets):
        x[:, index] = one[0][:rows]
    return {
        "x": x,
        "y": torch.stack([y[:rows, 0] for _, y, _ in sets], dim=1),
        "test_x": torch.stack([x[rows:].t() for x, _, _ in sets]),
        "test_y": torch.stack([y[rows:, 0] for _, y, _ in sets]),
        "test_f": torch.stack([f[rows:, 0] for _, _, f in sets]),
    }


def trace_epochs(epochs: int) -> list[int]:
    """Epochs after which a training is measured: densely at first, then at every hundredth of it."""
    early, late = range(0, min(120, epochs), 10), range(0, epochs + 1, max(1, epochs // 100))
    return sorted({*early, *late, epochs})


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    params = cell.params
    batches = -(-params["num_train"] // BATCH_SIZE)

    def step_size(step: int) -> float:
        return cyclic_lr(params["lr"], *divmod(step, batches), params["epochs"], batches)

    return {"step size": (step_size, range(params["epochs"] * batches))}


class Training:
    """A stack under training.

    Args:
        params: of the cell. "rule" is one of the above; "spare" epochs at the end are not trained.
        data: from `data_of`.
        device: where to train.
        seed: of the first weights, of the order of the rows and of the noise.
    """

    def __init__(self, params: dict[str, Any], data: dict[str, Tensor], device: torch.device, seed: int) -> None:
        self.params, self.problem, self.device = params, PROBLEMS[params["problem"]], device
        self.columns = Columns(data["x"].to(device), data["y"].to(device))
        self.test_x, self.test_y = data["test_x"].to(device), data["test_y"].to(device)
        # weights start from a CPU generator, so that a GPU run starts where a CPU run does
        start = torch.Generator().manual_seed(120_000 + seed)
        self.model = StackedReLU(sizes_of(params), data["x"].shape[1], start).to(device)
        self.generator = torch.Generator(device).manual_seed(130_000 + seed)
        self.rows, self.rule = len(data["x"]), params["rule"]
        self.batch_size = params.get("batch_size", BATCH_SIZE)
        self.num_batches = -(-self.rows // self.batch_size)
        self.prior = self._prior() if self.rule == "prior" else None
        self.optimizer = adaptive(
            self.model,
            params["lr"],
            self.rows,
            weight_decay=0.0 if self.rule == "lasso" else self.problem.slab,
            temperature=params.get("temperature"),
            scale_lr=0.0 if self.rule == "lasso" else 0.1,
            prior=self.prior,
            generator=self.generator,
            form=params.get("form", "sghmc"),
        )
        self.mask: Tensor | None = None  # of the first layer, for the rules without a prior
        self.epoch, self.seconds = 0, 0.0
        self.trace: list[Tensor] = []
        self.squares: dict[str, Tensor] = {}  # mean squares of the first network's inputs, by epoch

    def _prior(self) -> GroupSpikeSlab:
        p = self.params
        weights = {"inputs": self.model.weights[0]}
        if p.get("groups") == "every layer":  # as the code, which masks every matrix
            weights |= {f"units {k}": weight for k, weight in enumerate(self.model.weights[1:], 1)}
        return GroupSpikeSlab(
            weights,
            self.problem.spike,
            self.problem.slab,
            self.rows,
            soft_threshold=p["soft"],
            hard_threshold=p["hard"],
            batch_dims=1,
            when_empty="allow",  # what a training without warm-up does is measured, not refused
        )

    def kept(self) -> Tensor:
        """Boolean (R, inputs left): which inputs still have weights."""
        return self.model.weights[0].detach().abs().amax(dim=1) > 0

    def inputs(self) -> Tensor:
        """Boolean (R, p): the selected inputs."""
        return self.columns.spread(self.model.weights[0].detach()).abs().amax(dim=1) > 0

    def run(self, checkpoint: Checkpoint | None = None) -> Training:
        """Train to the last epoch; resumes bit for bit."""
        if state := checkpoint.load() if checkpoint else None:
            self.load_state_dict(state)
        begun, measured = time.perf_counter() - self.seconds, set(self.measured_epochs())
        if not self.trace:
            self._measure()
        last = self.params["epochs"] - self.params.get("spare", 0)
        while self.epoch < last:
            self._start_epoch()
            self._epoch()
            self.epoch += 1
            if self.epoch in measured or self.epoch == last:
                self._measure()
            if checkpoint and self.epoch % SAVE_EVERY == 0 and checkpoint.due():
                self.seconds = time.perf_counter() - begun
                checkpoint.save(self.state_dict())
        self.seconds = time.perf_counter() - begun
        return self

    def measured_epochs(self) -> list[int]:
        """Epochs after which the test error is measured."""
        return trace_epochs(self.params["epochs"])

    @torch.no_grad()
    def _start_epoch(self) -> None:
        if self.rule == "prior" and self.epoch > self.params["warm_up"]:
            self._keep_squares()
            self.prior.update()
            compact(self.columns, self.model, self.kept(), self.optimizer, self.prior)
        elif self.rule in ("magnitude", "lasso") and self.epoch == self.params["epochs"] // 2 - (self.rule == "lasso"):
            kept = self.kept()
            if self.rule == "magnitude":
                square = group_mean_square(self.model.weights[0], "input", 1)[:, 0]
                best = square.topk(self.problem.relevant, dim=1).indices
                kept = torch.zeros_like(kept).scatter_(1, best, True)
            self.model.weights[0].mul_(kept.unsqueeze(1))
            compact(self.columns, self.model, kept, self.optimizer)
            self.mask = self.kept().unsqueeze(1)

    def _keep_squares(self) -> None:
        """What the first E-step and two later ones see, for the chapter's picture of the threshold."""
        if self.epoch in (self.params["warm_up"] + 1, self.params["warm_up"] * 2, self.params["epochs"] - 1):
            weight = self.columns.spread(self.model.weights[0].detach())[0]
            self.squares[str(self.epoch)] = weight.square().mean(dim=0).cpu()

    def _epoch(self) -> None:
        first = self.model.weights[0]
        order = torch.randperm(self.rows, generator=self.generator, device=self.device)
        for batch, rows in enumerate(order.split(self.batch_size)):
            self.optimizer.param_groups[0]["lr"] = lr = self.learning_rate(batch)
            self._step(*self.columns.batch(rows))
            if self.mask is not None:
                with torch.no_grad():
                    first.mul_(self.mask)
            elif self.rule == "lasso":
                self._shrink(first, lr)

    def learning_rate(self, batch: int) -> float:
        """Of a batch of this epoch."""
        params = self.params
        return cyclic_lr(params["lr"], self.epoch, batch, params["epochs"], self.num_batches)

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        return mean_loss(self.model(x), y, self.problem.classify).sum()

    def _step(self, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad()
        self._loss(x, y).backward()
        self.optimizer.step()

    @torch.no_grad()
    def _shrink(self, first: Tensor, lr: float) -> None:
        """Proximal step of strength * sqrt(size) * norm, as long as the optimizer's own steps."""
        group = self.optimizer.param_groups[0]
        amount = lr * self.optimizer.initial_scale / (1.0 - group["momentum"])
        strength = self.strengths.to(first) if isinstance(self.strengths, Tensor) else self.strengths
        norms = torch.linalg.vector_norm(first, dim=1, keepdim=True)
        first.mul_((1.0 - amount * strength * first.shape[1] ** 0.5 / norms.clamp_min(1e-30)).clamp_min_(0.0))

    @property
    def strengths(self) -> float | Tensor:
        """Of the group lasso: a number, or one for each network."""
        value = self.params["strength"]
        return torch.tensor(value).view(-1, 1, 1) if isinstance(value, list) else value

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """Outputs (R, m) for other rows, (R, p, m)."""
        return self.model(self.columns.place(x))

    @torch.no_grad()
    def _measure(self) -> None:
        """Epoch, test error of every network, and its share of zeros in percent."""
        score = error_of(self.outputs(self.test_x), self.test_y, self.problem)
        if not bool(score.isfinite().any()):
            raise DivergedError(f"all networks have diverged by epoch {self.epoch}. Lower lr.", f"epoch {self.epoch}")
        self.trace.append(torch.stack([torch.full_like(score, self.epoch), score, self.zeros().to(score)]).cpu())

    @torch.no_grad()
    def fit(self) -> Tensor:
        """Mean squared error, or percent of right classes, on the training rows, shape (R,)."""
        outputs = []
        for rows in torch.arange(self.rows, device=self.device).split(BATCH_SIZE):
            outputs.append(self.model(self.columns.batch(rows)[0]))
        error = error_of(torch.cat(outputs, dim=1), self.columns.y.t(), self.problem)
        return (100.0 - error if self.problem.classify else error).cpu()

    def fit_name(self) -> str:
        return "accuracy_train" if self.problem.classify else "mse_train"

    def zeros(self) -> Tensor:
        """Percent of all parameters that are 0 because their input was removed, shape (R,)."""
        sizes = sizes_of(self.params)
        total = sum((a + 1) * b for a, b in pairwise(sizes))
        removed = sizes[0] - self.kept().sum(dim=1)
        return 100.0 * removed.double() * sizes[1] / total

    def state_dict(self) -> dict[str, Any]:
        """All that decides the rest of the training."""
        prior = None if self.prior is None else self.prior.state_dict()
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "prior": prior,
            "index": self.columns.index,
            "mask": self.mask,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "trace": self.trace,
            "squares": self.squares,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        first = self.model.weights[0]
        if state["index"].shape != self.columns.index.shape:
            self.columns.keep(state["index"])
            first.data = torch.empty_like(state["model"]["weights.0"], device=self.device)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.prior is not None:
            for kind, own in (("decay", self.prior.decay), ("masks", self.prior.masks)):
                own.update({name: value.to(self.device) for name, value in state["prior"][kind].items()})
        self.mask = None if state["mask"] is None else state["mask"].to(self.device)
        self.epoch, self.seconds = state["epoch"], state["seconds"]
        self.trace, self.squares = list(state["trace"]), dict(state["squares"])


def error_of(output: Tensor, y: Tensor, problem: Problem) -> Tensor:
    """Mean squared error, or percent of wrong classes, shape (R,)."""
    if problem.classify:
        return 100.0 * ((output > 0) != (y > 0.5)).double().mean(dim=1)
    return (output - y).square().mean(dim=1)
