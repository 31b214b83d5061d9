"""What every layer promises: shapes, dtypes, modes, generators, state, copies."""

import copy
import itertools
import pickle

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from tests.saved import saved
from tests.seeded import seeded as generator


def test_linear_keeps_leading_dimensions_and_works_without_bias(linear):
    for bias in (True, False):
        layer = linear(5, 3, bias=bias)
        assert isinstance(layer, nn.Linear) and isinstance(layer, bnn.BayesianLayer)
        for shape in ((5,), (7, 5), (2, 7, 5)):
            assert layer(torch.randn(shape)).shape == (*shape[:-1], 3)
            for mode in (bnn.mean_weights, bnn.selected_weights, bnn.held_weights):
                with mode(layer):
                    assert layer(torch.randn(shape)).shape == (*shape[:-1], 3)
        assert layer.kl_divergence().shape == () and layer.kl_divergence() > 0
        assert repr(layer).startswith(type(layer).__name__ + "(in_features=5, out_features=3")


@pytest.mark.parametrize("padding_mode", ["zeros", "reflect", "circular"])
def test_convolution_has_the_geometry_of_the_deterministic_one(conv, padding_mode):
    geometry = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2, "padding_mode": padding_mode}
    layer, plain = conv(4, 6, 3, **geometry), nn.Conv2d(4, 6, 3, **geometry)
    for shape in ((2, 4, 9, 8), (4, 9, 8)):
        images = torch.randn(shape)
        assert layer(images).shape == plain(images).shape
    plain.load_state_dict({"weight": layer.mean()[0], "bias": layer.mean()[1]})
    with bnn.mean_weights(layer):
        torch.testing.assert_close(layer(images), plain(images))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_factory_dtype_and_conversion_between_dtypes(linear, dtype):
    layer = linear(5, 3, dtype=dtype)
    assert all(p.dtype == dtype for p in layer.parameters())
    x = torch.randn(4, 5, dtype=dtype)
    assert layer(x).dtype == dtype
    layer.double()
    expected = {name: p.clone() for name, p in layer.named_parameters()}
    layer.to(torch.float32).to(torch.float64)
    for name, p in layer.named_parameters():
        # one rounding to float32
        torch.testing.assert_close(p, expected[name], rtol=1e-6, atol=1e-7)
    assert len(list(layer.parameters())) == len(expected)


def test_means_start_exactly_as_the_deterministic_layer_does(linear):
    torch.manual_seed(3)
    layer = linear(5, 3)
    torch.manual_seed(3)
    plain = nn.Linear(5, 3)
    assert torch.equal(layer.weight, plain.weight) and torch.equal(layer.bias, plain.bias)


