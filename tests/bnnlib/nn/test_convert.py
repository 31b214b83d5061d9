"""Conversion of deterministic networks: same function in mean mode, same names, nothing lost."""

import re
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from bnnlib import nn as bnn
from bnnlib.nn.convert import LAYERS
from bnnlib.pruning import to_deterministic
from tests.seeded import normal


def network():
    torch.manual_seed(0)
    convolution = nn.Conv2d(3, 4, 3, stride=2, padding=1, padding_mode="reflect", bias=False)
    layers = nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 2)
    return nn.Sequential(convolution, *layers).eval()


# so narrow a spike that all weights of this network are selected
MIXTURE = {"slab_scale": 1.0, "spike_scale": 1e-4}
KINDS = {
    "gaussian": ({"estimator": "flipout", "prior_scale": 0.7}, bnn.GaussianLinear, bnn.GaussianConv2d),
    "gaussian_spike_slab": (
        {**MIXTURE, "estimator": "local"}, bnn.GaussianSpikeSlabLinear, bnn.GaussianSpikeSlabConv2d,
    ),
    "scale_mixture": (MIXTURE, bnn.ScaleMixtureLinear, bnn.ScaleMixtureConv2d),
    "spike_slab": ({"prior_inclusion_probability": 1e-4}, bnn.SpikeSlabLinear, bnn.SpikeSlabConv2d),
    "sparse_vd": ({"initial_scale": 1e-4}, bnn.SparseVDLinear, bnn.SparseVDConv2d),
    "horseshoe": ({"layer_scale": 0.1}, bnn.HorseshoeLinear, nn.Conv2d),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_conversion_keeps_the_function_the_names_and_the_original(kind):
    settings, linear, conv = KINDS[kind]
    plain, x = network(), torch.randn(5, 3, 8, 8)
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    expected = plain(x)
    model = bnn.to_bayesian(plain, kind, **settings)
    assert [type(model[k]) for k in (0, 1, 4, 6)] == [conv, nn.BatchNorm2d, linear, linear]
    with bnn.mean_weights(model):
        # spike-and-slab starts at phi = 0.99, the horseshoe at log-normal means 0.25 % above 1
        torch.testing.assert_close(model(x), expected, rtol=0.05, atol=0.05)
    with bnn.selected_weights(model):
        torch.testing.assert_close(model(x), expected, rtol=0.02, atol=0.02 if kind == "horseshoe" else 1e-6)
    assert set(before) <= set(model.state_dict()) and model.load_state_dict(before)
    model.train()
    (model(x).square().mean() + bnn.kl_gradient(model) / 10).backward()
    assert all(p.requires_grad and p.grad is not None for p in model.parameters())
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    assert torch.equal(plain(x), expected)


def test_where_chooses_layers_settings_arrive_and_converting_again_leaves_what_is_bayesian():
    settings = {"prior_scale": 0.7, "estimator": "local"}
    model = bnn.to_bayesian(network(), where=lambda name, module: name == "6", **settings)
    assert [type(model[k]) for k in (0, 4, 6)] == [nn.Conv2d, nn.Linear, bnn.GaussianLinear]
    assert (model[6].prior_scale, model[6].estimator) == (0.7, "local")
    model = bnn.to_bayesian(model, "sparse_vd")
    assert [type(model[k]) for k in (4, 6)] == [bnn.SparseVDLinear, bnn.GaussianLinear]


def test_a_single_layer_and_a_shared_layer():
    assert type(bnn.to_bayesian(nn.Linear(3, 2))) is bnn.GaussianLinear
    shared = nn.Linear(3, 3)
    model = bnn.to_bayesian(nn.Sequential(shared, nn.ReLU(), shared))
    assert model[0] is model[2]


def test_dtype_training_mode_frozen_parameters_and_hooks_survive():
    plain = network().double().train()
    plain[4].weight.requires_grad_(False)
    calls = []
    plain[4].register_forward_hook(lambda *_: calls.append(1))
    model = bnn.to_bayesian(plain)
    assert model[4].training and model[4].weight_rho.dtype == torch.float64 and not model[4].weight.requires_grad
    model(torch.randn(2, 3, 8, 8, dtype=torch.float64))
    assert calls == [1]


@pytest.mark.parametrize("kind", LAYERS)
def test_missing_and_unknown_settings_are_answered_with_those_there_are(kind):
    own = LAYERS[kind][nn.Linear]._arguments()
    required = [p.name for p in own if p.default is p.empty]
    with pytest.raises(TypeError, match=rf"layer='{kind}' does not know prior_sale\b") as caught:
        bnn.to_bayesian(network(), kind, prior_sale=1.0)
    assert all(re.search(rf"\b{p.name}\b", str(caught.value)) for p in own)
    if not required:
        return
    # an embedding has no layer of its own, and takes another way
    for plain in (network(), nn.Embedding(3, 2)):
        with pytest.raises(TypeError, match=rf"layer='{kind}' needs {' and '.join(required)}\b") as caught:
            bnn.to_bayesian(plain, kind)
        assert "_init_posterior" not in str(caught.value)
    assert all(name in bnn.to_bayesian.__doc__ for name in required)
    call = re.search(r"to_bayesian\(model, .*\)", str(caught.value)).group()
    assert bnn.bayesian_layers(eval(call, {"to_bayesian": bnn.to_bayesian, "model": nn.Linear(3, 2)}))


def test_frozen_layers_stay_as_they_are():
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    network[0].requires_grad_(False)
    model = bnn.to_bayesian(network, unsupported="error")
    assert type(model[0]) is nn.Linear and type(model[2]) is bnn.GaussianLinear
    assert {name for name, p in model.named_parameters() if not p.requires_grad} == {"0.weight", "0.bias"}
    named = bnn.to_bayesian(network, parameters=["0.weight", "2.weight"])
    assert isinstance(named[0], bnn.BayesianLayer) and not named[0].weight_rho.requires_grad
    with pytest.raises(ValueError, match="thaws them"):
        bnn.to_bayesian(network.requires_grad_(False))


HOOK = r"0 \(\w+\): a hook computes its weight, which .*prune\.remove"
WHOLE = r"0 \(\w+\): it replaces plain nn\.Linear .*modules with all of their parameters, none .*, and 'gaussian'"


X = normal(8, 3).float()


def pruned(module):
    return prune.l1_unstructured(module, "weight", 0.5)


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize(
    ("kind", "first", "names", "words"),
    [
        ("sparse_vd", lambda: nn.Linear(3, 4), ["0.weight"], WHOLE),
        ("horseshoe", lambda: nn.Conv2d(1, 2, 3), ["*"], WHOLE),
        ("sparse_vd", lambda: nn.LSTM(3, 4), ["*"], WHOLE),
        ("sparse_vd", lambda: nn.LSTM(3, 4), None, WHOLE),
        ("gaussian", lambda: nn.utils.weight_norm(nn.Linear(3, 4)), ["0.weight_v"], HOOK),
        ("gaussian", lambda: pruned(nn.Linear(3, 4)), ["0.weight_orig"], HOOK),
        ("gaussian", lambda: nn.utils.spectral_norm(nn.Conv1d(3, 4, 1)), ["0.weight_orig"], HOOK),
        ("gaussian", lambda: pruned(nn.Conv1d(3, 4, 1)), None, HOOK),
        ("gaussian", lambda: nn.PReLU(), None, r"0 \(PReLU\): name theirs in parameters="),
    ],
)
def test_what_is_named_and_cannot_be_random_is_refused_and_the_rest_is_told_with_a_reason(kind, first, names, words):
    network = nn.Sequential(first(), nn.Linear(4, 2))
    if names is None:
        with pytest.warns(UserWarning, match=words + r".*\. Their \d+ parameters stay deterministic"):
            model = bnn.to_bayesian(network, kind)
    else:
        names = [*names, "1.*"]
        with pytest.raises(ValueError, match=words):
            bnn.to_bayesian(network, kind, parameters=names)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = bnn.to_bayesian(network, kind, parameters=names, unsupported="keep")
            bnn.to_bayesian(network, kind, parameters=names, where=lambda name, module: name == "1")
    assert [isinstance(layer, bnn.BayesianLayer) for layer in model] == [False, True]


@pytest.mark.parametrize("form", [bnn.to_stochastic_batch_norm, lambda m: bnn.to_laplace(m, (X, X[:, 0] > 0))])
def test_a_pruned_network_that_has_run_is_copied(form):
    network = nn.Sequential(pruned(nn.Linear(3, 4)), nn.BatchNorm1d(4), nn.Linear(4, 2))
    network(X)
    assert any(name.endswith("0.weight_orig") for name in form(network).state_dict())


def test_a_shared_parameter_is_random_under_all_of_its_names():
    tied, again = nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 7, bias=False)), nn.Linear(3, 3)
    tied[1].weight = tied[0].weight
    for network, names in ((tied, ["0.weight"]), (tied, ["1.weight"]), (nn.Sequential(again, again), ["1.*"])):
        assert all(isinstance(layer, bnn.BayesianLayer) for layer in bnn.to_bayesian(network, parameters=names))


