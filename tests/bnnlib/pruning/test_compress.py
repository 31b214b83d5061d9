"""Physical compression: the same outputs from fewer units, on the networks of the book."""

import contextlib
import copy

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib.models import mlp
from bnnlib.pruning import SelectedLinear, compress, to_deterministic
from bnnlib.pruning.compress import network
from chapters.shared.networks import lenet5_caffe, resnet, resnet20, vgg_like
from tests.bnnlib.pruning.networks import masked, noises, noisy_lenet, norms, prune_noise, seeded


@torch.no_grad()
def settle(model, shape, seed=1):
    """Batch norm with statistics, factors and shifts of its own, as after training."""
    generator = seeded(seed)
    for layer in model.modules():
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            layer.weight.uniform_(0.5, 1.5, generator=generator)
            layer.bias.normal_(generator=generator)
            layer.momentum = None  # plain averages over the batches below
    with bnn.selected_weights(model.train()) if noises(model) else contextlib.nullcontext():
        for _ in range(4):
            model(torch.randn(32, *shape, generator=generator))
    return model.eval()


@torch.no_grad()
def same(model, x, tolerance=1e-6, **settings):
    """The small network, whose outputs are those of the whole one."""
    small = compress(model, x, **settings)
    # 1e-6 of the largest output: float32 keeps 6e-8 of a number, and sums in another order take up the rest
    expected = masked(model, x)
    scale = float(expected.abs().max())
    assert expected.std(0).max() > 1e-3 * scale  # the pruned network still looks at its input
    assert float((small(x) - expected).abs().max()) <= tolerance * scale
    return small


def widths(model):
    return {n: tuple(m.weight.shape[:2]) for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}


def test_a_fully_connected_network_with_noise_on_its_inputs():
    model = bnn.insert_unit_noise(mlp((784, 500, 300, 10), flatten=True, generator=seeded()), before=["1", "3", "5"])
    prune_noise(model, 0.4)
    x = torch.randn(1000, 1, 28, 28, generator=seeded(1))
    small = same(model, x)
    assert type(small.get_submodule("1")) is SelectedLinear and small.get_submodule("1").features == 784
    assert widths(small) == {"1": (200, 314), "3": (120, 200), "5": (10, 120)}
    assert not small.training and [type(m) for m in small] == [
        nn.Flatten, SelectedLinear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear
    ]  # fmt: skip


@pytest.mark.slow
def test_lenet_5_pruned_as_in_the_paper():
    kept = {"conv1_noise": 3, "conv2_noise": 18, "fc1_input_noise": 780, "fc2_input_noise": 283}
    model = prune_noise(noisy_lenet(), kept)
    x = torch.rand(1000, 1, 28, 28, generator=seeded(1))
    small = same(model, x)
    # few of the inputs from 18 channels are off, too few to pick the rest: their columns stay, as zeros
    assert widths(small) == {"conv1": (3, 1), "conv2": (18, 3), "fc1": (283, 288), "fc2": (10, 283)}
    assert list(dict(small.named_children())) == list(dict(lenet5_caffe().named_children()))
    picked = same(model, x, select_below=1.0)
    active = model.fc1_input_noise.active().view(50, 16)[model.conv2_noise.active()]
    assert picked.fc1.in_features == int(active.sum()) < 288
    assert torch.equal(picked.fc1.index, active.flatten().nonzero().flatten())


@pytest.mark.slow
def test_a_vgg_network_with_batch_norm():
    model = vgg_like(0.25, generator=seeded())
    model = settle(prune_noise(bnn.insert_unit_noise(model, after=norms(model)), 0.5), (3, 32, 32))
    x = torch.randn(200, 3, 32, 32, generator=seeded(1))
    exact = masked(copy.deepcopy(model).double(), x[:100].double())
    own = float((masked(model, x[:100]) - exact).abs().max() / exact.abs().max())
    # measured 3e-6: batch norms of random filters enlarge rounding errors, in the masked network as in this one
    small = same(model, x, max(1e-6, 3.0 * own))
    same(model.double(), x[:100].double(), 1e-12)  # no other difference
    sizes = list(widths(small).values())
    assert [rows for rows, _ in sizes] == [8, 8, 16, 16, 32, 32, 32, 64, 64, 64, 64, 64, 64, 64, 10]
    assert [columns for _, columns in sizes] == [3, 8, 8, 16, 16, 32, 32, 32, 64, 64, 64, 64, 64, 64, 64]


