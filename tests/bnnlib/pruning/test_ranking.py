"""Global pruning by p*, by signal-to-noise and by magnitude, and the plain network that is left."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bnnlib import nn as bnn
from bnnlib.models import mlp
from bnnlib.pruning import compress, global_masks, prune_ranked, rank_mask, to_csr, to_deterministic, weight_scores
from chapters.shared.networks import lenet5_caffe, vgg_like
from tests.bnnlib.pruning.networks import seeded

MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.0067}


def perturb(model, seed=1):
    """Give every weight a mean and a scale of its own, as training does."""
    generator = seeded(seed)
    with torch.no_grad():
        for name, values in model.named_parameters():
            values.add_(torch.randn(values.shape, generator=generator), alpha=2.0 if name.endswith("rho") else 0.02)
    return model


def network(layer=bnn.GaussianSpikeSlabLinear, **options):
    return perturb(mlp((6, 8, 3), layer=layer, generator=seeded(), **(options or MIXTURE)))


def joined(tensors):
    return torch.cat([t.flatten() for t in tensors.values()])


@pytest.mark.parametrize("sparsity", [0.0, 0.01, 0.333, 0.5, 0.98, 1.0])
@pytest.mark.parametrize("batch_dims", [0, 1, 2])
@pytest.mark.parametrize("ties", [False, True])
def test_the_lowest_go_in_exact_number_and_ties_by_position(sparsity, batch_dims, ties):
    score = torch.randn(2, 3, 40, generator=seeded())
    if ties:
        score = score.round()
    mask = rank_mask(score, sparsity, batch_dims)
    # the definition: the first `remove` of a stable sort
    flat = score.reshape(*score.shape[:batch_dims], -1)
    remove = round(sparsity * flat.shape[-1])
    expected = torch.ones_like(flat, dtype=torch.bool).scatter_(
        -1, flat.argsort(dim=-1, stable=True)[..., :remove], False
    )
    assert torch.equal(mask, expected.reshape(score.shape))


def test_infinite_scores_have_a_rank():
    score = torch.tensor([math.inf, 0.0, -math.inf, math.inf, 1.0])
    assert rank_mask(score, 0.4).tolist() == [True, False, False, True, True]
    assert rank_mask(score, 0.8).tolist() == [False, False, False, True, False]


def test_bfloat16_scores():
    score = torch.randn(100, generator=seeded()).bfloat16()
    assert int((~rank_mask(score, 0.37)).sum()) == 37


def test_scores_are_what_they_say():
    model = network()
    layer = model[0]
    mean, scale = layer.weight.detach(), F.softplus(layer.weight_rho.detach())
    by = {name: weight_scores(model, name) for name in ("inclusion", "signal_to_noise", "magnitude")}
    for scores in by.values():
        assert list(scores) == ["0.weight", "0.bias", "2.weight", "2.bias"]
        assert {n: s.shape for n, s in scores.items()} == {n: dict(model.named_parameters())[n].shape for n in scores}
    torch.testing.assert_close(torch.sigmoid(by["inclusion"]["0.weight"]), layer.inclusion_probability)
    torch.testing.assert_close(torch.sigmoid(by["inclusion"]["2.bias"]), model[2].bias_inclusion_probability)
    assert torch.equal(by["signal_to_noise"]["0.weight"], mean.abs() / scale)
    assert torch.equal(by["magnitude"]["0.bias"], layer.bias.detach().abs())


def test_log_odds_tell_apart_what_the_probability_rounds_to_one():
    model = network()
    model[0].weight.data.fill_(1.0)
    model[0].weight.data[0, 0] = 0.9  # p* is 1 in float32 for both
    assert (model[0].inclusion_probability == 1.0).all()
    scores = weight_scores(model)["0.weight"]
    assert scores.argmin() == 0 and scores[0, 0] < scores[0, 1]


def test_dirac_spike_and_slab_ranks_by_its_own_probability():
    model = network(bnn.SpikeSlabLinear, prior_inclusion_probability=0.1)
    perturb(model, 5)
    assert torch.equal(weight_scores(model)["2.bias"], model[2].bias_logit.detach())


@pytest.mark.parametrize("sparsity", [0.0, 0.1, 0.5, 0.95])
def test_one_ranking_over_all_layers(sparsity):
    scores = weight_scores(network())
    masks = global_masks(scores, sparsity)
    kept, flat = joined(masks), joined(scores)
    assert int((~kept).sum()) == round(sparsity * flat.numel())
    if sparsity:
        assert flat[~kept].max() <= flat[kept].min()
    assert all(mask.dtype == torch.bool and mask.shape == scores[n].shape for n, mask in masks.items())


def test_pruned_weights_are_zero_and_the_rest_are_the_means():
    model = network()
    masks = global_masks(weight_scores(model), 0.7)
    pruned = prune_ranked(model, 0.7)
    for name, weight in pruned.named_parameters():
        mean = dict(model.named_parameters())[name]
        assert (weight[~masks[name]] == 0).all() and torch.equal(weight[masks[name]], mean[masks[name]])
        assert not torch.signbit(weight[~masks[name]]).any()  # 0, not -0
    assert [type(m) for m in pruned] == [nn.Linear, nn.ReLU, nn.Linear]
    assert set(pruned.state_dict()) == set(masks)


LAYERS = {
    "gaussian": {},
    "gaussian_spike_slab": MIXTURE,
    "scale_mixture": MIXTURE,
    "spike_slab": {"prior_inclusion_probability": 0.3},
    "sparse_vd": {},
}


class Nested(nn.Module):
    """A convolution inside a block, one that is used twice, normalization, and a linear layer with its own name."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1, padding_mode="reflect", bias=False), nn.BatchNorm2d(4)
        )
        self.twice = nn.Conv2d(4, 4, 3, padding="same", dilation=2, groups=2)
        self.again = nn.ModuleList([self.twice])
        self.head = nn.ModuleDict({"out": nn.Linear(4, 3)})

    def forward(self, x):
        x = self.again[0](F.relu(self.twice(F.relu(self.stem(x)))))
        return self.head["out"](x.mean(dim=(2, 3)))


