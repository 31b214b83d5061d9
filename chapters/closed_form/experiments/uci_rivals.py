"""The two sparse rivals of Table 3: the Dirac spike and slab (SVBNN, chapter 3) and the horseshoe network (HS-BNN).

The paper copies their numbers from the literature. Ours train as our sBNN does, with the same epochs, batches, learned
noise and splits, and choose on held-out rows of the training part as well: the weight of the divergence, 1 or 0.1, by
the error of all splits together. The prior inclusion probability of SVBNN is the one that its theory gives; slab and
output scales are 1, in standardized units.
"""

import torch

from bnnlib.functional import inclusion_probability_for
from bnnlib.replicates import GaussianLikelihood, Layout, StackedHorseshoe, StackedMLP, StackedSpikeSlab
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, rows_of
from chapters.closed_form.experiments.uci_data import Splits, fit_splits, gaussian_scores, load_splits
from chapters.shared.stages import Stages

NUM_DRAWS = 100
KL_SCALES = (1.0, 0.1)
METHODS = ("SVBNN", "HS-BNN")


def network(method: str, data: Splits, hidden: int) -> StackedMLP:
    """Untrained networks, one for each split.

    Args:
        method: "SVBNN" or "HS-BNN".
        data: gives the number of splits, rows and inputs.
        hidden: units of the one hidden layer.
    """
    rows, splits, inputs = data.train_x.shape
    layout = Layout((inputs, hidden, 1), splits)
    start = layout.kaiming_uniform(torch.Generator().manual_seed(70_000))
    if method == "HS-BNN":
        return StackedMLP(StackedHorseshoe(layout, start))
    return StackedMLP(StackedSpikeSlab(layout, start, inclusion_probability_for(layout.sizes, rows)))


def _scores(cell: Cell, data: Splits, kl_scale: float, seed: int, device, checkpoint) -> dict[str, torch.Tensor]:
    model = network(cell.method, data, cell.params["hidden"]).to(device)
    noise = GaussianLikelihood(len(cell.replicates)).to(device)
    generator = torch.Generator(device).manual_seed(seed)
    fit_splits(model, noise, data, 1, cell.params, generator, checkpoint, kl_scale)
    draws = model.predict(data.test_x, NUM_DRAWS, torch.Generator(device).manual_seed(seed + 1))
    return gaussian_scores(draws, noise.scale(), data) | {"active": model.posterior.percent_active()}


def run_rival(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Search on held-out rows, then the chosen weight of the divergence on all training rows."""
    params, stages = cell.params, Stages(checkpoint)
    scales = [float(one) for one in params["kl_scales"]]
    for k in range(len(stages.finished), len(scales)):
        data = load_splits(params["data"], cell.replicates, held_out=params["held_out"]).to(device)
        found = _scores(cell, data, scales[k], 80_000 + 10 * k, device, stages)
        # splits of one set have targets of nearly one scale
        stages.finish({"validation": found["rmse_test"].double().mean().cpu()})
    errors = torch.stack([stage["validation"] for stage in stages.finished])
    best = scales[int(errors.argmin())]
    data = load_splits(params["data"], cell.replicates).to(device)
    found = _scores(cell, data, best, 81_000, device, stages)
    found["kl_scale"] = torch.full((len(cell.replicates),), best)
    return CellResult(rows_of(cell, found))
