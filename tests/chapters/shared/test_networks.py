"""What every network promises: size, start, formats, that it trains; its layers written out, dropout."""

import copy
import math
from fnmatch import fnmatch

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib.models import mlp
from bnnlib.nn import (
    GaussianConv2d,
    GaussianLinear,
    GaussianSpikeSlabConv2d,
    GaussianSpikeSlabLinear,
    HorseshoeLinear,
    SparseVDLinear,
    SpikeSlabLinear,
    bayesian_layers,
    elbo_loss,
    mean_weights,
    use_generator,
)
from chapters.learned_priors.networks import cnn_batch_norm, cnn_two_conv
from chapters.shared.networks import lenet5_caffe, lenet_300_100, resnet, resnet18, resnet20, vgg_like
from tests.seeded import seeded


def images(n=4, shape=(3, 32, 32)):
    return torch.randn(n, *shape, generator=seeded(7))


def normalized(h):
    """Batch norm before any training: running mean 0 and variance 1."""
    return h / math.sqrt(1 + 1e-5)


def drawn(make):
    """Parameters of the network of seed 0, which start by their generator alone."""
    first, again, other = (dict(make(generator=seeded(s)).named_parameters()) for s in (0, 0, 1))
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    # scales, shifts and biases of zero are the same whatever the generator
    assert all(not torch.equal(value, other[name]) for name, value in first.items() if value.dim() > 1)
    return first


@pytest.mark.parametrize(
    ("make", "published"),
    [
        (lambda: mlp((784, 512, 512, 10)), 669_706),
        (lambda: mlp((784, 300, 100, 10)), 266_610),
        (lenet5_caffe, 431_080),
        (resnet20, 272_474),
        (resnet18, 11_173_962),
        (vgg_like, 14_987_210),
        (lambda: vgg_like(0.25), 939_770),
        (cnn_two_conv, 681_506),
        (lambda: cnn_two_conv(0.5), 681_506),
        (cnn_batch_norm, 493_772),
    ],
)
def test_sizes_are_the_literature_s(make, published):
    with torch.device("meta"):
        assert sum(p.numel() for p in make().parameters()) == published


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: mlp((4, 5, 2), **k),
        lenet5_caffe,
        lambda **k: resnet(8, width=4, **k),
        lambda **k: resnet18(4, 3, **k),
        lambda **k: vgg_like(0.1, **k),
        cnn_two_conv,
        cnn_batch_norm,
    ],
)
def test_a_network_starts_by_its_generator_alone(make):
    drawn(make)


MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.0067}


def flat(layer=nn.Linear, **options):
    return mlp((784, 5, 2), layer=layer, flatten=True, **options)


@pytest.mark.parametrize(
    ("make", "layers", "options"),
    [
        (flat, (SpikeSlabLinear,), {"prior_inclusion_probability": 0.1}),
        (flat, (SparseVDLinear,), {}),
        (flat, (HorseshoeLinear,), {}),
        (flat, (GaussianSpikeSlabLinear,), MIXTURE),
        (lenet5_caffe, (GaussianSpikeSlabConv2d, GaussianSpikeSlabLinear), MIXTURE),
    ],
)
def test_bayesian_layers_start_where_the_deterministic_ones_do(make, layers, options):
    model, reference = make(*layers, generator=seeded(3), **options), make(generator=seeded(3))
    x, start, layers = torch.rand(6, 1, 28, 28), dict(reference.named_parameters()), bayesian_layers(model)
    assert len(layers) == len([p for p in start.values() if p.dim() > 1])
    assert all(getattr(layer, name) == value for layer in layers for name, value in options.items())
    found = dict(model.named_parameters())
    assert all(torch.equal(found[name], value) for name, value in start.items())
    with mean_weights(model):
        assert model(x).shape == reference(x).shape
    assert not torch.equal(model(x), model(x))


@pytest.mark.parametrize(("make", "slack"), [(resnet20, 1e-3), (lambda **k: vgg_like(0.1, **k), 1e-4)])
def test_channels_last_and_bfloat16(make, slack):
    model = make(generator=seeded()).eval()
    x, last = images(), copy.deepcopy(model).to(memory_format=torch.channels_last)
    expected = model(x)
    torch.testing.assert_close(last(x.contiguous(memory_format=torch.channels_last)), expected, rtol=slack, atol=slack)
    with torch.autocast("cpu", torch.bfloat16):
        low = last(x)
    assert low.dtype == torch.bfloat16
    # bfloat16 keeps 8 bits: 0.4 % a layer over 15 or 20 layers, most of it averaged out
    torch.testing.assert_close(low.float(), expected, rtol=0, atol=0.05 * float(expected.detach().abs().max()))
    low.float().logsumexp(1).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in last.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("bayesian", [False, True])
