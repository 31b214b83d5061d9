"""Bad input of every part of `bnnlib.nn` is refused in words that say what was given and what to do."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm

from bnnlib import nn as bnn
from bnnlib.models import mlp
from chapters.shared.networks import lenet5_caffe
from tests.refused import refusals

NAN, INF = math.nan, math.inf
MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.1, "prior_inclusion_probability": 0.5}
SPIKE_SLAB = {"prior_inclusion_probability": 0.1, "prior_scale": 1.0, "temperature": 0.5}
SCALES, COINS = (0.0, -2.0, NAN, INF), (0.0, 1.0, -0.1, NAN)
ABOVE, STRICT = "finite and above 0", "strictly between 0 and 1"
PLAIN, NOISE = nn.Linear(2, 2), bnn.StructuredBayesianPruning


def images():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))


def bayesian(*sizes):
    return bnn.to_bayesian(mlp(sizes or (5, 4, 2)))


def batches(rows=5, inputs=3, kind=bnn.StochasticBatchNorm1d):
    return kind(3)(torch.randn(rows, inputs))


def statistics():
    return bnn.to_stochastic_batch_norm(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))


def x(*shape):
    return torch.randn(*(shape or (6, 5)))


def settings(kind, start, names, bads, words, shapes=("Linear", "Conv2d")):
    """Each bad value of each setting of a new layer, linear and convolutional."""
    layers = [(getattr(bnn, kind + s), (2, 2, 3)[: 2 if s == "Linear" else 3]) for s in shapes]
    return [(lambda la=la, si=si, n=n, b=b: la(*si, **{**start, n: b}), rf"{n} is .*{words}")
            for la, si in layers for n in names for b in bads]  # fmt: skip


class Two(nn.Sequential):
    def forward(self, x):
        return super().forward(x), x


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.head = nn.Linear(4, 4), nn.Linear(4, 4)
        self.head.weight = self.read.weight

    def forward(self, x):
        return self.head(self.read(x))


def laplace(model=None, data=None, **options):
    return bnn.to_laplace(model or mlp((4, 5, 3)), data or (x(6, 4), torch.arange(6) % 3), **options)


def noisy(model=None, **places):
    return bnn.insert_unit_noise(model or lenet5_caffe(), **places)


def shared():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


def entered(context, model):
    with context(model):
        pass


PREDICTIONS = {
    "predict": lambda rows=6, **k: bnn.predict(bayesian(), x(rows, 5), **k),
    "ensemble": lambda rows=6, **k: bnn.predict_ensemble([mlp((5, 2))], x(rows, 5), **k),
    "dropout": lambda rows=6, **k: bnn.predict_dropout(nn.Sequential(nn.Dropout(), PLAIN), x(rows, 2), **k),
    "virtual batch": lambda rows=6, **k: bnn.predict_virtual_batch(statistics(), x(rows, 3), **k),
}
NO_STATISTICS = "Linear has no stochastic batch norm"

REFUSED = {
    "conversion": [
        (lambda: bnn.to_bayesian(images(), "laplace"),
         "layer is 'laplace', but it must be one of 'gaussian', 'gaussian_spike_slab'"),
        (lambda: bnn.to_bayesian(images(), unsupported="error"), r"1 \(BatchNorm2d\)"),
        (lambda: bnn.to_bayesian(images(), "horseshoe", unsupported="error"), r"0 \(Conv2d\), 1 \(BatchNorm2d\)"),
        (lambda: bnn.to_bayesian(images(), unsupported="skip"), "unsupported is 'skip'"),
        (lambda: bnn.to_bayesian(nn.Sequential(nn.ReLU())), "no layer to convert"),
        (lambda: bnn.GaussianLinear.from_deterministic(prune.l1_unstructured(nn.Linear(3, 2), "weight", 0.5)),
         r"weight parameter of its own.*prune.remove", TypeError),
        (lambda: bnn.GaussianLinear.from_deterministic(nn.Conv2d(1, 1, 1)), "not Conv2d", TypeError),
        *[(lambda m=m: bnn.to_bayesian(m(), "horseshoe", unsupported="keep"), words) for m, words in (
            (lambda: bnn.GaussianLinear(2, 3), r"the model itself \(GaussianLinear\): Bayesian already"),
            (lambda: weight_norm(nn.Linear(2, 3)), r"Linear\), .*remove_parametrizations makes"),
            (lambda: prune.l1_unstructured(nn.Linear(2, 3), "weight", 0.5), "a hook computes its weight"),
            (nn.ReLU, "none of its modules has parameters"))],
        *[(lambda s=s: bnn.to_bayesian(PLAIN, where=lambda name, module: False, **s), "not accepted by `where`")
          for s in ({}, {"layer": "sparse_vd", "parameters": ["weight"]})],
        (lambda: bnn.to_bayesian(nn.Sequential(nn.LazyLinear(3))), r"0\.weight of the model has no shape yet\. Run"),
        (lambda: bnn.to_bayesian("x"), r"model is 'x', but it must be a torch\.nn\.Module", TypeError),
    ],
    "modes and objective": [
        *[(lambda v=v: bnn.GaussianLinear(2, 2, prior_scale=v), rf"prior_scale has shape \({n}\), but it must be one")
          for n, v in (("2,", torch.ones(2)), ("0,", torch.ones(0)))],
        (lambda: bnn.SpikeSlabLinear(2, 2, **SPIKE_SLAB | {"prior_inclusion_probability": torch.full((2, 2), 0.1)}),
         r"prior_inclusion_probability has shape \(2, 2\), but it must be one number"),
        (lambda: setattr(bnn.GaussianLinear(2, 2), "weight_mode", "avarage"),
         "weight_mode is 'avarage', but it must be one of 'sample', 'mean', 'selected'"),
        *[(lambda c=c: entered(c, PLAIN), r"Linear has no Bayesian layers.*to_bayesian")
          for c in (bnn.mean_weights, bnn.selected_weights, bnn.held_weights)],
        *[(lambda f=f: f(PLAIN), "no Bayesian layers")
          for f in (bnn.kl_divergence, bnn.kl_gradient, bnn.percent_active)],
        *[(lambda layer=layer: layer(torch.randn(1, 3, device="meta"), torch.Generator()),
           r"generator lives on cpu, but the weights are on meta.*torch.Generator")
          for layer in (bnn.GaussianLinear(3, 2, device="meta"), NOISE(3, device="meta"))],
        *[(lambda g=g: bnn.predict(bayesian(), x(), generator=g), "generator is .*, but it must be a torch.Generator")
          for g in (3, np.random.default_rng(0))],
        (lambda: bnn.elbo_loss(torch.ones(3), bayesian(), 10), r"nll_mean is of shape \(3,\).*reduction='mean'"),
        (lambda: bnn.elbo_loss(1.0, bayesian(), 10), "nll_mean is a float"),
        (lambda: bnn.elbo_loss(torch.tensor(1.0), bayesian(), 0), "num_data is 0"),
        (lambda: bnn.elbo_loss(torch.tensor(1.0), bayesian(), 10, kl_scale=-0.5), "kl_scale is -0"),
        (lambda: bnn.minibatch_weights(0), "num_batches is 0"),
        (lambda: bnn.minibatch_weights(3, "half"), "scheme is 'half', but it must be one of 'uniform', 'halving'"),
    ],
    "predictions": [
        *[(lambda f=f, n=n: f(**{n: 0}), f"{n} is 0")
          for f in PREDICTIONS.values() for n in ("num_samples", "chunk_size")],
        (lambda: PREDICTIONS["predict"](chunk_size=-1), "chunk_size is -1"),
        *[(lambda f=f: f(rows=0), r"at least one row|has shape \(0, 5\)") for f in PREDICTIONS.values()],
        (lambda: PREDICTIONS["predict"](draws_at_once=0), "draws_at_once is 0"),
        (lambda: PREDICTIONS["predict"](draws_at_once="all"), "'all', but it must be a number of draws, or 'auto'"),
        (lambda: PREDICTIONS["virtual batch"](), "moments of 0 batches"),
        (lambda: bnn.predict(PLAIN, x(6, 2)), "no Bayesian layers"),
        (lambda: bnn.predict(Two(*bayesian()), x(7, 5), 2), "tuple for 7 rows", TypeError),
        (lambda: bnn.predict_ensemble([], x()), "models is empty"),
        (lambda: bnn.predict_ensemble([nn.Flatten(0)], x()), "a row for each input", TypeError),
        (lambda: bnn.predict_dropout(nn.Sequential(PLAIN), x(6, 2)), "Sequential has no dropout layer"),
        (lambda: bnn.predict_virtual_batch(PLAIN, x(6, 2)), NO_STATISTICS),
    ],
    "settings": [
        *settings("Gaussian", {}, ("prior_scale", "initial_scale"), SCALES, ABOVE),
        *settings("Gaussian", {}, ("estimator",), ("lrt",), "must be one of 'weight', 'local', 'flipout'"),
        *settings("GaussianSpikeSlab", MIXTURE, ("spike_scale",), (1.0, 2.0),
                  "slab_scale 1, but the spike must be narrower"),
        *settings("GaussianSpikeSlab", MIXTURE, ("estimator",), ("lrt",), "must be one of"),
        *[case for kind in ("GaussianSpikeSlab", "ScaleMixture") for case in (
            *settings(kind, MIXTURE, ("slab_scale", "spike_scale", "initial_scale"), SCALES, ABOVE),
            *settings(kind, MIXTURE, ("prior_inclusion_probability",), COINS, STRICT))],
        *settings("SpikeSlab", SPIKE_SLAB, ("prior_inclusion_probability", "initial_inclusion_probability"), COINS,
                  STRICT),
        *settings("SpikeSlab", SPIKE_SLAB, ("prior_scale", "initial_scale", "temperature"), SCALES, "above 0"),
        *settings("SparseVD", {}, ("threshold",), (NAN,), ""),
        *settings("SparseVD", {}, ("initial_scale",), SCALES, "above 0"),
        *settings("Horseshoe", {}, ("unit_scale", "layer_scale", "initial_scale", "threshold"), SCALES, "above 0",
                  ["Linear"]),
        *[(lambda n=n, v=v: setattr(bnn.GaussianSpikeSlabLinear(2, 2, **MIXTURE), n, v), "the spike must be narrower")
          for n, v in (("slab_scale", 0.05), ("spike_scale", 1.0))],
        *[(lambda k=k: k(2, 2), needed, TypeError) for k, needed in (  # settings without a default
            (bnn.GaussianSpikeSlabLinear, "slab_scale"), (bnn.ScaleMixtureLinear, "slab_scale"),
            (bnn.SpikeSlabLinear, "prior_inclusion_probability"))],
        (lambda: bnn.ScaleMixtureLinear(2, 2, estimator="local", **MIXTURE), "estimator", TypeError),
        (lambda: bnn.GaussianLinear(2, 3, prior_sale=1.0), "prior_sale", TypeError),
    ],
    "batch statistics": [
        *[(lambda k=k: bnn.to_stochastic_batch_norm(nn.Sequential(nn.BatchNorm2d(2), nn.Sequential(k(2)))),
           rf"1\.0 \({k.__name__}\) has no stochastic form: only BatchNorm1d")
          for k in (nn.BatchNorm3d, nn.SyncBatchNorm)],
        (lambda: bnn.to_stochastic_batch_norm(nn.Sequential(nn.BatchNorm2d(2, track_running_stats=False))),
         r"0 \(BatchNorm2d\) cannot be converted: .*track_running_stats=False"),
        (lambda: bnn.to_stochastic_batch_norm(PLAIN), "Linear has no BatchNorm1d or BatchNorm2d"),
        (lambda: bnn.match_moments(PLAIN, [x()]), NO_STATISTICS),
        (lambda: bnn.StochasticBatchNorm1d.from_deterministic(nn.BatchNorm2d(2)),
         r"replaces a plain nn\.BatchNorm1d, not BatchNorm2d", TypeError),
        (lambda: batches(1), r"the batch has shape \(1, 3\): 1 value a feature"),
        (lambda: batches(kind=bnn.StochasticBatchNorm2d), "expected 4D input"),
        (lambda: batches(inputs=5), "input has 5 features, but the layer normalizes 3"),
        *[(lambda n=n, b=b: bnn.StochasticBatchNorm2d(3, **{n: b}), f"{n} is {b!r}, but it must be one of")
          for n, b in (("statistic", "sigma"), ("draws", "row"))],
        (lambda: setattr(bnn.StochasticBatchNorm1d(3), "weight_mode", "running"), "weight_mode is 'running'"),
    ],
    "unit noise": [
        *[(lambda s=s: NOISE(**{"num_units": 3, **s}), words) for s, words in (
            ({"num_units": 0}, "num_units is 0"), ({"kl_weight": -1.0}, "kl_weight is -1"),
            ({"kl_weight": INF}, "kl_weight is inf"), ({"threshold": NAN}, "threshold is nan"),
            ({"lower": -0.5}, "at least 1 apart"), ({"upper": INF}, "at least 1 apart"),
            ({"initial_location": 5.5}, r"initial_location is 5\.5.*\[-20, 5\].*published start is 0"),
            ({"initial_location": -20.5}, r"initial_location is -20\.5"), ({"initial_location": NAN}, "ion is nan"),
            # beyond the clamp the gradient is 0: such a layer would never move
            *(({"initial_scale": v}, f"initial_scale is {v:g}") for v in (0.0, -1.0, 1e-9, 200.0)))],
        *[(lambda s=s, d=d: NOISE(6, d)(torch.zeros(s)), rf"input has shape .*dimension {d} must have 6 units")
          for s, d in (((4, 5), 1), ((6, 5), 1), ((6,), 1), ((6,), -2), ((), 0))],
        (lambda: NOISE(3)(torch.full((2, 3), 3)), r"input has type torch\.int64.*input\.float\(\)"),
        *[(lambda p=p: noisy(**p), words) for p, words in (
            ({}, r"no layer is named.*after=\[\.\.\.\] or before=\[\.\.\.\]"),
            ({"after": ["conv3"]}, r"no layer 'conv3'\. The model has conv1, pool1"), ({"after": [""]}, "no layer ''"),
            ({"after": ["relu1"]}, r"'relu1' is a ReLU.*units is not known.* 2-d convolution.*Pruning\(num_units"),
            ({"before": ["flatten"]}, "'flatten' is a Flatten"), ({"after": ["fc1", "fc1"]}, "names a layer twice"),
            ({"before": ["fc1", "fc1"]}, "names a layer twice"))],
        *[(lambda p=p: noisy(noisy(after=["conv2"], before=["fc1"]), **p), "noise")
          for p in ({"after": ["conv2"]}, {"before": ["fc1"]})],
        (lambda: noisy(shared(), before=["0"]), "2 places"),
        (lambda: noisy(nn.TransformerEncoderLayer(8, 2, 16), before=["linear2"]), r"linear2.*TransformerEncoderLayer"),
        (lambda: noisy(after=["conv2"], kl_wait=5.0), "kl_wait", TypeError),
        (lambda: noisy(after=["conv2"], threshold=NAN), "threshold is nan"),
        *[(lambda c=c, m=m: c(m()), words) for c in (bnn.unit_counts, bnn.percent_active_units) for m, words in (
            (lenet5_caffe, r"Sequential has no StructuredBayesianPruning layer.*insert_unit_noise"),
            (lambda: bnn.to_bayesian(PLAIN), "insert_unit_noise"))],
        (lambda: bnn.percent_active(nn.Sequential(PLAIN, NOISE(2))),
         r"no layer with random weights.*percent_active_units"),
    ],
    "laplace": [
        (lambda: laplace(likelihood="poisson"), "likelihood is 'poisson'"),
        (lambda: laplace(noise_scale=1.0), "labels have none"),
        (lambda: laplace(prior_precision=-1.0), "prior_precision is -1"),
        (lambda: laplace(nn.Sequential(mlp((4, 3)), nn.Softmax(1))), "no linear layer gives the outputs"),
        (lambda: laplace(nn.Sequential(nn.Flatten())), "no linear layer gives the outputs"),
        (lambda: laplace(nn.Sequential(nn.Linear(4, 2000), nn.Linear(2000, 4))), "1 has 8,004 weights.*narrower"),
        (lambda: laplace(Tied()), "or another shares its weights"),
        (lambda: laplace(nn.Sequential(bnn.GaussianLinear(4, 3))), "has Bayesian layers already"),
        (lambda: laplace(data=(x(6, 4), x(6)), likelihood="regression"), "as many numbers"),
        (lambda: laplace(data=(x(6, 4), torch.zeros(5).long())), "x has 6 rows and y has 5"),
        (lambda: bnn.to_laplace(mlp((4, 3)), []), "data have no rows"),
        (lambda: laplace(mlp((4, 1)), (x(6, 4), torch.zeros(6).long())), "the network has one output"),
        (lambda: laplace(data=(x(6, 4), torch.zeros(6))), r"y has type torch.float32.*integers from 0 to 2"),
        (lambda: laplace(data=(x(6, 4), torch.arange(6))), "values from 0 to 5, but labels are integers from 0 to 2"),
        (lambda: laplace(data=(x(0, 4), torch.zeros(0).long())), "data have no rows"),
        (lambda: laplace(data=(x(6, 4) * torch.nan, torch.arange(6) % 3)), "loss on the data is nan.*Look for NaN"),
        (lambda: laplace(data=(x(6, 4), x(6, 3) * torch.inf), likelihood="regression"), "loss on the data is inf"),
        (lambda: laplace(nn.Linear(4, 2), (x(6, 3, 4), torch.zeros(6).long())), "Wrap the model", TypeError),
    ],
}  # fmt: skip
test_bad_input_is_refused = refusals(REFUSED)
