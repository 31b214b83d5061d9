"""Does a Markov proposal that is learned by the acceptance rate end where it proposes the chain's own point?

Written down before the runs. The proposal is N(k x + m(x), diag s(x)^2) with a small network for m and log s and a
number k; it begins as one of these, and all it has is learned:

independent start   k = 0 and s = 3: it proposes anywhere, and can learn to look at x
random-walk start   k = 1 and s = 1: it begins as a random walk
without x           k = 0, and the network sees zeros: it cannot collapse; the control

Points x are exact draws of the target, so that no chain can fail. Targets are the six Gaussians of `mh-six-gaussians`
(none of these proposals can be that target, so that no independent one is accepted always), and one standard Gaussian
(where an independent one is). Objectives are the rate and its bound, which has the same trivial solution.

"step_share" is the mean length of a proposed step in percent of the mean distance of two exact points. A random walk
within one of the six Gaussians, with its standard deviation, would have about 10. "acceptance" is the rate at exact
points, "mode_changes" the share of steps that are accepted and end at another mode, both in percent.

What an outcome means:

1. Learned by the rate from the random walk on the six Gaussians, a run has steps below 5, and no run of the control
   has: the rate can end in the trivial solution, as claimed. One start that does it is enough for a claim of what can
   happen; the other start and the other target tell how common it is, and no claim reads them.
2. No run has: it does not end there within these steps.
3. The control has: the measure is at fault.

A trial of 60 steps, the smoke profile, was seen before the run: it had steps below 5 there.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib.functional import acceptance_probability, acceptance_rate_loss, log_acceptance_ratio, symmetric_kl_loss
from bnnlib.sampling.kernels import LogProb
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from chapters.acceptance.experiments.minibatches import falling, schedules
from chapters.acceptance.targets import draw_six_gaussians, nearest_mode, six_gaussians

LOSSES = {"Acceptance rate": acceptance_rate_loss, "Symmetric KL": symmetric_kl_loss}
STARTS = {"independent start": (0.0, 3.0), "random-walk start": (1.0, 1.0), "without x": (0.0, 3.0)}
EXACT = 20_000  # points that the measures are taken over


def standard_gaussian(point: Tensor) -> Tensor:
    """Log density of N(0, I) up to a constant, shape (count,)."""
    return -0.5 * point.square().sum(dim=1)


def draw_standard_gaussian(count: int, generator: torch.Generator) -> Tensor:
    """Its points (count, 2)."""
    return torch.randn(count, 2, generator=generator)


TARGETS = {
    "six Gaussians": (six_gaussians, draw_six_gaussians),
    "one Gaussian": (standard_gaussian, draw_standard_gaussian),
}


class MarkovGaussian(nn.Module):
    """N(k x + m(x), diag s(x)^2) in the plane; `looks` says whether it sees x."""

    def __init__(self, keep: float, scale: float, hidden: int, looks: bool) -> None:
        super().__init__()
        self.keep, self.looks = nn.Parameter(torch.tensor(keep), requires_grad=looks), float(looks)
        last = nn.Linear(hidden, 4)
        nn.init.zeros_(last.weight)
        last.bias.data = torch.tensor([0.0, 0.0, math.log(scale), math.log(scale)])
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), last)

    def forward(self, given: Tensor) -> torch.distributions.Normal:
        """The law of the point that is proposed at each of `given` (count, 2)."""
        shift, log_scale = self.net(self.looks * given).chunk(2, dim=1)
        return torch.distributions.Normal(self.keep * given + shift, log_scale.exp())


def proposed(model: MarkovGaussian, log_prob: LogProb, here: Tensor, generator: torch.Generator):
    """Points x' ~ q(. | x) and log xi of the moves, with gradients."""
    law = model(here)
    there = law.loc + law.scale * torch.randn(here.shape, generator=generator)
    forward, backward = law.log_prob(there).sum(dim=1), model(there).log_prob(here).sum(dim=1)
    return there, log_acceptance_ratio(log_prob(here), log_prob(there), forward, backward)


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Learn one proposal, and measure its steps."""
    (replicate,), params = cell.replicates, cell.params
    target, start = cell.setting.split(", ")
    log_prob, draw = TARGETS[target]
    torch.manual_seed(79_500 + replicate)  # the network's first weights
    generator = torch.Generator().manual_seed(79_600 + replicate)
    model = MarkovGaussian(*STARTS[start], params["hidden"], looks=start != "without x")
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=params["learning_rate"])
    for step in range(params["steps"]):
        here = draw(params["batch_size"], generator)
        loss = LOSSES[cell.method](proposed(model, log_prob, here, generator)[1])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, params["clip"])
        for group in optimizer.param_groups:
            group["lr"] = params["learning_rate"] * falling(step, params["steps"])
        optimizer.step()
    return CellResult(rows_of(cell, _measured(model, target, generator)))


@torch.no_grad()
def _measured(model: MarkovGaussian, target: str, generator: torch.Generator) -> dict[str, Any]:
    log_prob, draw = TARGETS[target]
    here, other = draw(EXACT, generator), draw(EXACT, generator)
    there, log_ratio = proposed(model, log_prob, here, generator)
    accepted = acceptance_probability(log_ratio)
    found = {
        "step_share": 100.0 * ((there - here).norm(dim=1).mean() / (other - here).norm(dim=1).mean()).item(),
        "acceptance": 100.0 * accepted.mean().item(),
    }
    if target == "six Gaussians":
        found["mode_changes"] = 100.0 * (accepted * (nearest_mode(there) != nearest_mode(here))).mean().item()
    return found


def _cells(seeds: int, steps: int) -> list[Cell]:
    params = {"steps": steps, "batch_size": 256, "learning_rate": 3e-3, "clip": 10.0, "hidden": 64}
    return [
        Cell(f"{target}, {start}", method, (seed,), params)
        for target in TARGETS
        for start in STARTS
        for seed in range(seeds)
        for method in LOSSES
    ]


EXPERIMENTS = [
    Experiment(
        name="mh-markov",
        summary="A Markov proposal learned by the acceptance rate and by its bound: how long its steps are",
        profiles=profiles(_cells, smoke=(1, 60), book=(5, 3000)),
        run_cell=run_cell,
        schedules=schedules,
        tiny={"steps": 3, "batch_size": 32, "hidden": 8, "kind": lambda cell: cell.setting},
        budget=lambda cell: (cell.params["steps"], "steps"),
    )
]