def test_it_trains(bayesian):
    if bayesian:
        model = vgg_like(0.1, GaussianSpikeSlabConv2d, GaussianSpikeSlabLinear, generator=seeded(), **MIXTURE)
        assert len(bayesian_layers(model)) == 15
    else:
        model = vgg_like(0.1, generator=seeded()).train()
    x, y, losses = images(64), torch.arange(64) % 10, []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with use_generator(seeded(2)):
        for _ in range(25):
            nll = F.cross_entropy(model(x), y)
            losses.append(float(nll.detach()))
            optimizer.zero_grad()
            (elbo_loss(nll, model, 50_000, with_value=False) if bayesian else nll).backward()
            optimizer.step()
    # noise labels can only be learned by heart: the start is log 10 = 2.3, chance stays there
    assert sum(losses[-5:]) / 5 < 1.0


def test_options_reach_convolutions_and_linear_layers():
    model = lenet5_caffe(GaussianConv2d, GaussianLinear, prior_scale=0.3, estimator="local")
    assert [(layer.prior_scale, layer.estimator) for layer in bayesian_layers(model)] == [(0.3, "local")] * 4


def test_names_and_what_the_paper_prunes():
    weights = dict(resnet20().named_parameters())
    published = [n for n in weights if n.endswith("weight") and "conv" in n and n != "conv1.weight"]
    assert len(published) == 18 and sum(weights[n].numel() for n in published) == 267_264
    assert published == [n for n in weights if fnmatch(n, "layer*.conv*.weight")]
    assert {"conv1.weight", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight", "fc.bias"} <= set(weights)
    assert "layer1.0.downsample.0.weight" not in weights


def test_depth_width_and_classes():
    model = resnet(32, width=4, classes=7)
    assert [len(stage) for stage in (model.layer1, model.layer2, model.layer3)] == [5, 5, 5]
    assert model.conv1.out_channels == 4 and model(images()).shape == (4, 7)


def test_a_residual_network_is_the_layers_written_out():
    model, x = resnet(8, width=4, generator=seeded()).double().eval(), images().double()

    h = F.relu(normalized(F.conv2d(x, model.conv1.weight, padding=1)))
    for stage, stride in ((model.layer1, 1), (model.layer2, 2), (model.layer3, 2)):
        block = stage[0]
        inner = F.relu(normalized(F.conv2d(h, block.conv1.weight, stride=stride, padding=1)))
        inner = normalized(F.conv2d(inner, block.conv2.weight, padding=1))
        shortcut = h if stride == 1 else normalized(F.conv2d(h, block.downsample[0].weight, stride=stride))
        h = F.relu(inner + shortcut)
    assert h.shape == (4, 16, 8, 8)
    expected = model.fc(F.avg_pool2d(h, 8).flatten(1))
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)  # float64, another order of the sums


def test_resnet18_has_four_stages():
    model = resnet18(generator=torch.Generator().manual_seed(0))
    assert [getattr(model, f"layer{k}")[1].conv2.out_channels for k in range(1, 5)] == [64, 128, 256, 512]
    small = resnet18(4, 3, generator=torch.Generator().manual_seed(0)).eval()
    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    h = torch.relu(small.bn1(small.conv1(x)))
    for stage in (small.layer1, small.layer2, small.layer3, small.layer4):
        h = stage(h)
    torch.testing.assert_close(small(x), small.fc(h.mean(dim=(2, 3))))


def test_no_convolution_of_single_positions_has_a_stride():
    """oneDNN's weight gradient of such a one breaks the heap on AVX2, below eight channels in channels_last."""
    models = (resnet(depth=8, width=4), resnet18(width=4))
    convolutions = [one for model in models for one in model.modules() if isinstance(one, torch.nn.Conv2d)]
    assert all(one.stride == (1, 1) for one in convolutions if one.kernel_size == (1, 1))


def test_names_of_vgg_can_be_read():
    names = dict(vgg_like(0.05).named_parameters())
    assert {"conv1_1.weight", "bn1_1.weight", "conv5_3.weight", "fc1.weight", "bn_fc1.bias", "fc2.bias"} <= set(names)
    assert "conv1_1.bias" not in names and "fc1.bias" not in names


def test_vgg_is_the_layers_written_out():
    model, x = vgg_like(0.1, generator=seeded()).double().eval(), images().double()

    h = x
    for stage, repeats in enumerate((2, 2, 3, 3, 3), 1):
        for index in range(1, repeats + 1):
            h = F.relu(normalized(F.conv2d(h, model.get_submodule(f"conv{stage}_{index}").weight, padding=1)))
        h = F.max_pool2d(h, 2)
    assert h.shape == (4, 51, 1, 1)
    expected = model.fc2(F.relu(normalized(F.linear(h.flatten(1), model.fc1.weight))))
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)  # float64, another order of the sums


