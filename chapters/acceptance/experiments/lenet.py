"""A reduced LeNet on MNIST: a factorized Gaussian over its weights, learned by VI and by the bound (15).

The slides of the authors show "Reduced LeNet-5", 200 epochs, VI beside the bound with points of the posterior from
Metropolis-Hastings. Ours has 6 and 16 channels and no hidden dense layer; the prior is N(0, 1); both the gradient and
the acceptance test take the likelihood of a mini-batch, scaled to the whole set. The term -E log q of the bound weighs
on the entropy that VI pays for: "No entropy", VI without that term and without any chain, tells whether this alone
explains a difference. "Adam" is the network alone, with the same prior as weight decay.
"""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bnnlib import metrics
from bnnlib.functional import acceptance_probability, log_acceptance_ratio, symmetric_kl_loss
from bnnlib.sampling import DiagonalGaussian
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of
from chapters.shared.images import load_images, reads
from chapters.shared.stages import Stages
from chapters.shared.training import falling_late

METHODS = ("VI", "Symmetric KL", "No entropy", "Adam")
SHAPES = {"conv1": (6, 1, 5, 5), "bias1": (6,), "conv2": (16, 6, 5, 5), "bias2": (16,), "fc": (10, 256), "bias3": (10,)}
NUM_WEIGHTS = sum(torch.Size(shape).numel() for shape in SHAPES.values())


def logits(weights: Tensor, x: Tensor) -> Tensor:
    """Outputs (n, 10) of the network whose weights, flat, are `weights` (5142,), for images (n, 1, 28, 28)."""
    parts = dict(zip(SHAPES, weights.split([torch.Size(shape).numel() for shape in SHAPES.values()]), strict=True))
    parts = {name: part.view(SHAPES[name]) for name, part in parts.items()}
    x = F.relu(F.max_pool2d(F.conv2d(x, parts["conv1"], parts["bias1"]), 2))
    x = F.relu(F.max_pool2d(F.conv2d(x, parts["conv2"], parts["bias2"]), 2))
    return F.linear(x.flatten(1), parts["fc"], parts["bias3"])


def schedules(cell: Cell) -> dict[str, Any]:
    """What changes on the way of a cell, for its probe."""
    epochs = cell.params["epochs"]
    return {"learning rate": (partial(falling_late, steps=epochs), range(epochs))}


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Train one proposal, and average the predictions of its draws on the test images."""
    (replicate,), params = cell.replicates, cell.params
    data = load_images(params, device)
    x, y = data["train"]
    density = _start(params["scale"], replicate).to(device)
    generator = torch.Generator(device).manual_seed(78_000 + replicate)
    optimizer = torch.optim.Adam(density.parameters(), lr=params["learning_rate"])
    stages = Stages(checkpoint)
    state: dict[str, Any] = {"position": density.mean.detach()[None].clone(), "accepted": [], "nll": []}
    last = stages.load()
    if last is not None:
        density.load_state_dict(last["density"])
        optimizer.load_state_dict(last["optimizer"])
        generator.set_state(last["generator"])
        state = last["state"]
    for epoch in range(len(state["nll"]), params["epochs"]):
        for group in optimizer.param_groups:
            group["lr"] = params["learning_rate"] * falling_late(epoch, params["epochs"])
        state = _epoch(cell.method, density, optimizer, state, x, y, params["batch_size"], generator)
        kept = {"density": density.state_dict(), "optimizer": optimizer.state_dict(), "state": state}
        stages.save(kept | {"generator": generator.get_state()})
    sd = density.scale.detach()
    values = _tested(density, *data["test"], params["repeats"] if cell.method != "Adam" else 1, generator)
    if cell.method != "Adam":
        values |= {"weight_sd": sd.median().item(), "entropy_per_weight": sd.log().mean().item()}
    if cell.method == "Symmetric KL":
        values["acceptance"] = 100.0 * state["accepted"][-1]
    return CellResult(rows_of(cell, values), {"nll": torch.tensor(state["nll"]).numpy()})


def _start(scale: float, replicate: int) -> DiagonalGaussian:
    """The proposal around PyTorch's own first weights."""
    generator = torch.Generator().manual_seed(77_000 + replicate)
    parts, fan_in = [], 1
    for shape in SHAPES.values():
        if len(shape) > 1:
            fan_in = torch.Size(shape[1:]).numel()
        parts.append((2.0 * torch.rand(torch.Size(shape).numel(), generator=generator) - 1.0) / fan_in**0.5)
    density = DiagonalGaussian(NUM_WEIGHTS, scale)
    density.mean.data.copy_(torch.cat(parts))
    return density


