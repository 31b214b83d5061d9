"""Noise put on the units of networks that exist: where it lands, what it leaves alone, what it refuses."""

import copy

import torch
from torch import nn

from bnnlib import models
from bnnlib import nn as bnn
from chapters.shared.networks import lenet5_caffe, resnet

NOISE = bnn.StructuredBayesianPruning
UNITS = {"conv2_input_noise": 20, "conv2_noise": 50, "fc1_input_noise": 800, "fc2_input_noise": 500}  # of `lenet`


def names(model) -> list[str]:
    return [name for name, _ in model.named_children()]


def lenet(**settings):
    plain = lenet5_caffe(generator=torch.Generator().manual_seed(0))
    return plain, bnn.insert_unit_noise(plain, after=["conv2"], before=["conv2", "fc1", "fc2"], **settings)


def test_neighbors_in_a_sequential():
    plain, noisy = lenet()
    expected = "conv1 pool1 relu1 conv2_input_noise conv2 conv2_noise pool2 relu2 flatten fc1_input_noise fc1 relu3 "
    assert names(noisy) == [*expected.split(), "fc2_input_noise", "fc2"]
    assert bnn.unit_counts(noisy) == {name: (count, count) for name, count in UNITS.items()}
    assert bnn.percent_active_units(noisy) == 100.0
    # the order of the calls does not matter, and a noise stands where its layer is
    assert names(bnn.insert_unit_noise(plain, before=["fc1"])).index("fc1_input_noise") == names(plain).index("fc1")
    assert names(bnn.insert_unit_noise(plain, after=["fc2"]))[-1] == "fc2_noise"


def test_the_network_is_copied_and_its_function_kept():
    plain, noisy = lenet(initial_scale=1e-6)
    assert not any(isinstance(m, NOISE) for m in plain.modules())
    assert not {id(p) for p in plain.parameters()} & {id(p) for p in noisy.parameters()}
    x = torch.randn(3, 1, 28, 28)
    # E theta = 1 - sigma sqrt(2 / pi) at mu = 0: the noise that is left, four layers deep
    torch.testing.assert_close(noisy(x), plain(x), rtol=1e-4, atol=1e-5)
    missing, unexpected = noisy.load_state_dict(lenet5_caffe().state_dict(), strict=False)
    assert not unexpected and len(missing) == 8 and all("_noise." in key for key in missing)
    noisy.load_state_dict(copy.deepcopy(noisy).state_dict())


def test_settings_go_to_every_noise():
    settings = {"kl_weight": 5.0, "threshold": 2.0, "lower": -10.0, "initial_scale": 0.1, "learn_location": False}
    _, noisy = lenet(**settings)
    for layer in bnn.bayesian_layers(noisy):
        assert (layer.kl_weight, layer.threshold, layer.lower, layer.initial_scale) == (5.0, 2.0, -10.0, 0.1)
        assert not layer.location.requires_grad


def test_units_are_channels_of_images_and_features_of_rows():
    plain = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(36, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)
    ).double()
    noisy = bnn.insert_unit_noise(plain.eval(), after=["1", "4"], before=["0", "3"])
    assert names(noisy) == ["0_input_noise", "0", "1", "1_noise", "2", "3_input_noise", "3", "4", "4_noise", "5"]
    layers = bnn.bayesian_layers(noisy)
    assert [layer.num_units for layer in layers] == [3, 4, 36, 5]
    assert all(p.dtype == torch.float64 for p in noisy.parameters()) and not any(layer.training for layer in layers)
    assert noisy(torch.randn(2, 3, 5, 5, dtype=torch.float64)).shape == (2, 2)
    mlp = bnn.insert_unit_noise(models.mlp((7, 6, 5)), after=["0"], before=["0", "2"])
    assert mlp(torch.randn(2, 3, 7)).shape == (2, 3, 5)  # features are the last dimension


def test_pruned_units_are_zero_for_the_layer_behind_them():
    """So that they can be taken out exactly: nothing that the next layer does with them matters."""
    _, noisy = lenet()
    with torch.no_grad():
        for layer in bnn.bayesian_layers(noisy):
            layer.log_scale[::2] = 4.0
    assert bnn.unit_counts(noisy) == {name: (count // 2, count) for name, count in UNITS.items()}
    assert bnn.percent_active_units(noisy) == 50.0
    x = torch.randn(3, 1, 28, 28)
    with bnn.selected_weights(noisy), torch.no_grad():
        expected = noisy(x)
        for layer in (noisy.conv2, noisy.fc1, noisy.fc2):
            layer.weight[:, ::2] = 1e3
        assert torch.equal(noisy(x), expected)
        noisy.fc2.weight[:, 1::2] = 1e3
        assert not torch.equal(noisy(x), expected)


def test_layers_of_residual_blocks_are_wrapped():
    plain = resnet(8, width=4, generator=torch.Generator().manual_seed(0)).eval()
    places = ["layer1.0.bn1", "layer2.0.conv1", "layer2.0.downsample.1"]
    noisy = bnn.insert_unit_noise(plain, after=places, before=["fc"], initial_scale=1e-6)
    assert bnn.unit_counts(noisy) == {
        "layer1.0.bn1.noise": (4, 4),
        "layer2.0.conv1.noise": (8, 8),
        "layer2.0.downsample.1_noise": (8, 8),
        "fc.input_noise": (16, 16),
    }
    assert names(noisy.fc) == ["input_noise", "layer"] and names(noisy.layer1[0].bn1) == ["layer", "noise"]
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(noisy(x), plain(x), rtol=1e-4, atol=1e-5)
    (noisy.train()(x).square().mean() + bnn.kl_gradient(noisy)).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in noisy.parameters())


def test_random_weights_and_noise_in_one_network():
    both = bnn.insert_unit_noise(bnn.to_bayesian(models.mlp((6, 5, 3)), "sparse_vd"), before=["0", "2"])
    assert bnn.unit_counts(both) == {"0_input_noise": (6, 6), "2_input_noise": (5, 5)}
    parts = [layer.kl_divergence() for layer in bnn.bayesian_layers(both)]
    assert len(parts) == 4
    torch.testing.assert_close(bnn.kl_divergence(both), sum(parts))
    assert 0.0 <= bnn.percent_active(both) <= 100.0
    assert bnn.predict(both, torch.randn(4, 6), 3).shape == (3, 4, 3)


def test_both_sides_of_a_wrapped_layer():
    plain = resnet(8, width=4).eval()
    for after, before in ((["layer1.0.conv2"], ["layer1.0.conv2"]), (["fc"], ["fc"])):
        noisy = bnn.insert_unit_noise(plain, after=after, before=before)
        assert len(bnn.unit_counts(noisy)) == 2 and noisy(torch.randn(2, 3, 8, 8)).shape == (2, 10)


def test_a_second_insertion_keeps_the_first():
    """Silently replacing trained noise would lose it."""
    _, noisy = lenet()
    with torch.no_grad():
        noisy.conv2_noise.location.fill_(-1.0)
    more = bnn.insert_unit_noise(noisy, after=["conv1"])
    assert len(bnn.unit_counts(more)) == 5 and (more.conv2_noise.location == -1.0).all()
