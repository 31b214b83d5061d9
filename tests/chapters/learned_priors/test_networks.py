"""The two convolutional networks: sizes, names, equality with the layers written out, dropout and formats."""

import pytest
import torch

from bnnlib.nn import use_generator
from chapters.learned_priors.networks import cnn_batch_norm, cnn_two_conv
from tests.chapters.shared.test_networks import digits, drawn
from tests.seeded import seeded


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_sizes_are_the_papers():
    assert count(cnn_two_conv()) == count(cnn_two_conv(dropout=0.5)) == 681_506
    assert count(cnn_batch_norm()) == 493_772


def test_names_can_be_read():
    layers = ("conv1", "conv2", "fc1", "fc2")
    assert list(dict(cnn_two_conv().named_parameters())) == [f"{n}.{k}" for n in layers for k in ("weight", "bias")]
    assert set(cnn_two_conv(0.5).state_dict()) == set(cnn_two_conv().state_dict())
    assert cnn_two_conv().fc1.weight.numel() == 627_200


@pytest.mark.parametrize("make", [cnn_two_conv, cnn_batch_norm])
def test_a_network_starts_by_its_generator_alone(make):
    drawn(make)


def test_the_start_is_pytorchs_own_distribution():
    drawn, default = cnn_two_conv(generator=seeded()), cnn_two_conv()
    for name, weight in drawn.named_parameters():
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
