"""A pass that is computed a second time, for its backward pass, draws what it drew, or says that it cannot."""

import contextlib

import pytest
import torch
import torch._functorch.config as compiler
from torch import nn
from torch.utils.checkpoint import checkpoint

from bnnlib._noise import Keyed, Keys, draw_normal, fold
from bnnlib.models import Dropout
from bnnlib.nn import insert_unit_noise, kl_gradient, predict, redraw, to_bayesian, use_generator
from bnnlib.train import fit

X = torch.randn(16, 8, generator=torch.Generator().manual_seed(1))
_MIXTURE = {"prior_inclusion_probability": 0.1, "slab_scale": 1.0, "spike_scale": 0.01}
KINDS = {
    "gaussian": {"initial_scale": 0.1},
    "spike_slab": {"prior_inclusion_probability": 0.1, "initial_inclusion_probability": 0.7},
    "gaussian_spike_slab": _MIXTURE,
    "scale_mixture": _MIXTURE,
    "sparse_vd": {},
    "horseshoe": {},
    "local": {"initial_scale": 0.1, "estimator": "local"},
    "flipout": {"initial_scale": 0.1, "estimator": "flipout"},
    "unit noise": {},
    "dropout": {},
}
kinds = pytest.mark.parametrize("kind", KINDS)


