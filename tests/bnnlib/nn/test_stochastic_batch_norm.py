"""Stochastic batch norm: plain batch norm in training, moments of its statistics, draws from them at test time."""

import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from bnnlib import functional as bF
from bnnlib import models
from bnnlib import nn as bnn
from bnnlib.train.fit import fit
from tests.seeded import normal
from tests.seeded import seeded as generator

DOUBLE = torch.float64
KINDS = [(bnn.StochasticBatchNorm1d, nn.BatchNorm1d, (8, 4)), (bnn.StochasticBatchNorm1d, nn.BatchNorm1d, (8, 4, 5)),
         (bnn.StochasticBatchNorm2d, nn.BatchNorm2d, (8, 4, 3, 2))]  # fmt: skip


def disturbed(layer, seed=3):
    """gamma, beta and running statistics away from 1 and 0."""
    with torch.no_grad():
        for index, value in enumerate((layer.weight, layer.bias, layer.running_mean, layer.running_var)):
            value.copy_(normal(layer.num_features, seed=seed + index))
        layer.running_var.exp_()
    return layer


def network(dropout=0.0):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), models.Dropout(dropout), nn.Flatten(), nn.Linear(48, 6),
        nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2),
    ).double()  # fmt: skip


def batches(number=12, size=16, seed=5):
    return list(normal(number * size, 1, 6, 6, seed=seed).split(size))


def fitted(**settings):
    model = bnn.to_stochastic_batch_norm(network(), **settings)
    bnn.match_moments(model, batches())
    return model


