"""Posteriors on any parameter of any module: converted shares, noise where it belongs, ties, copies, threads."""

import copy
import math
import pickle
import warnings

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib.train import fit
from tests.seeded import seeded as generator

GAUSSIAN = {"initial_scale": 0.1}
KINDS = {
    "gaussian": GAUSSIAN,
    "gaussian_spike_slab": {"slab_scale": 1.0, "spike_scale": 0.1, **GAUSSIAN},
    "spike_slab": {"prior_inclusion_probability": 0.3, "initial_inclusion_probability": 0.9, **GAUSSIAN},
}


class Attention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class Last(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


class Conv1D(nn.Module):
    """As Hugging Face's: a linear layer whose weight is transposed."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(0.3 * torch.randn(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def numbers(*shape):
    return torch.randn(*shape, generator=generator(1))


MODULES = {
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3), lambda: numbers(5, 3, 8)),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), lambda: numbers(5, 2, 4, 4, 4)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(3, 4, 3), lambda: numbers(5, 3, 8)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3), lambda: numbers(5, 3, 6, 6)),
    "Embedding": (lambda: nn.Embedding(9, 4), lambda: torch.arange(10).reshape(5, 2) % 9),
    "LSTM": (lambda: Last(3, 4, 2, batch_first=True, bidirectional=True), lambda: numbers(5, 7, 3)),
    "GRUCell": (lambda: nn.GRUCell(3, 4), lambda: numbers(5, 3)),
    "MultiheadAttention": (lambda: Attention(8, 2, batch_first=True), lambda: numbers(5, 7, 8)),
    "Conv1D": (lambda: Conv1D(4, 3), lambda: numbers(5, 7, 3)),
    "Linear": (lambda: nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), lambda: numbers(5, 3)),
}


@pytest.fixture(params=list(MODULES))
def case(request):
    torch.manual_seed(0)
    make, inputs = MODULES[request.param]
    return make(), inputs()


@pytest.mark.parametrize("kind", KINDS)
def test_every_module_keeps_its_function_its_names_and_draws(case, kind):
    plain, x = case
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    expected = plain(x)
    model = bnn.to_bayesian(plain, kind, **KINDS[kind])
    assert bnn.bayesian_share(model) == 100.0 and set(before) <= set(model.state_dict())
    with torch.no_grad():
        assert not torch.equal(model(x), model(x)) and not torch.equal(model.eval()(x), model(x))
        with bnn.mean_weights(model):
            slack = 0.5 if kind == "spike_slab" else 1e-5  # phi = 0.9
            torch.testing.assert_close(model(x), expected, rtol=slack, atol=slack)
        with bnn.held_weights(model):
            assert torch.equal(model(x), model(x))
        with bnn.selected_weights(model):
            assert model(x).shape == expected.shape
    draws = bnn.predict(model, x, 4, chunk_size=2, generator=generator(3))
    whole = bnn.predict(model, x, 4, generator=generator(3))
    torch.testing.assert_close(draws, whole, rtol=1e-5, atol=1e-5)
    assert model.load_state_dict(before) and torch.equal(plain(x), expected)
    assert 0.0 < bnn.percent_active(model) <= 100.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_divergence_of_a_step_is_exact(case, kind):
    plain, x = case
    model = bnn.to_bayesian(plain, kind, **KINDS[kind]).double()
    x = x.double() if x.is_floating_point() else x
    with bnn.held_weights(model):
        pass
    (model(x).square().mean() + bnn.kl_gradient(model)).backward()
    assert all(p.grad.abs().sum() > 0 for p in model.parameters())
    # and without a pass before it
    found = [torch.autograd.grad(of(model), [*model.parameters()]) for of in (bnn.kl_gradient, bnn.kl_divergence)]
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("row", [0, 2, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_an_embedding_s_padding_row_is_in_no_draw_no_count_and_no_divergence(kind, row):
    torch.manual_seed(0)
    plain = nn.Embedding(7, 3, padding_idx=row)
    nn.init.constant_(plain.weight[row], 5.0)
    kept = torch.arange(7) != row
    model = bnn.to_bayesian(plain, kind, **KINDS[kind])
    with torch.no_grad():
        for p in model.parameters():
            p[kept] += 0.3 * torch.randn(6, 3)
    short = bnn.to_bayesian(nn.Embedding(6, 3), kind, **KINDS[kind])
    short.load_state_dict({key: v[kept] if v.dim() == 2 else v for key, v in model.state_dict().items()})
    assert torch.equal(model.kl_divergence(), short.kl_divergence())
    assert model.num_weights() == 18 and torch.equal(model.num_active(), short.num_active())
    assert model.percent_active() == short.percent_active()
    for make in (lambda m: m.draw(generator(3)), lambda m: m.mean(), lambda m: m.selected()):
        assert torch.equal(make(model)["weight"][kept], make(short)["weight"])
        assert torch.equal(make(model)["weight"][row], plain.weight[row])
    assert model.active()["weight"][row].all()
    for loss in (lambda: model.kl_divergence(), lambda: model(torch.arange(7)).sum() * 0 + model.kl_gradient()):
        model.zero_grad()
        loss().backward()
        assert all((p.grad[row] == 0).all() and (p.grad[kept] != 0).any() for p in model.parameters())


def test_a_pass_draws_once_however_often_a_parameter_is_read():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.weight - x * self.weight

    model = bnn.to_bayesian(Twice(), parameters=["weight"], **GAUSSIAN)
    assert torch.equal(model(torch.ones(3)), torch.zeros(3))


def test_parameters_are_chosen_by_name_and_the_rest_is_named():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain, self.shift = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return x * self.gain + self.shift

    plain = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), Own())
    with pytest.warns(UserWarning, match=r"form of 2 \(Own\): name .* Their 6 parameters stay deterministic"):
        model = bnn.to_bayesian(plain)
    assert type(model[1]) is nn.LayerNorm and bnn.bayesian_share(model) == pytest.approx(100 * 12 / 24)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bnn.to_bayesian(plain, unsupported="keep")
        model = bnn.to_bayesian(plain, parameters=["0.weight", "1.*", "2.gain"], **GAUSSIAN)
    names = {name for name, _ in model.named_parameters() if name.endswith("_rho")}
    assert names == {"0.weight_rho", "1.weight_rho", "1.bias_rho", "2.gain_rho"}
    assert not torch.equal(model(numbers(2, 3)), model(numbers(2, 3)))
    with pytest.raises(ValueError, match=r"'3\.weight', which no parameter fits"):
        bnn.to_bayesian(plain, parameters=["3.weight"])
    with pytest.raises(ValueError, match=r"2 \(Own\)"):
        bnn.to_bayesian(plain, unsupported="error")


class Language(nn.Module):
    """A small language model whose output layer is its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.rows = Conv1D(8, 8)
        self.head = nn.Linear(8, 9, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.rows(self.block(self.embedding(tokens))))


def test_tied_weights_stay_tied():
    torch.manual_seed(0)
    plain, tokens = Language(), torch.arange(8).reshape(2, 4)
    model = bnn.to_bayesian(plain, **GAUSSIAN)
    assert model.embedding.weight is model.head.weight and bnn.bayesian_share(model) > 90.0
    assert sum(name.endswith("weight_rho") for name, _ in model.named_parameters()) == 6
    copies, seen = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))], []
    model.embedding.register_forward_hook(lambda m, i, o: seen.append(o.detach()))
    model.head.register_forward_pre_hook(lambda m, i: seen.append(m._values()["weight"].detach()))
    for one in (model, *copies):
        one(tokens).square().mean().backward()
    rows, matrix = seen[:2]
    assert torch.equal(rows, matrix[tokens]) and not torch.equal(rows, model.embedding.weight[tokens])
    single = bnn.to_bayesian(nn.Embedding(9, 8), **GAUSSIAN).kl_divergence()
    assert torch.isclose(model.embedding.kl_divergence() / single, torch.tensor(1.0), rtol=0.5)
    assert model.head.kl_divergence() == 0.0
    before = bnn.predict(model, tokens, 2, generator=generator(3))
    for one in copies:
        assert one.embedding.weight is one.head.weight
        assert torch.equal(bnn.predict(one, tokens, 2, generator=generator(3)), before)
    (model(tokens).square().mean() + bnn.kl_gradient(model)).backward()


