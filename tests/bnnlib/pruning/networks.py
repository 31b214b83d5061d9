"""Networks with noise on their units, and how tests prune them."""

import torch
from torch import nn

from bnnlib import nn as bnn
from chapters.shared.networks import lenet5_caffe


def seeded(seed=0):
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


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