@pytest.mark.parametrize(("kind", "plain", "shape"), KINDS)
@pytest.mark.parametrize("affine", [True, False])
def test_training_is_batch_norm_to_the_bit_also_in_its_gradients(kind, plain, shape, affine):
    ours, theirs = kind(4, affine=affine).double(), plain(4, affine=affine).double()
    outputs = []
    for layer in (ours, theirs):
        x = (2.0 * normal(*shape) + 1.0).requires_grad_()
        out = layer(x)
        out.sin().sum().backward()
        outputs.append([out, x.grad, *(p.grad for p in layer.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*outputs, strict=True))
    assert ours.num_batches_tracked == 1 == ours.moment_count


@pytest.mark.parametrize("statistic", ["scale", "variance"])
@pytest.mark.parametrize("momentum", [None, 0.1])
@pytest.mark.parametrize(("kind", "plain", "shape"), KINDS)
def test_moments_are_those_of_the_batches(kind, plain, shape, momentum, statistic):
    layer = disturbed(kind(4, momentum=momentum, statistic=statistic).double())
    found = []
    for seed in range(10):
        x = 0.3 * normal(*shape, seed=seed) + 2.0
        layer(x)
        found.append(bF.batch_statistics(x, layer.eps if statistic == "scale" else 1e-6))
    means, log_scales = (torch.stack(part) for part in zip(*found, strict=True))
    weights = torch.ones(10, dtype=DOUBLE) if momentum is None else 0.9 ** torch.arange(9, -1, -1, dtype=DOUBLE)
    weights = (weights / weights.sum())[:, None]
    scatter = 1.0 - weights.square().sum()
    for values, center, spread in ((means, *layer.moments()[:2]), (log_scales, *layer.moments()[2:])):
        mean = (weights * values).sum(dim=0)
        torch.testing.assert_close(center, mean, rtol=1e-11, atol=1e-12)
        variance = (weights * (values - mean).square()).sum(dim=0) / scatter
        torch.testing.assert_close(spread.square(), variance, rtol=1e-9, atol=0)
    # the running statistics are those of the deterministic network: mean, and geometric mean of the variances
    extra = layer.eps if statistic == "scale" else 0.0
    torch.testing.assert_close(layer.running_var + extra, (2 * (weights * log_scales).sum(dim=0)).exp(), rtol=1e-10,
                               atol=0)  # fmt: skip
    assert torch.equal(layer.running_mean, layer.mean()[0])
    torch.testing.assert_close(layer.mean()[1].square(), layer.running_var + extra, rtol=1e-12, atol=0)


@pytest.mark.parametrize("statistic", ["scale", "variance"])
@pytest.mark.parametrize(("kind", "plain", "shape"), KINDS)
def test_the_mean_mode_is_plain_batch_norm(kind, plain, shape, statistic):
    theirs = disturbed(plain(4).double()).eval()
    ours = kind.from_deterministic(copy.deepcopy(theirs), statistic=statistic)
    x = normal(*shape)
    for context in (bnn.mean_weights, bnn.selected_weights):
        with context(ours):
            assert torch.equal(ours(x), theirs(x))
    assert not ours.training


@pytest.mark.parametrize(("kind", "plain", "shape"), KINDS)
def test_draws_replay_the_factorised_approximation(kind, plain, shape):
    """y = (x - mu) / sigma * gamma + beta with mu, sigma of (8); eps is inside sigma, or added for the variance."""
    x = normal(*shape)
    for statistic in ("scale", "variance"):
        layer = disturbed(kind(4, eps=0.1, statistic=statistic).double())
        for seed in range(4):
            layer(normal(*shape, seed=seed))
        layer.eval()
        for layer.draws, size in (("batch", (2, 4)), ("object", (2, 8, 4))):
            noise = torch.empty(size, dtype=DOUBLE).normal_(generator=generator(1))
            mean, scale = bF.sample_statistics(layer.moments(), noise)
            divisor = scale if statistic == "scale" else (scale.square() + 0.1).sqrt()
            expected = bF.batch_norm(x, mean, divisor, layer.weight, layer.bias)
            torch.testing.assert_close(layer(x, generator(1)), expected, rtol=1e-12, atol=1e-12)
            with bnn.use_generator(generator(1)):
                torch.testing.assert_close(layer(x), expected, rtol=1e-12, atol=1e-12)


def test_fitting_restores_modes_and_runs_without_gradients_or_dropout():
    model = bnn.to_stochastic_batch_norm(network(dropout=0.9)).train()
    model[3].eval()
    before = [m.training for m in model.modules()]
    seen = []
    model[3].register_forward_hook(lambda module, *_: seen.append((module.training, torch.is_grad_enabled())))
    bnn.match_moments(model, [(x, None) for x in batches()])
    assert set(seen) == {(False, False)} and [m.training for m in model.modules()] == before
    assert [layer.momentum for layer in (model[1], model[6])] == [0.1, 0.1]
    other = bnn.to_stochastic_batch_norm(network())
    bnn.match_moments(other, batches())
    assert torch.equal(model[6].running_log_scale_variance, other[6].running_log_scale_variance)


def test_dropout_can_be_left_on_while_fitting():
    model = bnn.to_stochastic_batch_norm(network(dropout=0.5))
    bnn.match_moments(model, batches())
    without = model[6].moments()
    bnn.match_moments(model, batches(), dropout=True, generator=generator(1))
    found = model[6].moments()
    # what dropout adds to the variance of its outputs reaches the scale of the layer above
    assert (found.log_scale > without.log_scale).all() and model[3].training
    bnn.match_moments(model, batches(), dropout=True, generator=generator(1))
    assert torch.equal(model[6].moments().log_scale, found.log_scale)


def test_interrupted_fitting_leaves_the_moments_as_they_were():
    model = fitted()
    before = copy.deepcopy(model.state_dict())

    def breaks():
        yield from batches(3, seed=9)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bnn.match_moments(model.train(), breaks())
    with pytest.raises(ValueError, match="batches gave 1 batches, but a spread needs at least 2"):
        bnn.match_moments(model, batches(1))
    after = model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items()) and model[1].moment_count == 12
    assert model[1].momentum == 0.1 and all(m.training for m in model.modules())


