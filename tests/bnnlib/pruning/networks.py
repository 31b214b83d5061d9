"""Networks with noise on their units, and how tests prune them."""

import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib.pruning import compress
from bnnlib.pruning.compress.graph import outputs
from chapters.shared.networks import lenet5_caffe
from tests.seeded import seeded


def noises(model):
    """The layers of noise by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, bnn.StructuredBayesianPruning)}


def norms(model):
    """Names of the layers of batch norm."""
    return [name for name, m in model.named_modules() if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))]


def noisy_lenet():
    """LeNet-5 with noise in the paper's four places."""
    return bnn.insert_unit_noise(lenet5_caffe(generator=seeded()), ["conv1", "conv2"], ["fc1", "fc2"])


class Own(nn.Module):
    """A layer that no method of compression knows."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.gain


@torch.no_grad()
def prune_noise(model, kept, seed=0):
    """Leave to every layer of noise a share or a number of units, or to some by name; others get the prior's width."""
    generator = seeded(seed)
    for name, layer in noises(model).items():
        count = kept.get(name, layer.num_units) if isinstance(kept, dict) else kept
        count = count if isinstance(count, int) else max(1, round(count * layer.num_units))
        off = torch.randperm(layer.num_units, generator=generator)[count:]
        layer.location.uniform_(-0.3, 0.0, generator=generator)
        layer.log_scale[off] = 3.0
        assert layer.num_active() == count
    return model


@torch.no_grad()
def masked(model, x):
    """What a network gives in the mode that `compress` keeps."""
    if any(isinstance(layer, bnn.StochasticLayer) for layer in model.eval().modules()):
        with bnn.selected_weights(model):
            return model(x)
    return model(x)


@torch.no_grad()
def compressed(model, x, tolerance=1e-11):
    """The small network in float64, by two rows of x: on all of them it is the whole one up to the order of sums."""
    model, x = model.double().eval(), x.double() if x.is_floating_point() else x
    small = compress(model, x[:2])
    torch.testing.assert_close(outputs(small(x)), outputs(masked(model, x)), rtol=tolerance, atol=tolerance)
    return small
