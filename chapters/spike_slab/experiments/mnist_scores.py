"""What the MNIST experiment measures: a held-out part, curves by epoch, test scores, the account of the objective."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib import metrics
from bnnlib.functional import spike_slab_kl
from bnnlib.nn.base import bayesian_layers, mean_weights, selected_weights
from bnnlib.nn.objective import kl_divergence, percent_active
from bnnlib.nn.predict import predict
from bnnlib.nn.sparse_vd import SparseVDLinear
from bnnlib.nn.spike_slab import SpikeSlabLinear
from bnnlib.train.fit import Run
from book.lab.cells import Cell
from chapters.shared.images import Split, held_out_parts
from chapters.shared.training import EpochRows

NUM_DRAWS = 30  # of the predictive distribution


def load_split(params: dict[str, Any], device: torch.device) -> Split:
    """Rows for training, validation and test; which rows are held out does not depend on the replicate."""
    parts = held_out_parts(params["data"], params["held_out"])
    scale = float(parts["train"][0].max())  # the digits of scikit-learn run to 16
    return {name: ((x / scale).flatten(1).to(device), y.to(device)) for name, (x, y) in parts.items()}


def reads(cell: Cell) -> list[partial]:
    """The call of `load_split` that a cell makes, for its probe."""
    return [partial(load_split, {name: cell.params[name] for name in ("data", "held_out")}, torch.device("cpu"))]


class Curves(EpochRows):
    """Accuracy and active share after every epoch, with the mean weights."""

    def __init__(self, data: Split, active) -> None:
        super().__init__()
        self.data, self.active = data, active

    def on_epoch(self, run: Run) -> None:
        found = [mean_accuracy(run.model, *self.data[part]) for part in ("validation", "test")]
        self.rows.append([float(run.epoch), *found, self.active()])

    def array(self, with_test: bool) -> Tensor:
        """Columns epoch, validation accuracy, test accuracy (NaN without `with_test`) and active share, in percent."""
        table = torch.tensor(self.rows)
        if not with_test:
            table[:, 2] = torch.nan
        return table


@torch.no_grad()
def mean_accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Accuracy in percent with the mean weights; the model stays in its mode."""
    training = model.training
    model.eval()
    if any(isinstance(module, (SpikeSlabLinear, SparseVDLinear)) for module in model.modules()):
        with mean_weights(model):
            output = model(x)
    else:
        output = model(x)
    model.train(training)
    return metrics.accuracy(output, y)


def probabilities(model: nn.Module, x: Tensor, generator: torch.Generator) -> Tensor:
    """Class probabilities averaged over posterior draws, shape (n, classes)."""
    return predict(model, x, NUM_DRAWS, 2048, generator).softmax(dim=-1).mean(dim=0)


def scores(predicted: Tensor, y: Tensor) -> dict[str, float]:
    """Accuracy and calibration of predicted probabilities (n, classes)."""
    return {
        "accuracy": metrics.accuracy(predicted, y),
        "nll": metrics.nll(predicted, y),
        "ece": metrics.ece(predicted, y),
        "brier": metrics.brier(predicted, y),
    }


@torch.no_grad()
def final_scores(model: nn.Module, data: Split, generator: torch.Generator) -> dict[str, float]:
    """Test scores of the predictive distribution, of the mean weights, and of the selected network."""
    x, y = data["test"]
    found = scores(probabilities(model, x, generator), y)
    found["accuracy_mean_weights"] = mean_accuracy(model, x, y)
    with selected_weights(model):
        found["accuracy_selected"] = metrics.accuracy(model(x), y)
    masks = [mask for layer in bayesian_layers(model) for mask in layer.active()]
    selected = 100.0 * sum(int(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks)
    # the papers' word for the percentage of active weights, which the library calls percent_active
    return found | {"sparsity": percent_active(model), "sparsity_selected": selected}


@torch.no_grad()
def elbo_account(model: nn.Module, data: Split, generator: torch.Generator) -> dict[str, float]:
    """The exact objective in nats: what the data cost, what the weights cost, and what no network at all would cost."""
    x, y = data["train"]
    # the expected log-likelihood under the posterior, over 5 draws of the whole network
    draws = predict(model, x, 5, 2048, generator)
    data_nats = float(sum(nn.functional.cross_entropy(draw, y, reduction="sum").double() for draw in draws)) / len(
        draws
    )
    kl = float(kl_divergence(model))
    costs = []
    for layer in bayesian_layers(model):
        for name in ("weight", "bias"):
            mean, rho, logit = (getattr(layer, name + suffix) for suffix in ("", "_rho", "_logit"))
            prior = (layer.prior_inclusion_probability, layer.prior_scale)
            each = spike_slab_kl(mean.double(), nn.functional.softplus(rho.double()), logit.double(), *prior)
            costs.append(each[logit > 0])
    costs = torch.cat(costs)
    found = {
        "nll_train_nats": data_nats,
        "nll_null_nats": len(y) * math.log(int(y.max()) + 1),
        "kl_nats": kl,
        "negative_elbo_nats": data_nats + kl,
    }
    return found | ({"kl_per_active_weight": float(costs.mean())} if len(costs) else {})