@pytest.mark.parametrize("kind", list(LAYERS))
def test_the_copy_computes_what_the_means_do(kind):
    model = perturb(bnn.to_bayesian(Nested(), kind, **LAYERS[kind])).double()
    x = torch.randn(5, 2, 9, 9, generator=seeded(3)).double()
    model.train()(x)  # moves the running moments of the normalization
    model.eval()
    before = copy.deepcopy(model.state_dict())
    plain = to_deterministic(model)
    with bnn.mean_weights(model):
        assert torch.equal(plain(x), model(x))  # the same operations on the same numbers
    assert not any(isinstance(m, bnn.BayesianLayer) for m in plain.modules())
    assert plain.twice is plain.again[0] and type(plain.twice) is nn.Conv2d and not plain.training
    for name, values in model.state_dict().items():
        assert torch.equal(values, before[name])
    with torch.no_grad():
        for values in plain.parameters():
            values.zero_()
    assert torch.equal(model.state_dict()["head.out.weight"], before["head.out.weight"])  # nothing is shared


def test_a_horseshoe_and_a_model_that_is_one_layer():
    layer = perturb(bnn.HorseshoeLinear(5, 4))
    x = torch.randn(3, 5)
    with bnn.mean_weights(layer):
        assert torch.equal(to_deterministic(layer)(x), layer(x))
    masks = {"weight": torch.zeros(4, 5, dtype=torch.bool), "bias": torch.zeros(4, dtype=torch.bool)}
    assert (to_deterministic(layer, masks)(x) == 0).all()