def test_reset_parameters_takes_a_generator_and_resets_the_posterior(linear):
    layer, other = linear(5, 3), linear(5, 3)
    for p in (*layer.parameters(), *other.parameters()):
        p.data.fill_(7.0)
    layer.reset_parameters(generator(5))
    other.reset_parameters(generator(5))
    fresh = linear(5, 3)
    for (name, p), q, f in zip(layer.named_parameters(), other.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(p, q) and not (p == 7.0).any()
        assert name in ("weight", "bias") or torch.equal(p, f)


def test_layers_sample_in_train_and_in_eval(network, x):
    for mode in (network.train(), network.eval()):
        assert not torch.equal(mode(x), mode(x))
    with bnn.mean_weights(network):
        assert torch.equal(network(x), network(x))
    assert [layer.weight_mode for layer in bnn.bayesian_layers(network)] == ["sample", "sample"]


def test_modes_are_restored_after_an_error(network, x):
    network[0].weight_mode = "mean"
    with pytest.raises(KeyError), bnn.selected_weights(network):
        raise KeyError
    assert (network[0].weight_mode, network[2].weight_mode) == ("mean", "sample")
    with pytest.raises(KeyError), bnn.held_weights(network):
        raise KeyError
    assert not torch.equal(network(x), network(x))


def test_held_weights_are_one_draw_for_all_calls(any_network, x):
    network = any_network
    with bnn.held_weights(network, generator(1)):
        first = network(x)
        # the rows of a batch see the weights that single rows see
        torch.testing.assert_close(torch.cat([network(row[None]) for row in x]), first, rtol=1e-12, atol=1e-12)
        with bnn.held_weights(network, generator(2)):
            assert not torch.allclose(network(x), first)
        assert torch.equal(network(x), first)
    assert not torch.equal(network(x), first)
    with bnn.held_weights(network, generator(1)):
        assert torch.equal(network(x), first)


@pytest.mark.parametrize(("outer", "inner"), [*itertools.permutations(["mean", "selected", "held"], 2)])
def test_the_inner_of_two_contexts_holds(any_network, x, outer, inner):
    contexts = {"mean": bnn.mean_weights, "selected": bnn.selected_weights}
    contexts["held"] = lambda model: bnn.held_weights(model, generator(1))
    with contexts[inner](any_network):
        expected = any_network(x)
    with contexts[outer](any_network):
        around = any_network(x)
        with contexts[inner](any_network):
            assert torch.equal(any_network(x), expected)
        assert torch.equal(any_network(x), around)


def test_a_generator_makes_draws_repeatable_and_leaves_the_global_one_alone(any_network, x):
    network = any_network
    before = torch.get_rng_state()
    with bnn.use_generator(generator(4)):
        first = network(x)
    with bnn.use_generator(generator(4)):
        assert torch.equal(network(x), first) and not torch.equal(network(x), first)
    layer = bnn.bayesian_layers(network)[0]
    x = x if layer is network[0] else x[:, :4]
    with bnn.use_generator(generator(8)):
        direct = layer(x, generator(4))  # the argument wins
    assert torch.equal(direct, layer(x, generator=generator(4)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_mean_of_many_draws_is_the_mean(linear):
    torch.manual_seed(0)
    layer = linear(3, 2, dtype=torch.float64).eval()
    with torch.no_grad():
        draws = [layer.draw(generator=generator(seed)) for seed in range(4000)]
    for k in range(2):
        stack = torch.stack([draw[k] for draw in draws])
        error = stack.std(dim=0) / 4000**0.5
        # six standard errors over eight numbers
        assert ((stack.mean(dim=0) - layer.mean()[k]).abs() <= 6 * error + 1e-12).all()


def test_selected_weights_are_zero_where_not_active(linear):
    layer = linear(6, 5)
    with torch.no_grad():
        for name, p in layer.named_parameters():
            if name.endswith(("logit", "location", "log_variance")):
                p.copy_(torch.linspace(3, -8, p.numel()).reshape(p.shape))
    weight, bias = layer.selected()
    mask, bias_mask = layer.active()
    assert torch.equal(weight == 0, ~mask) and torch.equal(bias == 0, ~bias_mask)
    assert 0 <= layer.percent_active() <= 100 and bnn.percent_active(layer) == pytest.approx(layer.percent_active())
    if not isinstance(layer, bnn.GaussianLinear):
        assert (~mask).any() and mask.any()


def test_state_dict_is_the_parameters_and_a_round_trip_is_exact(any_network, x):
    network, state = any_network, any_network.state_dict()
    settings = {f"{name}._extra_state" for name, m in network.named_modules() if isinstance(m, bnn.StochasticLayer)}
    assert set(state) == {*dict(network.named_parameters()), *dict(network.named_buffers()), *settings}
    other = copy.deepcopy(network)
    with torch.no_grad():
        for value in (*other.parameters(), *other.buffers()):
            value.zero_()
    other.load_state_dict(saved(state))
    with bnn.use_generator(generator(4)):
        expected = network(x)
    with bnn.use_generator(generator(4)):
        assert torch.equal(other(x), expected)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_equal_and_independent_even_between_forward_and_backward(any_network, x, duplicate):
    network = any_network
    loss = network(x).square().mean()  # a pass is open: its graph must not hinder the copy
    other = duplicate(network)
    (loss + bnn.kl_gradient(network) / 10).backward()
    with bnn.use_generator(generator(4)):
        expected = network(x)
    with torch.no_grad():
        for p in network.parameters():
            p.zero_()
    with bnn.use_generator(generator(4)):
        assert torch.equal(other(x), expected)
    assert all(p.grad is None for p in other.parameters())


def test_a_deterministic_checkpoint_loads_and_keeps_the_rest(network):
    plain = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    before = {name: p.clone() for name, p in network.named_parameters()}
    network.load_state_dict(plain.state_dict())
    for name, p in network.named_parameters():
        expected = plain.state_dict()[name] if name.split(".")[1] in ("weight", "bias") else before[name]
        assert torch.equal(p, expected)


@pytest.mark.parametrize("lost", ["weight_rho", "bias_rho", "weight_logit", "bias_logit"])
def test_a_torn_checkpoint_does_not_load_silently(lost):
    layer = bnn.SpikeSlabLinear(5, 4, prior_inclusion_probability=0.1)
    state = layer.state_dict()
    del state[lost]
    with pytest.raises(RuntimeError, match=lost):
        layer.load_state_dict(state)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_round_trip_and_step(any_network, x):
    network = any_network.cuda()
    with bnn.use_generator(torch.Generator("cuda").manual_seed(0)):
        (network(x.cuda()).square().mean() + bnn.kl_gradient(network) / 10).backward()
    assert all(p.grad.isfinite().all() and p.is_cuda for p in network.parameters())
    for mode in (bnn.mean_weights, bnn.selected_weights):
        with mode(network):
            on_gpu = network.cuda()(x.cuda()).cpu()
            torch.testing.assert_close(network.cpu()(x), on_gpu, rtol=1e-9, atol=1e-12)
