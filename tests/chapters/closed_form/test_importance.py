"""psi and phi of a model's inputs through everything that may stand between layers."""

import itertools
import math

import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib.models import Dropout
from chapters.closed_form.importance import feature_importance
from chapters.shared.networks import lenet5_caffe, vgg_like
from tests.seeded import seeded

MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.1}


def linear(inputs, outputs, **options):
    return bnn.GaussianSpikeSlabLinear(inputs, outputs, **MIXTURE, **options)


def conv(inputs, outputs, size, **options):
    return bnn.GaussianSpikeSlabConv2d(inputs, outputs, size, **MIXTURE, **options)


def varied(model, seed=0):
    """Means around the threshold of about 0.22, so that p* takes all values."""
    generator = seeded(seed)
    with torch.no_grad():
        for layer in bnn.bayesian_layers(model):
            layer.weight.normal_(0.0, 0.3, generator=generator)
    return model


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=0)  # float64, the same terms in another order


def test_a_convolutional_net_path_by_path():
    # 6 x 6 images, 3 x 3 filters, pooling to 2 x 2: four positions of each of three channels are flattened
    model = varied(nn.Sequential(conv(2, 3, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), linear(12, 2)))
    assert model(torch.zeros(1, 2, 6, 6)).shape == (1, 2)
    filters, top = (layer.inclusion_probability.double() for layer in bnn.bayesian_layers(model))
    expected = torch.zeros(2, dtype=torch.float64)
    for channel, y, x, middle, position, out in itertools.product(*map(range, (2, 3, 3, 3, 4, 2))):
        expected[channel] += filters[middle, channel, y, x] * top[out, 4 * middle + position]
    psi = feature_importance(model)
    close(psi, expected / (9 * 3 * 4 * 2))
    # flattening puts the positions of a channel side by side, as torch does
    image = torch.zeros(1, 3, 2, 2)
    image[0, 1] = 1.0
    assert nn.Flatten()(image).nonzero()[:, 1].tolist() == [4, 5, 6, 7]


def test_groups_leave_channels_apart():
    model = varied(nn.Sequential(conv(4, 6, 3, groups=2), conv(6, 2, 1)))
    first, second = (layer.inclusion_probability.double() for layer in bnn.bayesian_layers(model))
    expected = torch.zeros(4, dtype=torch.float64)
    for channel, middle, out in itertools.product(range(4), range(6), range(2)):
        if channel // 2 == middle // 3:
            expected[channel] += first[middle, channel % 2].mean() * second[out, middle, 0, 0]
    close(feature_importance(model), expected / 12)


def test_what_has_no_weights_passes():
    torch.manual_seed(0)
    between = [nn.BatchNorm2d(3), nn.GELU(), nn.AvgPool2d(2), nn.Dropout2d(0.2), nn.Identity()]
    layers = varied(nn.Sequential(conv(2, 3, 3), conv(3, 4, 3), nn.Flatten(), linear(16, 3), linear(3, 2)))
    model = nn.Sequential(
        nn.BatchNorm2d(2),
        nn.Sequential(layers[0], *between),
        nn.Sequential(nn.Sequential(layers[1], nn.AdaptiveMaxPool2d(2)), nn.Flatten(), layers[3]),
        nn.LayerNorm(3),
        nn.Softplus(),
        nn.Dropout(0.5),
        layers[4],
        nn.LogSoftmax(dim=1),
    )
    assert model(torch.randn(2, 2, 16, 16)).shape == (2, 2)
    assert torch.equal(feature_importance(model), feature_importance(layers))


def test_a_flatten_before_the_first_layer_gives_pixels():
    model = varied(nn.Sequential(nn.Flatten(), linear(16, 2)))
    psi = feature_importance(model)
    close(psi, model[1].inclusion_probability.double().mean(0))
    assert torch.equal(feature_importance(model[1]), psi)  # one layer is a stack too


def test_a_layer_that_is_used_twice_counts_twice():
    once = varied(linear(3, 3))
    p = once.inclusion_probability.double()
    close(feature_importance(nn.Sequential(once, nn.ReLU(), once)), (p @ p).sum(0) / 9)


def test_dirac_spike_and_slab_and_bayes_by_backprop_have_probabilities_too():
    for kind in (bnn.SpikeSlabLinear, bnn.ScaleMixtureLinear):
        options = {"prior_inclusion_probability": 0.2} if kind is bnn.SpikeSlabLinear else MIXTURE
        layer = kind(3, 2, **options)
        close(feature_importance(layer), layer.inclusion_probability.double().mean(0))


def test_the_models_of_the_book():
    layers = (bnn.GaussianSpikeSlabConv2d, bnn.GaussianSpikeSlabLinear)
    assert feature_importance(lenet5_caffe(*layers, **MIXTURE)).shape == (1,)
    psi = feature_importance(varied(vgg_like(0.05, *layers, **MIXTURE)))
    assert psi.shape == (3,) and psi.dtype == torch.float64 and 0 < psi.min() < psi.max() < 1


def test_no_gradient_and_no_change():
    model = varied(linear(3, 2))
    before = model.weight.detach().clone()
    assert not feature_importance(model).requires_grad and torch.equal(model.weight, before)


def test_own_modules_can_be_let_through():
    model = varied(nn.Sequential(linear(3, 2), Dropout(0.1), linear(2, 1)))
    psi = feature_importance(model, passes=(Dropout,))
    close(psi, feature_importance(nn.Sequential(model[0], model[2])))
    assert math.isfinite(float(psi.sum()))