@pytest.mark.parametrize("kind", ["horseshoe", "scale_mixture", "sparse_vd"])
def test_kinds_of_one_posterior_a_layer_leave_what_is_shared(kind):
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2))
    network[1].weight = network[0].weight
    with pytest.warns(UserWarning, match=r"0 \(Linear\), 1 \(Linear\): .* none of which another module has too"):
        model = bnn.to_bayesian(network, kind, **KINDS[kind][0])
    assert [isinstance(layer, bnn.BayesianLayer) for layer in model] == [False, False, True]
    assert model[1].weight is model[0].weight


def test_complex_parameters_stay_as_they_are():
    network = nn.Sequential(nn.Linear(3, 3, dtype=torch.complex64), nn.Linear(3, 3))
    with pytest.warns(UserWarning, match=r"0 \(Linear\): its parameters are complex"):
        model = bnn.to_bayesian(network)
    assert [isinstance(layer, bnn.BayesianLayer) for layer in model] == [False, True]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_an_encoder_has_its_fast_path_where_nothing_in_it_is_random_and_has_it_back_later():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2)
            self.out = nn.Linear(4, 2)

        def forward(self, x):
            padded = torch.tensor([[False, False, True]]).expand(len(x), 3)
            return self.out(self.encoder(x, src_key_padding_mask=padded).mean(1))

    network, x = Pooled().eval(), torch.randn(5, 3, 4)
    head, whole = bnn.to_bayesian(network, where=lambda name, module: name == "out"), bnn.to_bayesian(network)
    twice = bnn.to_bayesian(head)
    with torch.no_grad():
        with bnn.mean_weights(head):
            assert torch.equal(head(x), network(x))
        for model in (head, whole, twice):
            assert torch.equal(to_deterministic(model)(x), network(x))
            bnn.predict(model, x, 2)


def test_names_alone_are_no_hook():
    own = nn.Module()
    own.k_v, own.k = nn.Parameter(torch.ones(3)), torch.zeros(3)
    assert "random=k_v" in repr(bnn.to_bayesian(nn.Sequential(own), parameters=["*"]))