def _epoch(method, density, optimizer, state, x: Tensor, y: Tensor, batch_size: int, generator) -> dict[str, Any]:
    """One pass over the images; one proposed point, and one step of the chain, for each mini-batch."""
    position, rates, losses = state["position"], [], []
    for rows in torch.randperm(len(x), generator=generator, device=x.device).split(batch_size):
        images, labels = x[rows], y[rows]

        def log_prob(weights: Tensor, images=images, labels=labels) -> Tensor:
            likelihood = -len(x) * F.cross_entropy(logits(weights, images), labels)
            losses.append(likelihood.detach() / -len(x))
            return likelihood - 0.5 * weights.square().sum()

        if method == "Adam":
            loss = -log_prob(density.mean)
        else:
            offered, log_q = density.rsample_with_log_prob(1, generator)
            log_p = log_prob(offered[0])
            loss = -log_p if method == "No entropy" else log_q[0] - log_p
        if method == "Symmetric KL":
            with torch.no_grad():
                here = log_prob(position[0])
                losses.pop()
            log_ratio = log_acceptance_ratio(here, log_p, log_q[0], density.log_prob(position)[0])
            loss = symmetric_kl_loss(log_ratio)
            uniform = torch.rand((), generator=generator, device=x.device)
            taken = uniform.log() < log_ratio.detach()
            position = torch.where(taken, offered.detach(), position)
            rates.append(acceptance_probability(log_ratio.detach()))
        optimizer.zero_grad()
        (loss / len(x)).backward()
        optimizer.step()
    accepted = [torch.stack(rates).mean().item()] if rates else []
    nll = torch.stack(losses).mean().item()
    return {"position": position, "accepted": state["accepted"] + accepted, "nll": state["nll"] + [nll]}


@torch.no_grad()
def _tested(density, x: Tensor, y: Tensor, repeats: int, generator) -> dict[str, float]:
    """Accuracy and NLL of the average of `repeats` draws; of the mean weights if that is 1."""
    draws = density.rsample(repeats, generator) if repeats > 1 else density.mean[None]
    probabilities = torch.stack([torch.cat([logits(w, part).softmax(1) for part in x.split(2000)]) for w in draws])
    average = probabilities.mean(dim=0)
    return {"accuracy": metrics.accuracy(average, y), "nll": metrics.nll(average, y)}


def _cells(data: str, seeds: int, epochs: int, batch_size: int, repeats: int) -> list[Cell]:
    params = {"data": data, "held_out": 0, "scaling": "unit", "shape": [1, 28], "epochs": epochs, "repeats": repeats}
    params |= {"batch_size": batch_size, "learning_rate": 1e-3, "scale": 0.02}
    return [Cell("reduced LeNet", method, (seed,), params) for seed in range(seeds) for method in METHODS]


EXPERIMENTS = [
    Experiment(
        name="mh-lenet",
        summary="A reduced LeNet on MNIST: Gaussian weights by VI and by the bound of the acceptance rate",
        profiles=profiles(
            _cells, smoke=("digits", 1, 2, 64, 3), book=("mnist", 3, 6, 128, 20), paper=("mnist", 5, 200, 128, 100)
        ),
        run_cell=run_cell,
        reads=reads,
        schedules=schedules,
        tiny={"data": "digits", "epochs": 2, "repeats": 2, "batch_size": 512},
        unavailable={"paper": "not run: no GPU"},
        budget=epochs_of,
    )
]