def test_conversion_copies_and_computes_the_same():
    plain = network()
    plain(batches(1)[0])
    plain.eval()
    model = bnn.to_stochastic_batch_norm(plain, statistic="variance", draws="object")
    assert [type(model[i]).__name__ for i in (1, 6)] == ["StochasticBatchNorm2d", "StochasticBatchNorm1d"]
    assert type(plain[1]) is nn.BatchNorm2d and model[1].weight is not plain[1].weight
    assert "statistic='variance', draws='object'" in repr(model[1]) and "momentum=0.1" in repr(model[6])
    x = batches(1, seed=8)[0]
    with bnn.mean_weights(model):
        assert torch.equal(model(x), plain(x))
    norm = nn.BatchNorm1d(3)
    assert type(bnn.to_stochastic_batch_norm(norm)) is bnn.StochasticBatchNorm1d
    shared = bnn.to_stochastic_batch_norm(nn.Sequential(norm, nn.ReLU(), norm))
    assert shared[0] is shared[2] and isinstance(shared[0], bnn.StochasticBatchNorm1d)
    part = bnn.to_stochastic_batch_norm(plain, where=lambda name, _: name != "6")
    assert type(part[6]) is nn.BatchNorm1d and bnn.bayesian_layers(part) == [part[1]]
    bnn.match_moments(part, batches())
    again = bnn.to_stochastic_batch_norm(part)  # the rest; what is stochastic keeps its moments
    assert again[1].moment_count == 12 and again[6].moment_count == 0


def test_drawing_before_fitting_says_what_to_do():
    layer = bnn.StochasticBatchNorm1d(3)
    x = torch.randn(4, 3)
    for count in (0, 1):
        with pytest.raises(ValueError, match=rf"StochasticBatchNorm1d\(3\) has the moments of {count} batches.*match_"):
            layer.eval()(x)
        with bnn.mean_weights(layer):
            assert layer(x).isfinite().all()
        layer.train()(x)
    assert layer.eval()(x).isfinite().all()


def test_a_dead_feature_has_no_spread_and_no_nan():
    for statistic in ("scale", "variance"):
        layer = bnn.StochasticBatchNorm1d(2, statistic=statistic)
        for seed in range(3):
            x = normal(6, 2, seed=seed).float()
            x[:, 0] = 4.0
            layer(x).sum().backward()
        moments = layer.moments()
        assert moments.mean_spread[0] == 0 and moments.log_scale_spread[0] < 1e-6 and layer.running_var[0] < 2e-6
        assert layer.eval()(x).isfinite().all()


def test_the_state_of_a_plain_network_loads():
    plain = network()
    for x in batches(3):
        plain(x)
    model = fitted()
    assert model.load_state_dict(plain.state_dict()) == ([], [])  # strict
    assert [model[i].moment_count for i in (1, 6)] == [0, 0] and not model[1].running_mean_variance.any()
    x = batches(1, seed=9)[0]
    with bnn.mean_weights(model.eval()):
        assert torch.equal(model(x), plain.eval()(x))
    with pytest.raises(ValueError, match="moments of 0 batches"):
        model(x)
    partial = fitted().state_dict()
    del partial["1.running_mean_variance"]
    with pytest.raises(RuntimeError, match=r"Missing key.*1\.running_mean_variance"):
        fitted().load_state_dict(partial)
    del partial["1.running_log_scale_variance"], partial["1._extra_state"], partial["1.running_var"]
    with pytest.raises(RuntimeError, match=r"Missing key.*1\.running_var"):
        fitted().load_state_dict(partial)


def test_the_state_goes_back_into_a_plain_network():
    model, plain = fitted(), network()
    result = plain.load_state_dict(model.state_dict(), strict=False)
    assert result.missing_keys == [] and {key.split(".")[1] for key in result.unexpected_keys} == {
        "running_mean_variance", "running_log_scale_variance", "_extra_state"}  # fmt: skip
    x = batches(1, seed=9)[0]
    with bnn.mean_weights(model.eval()):
        assert torch.equal(model(x), plain.eval()(x))


