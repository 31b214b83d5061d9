"""The two baselines of the UCI table: Monte-Carlo dropout and probabilistic backpropagation."""

import math
from itertools import product

import torch
from torch import Tensor

from bnnlib.replicates import GaussianLikelihood, Layout, StackedMLP
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.closed_form.dropout import StackedDropout
from chapters.closed_form.experiments.uci_data import Splits, fit_splits, gaussian_scores, load_splits
from chapters.closed_form.pbp import StackedPBP
from chapters.shared.stages import Stages

NUM_DRAWS = 100


class _Decayed(GaussianLikelihood):
    """The likelihood plus an L2 penalty on the weights, the prior of Monte-Carlo dropout."""

    def __init__(self, model: StackedMLP, weight_decay: Tensor):
        super().__init__(model.replicates)
        self.weight, self.weight_decay = (
            (model.posterior.weight,),
            weight_decay,
        )  # a tuple, so that it is not registered

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return super().forward(output, target) + (self.weight_decay * self.weight[0].square()).sum()


def _fit(data: Splits, settings: list[tuple[float, float]], params: dict, device, seed: int, checkpoint):
    copies = len(settings) // data.train_x.shape[1]
    rate, decay = (torch.tensor(column, device=device).unsqueeze(1) for column in zip(*settings, strict=True))
    layout = Layout((data.train_x.shape[-1], params["hidden"], 1), len(settings))
    start = layout.kaiming_uniform(torch.Generator().manual_seed(70_000))
    model = StackedMLP(StackedDropout(layout, start, rate.cpu(), inputs=True)).to(device)
    noise = _Decayed(model, decay).to(device)
    fit_splits(model, noise, data, copies, params, torch.Generator(device).manual_seed(seed), checkpoint, 0.0)
    return model, noise


def run_dropout(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Gal and Ghahramani (2016): dropout rate and weight decay chosen on held-out rows by NLL, noise learned."""
    params, replicates = cell.params, len(cell.replicates)
    stages = Stages(checkpoint)
    candidates = [(float(a), float(b)) for a, b in product(params["probabilities"], params["weight_decays"])]
    if not stages.finished:
        data = load_splits(params["data"], cell.replicates, held_out=params["held_out"]).to(device)
        settings = [one for one in candidates for _ in range(replicates)]
        model, noise = _fit(data, settings, params, device, 74_000, stages)
        draws = model.predict(
            data.test_x.repeat(len(candidates), 1, 1), NUM_DRAWS, torch.Generator(device).manual_seed(75_000)
        ).unflatten(1, (len(candidates), replicates))
        scales = noise.scale().view(len(candidates), replicates)
        errors = [gaussian_scores(draws[:, c], scales[c], data)["nll_test"] for c in range(len(candidates))]
        stages.finish({"validation": torch.stack(errors).cpu()})
    chosen = stages.finished[0]["validation"].argmin(dim=0)
    data = load_splits(params["data"], cell.replicates).to(device)
    settings = [candidates[index] for index in chosen.tolist()]
    model, noise = _fit(data, settings, params, device, 76_000, stages)
    draws = model.predict(data.test_x, NUM_DRAWS, torch.Generator(device).manual_seed(77_000))
    found = gaussian_scores(draws, noise.scale(), data)
    found["dropout_probability"], found["weight_decay"] = torch.tensor(settings).unbind(dim=1)
    return CellResult(rows_of(cell, found))


def run_pbp(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Hernandez-Lobato and Adams (2015), as published: 40 epochs, one row at a time, nothing to choose."""
    params = cell.params
    data = load_splits(params["data"], cell.replicates).to(device)
    sizes = (data.train_x.shape[-1], params["hidden"], 1)
    model = StackedPBP(sizes, len(cell.replicates), generator=torch.Generator().manual_seed(78_000)).to(device)
    generator = torch.Generator(device).manual_seed(79_000)
    first_epoch, state = 0, checkpoint.load() if checkpoint else None
    if state:
        model.load_state_dict(state["model"])
        generator.set_state(state["generator"])
        first_epoch = state["epoch"] + 1

    def keep(model: StackedPBP, epoch: int) -> None:
        if checkpoint and checkpoint.due():
            checkpoint.save({"model": model.state_dict(), "generator": generator.get_state(), "epoch": epoch})

    epochs = params["epochs"]
    model.fit(data.train_x, data.train_y, epochs=epochs, generator=generator, first_epoch=first_epoch, after_epoch=keep)
    mean, variance = model.predict(data.test_x)
    log_density = -0.5 * (data.test_y - mean).square() / variance - 0.5 * torch.log(2.0 * math.pi * variance)
    return CellResult(rows_of(cell, {"rmse_test": data.rmse(mean), "nll_test": data.nll(log_density.squeeze(-1))}))
