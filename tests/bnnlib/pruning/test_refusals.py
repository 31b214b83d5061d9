"""Bad input of every part of the room is refused in words that name it."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib import pruning
from bnnlib.models import mlp
from tests.refused import refusals

MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.0067}
# of sizes (0, 3), for which PyTorch warns that there is nothing to initialize
pytestmark = pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")


def bayesian(layer=bnn.GaussianSpikeSlabLinear, sizes=(6, 8, 3), **options):
    return mlp(sizes, layer=layer, **({} if layer is not bnn.GaussianSpikeSlabLinear else MIXTURE | options))


def diverged():
    model = bayesian()
    model[2].weight.data[0, :2] = math.nan
    return model


def sparse():
    layer = nn.Linear(4, 5)
    layer.weight.data.fill_(1.0)[1:] = 0.0
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), layer)


def magnitude(parameters=None, **options):
    return pruning.MagnitudePruner(mlp((20, 30, 4)) if parameters is None else parameters, **options)


def reported(dense=None, rows=2, **options):
    model = mlp((4, 8, 3))
    return pruning.compression_report(model, dense or model, torch.ones(rows, 4), **options)


def lasso(strength=1.0, optimizer=torch.optim.SGD, **settings):
    model = mlp((4, 3, 2))
    lasso = pruning.GroupLasso(model, strength, **settings)
    lasso.on_step(SimpleNamespace(step=1, optimizer=optimizer(model.parameters())))


def masked(name, mask, model=None):
    return pruning.to_deterministic(model or bayesian(), {name: mask})


RAMP = {"final_sparsity": 0.9, "begin_step": 10, "end_step": 50}
REFUSED = [
    *[(lambda c=c: pruning.AGPPruner(mlp((2, 2)), **RAMP | c), next(iter(c)))
      for c in ({"final_sparsity": 1.2}, {"end_step": 10}, {"frequency": 0}, {"initial_sparsity": -0.1},
                {"begin_step": 1.5}, {"begin_step": -1}, {"end_step": 20.5})],
    (lambda: pruning.AGPPruner(mlp((2, 2)), **RAMP, initial_sparsity=0.95), "at least initial_sparsity = 0.95"),
    (lambda: lasso(-1.0), "strength is -1"),
    (lambda: lasso(layers=["0", "conv9"]), r"layers has 'conv9', but .* are 0, 2\."),
    (lambda: lasso(outputs="9"), "outputs has '9'"),
    (lambda: lasso(layers=[]), "layers is empty"),
    (lambda: pruning.GroupLasso(nn.ReLU(), 1.0), "ReLU has no linear or convolutional layer"),
    (lambda: pruning.GroupLasso(nn.ConvTranspose2d(2, 3, 3), 1.0), "units of a ConvTranspose2d"),
    *[(lambda m=m, of=of: of(m), words)
      for of in (pruning.Masks, lambda m: pruning.GroupLasso(m, 1.0))
      for m, words in ((nn.Sequential(nn.LazyLinear(3)), "0 is a LazyLinear .* no shape yet"),
                       (nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), "the model .* computed from others"),
                       (bayesian(), "0 is a GaussianSpikeSlabLinear .* posterior"))],
    *[(lambda k=k: lasso(optimizer=k), rf"needs torch\.optim\.SGD, .* not {k.__name__}")
      for k in (torch.optim.RMSprop, torch.optim.NAdam)],  # one has a momentum, the other Adam's state
    (lambda: magnitude({}), "no parameter is selected"),
    (lambda: magnitude(names=[]), "no parameter is selected"),
    (lambda: magnitude(nn.ReLU()), "nothing to prune"),
    (lambda: magnitude(names=["3.weight"]), "'3.weight', which no parameter fits.*0.weight"),
    *[(lambda m=m, n=n: magnitude(m, names=n), f"0 is a {kind} .* posterior: prune that")
      for m, n, kind in ((bayesian(), ["0.weight"], "GaussianSpikeSlabLinear"),
                         (bnn.to_bayesian(nn.Sequential(nn.LSTM(3, 2))), ["0.weight_hh_l0"], "BayesianLSTM"))],
    (lambda: magnitude(frequency=0), "frequency is 0"),
    (lambda: magnitude(scope="row"), "scope is 'row'"),
    (lambda: magnitude().prune(1.5), "sparsity is 1.5"),
    (lambda: magnitude().prune(math.nan), "sparsity is nan"),
    (lambda: pruning.smooth_sparsity(-1, 0.5), "step is -1"),
    (lambda: pruning.smooth_sparsity(1, 1.5), "final_sparsity"),
    (lambda: pruning.smooth_sparsity(1, 0.5, base=1.0), "base is 1"),
    (lambda: pruning.smooth_sparsity(1, 0.5, steps=0), "steps is 0"),
    (lambda: pruning.Masks(nn.ReLU()), "nothing to prune"),
    (lambda: pruning.Masks(mlp((2, 2)), "row"), "'row'"),
    (lambda: pruning.Masks(mlp((2, 2))).update(1.5), "sparsity"),
    (lambda: pruning.weight_scores(mlp((3, 2))), r"no weights to rank.*inclusion probability.*to_bayesian"),
    (lambda: pruning.weight_scores(mlp((3, 2)), "signal_to_noise"), r"no weights to rank.*posterior scale"),
    (lambda: pruning.weight_scores(nn.BatchNorm1d(3), "magnitude"), "linear or convolutional"),
    (lambda: pruning.weight_scores(bayesian(bnn.GaussianLinear)), "GaussianLinear, which has no inclusion probability"),
    (lambda: pruning.weight_scores(bayesian(bnn.HorseshoeLinear), "signal_to_noise"),
     "0 is a HorseshoeLinear, which has no posterior scale"),
    (lambda: pruning.weight_scores(bnn.SpikeSlabLinear(3, 2, prior_inclusion_probability=0.1), "signal_to_noise"),
     r"no posterior scale \(weight_rho is the scale of a weight that is in.*by='inclusion'\)"),
    (lambda: pruning.prune_ranked(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), 0.5, "magnitude"),
     "weight is computed from others.*remove_parametrizations"),
    (lambda: pruning.weight_scores(bayesian(), "size"), "'size', but it must be one of 'inclusion'"),
    (lambda: pruning.weight_scores(nn.Sequential(bnn.GaussianSpikeSlabLinear(0, 3, **MIXTURE))),
     r"0.weight is empty, of shape \(3, 0\)"),
    (lambda: pruning.weight_scores(diverged()), r"2 of 24 values of 2.weight are NaN.*diverged"),
    (lambda: pruning.global_masks({"a": torch.tensor([0.0, math.nan])}, 0.5), "1 of 2 values of a are NaN"),
    (lambda: pruning.global_masks({}, 0.5), "nothing to rank"),
    (lambda: pruning.rank_mask(torch.tensor([0.0, math.nan]), 0.5), "1 of 2 values of score are NaN"),
    (lambda: pruning.rank_mask(torch.zeros(2, 0), 0.5, 1), "score is empty"),
    *[(lambda s=s: pruning.prune_ranked(bayesian(), s), words) for s, words in (
        (1.0, "removes all 83 weights.*Give less than 0.99397"), (0.999, "removes all 83 weights"),
        (95, "sparsity is 95.*pass 0.95"), (-0.1, "sparsity is -0.1"), (math.nan, "sparsity is nan"))],
    (lambda: masked("1.weight", torch.ones(8, 6).bool()), r"masks has 1.weight, but Sequential has no"),
    (lambda: masked("0.weight", torch.ones(3, 8).bool()),
     r"mask of 0.weight is torch.bool of shape \(3, 8\).*shape \(8, 6\)"),
    (lambda: masked("0.weight", torch.ones(8, 6)), "must be torch.bool"),
    (lambda: masked("0.bias", torch.ones(2).bool(), bayesian(sizes=(3, 2), bias=False)),
     r"0.bias, but that layer has no bias"),
    (lambda: pruning.to_csr(sparse(), min_sparsity=0.9), r"sparsest layer, 2, has a share of 0\.8 zeros"),
    (lambda: pruning.to_csr(nn.Linear(3, 2), min_sparsity=90), "min_sparsity is 90"),
    (lambda: reported(repeats=0), "repeats is 0"),
    (lambda: reported(batches=(0,)), "batches is 0"),
    (lambda: reported(rows=0), r"example has shape \(0, 4\)"),
    (lambda: reported(runtimes=["tflite"]), "runtimes is 'tflite'"),
    (lambda: reported(mlp((4, 8, 8, 3))), "has the layers 0, 2, the compressed one 0, 2, 4"),
    *[(lambda s=s: pruning.compress(nn.Linear(3, 2), torch.ones(s)), "must be rows of inputs") for s in ((3,), (0, 3))],
    (lambda: pruning.compress(nn.Sequential(nn.Conv2d(1, 2, 3), bnn.StructuredBayesianPruning(6, dim=2)),
                      torch.ones(2, 1, 8, 8)), "1 has noise along dimension 2"),
]  # fmt: skip
test_bad_input_is_refused = refusals(REFUSED)