@pytest.mark.slow
def test_resnet_20_with_noise_inside_its_blocks():
    model = resnet20(generator=seeded())
    inside = [name for name in norms(model) if name.endswith(".bn1")]
    model = settle(prune_noise(bnn.insert_unit_noise(model, after=inside), 0.25), (3, 12, 12))
    x = torch.randn(200, 3, 12, 12, generator=seeded(1))  # small images: the network works on any size
    small = same(model, x)
    shapes = widths(small)
    for stage, width in ((1, 16), (2, 32), (3, 64)):
        for block in range(3):
            assert shapes[f"layer{stage}.{block}.conv1"][0] == width // 4
            assert shapes[f"layer{stage}.{block}.conv2"] == (width, width // 4)
    # what insert_unit_noise has wrapped is the layer itself again, so that the names are those of resnet20()
    assert list(shapes) == list(widths(resnet20()))


def test_a_channel_of_a_sum_goes_only_when_all_its_terms_are_dead():
    model = settle(resnet(8, width=8, generator=seeded()), (3, 16, 16))
    noisy = bnn.insert_unit_noise(model, after=["bn1", "layer1.0.bn2", "layer2.0.bn2", "layer2.0.downsample.1"])
    prune_noise(noisy, 4)
    x = torch.randn(20, 3, 16, 16, generator=seeded(1))
    small = same(noisy, x)
    active = {name: layer.active() for name, layer in noises(noisy).items()}
    first = active["bn1.noise"] | active["layer1.0.bn2.noise"]
    second = active["layer2.0.bn2.noise"] | active["layer2.0.downsample.1_noise"]
    assert 4 < first.sum() < 8 and 4 < second.sum() < 16  # so that this test can fail
    assert small.conv1.out_channels == small.layer1[0].conv2.out_channels == int(first.sum())
    assert small.layer2[0].conv2.out_channels == small.layer3[0].conv1.in_channels == int(second.sum())


class Sums(nn.Module):
    """Noise on a sum that the next sum reads too, so that no layer can take up its factors."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.third, self.noise = nn.Conv2d(6, 6, 3, padding=1), bnn.StructuredBayesianPruning(6)
        self.last = nn.Linear(6, 4)

    def forward(self, x):
        x = self.first(x)
        x = self.noise(torch.relu(x + self.second(x)))
        return self.last((x + self.third(x)).mean((2, 3)))


def test_noise_that_no_neighbor_can_take_up_becomes_a_batch_norm_that_only_multiplies():
    model, x = prune_noise(Sums(), 4), torch.randn(50, 3, 8, 8, generator=seeded(1))
    small = same(model, x)
    assert type(small.noise) is nn.BatchNorm2d and (small.noise.running_var + small.noise.eps == 1.0).all()
    assert small.third.out_channels == 6  # its sum has all 6 units, 4 from the noisy one


@pytest.mark.parametrize("place", ["after-conv", "before-bn", "after-bn", "after-pool", "after-flatten", "in-a-row"])
def test_noise_in_any_place(place):
    noise = bnn.StructuredBayesianPruning
    layers = {
        "conv": nn.Conv2d(2, 8, 3, padding=1), "bn": nn.BatchNorm2d(8), "relu": nn.LeakyReLU(0.1),
        "pool": nn.AvgPool2d(2), "flatten": nn.Flatten(), "fc": nn.Linear(128, 5),
    }  # fmt: skip
    if place == "in-a-row":
        inserted = {"conv": noise(8), "pool": noise(8), "flatten": noise(128)}
    else:
        inserted = {place.split("-")[1] if place != "before-bn" else "conv": noise(128 if "flatten" in place else 8)}
    model = nn.Sequential()
    for name, layer in layers.items():
        model.add_module(name, layer)
        if name in inserted:
            model.add_module(f"{name}_noise", inserted[name])
    model = prune_noise(settle(model, (2, 8, 8)), 0.5)
    x = torch.randn(50, 2, 8, 8, generator=seeded(1))
    small = same(model, x)
    if place in ("after-bn", "after-pool"):
        assert small.conv.out_channels == 4
    if place in ("after-conv", "before-bn"):  # as published: behind batch norm a pruned unit is constant, not 0
        assert small.conv.out_channels == 4 and small.fc.in_features == 64


def test_noise_on_the_features_of_tokens():
    noise = bnn.StructuredBayesianPruning
    model = nn.Sequential(noise(6, -1), nn.Linear(6, 8), nn.ReLU(), noise(8, -1), nn.Linear(8, 3), noise(3, 2))
    prune_noise(model, 0.5)
    x = torch.randn(10, 7, 6, generator=seeded(1))
    small = same(model, x)
    assert widths(small) == {"1": (4, 3), "4": (3, 4)}


@pytest.mark.parametrize(
    "layer",
    [bnn.SparseVDLinear, bnn.SpikeSlabLinear, bnn.GaussianSpikeSlabLinear, bnn.HorseshoeLinear, bnn.GaussianLinear],
)
def test_bayesian_layers_become_what_their_active_weights_are(layer):
    options = {
        bnn.SpikeSlabLinear: {"prior_inclusion_probability": 0.1},
        bnn.GaussianSpikeSlabLinear: {"slab_scale": 1.0, "spike_scale": 0.01},
    }.get(layer, {})
    model = mlp((12, 16, 3), layer=layer, **options)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if layer is not bnn.HorseshoeLinear and name.startswith("0.") and not name.endswith(("weight", "bias")):
                parameter.normal_(0.0, 3.0, generator=seeded(2))
    x = torch.randn(100, 12, generator=seeded(1))
    small = same(model, x)
    assert not any(isinstance(m, bnn.BayesianLayer) for m in small.modules())


def test_stochastic_batch_norm_takes_its_running_statistics():
    model = vgg_like(0.05, generator=seeded())
    model = prune_noise(bnn.insert_unit_noise(bnn.to_stochastic_batch_norm(model), after=norms(model)), 0.6)
    settle(model, (3, 32, 32)).double()
    x = torch.randn(50, 3, 32, 32, generator=seeded(1)).double()
    small = same(model, x, 1e-12)  # float64, as batch norm of 3 channels may enlarge rounding errors
    assert type(small.bn1_1) is nn.BatchNorm2d and type(small.bn_fc1) is nn.BatchNorm1d


def test_masks_by_hand():
    dense = lenet5_caffe(generator=seeded())
    masks = {"conv1.weight": torch.ones(20, 1, 5, 5, dtype=torch.bool), "fc2.weight": torch.ones(10, 500).bool()}
    masks["conv1.weight"][5:] = False  # 15 filters give relu(bias), a constant that conv2 takes into its bias
    masks["fc2.weight"][:, ::2] = False  # every other unit of fc1 is not read, as group lasso leaves them
    model = to_deterministic(dense, masks)
    x = torch.rand(1000, 1, 28, 28, generator=seeded(1))
    small = same(model, x)
    assert widths(small) == {"conv1": (5, 1), "conv2": (50, 5), "fc1": (250, 800), "fc2": (10, 250)}


def test_the_model_is_left_alone():
    model = bnn.insert_unit_noise(mlp((6, 8, 3), generator=seeded()), before=["0", "2"])
    prune_noise(model, 0.5).train()
    before = {name: values.clone() for name, values in model.state_dict().items()}
    model[1].weight.requires_grad_(False)
    state = torch.get_rng_state()
    small = compress(model, torch.randn(4, 6, generator=seeded(1)))
    assert torch.equal(torch.get_rng_state(), state)  # the noise is not drawn
    assert model.training and all(module.training for module in model.modules())
    assert all(layer.weight_mode == "sample" for layer in bnn.bayesian_layers(model))
    assert all(torch.equal(before[name], values) for name, values in model.state_dict().items())
    assert not any(p.requires_grad for n, p in small.named_parameters() if n == "0.weight")
    small(torch.ones(2, 6)).sum().backward()  # what is left can be trained on


def test_under_inference_mode_and_with_one_row():
    model = prune_noise(bnn.insert_unit_noise(mlp((6, 8, 3), generator=seeded()), before=["2"]), 0.5)
    with torch.inference_mode():
        x = torch.randn(1, 6, generator=seeded(1))
        small = compress(model, x)
        torch.testing.assert_close(small(x), masked(model, x))
    assert small.get_submodule("0").out_features == 4


def test_compressing_twice_changes_nothing_more():
    x = torch.rand(4, 1, 28, 28, generator=seeded(1))
    once = compress(prune_noise(noisy_lenet(), 0.5), x)
    twice = compress(once, x)
    assert type(once.fc1) is SelectedLinear and widths(once) == widths(twice)
    assert all(torch.equal(a, b) for a, b in zip(once.state_dict().values(), twice.state_dict().values(), strict=True))
    once.fc2.weight.data[:, 3] = 0.0
    assert compress(once, x).fc1.out_features == once.fc1.out_features - 1


def test_both_networks_are_compared_without_tf32(monkeypatch):
    """Sums of ten-bit products differ by a thousandth between a whole and a smaller convolution on a GPU."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(network, "masked_output", seen := _Seen(network.masked_output))
    compress(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), torch.rand(2, 4))
    assert seen.flags == [False] and torch.backends.cudnn.allow_tf32


class _Seen:
    def __init__(self, function) -> None:
        self.function, self.flags = function, []

    def __call__(self, *arguments):
        self.flags.append(torch.backends.cudnn.allow_tf32)
        return self.function(*arguments)
