"""The two convolutional networks: sizes, names, equality with the layers written out, dropout and formats."""

import copy

import pytest
import torch
import torch.nn.functional as F

from bnnlib.models import Dropout
from bnnlib.nn import use_generator
from chapters.learned_priors.networks import cnn_batch_norm, cnn_two_conv
from tests.seeded import seeded


def count(model):
    return sum(p.numel() for p in model.parameters())


def images(n=6):
    return torch.rand(n, 1, 28, 28, generator=seeded(7))


def test_sizes_are_the_papers():
    assert count(cnn_two_conv()) == count(cnn_two_conv(dropout=0.5)) == 681_506
    assert count(cnn_batch_norm()) == 493_772


def test_names_can_be_read():
    layers = ("conv1", "conv2", "fc1", "fc2")
    assert list(dict(cnn_two_conv().named_parameters())) == [f"{n}.{k}" for n in layers for k in ("weight", "bias")]
    assert set(cnn_two_conv(0.5).state_dict()) == set(cnn_two_conv().state_dict())
    assert cnn_two_conv().fc1.weight.numel() == 627_200


def test_two_conv_is_the_layers_written_out():
    model, x = cnn_two_conv(generator=seeded()).double(), images().double()
    h = F.max_pool2d(F.relu(F.conv2d(x, model.conv1.weight, model.conv1.bias, padding=2)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, model.conv2.weight, model.conv2.bias, padding=2)), 2)
    expected = model.fc2(F.relu(model.fc1(h.flatten(1))))
    torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)  # the same sums in float64


def test_batch_norm_is_the_layers_written_out():
    model, x = cnn_batch_norm((0.0, 0.0), generator=seeded()).double().train(), images().double()
    h = (x - x.mean()) / (x.var(unbiased=False) + 1e-5).sqrt()
    h = F.max_pool2d(F.relu(F.conv2d(h, model.conv1.weight, model.conv1.bias, padding=2)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, model.conv2.weight, model.conv2.bias)), 2)
    h = model.fc2(F.relu(model.fc1(h.flatten(1))))
    h = F.relu((h - h.mean(0)) / (h.var(0, unbiased=False) + 1e-5).sqrt())
    torch.testing.assert_close(model(x), model.fc3(h), rtol=1e-9, atol=1e-9)  # float64, two batch norms


@pytest.mark.parametrize("make", [cnn_two_conv, cnn_batch_norm])
def test_the_generator_decides_the_start_and_leaves_the_global_one_out(make):
    torch.manual_seed(1)
    a = make(generator=seeded(3)).state_dict()
    torch.manual_seed(2)
    b, other = make(generator=seeded(3)).state_dict(), make(generator=seeded(4)).state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["fc1.weight"], other["fc1.weight"])


def test_the_start_is_pytorchs_own_distribution():
    drawn, default = cnn_two_conv(generator=seeded()), cnn_two_conv()
    for name, weight in drawn.named_parameters():
        reference = dict(default.named_parameters())[name]
        if weight.numel() > 10_000:  # standard error of a standard deviation from 51,200 draws: 0.2 %
            assert float(weight.detach().std()) == pytest.approx(float(reference.detach().std()), rel=0.02)
        bound = 1 / (25**0.5 if name.startswith("conv1") else (800 if "conv" in name else 3136) ** 0.5)
        if not name.startswith("fc2"):
            assert float(weight.detach().abs().max()) <= bound


@pytest.mark.parametrize("make", [cnn_two_conv, cnn_batch_norm])
def test_channels_last_and_bfloat16(make):
    model = make(generator=seeded()).eval()
    x, last = images(), copy.deepcopy(model).to(memory_format=torch.channels_last)
    expected = model(x)
    torch.testing.assert_close(last(x.contiguous(memory_format=torch.channels_last)), expected, rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        low = last(x)
    assert low.dtype == torch.bfloat16
    # bfloat16 keeps 8 bits: 0.4 % of the largest entry a layer, at most five layers
    torch.testing.assert_close(low.float(), expected, rtol=0, atol=0.03 * float(expected.detach().abs().max()) + 1e-2)
    low.float().logsumexp(1).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in last.parameters())


def test_dropout_acts_before_fc1_and_in_training_only():
    plain, model = cnn_two_conv(generator=seeded()), cnn_two_conv(0.5, generator=seeded())
    seen = []
    model.fc1.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    x = images()
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


def test_dropout_keeps_the_mean():
    with use_generator(seeded()):
        out = Dropout(0.3)(torch.ones(200_000))
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert float(out.mean()) == pytest.approx(1.0, abs=0.006)  # four standard errors of 0.0015


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="which drops everything"):
        cnn_two_conv(1.0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        cnn_two_conv(-0.1)
    with pytest.raises(ValueError, match="two probabilities"):
        cnn_batch_norm((0.1,))
