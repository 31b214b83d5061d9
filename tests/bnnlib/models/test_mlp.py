"""Networks by their widths."""

import math

import pytest
import torch
from torch import nn

from bnnlib.functional import num_network_parameters
from bnnlib.models import mlp


def test_widths_activations_and_size():
    model = mlp((784, 512, 512, 10), "tanh")
    assert [type(module).__name__ for module in model] == ["Linear", "Tanh", "Linear", "Tanh", "Linear"]
    assert sum(p.numel() for p in model.parameters()) == num_network_parameters((784, 512, 512, 10))


def test_initial_weights_have_pytorchs_spread():
    model = mlp((400, 300, 1), generator=torch.Generator().manual_seed(0))
    bound = 1.0 / math.sqrt(400)
    weight = model[0].weight.detach()
    assert weight.abs().max() <= bound
    # standard error of the standard deviation of 120,000 uniform draws: 0.13 %
    assert float(weight.std()) == pytest.approx(bound / math.sqrt(3.0), rel=0.01)


def test_options_reach_the_layer():
    assert mlp((2, 1), layer=nn.Linear, bias=False)[0].bias is None