def test_a_saved_state_draws_the_same_where_nothing_was_fitted():
    model, x = fitted().eval(), batches(1, seed=9)[0]
    loaded = bnn.to_stochastic_batch_norm(network())
    loaded.load_state_dict(model.state_dict())
    expected = bnn.predict(model, x, 3, generator=generator(1))
    assert torch.equal(bnn.predict(loaded, x, 3, generator=generator(1)), expected)
    loaded[1].train()(normal(4, 3, 2, 2))
    assert (loaded[1].moment_count, model[1].moment_count) == (13, 12)
    narrow = copy.deepcopy(model).float()
    assert narrow[1].running_mean_variance.dtype == torch.float32
    assert bnn.predict(narrow, x.float(), 1).shape == (1, 16, 2)


def test_float32_and_float64_agree():
    wide, narrow = fitted(), fitted().float()
    bnn.match_moments(narrow, [x.float() for x in batches()])
    for index in (1, 6):
        for a, b in zip(wide[index].moments(), narrow[index].moments(), strict=True):
            torch.testing.assert_close(b.double(), a, rtol=2e-4, atol=1e-5)


def test_held_draws_serve_every_pass_and_predictions_are_functions():
    model, x = fitted(draws="object").eval(), batches(1, seed=9)[0]
    with bnn.held_weights(model, generator(1)):
        one, two = model(x), model(x[:5])
    torch.testing.assert_close(one[:5], two, rtol=1e-12, atol=1e-12)
    assert not torch.equal(model(x), model(x))
    draws = bnn.predict(model, x, 4, chunk_size=3, generator=generator(1))
    torch.testing.assert_close(draws[0], one, rtol=1e-12, atol=1e-12)


def test_there_is_no_divergence_and_training_goes_through_fit():
    model = fitted()
    assert bnn.kl_divergence(model).item() == 0.0 == bnn.kl_gradient(model).item()
    x = torch.cat(batches())
    y = (x.mean(dim=(1, 2, 3)) > 0).long()
    run = fit(model.train(), (x, y), epochs=30, batch_size=32, generator=generator(),
              optimizer=torch.optim.Adam(model.parameters(), lr=0.02))  # fmt: skip
    assert run.history[-1]["nll"] < 0.6 * run.history[0]["nll"] and run.history[-1]["kl"] == 0.0
    assert model[1].moment_count == 12 + 30 * 6


def test_update_bn_of_pytorch_fits_the_moments_too():
    ours, theirs = bnn.to_stochastic_batch_norm(network()), bnn.to_stochastic_batch_norm(network())
    bnn.match_moments(ours, batches())
    update_bn(batches(), theirs)
    for index in (1, 6):
        torch.testing.assert_close([*ours[index].moments()], [*theirs[index].moments()], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("draws", ["batch", "object"])
def test_memory_format_and_autocast(draws):
    layer = bnn.StochasticBatchNorm2d(8, draws=draws)
    x = normal(4, 8, 6, 6).float()
    wide = x.to(memory_format=torch.channels_last)
    for seed in range(3):
        layer(normal(4, 8, 6, 6, seed=seed).float().to(memory_format=torch.channels_last))
    layer.eval()
    a, b = layer(x, generator(1)), layer(wide, generator(1))
    assert b.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    with torch.autocast("cpu", torch.bfloat16):
        c = layer(x.bfloat16(), generator(1))
    assert c.dtype == torch.bfloat16 and layer.running_mean.dtype == torch.float32
    # input and output are rounded to 8 bits
    torch.testing.assert_close(c.float(), a, rtol=2e-2, atol=2e-2)
    layer.train()
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x.bfloat16()).dtype == torch.bfloat16
    assert layer.moment_count == 4 and layer.moments().mean.dtype == torch.float32


def test_resetting_forgets_the_moments():
    layer = fitted()[1]
    layer.reset_running_stats()
    assert layer.moment_count == 0 == layer.num_batches_tracked
    assert not layer.running_mean_variance.any() and not layer.running_log_scale_variance.any()
    assert layer.running_mean.tolist() == [0.0] * 3 and layer.running_var.tolist() == [1.0] * 3