def test_hooks_are_kept_and_a_forward_pass_of_one_s_own_is_refused():
    network, x = Nested().eval(), torch.randn(5, 2, 9, 9, generator=seeded(3))
    network.twice.register_forward_hook(lambda m, i, o: o + 1.0)
    network.head["out"].register_forward_pre_hook(lambda m, i: (3.0 * i[0],))
    plain = to_deterministic(bnn.to_bayesian(network))
    assert torch.equal(plain(x), network(x)) and not plain.stem[0]._forward_pre_hooks
    torch.testing.assert_close(to_csr(network)(x), network(x))
    picks, x = nn.Sequential(nn.Linear(4, 2)).eval(), torch.ones(2, 4)
    picks[0].register_forward_hook(lambda m, i, o: o + 1.0)
    picks[0].weight.data[:, 1:] = 0.0
    torch.testing.assert_close(compress(picks, x)(x), picks(x))

    class Doubled(bnn.GaussianLinear):
        def forward(self, input):
            return 2.0 * super().forward(input)

    for call in (to_deterministic, lambda model: compress(model, torch.ones(2, 3))):
        with pytest.raises(TypeError, match="0 is a Doubled with a forward pass of its own, which nn"):
            call(nn.Sequential(Doubled(3, 2)))


def test_networks_with_convolutions_and_batch_norm():
    model = vgg_like(0.05, bnn.GaussianSpikeSlabConv2d, bnn.GaussianSpikeSlabLinear, generator=seeded(), **MIXTURE)
    perturb(model).eval()
    scores = weight_scores(model)
    assert not any("bn" in name for name in scores) and len(scores) == 16
    pruned = prune_ranked(model, 0.9)
    weights = joined({n: p for n, p in pruned.named_parameters() if n in scores})
    assert int((weights == 0).sum()) == round(0.9 * weights.numel())
    for name in ("bn1_1.weight", "bn_fc1.running_var", "bn3_2.bias"):
        assert torch.equal(pruned.state_dict()[name], model.state_dict()[name])
    x = torch.randn(2, 3, 32, 32, generator=seeded(2))
    assert torch.isfinite(pruned(x)).all()


def test_a_deterministic_network_is_pruned_by_magnitude():
    model = lenet5_caffe(generator=seeded())
    pruned = prune_ranked(model, 0.98, by="magnitude")
    assert sum(int((p == 0).sum()) for p in pruned.parameters()) == round(0.98 * 431_080)
    assert all((p != 0).all() for p in model.parameters())
    flat = torch.cat([p.detach().abs().flatten() for p in model.parameters()])
    kept = torch.cat([p.detach().flatten() != 0 for p in pruned.parameters()])
    assert flat[~kept].max() <= flat[kept].min()


def test_what_is_deterministic_in_a_bayesian_model_stays():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), bnn.GaussianSpikeSlabLinear(5, 2, **MIXTURE))
    assert list(weight_scores(model)) == ["2.weight", "2.bias"]
    assert list(weight_scores(model, "magnitude")) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert torch.equal(prune_ranked(model, 0.9)[0].weight, model[0].weight)


def test_the_largest_drop_rate_named_in_the_message_keeps_one_weight():
    masks = global_masks(weight_scores(network()), 1.0 - 0.51 / 83)
    assert int(joined(masks).sum()) == 1


class Tied(torch.nn.Module):
    """Modules that are converted parameter by parameter, two of which share their table."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(7, 4, padding_idx=0)
        self.body = torch.nn.LSTM(4, 4, num_layers=2, batch_first=True)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.pair = torch.nn.Bilinear(4, 4, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        h, _ = self.body(self.table(tokens))
        h, _ = self.attention(h, h, h)
        return self.head(self.pair(h, h))


@pytest.mark.parametrize("kind", ["gaussian", "spike_slab"])
def test_what_was_converted_by_parameter_becomes_its_own_class_again(kind):
    network, tokens = Tied(), torch.randint(7, (3, 5))
    model = perturb(bnn.to_bayesian(network, kind, **LAYERS[kind])).eval()
    plain = to_deterministic(model)
    with bnn.mean_weights(model):
        assert torch.equal(plain(tokens), model(tokens))
    assert torch.equal(plain(tokens), plain(tokens))
    assert [type(m) for m in plain.modules()] == [type(m) for m in network.modules()]
    assert list(plain.state_dict()) == list(network.state_dict())
    assert plain.head.weight is plain.table.weight
    plain(tokens).sum().backward()  # it trains on
    assert all(p.grad is not None for p in plain.parameters())
    assert "random" not in repr(copy.deepcopy(plain))