class Twice(nn.Module):
    """A network that calls one of its layers twice."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 1)
        self.other = nn.Identity()

    def forward(self, x):
        hidden = self.other(torch.tanh(self.middle(torch.tanh(self.first(x)))))
        return self.last(torch.tanh(self.middle(hidden)))


def model_of(kind):
    torch.manual_seed(0)
    model = Twice()
    if kind == "unit noise":
        return insert_unit_noise(model, after=["first"])
    if kind == "dropout":
        model.other = Dropout(0.5)
        return to_bayesian(model, initial_scale=0.1)
    return to_bayesian(model, "gaussian" if kind in ("local", "flipout") else kind, **KINDS[kind])


def gradients(model, run=None, source=contextlib.nullcontext):
    model.zero_grad()
    with source():
        loss = (model if run is None else run)(X).square().mean() + kl_gradient(model) / 100
        loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def compiled(model):
    torch._dynamo.reset()
    return torch.compile(model, backend="aot_eager_decomp_partition")


def checked(model):
    return lambda x: checkpoint(model, x, use_reentrant=False)


def reentrant(model):
    return lambda x: checkpoint(model, x.clone().requires_grad_(), use_reentrant=True)


def assert_same(found, expected):
    # float32 sums of a compiled graph may be ordered otherwise: some ten roundings of 6e-8
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "dropout"])  # tests/book/test_one_draw.py has every layer alone
def test_a_layer_called_twice_draws_by_key_in_a_pass_computed_again(kind):
    model = model_of(kind)
    for run in (checked(model), reentrant(model), compiled(model)):
        with compiler.patch(activation_memory_budget=0.0), redraw(model, seed=3, step=1):
            assert_same(gradients(model, run), gradients(model))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "scale_mixture"])  # whose KL is drawn apart there
def test_without_keys_checkpoints_are_right_and_compiled_calls_stay_apart(kind):
    model = model_of(kind)

    def seeded():
        torch.manual_seed(7)
        return contextlib.nullcontext()

    expected = gradients(model, None, seeded)
    # a graph takes seconds: of draws of outputs, of two numbers for a weight, and of noise on units
    for run in (checked, reentrant, *([compiled] if kind in ("local", "spike_slab", "unit noise") else [])):
        assert_same(gradients(model, run(model), seeded), expected)


@kinds
@pytest.mark.parametrize("run", [checked, reentrant])
def test_a_generator_is_refused_in_a_pass_computed_again(kind, run):
    model = model_of(kind)
    with pytest.raises(RuntimeError, match=r"redraw\(model, seed, step\)"):
        gradients(model, run(model), lambda: use_generator(torch.Generator().manual_seed(1)))


@pytest.mark.slow
def test_a_memory_budget_without_keys_is_refused():
    model = model_of("gaussian")
    with (
        compiler.patch(activation_memory_budget=0.0),
        pytest.raises(RuntimeError, match=r"redraw\(model, seed, step\)"),
    ):
        gradients(model, compiled(model))


@kinds
def test_one_key_is_one_draw_and_others_are_others(kind):
    model = model_of(kind)
    with redraw(model, seed=0, step=5):
        first = model(X)
        assert torch.equal(first, model(X))
        for other in ({"seed": 1, "step": 5}, {"seed": 0, "step": 6}, {"seed": 0, "step": 5, "rank": 1}):
            with redraw(model, **other):
                assert not torch.equal(first, model(X))
    assert not torch.equal(model(X), model(X))  # given back


def test_keys_leave_states_predictions_and_given_generators_alone():
    model = model_of("gaussian")
    names = set(model.state_dict()), {name for name, _ in model.named_buffers()}
    redraw(model, seed=0)
    assert (set(model.state_dict()), {name for name, _ in model.named_buffers()}) == names
    samples = predict(model, X, num_samples=2, generator=torch.Generator().manual_seed(1))
    assert not torch.equal(samples[0], samples[1])
    outputs = [model.first(X, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])


class Checkpointed(Twice):
    """The network with its pass computed twice."""

    def forward(self, x):
        return checkpoint(super().forward, x, use_reentrant=False) if torch.is_grad_enabled() else super().forward(x)


@pytest.mark.parametrize("layer", ["gaussian", "spike_slab", "scale_mixture"])
def test_fit_by_key_trains_a_checkpointed_network_as_the_plain_one(layer):
    trained = []
    for kind in (Twice, Checkpointed):
        torch.manual_seed(0)
        model = to_bayesian(kind(), layer, **KINDS[layer])
        settings = {"loss": nn.functional.mse_loss, "generator": torch.Generator().manual_seed(2)}
        fit(model, (X, X[:, :1]), epochs=3, batch_size=6, **settings)
        trained.append([parameter.detach() for parameter in model.parameters()])
        assert not torch.equal(model(X), model(X))  # training leaves no key behind
    assert_same(trained[1], trained[0])


def test_fit_without_keys_refuses_a_checkpointed_network():
    model = to_bayesian(Checkpointed())
    with pytest.raises(RuntimeError, match="keyed=True"):
        fit(model, (X, X[:, :1]), epochs=1, batch_size=6, keyed=False, loss=nn.functional.mse_loss)


def test_a_seed_of_its_own_comes_from_the_global_generator():
    model, outputs = model_of("gaussian"), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        with redraw(model):
            outputs.append(model(X))
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])


def test_padding_rows_are_drawn_without_noise():
    for bag in (nn.Embedding, nn.EmbeddingBag):
        for kind in ("gaussian", "spike_slab", "gaussian_spike_slab"):
            model = to_bayesian(bag(5, 3, padding_idx=1), kind, **KINDS[kind])
            drawn = model.draw()["weight"]
            assert torch.equal(drawn[1], model.weight[1])
            assert bool((drawn[[0, 2, 3, 4]] != model.weight[[0, 2, 3, 4]]).any(1).all())


def test_noise_of_neighboring_keys_is_independent_and_normal():
    layer = Keyed()
    steps, width = 64, 4096
    draws = torch.empty(steps, width, dtype=torch.float64)
    for step in range(steps):
        layer._noise_key = torch.tensor(fold(fold(0, 9), step) >> 1)
        keys = layer._noise(None)
        assert isinstance(keys, Keys)
        draws[step] = draw_normal(draws[0], keys)
        assert not torch.equal(draws[step], draw_normal(draws[0], keys))  # the second draw of the pass
    correlation = torch.corrcoef(draws)
    off = correlation[~torch.eye(steps, dtype=torch.bool)] * width**0.5
    # 2,016 pairs, each about N(0, 1): the largest of them is below 4.7 with probability .995
    assert float(off.abs().max()) < 4.7 and abs(float(off.std()) - 1.0) < 0.08
    flat = draws.flatten()
    for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        # 4 standard errors of each of the moments
        assert abs(float((flat**power).mean()) - moment) < 4.0 * (variance / flat.numel()) ** 0.5