def test_signals_and_gradients_reach_all_layers():
    model = vgg_like(0.1, generator=seeded()).train()
    F.cross_entropy(model(images(32)), torch.arange(32) % 10).backward()
    norms = [float(m.weight.grad.norm()) for m in model if isinstance(m, (nn.Conv2d, nn.Linear))]
    # a depth that loses the signal loses it by powers of ten; batch norm keeps the layers within two of them
    assert min(norms) > 0 and max(norms) / min(norms) < 100


def digits(n=6):
    return torch.rand(n, 1, 28, 28, generator=seeded(7))


def test_names_of_lenet_can_be_read():
    layers = ("conv1", "conv2", "fc1", "fc2")
    assert list(dict(lenet5_caffe().named_parameters())) == [f"{n}.{k}" for n in layers for k in ("weight", "bias")]


def test_lenet_300_100_is_the_layers_written_out():
    model, x = lenet_300_100(generator=seeded()).double(), digits().double()
    layers = [module for module in model if isinstance(module, nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in layers] == [(300, 784), (100, 300), (10, 100)]
    h = F.relu(layers[0](x.flatten(1)))
    expected = layers[2](F.relu(layers[1](h)))
    torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)  # the same sums in float64


def test_lenet5_is_the_layers_written_out():
    model, x = lenet5_caffe(generator=seeded()).double(), digits().double()
    # ReLU before the pooling, as the literature draws it: the order does not matter
    h = F.max_pool2d(F.relu(F.conv2d(x, model.conv1.weight, model.conv1.bias)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, model.conv2.weight, model.conv2.bias)), 2)
    assert h.shape == (6, 50, 4, 4)
    expected = model.fc2(F.relu(model.fc1(h.flatten(1))))
    torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)  # the same sums in float64


@pytest.mark.parametrize(("make", "units"), [(resnet20, 64), (lambda **k: vgg_like(0.25, **k), 128)])
def test_the_start_of_convolutions(make, units):
    parameters = dict(make(generator=seeded()).named_parameters())
    for name, weight in parameters.items():
        if weight.dim() == 4:
            spread = math.sqrt(2 / (weight.shape[2] * weight.shape[3] * weight.shape[0]))
            # four standard errors, 1/sqrt(2 n) each, relative
            assert float(weight.detach().std()) == pytest.approx(spread, rel=4 / math.sqrt(2 * weight.numel())), name
        elif "bn" in name:
            assert torch.equal(weight, torch.full_like(weight, float(name.endswith("weight"))))
    last = parameters["fc2.weight" if "fc2.weight" in parameters else "fc.weight"]
    assert float(last.detach().abs().max()) <= 1 / math.sqrt(units)


def test_names_can_be_read():
    layers = ("conv1", "conv2", "fc1", "fc2")
    assert list(dict(cnn_two_conv().named_parameters())) == [f"{n}.{k}" for n in layers for k in ("weight", "bias")]
    assert set(cnn_two_conv(0.5).state_dict()) == set(cnn_two_conv().state_dict())
    assert cnn_two_conv().fc1.weight.numel() == 627_200


def test_the_start_is_pytorchs_own_distribution():
    ours, default = cnn_two_conv(generator=seeded()), cnn_two_conv()
    for name, weight in ours.named_parameters():
        reference = dict(default.named_parameters())[name]
        if weight.numel() > 10_000:  # standard error of a standard deviation from 51,200 draws: 0.2 %
            assert float(weight.detach().std()) == pytest.approx(float(reference.detach().std()), rel=0.02)
        bound = 1 / (25**0.5 if name.startswith("conv1") else (800 if "conv" in name else 3136) ** 0.5)
        if not name.startswith("fc2"):
            assert float(weight.detach().abs().max()) <= bound


def test_dropout_acts_before_fc1_and_in_training_only():
    plain, model = cnn_two_conv(generator=seeded()), cnn_two_conv(0.5, generator=seeded())
    seen = []
    model.fc1.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    x = digits()
    assert torch.equal(model.eval()(x), plain.eval()(x))
    with use_generator(seeded(5)):
        first = model.train()(x)
    with use_generator(seeded(5)):
        assert torch.equal(model(x), first)
    with use_generator(seeded(6)):
        assert not torch.equal(model(x), first)
    full, dropped = seen[0], seen[1]
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2.0 * full[kept])
    assert not kept[full == 0].any()
    # a share of about 6,000 or more coin tosses has a standard error below 0.7 %
    assert float(kept[full != 0].float().mean()) == pytest.approx(0.5, abs=0.03)
