"""Networks with noise on units or statistics, and convolutional ones with posteriors, for `benchmarks.step_time`.

Each stands beside the same network without.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from bnnlib import nn as bnn
from bnnlib.models import mlp
from chapters.batch_statistics.lenet import lenet5_batch_norm
from chapters.batch_statistics.vgg import vgg11
from chapters.shared.networks import lenet5_caffe, resnet20

NUM_DATA = 60_000


def _mlp() -> nn.Module:
    return mlp((784, 500, 300, 10), flatten=True)


def _vgg() -> nn.Module:
    return vgg11(0.25, classes=5)


def _noisy_lenet() -> nn.Module:
    return bnn.insert_unit_noise(lenet5_caffe(), after=["conv2"], before=["conv2", "fc1", "fc2"])


Build = Callable[[], nn.Module]

_MIXTURE = {"slab_scale": 1.0, "spike_scale": math.exp(-6.0), "prior_inclusion_probability": 0.1}
_KINDS: dict[str, dict] = {
    "gaussian": {"layer": "gaussian"},
    "gaussian-local": {"layer": "gaussian", "estimator": "local"},
    "gaussian-flipout": {"layer": "gaussian", "estimator": "flipout"},
    "gaussian-spike-slab": {"layer": "gaussian_spike_slab", **_MIXTURE},
    "spike-slab": {"layer": "spike_slab", "prior_inclusion_probability": 1e-4},
    "sparse-vd": {"layer": "sparse_vd"},
}


def _converted(build: Build, kind: str) -> nn.Module:
    return bnn.to_bayesian(build(), **_KINDS[kind])


# name: shape of a row, the network without, the network with
NETWORKS: dict[str, tuple[tuple[int, ...], Build, Build]] = {
    "sbp-lenet5": ((1, 28, 28), lenet5_caffe, _noisy_lenet),
    "sbp-lenet-500-300": ((784,), _mlp, lambda: bnn.insert_unit_noise(_mlp(), before=["1", "3", "5"])),
    # noise on pixels makes them need a gradient, which is a product more in the largest layer
    "sbp-lenet-500-300-hidden": ((784,), _mlp, lambda: bnn.insert_unit_noise(_mlp(), before=["3", "5"])),
    "sbn-lenet5": ((1, 28, 28), lenet5_batch_norm, lambda: bnn.to_stochastic_batch_norm(lenet5_batch_norm())),
    "sbn-vgg11": ((3, 32, 32), _vgg, lambda: bnn.to_stochastic_batch_norm(_vgg())),
}

for _name, _shape, _plain in (("lenet5", (1, 28, 28), lenet5_caffe), ("resnet20", (3, 32, 32), resnet20)):
    for _kind in _KINDS:
        NETWORKS[f"{_name}-{_kind}"] = _shape, _plain, partial(_converted, _plain, _kind)


def with_loss(build: Build) -> tuple[nn.Module, Callable[[Tensor, Tensor], Tensor]]:
    """The network and its loss; noise on units is drawn for all layers at once, as in `bnnlib.train.fit`."""
    model = build()
    noisy = any(isinstance(module, bnn.StructuredBayesianPruning) for module in model.modules())
    random = noisy or any(isinstance(module, bnn.BayesianLayer) for module in model.modules())

    def loss(x: Tensor, y: Tensor) -> Tensor:
        with bnn.drawn_together(model) if noisy else nullcontext():
            found = F.cross_entropy(model(x), y)
        return found + bnn.kl_gradient(model) / NUM_DATA if random else found

    return model, loss
