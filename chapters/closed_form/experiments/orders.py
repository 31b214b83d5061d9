"""The lesson's own question to p*: is it a good order in which to remove weights?

The data of the lesson: 400 rows of ten inputs of which three matter, noise 0.3, and a network with two hidden layers of
16 tanh units, the Gaussian spike and slab (1, 0.05, 1/2), Adam at 0.01 in batches of 50. Every replicate has data and
first weights of its own. The settings differ in how long the network trains, and in whether its means begin at
PyTorch's own scale, where most are in the slab, or at a fifth of it, inside the spike.

One network is pruned in three orders. Those by p* and by |m| differ in one thing: the first ranks by m^2 + sigma^2,
the second by m^2. The error is that of the mean weights against the teacher without noise, on 2,000 new rows.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bnnlib import metrics
from bnnlib.pruning import rank_mask
from bnnlib.replicates import Layout, StackedGaussianSpikeSlab, StackedMLP, fit_stacked
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of

SIZES, NUM_SAMPLES, NUM_TEST, NOISE = (10, 16, 16, 1), 400, 2_000, 0.3
SLAB, SPIKE = 1.0, 0.05
SHARES = (0, 50, 60, 70, 80, 90, 95)  # percent
ORDERS = ("by p*", "by |m| / sigma", "by |m|")
SHORT, LONG, INSIDE = "300 epochs", "1,500 epochs", "1,500 epochs, begun in the spike"


def teacher(x: Tensor) -> Tensor:
    """The lesson's function of three of ten inputs, (..., 10) to (..., 1)."""
    return 2 * torch.tanh(2 * x[..., :1]) - 2 * x[..., 1:2] + x[..., 2:3] ** 2


def data_set(replicate: int) -> tuple[Tensor, Tensor, Tensor]:
    """(x, y, test_x) of one replicate, (400, 10), (400, 1) and (2000, 10)."""
    generator = torch.Generator().manual_seed(60_000 + replicate)
    x, test_x = (torch.randn(n, SIZES[0], generator=generator) for n in (NUM_SAMPLES, NUM_TEST))
    return x, teacher(x) + NOISE * torch.randn(NUM_SAMPLES, 1, generator=generator), test_x


def _known_noise(output: Tensor, target: Tensor) -> Tensor:
    return 0.5 * (output - target).square().sum() / (target.shape[1] * NOISE**2)


def trained(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> tuple[StackedMLP, Tensor]:
    """The trained networks of a cell, and their test inputs (R, 2000, 10)."""
    params = cell.params
    x, y, test_x = (torch.stack(part, dim=1) for part in zip(*map(data_set, cell.replicates), strict=True))
    layout = Layout(SIZES, len(cell.replicates))
    start = params["mean_scale"] * layout.kaiming_uniform(torch.Generator().manual_seed(61_000))
    model = StackedMLP(StackedGaussianSpikeSlab(layout, start, SLAB, SPIKE), "tanh").to(device)
    generator = torch.Generator(device).manual_seed(62_000)
    options = {name: params[name] for name in ("epochs", "batch_size", "learning_rate")}
    fit_stacked(
        model, x.to(device), y.to(device), loss=_known_noise, generator=generator, checkpoint=checkpoint, **options
    )
    return model, test_x.transpose(0, 1).to(device)


@torch.no_grad()
def run_orders(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Errors after pruning in each order; of the weights, how many are in the slab although they are mostly noise."""
    with torch.enable_grad():
        model, x = trained(cell, device, checkpoint)
    posterior = model.posterior
    mean, scale = posterior.mean(), softplus(posterior.weight_rho)
    odds = posterior.inclusion_log_odds()
    rows = []
    for order, score in zip(ORDERS, (odds, mean.abs() / scale, mean.abs()), strict=True):
        found = {}
        for percent in SHARES:
            weights = mean * rank_mask(score, percent / 100.0, batch_dims=1)
            output = model.propagate(posterior.layout.layers(weights), x)
            found[f"rmse_test_at_{percent}"] = metrics.rmse(output, teacher(x), dim=(1, 2))
        rows += rows_of(cell, found, method=order)
    shares = {"slab_share": odds > 0, "undetermined": (odds > 0) & (mean.abs() < scale)}
    shares = {name: 100.0 * found.double().mean(dim=1) for name, found in shares.items()}
    return CellResult(rows + rows_of(cell, shares, method=ORDERS[0]))


def _cells(replicates: int, scale: float = 1.0) -> list[Cell]:
    def cell(setting: str, epochs: int, mean_scale: float) -> Cell:
        params = {"epochs": max(2, round(scale * epochs)), "batch_size": 50, "learning_rate": 0.01}
        return Cell(setting, "one network", tuple(range(replicates)), params | {"mean_scale": mean_scale})

    return [cell(SHORT, 300, 1.0), cell(LONG, 1_500, 1.0), cell(INSIDE, 1_500, 0.2)]


EXPERIMENTS = [
    Experiment(
        name="sbnn-orders",
        summary="The lesson's network pruned in three orders: by p*, by signal-to-noise ratio and by magnitude",
        profiles=profiles(_cells, smoke=(2, 0.005), book=20, paper=100),
        run_cell=run_orders,
        tiny={"replicates": 2, "epochs": 2},
        sources=dict.fromkeys(ORDERS, "one network"),
        budget=epochs_of,
        unavailable={"paper": "not in the paper; the book profile is our own experiment"},
    )
]