class Copier(nn.Module):
    """Its second layer has no parameter but the first one's."""

    def __init__(self, sparse: bool = False):
        super().__init__()
        self.embedding = nn.Embedding(7, 4, sparse=sparse)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_whose_parameters_are_all_those_of_another_trains(kind):
    model, tokens = bnn.to_bayesian(Copier(), kind, **KINDS[kind]), torch.arange(7)
    assert model(tokens).shape == (7, 7)
    before = model.embedding.weight.detach().clone()
    run = fit(model, (tokens, tokens), epochs=3, batch_size=7)
    assert run.step == 3 and not torch.equal(model.embedding.weight, before)
    assert bnn.predict(model, tokens, 2).shape == (2, 7, 7)
    assert model.head.draw() == {} and model.head.num_active().item() == 0.0
    assert math.isnan(model.head.percent_active())
    assert bnn.percent_active(model) == pytest.approx(model.embedding.percent_active())


def test_a_sparse_embedding_trains():
    for plain in (nn.EmbeddingBag(7, 4, sparse=True), Copier(sparse=True)):
        model, tokens = bnn.to_bayesian(plain, **GAUSSIAN), torch.arange(7)[:, None]
        fit(model, (tokens, torch.zeros(7, dtype=torch.int64)), epochs=1, batch_size=7, loss=lambda z, y: z.var())
        assert all(p.grad is None or not p.grad.is_sparse for p in model.parameters())
    assert plain.embedding.sparse


def test_an_error_in_a_pass_leaves_nothing_behind():
    model = bnn.to_bayesian(Language(), **GAUSSIAN)
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((2, 4), 20))
    tokens = torch.zeros(2, 4, dtype=torch.int64)
    assert not torch.equal(model(tokens), model(tokens))


def test_no_transformer_loses_its_noise_in_the_fused_path():
    torch.manual_seed(0)
    built = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    built.linear1 = bnn.GaussianLinear(8, 16, initial_scale=0.1)  # by hand
    plain = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2).eval()
    whole, x = bnn.to_bayesian(plain, **GAUSSIAN), numbers(2, 5, 8)
    with torch.no_grad():
        assert not torch.equal(built(x), built(x)) and not torch.equal(whole(x), whole(x))
        mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        with bnn.mean_weights(whole):
            found, expected = whole(x, src_key_padding_mask=mask), plain(x, src_key_padding_mask=mask)
            torch.testing.assert_close(found[~mask], expected[~mask], rtol=1e-4, atol=1e-5)
    assert bnn.bayesian_share(whole) > 90.0
