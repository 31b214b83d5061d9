"""Compression through squeeze-and-excite, outputs that are no tensor, layers without a rule, and its report."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from bnnlib import nn as bnn
from bnnlib.pruning import blocked_units, compress, load_compressed, save_compressed
from chapters.shared.networks import resnet
from tests.bnnlib.pruning.networks import compressed, norms, prune_noise, seeded

SPELLINGS = ("convolutions", "index", "view", "expand", "first")


class Gated(nn.Module):
    """A block of EfficientNet: expand, depthwise, squeeze-and-excite, project; the gate in one of its spellings."""

    def __init__(self, spelling="convolutions", width=12):
        super().__init__()
        torch.manual_seed(0)
        self.spelling = spelling
        self.expand, self.norm1 = nn.Conv2d(3, width, 1, bias=False), nn.BatchNorm2d(width)
        self.deep = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        self.norm2, self.act = nn.BatchNorm2d(width), nn.SiLU()
        wide = spelling == "convolutions"
        self.squeeze = nn.Conv2d(width, 5, 1) if wide else nn.Linear(width, 5)
        self.excite = nn.Conv2d(5, width, 1) if wide else nn.Linear(5, width)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.project, self.head = nn.Conv2d(width, 6, 1), nn.Linear(6, 4)

    def gate(self, x):
        if self.spelling in ("convolutions", "first"):
            pooled = self.pool(x) if self.spelling == "convolutions" else x.mean((2, 3))
            gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(pooled))))
            return gate if self.spelling == "convolutions" else gate.unsqueeze(-1).unsqueeze(-1)
        rows, channels, _, _ = x.size()
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(self.pool(x).view(rows, channels)))))
        return gate[:, :, None, None] if self.spelling == "index" else gate.view(rows, channels, 1, 1)

    def forward(self, x):
        x = self.act(self.norm1(self.expand(x)))
        x = self.act(self.norm2(self.deep(x)))
        gate = self.gate(x)
        if self.spelling == "expand":
            gate = gate.expand_as(x)
        x = gate * x if self.spelling == "first" else x * gate
        return self.head(self.project(x).mean((2, 3)))


def images(size=8):
    return torch.randn(6, 3, size, size, generator=seeded(1)).double()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_unit_leaves_with_its_gate(spelling):
    model = prune_noise(bnn.insert_unit_noise(Gated(spelling), after=["norm2"]), 5)
    small = compressed(model, images())
    assert small.expand.out_channels == small.deep.groups == small.norm1.num_features == small.norm2.num_features == 5
    assert small.squeeze.weight.shape[:2] == (5, 5) and small.excite.weight.shape[:2] == (5, 5)
    assert len(small.excite.bias) == small.project.in_channels == 5
    (row,) = (row for row in blocked_units(model, images()) if "expand" in row["layers"])
    assert row == {"layers": row["layers"], "units": 12, "off": 7, "stay": 0, "reasons": {}}
    assert set(row["layers"]) == {"expand", "excite"}


def test_a_gate_that_is_off_takes_its_unit_along():
    model = Gated().double().eval()
    model.project.weight.data[:, :4] = 0.0  # nobody reads what the gate multiplies
    model.squeeze.weight.data[:, :3] = 0.0  # but the squeeze reads the fourth
    small = compressed(model, images())
    assert small.deep.groups == small.excite.out_channels == small.squeeze.in_channels == 9


def test_a_constant_that_is_not_0_stays_with_its_gate_and_the_report_says_why():
    model = Gated().double().eval()
    model.norm2.weight.data[:3], model.norm2.bias.data[:3] = 0.0, 1.0
    small = compressed(model, images())
    assert small.deep.groups == 12
    (row,) = blocked_units(model, images())
    assert (row["off"], row["stay"], row["reasons"]) == (3, 3, {"the gate of mul() is not off": 3})


class BatchNormAct2d(nn.BatchNorm2d):
    """As timm has it: known by its name."""

    def __init__(self, features):
        super().__init__(features)
        self.drop, self.act = nn.Identity(), nn.SiLU()

    def forward(self, x):
        return self.act(self.drop(super().forward(x)))


def test_a_batch_norm_with_an_activation_in_it(tmp_path):
    def build():
        torch.manual_seed(0)
        model = Gated()
        model.norm2, model.act = BatchNormAct2d(12), nn.Identity()
        return model.double().eval()

    model = prune_noise(bnn.insert_unit_noise(build(), after=["norm2"]), 5).double()
    with torch.no_grad():
        model.norm2.layer.running_mean.normal_(generator=seeded(3))
        model.norm2.layer.bias.normal_(generator=seeded(4))
    small = compressed(model, images())
    assert small.deep.groups == small.project.in_channels == 5

    plain = build()
    plain.norm2.weight.data[:4] = plain.norm2.bias.data[:4] = 0.0
    small = compressed(plain, images())
    assert small.deep.groups == small.norm2.num_features == small.excite.out_channels == 8
    save_compressed(small, tmp_path / "net.pt")
    assert torch.equal(load_compressed(tmp_path / "net.pt", build())(images()), small(images()))


class Answers(nn.Module):
    def __init__(self, form):
        super().__init__()
        torch.manual_seed(0)
        self.form, self.body, self.head, self.side = form, nn.Linear(5, 8), nn.Linear(8, 3), nn.Linear(8, 2)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.form(self.head(h), self.side(h))


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    side: torch.Tensor | None = None


FORMS = {
    "tuple": lambda a, b: (a, b),
    "list": lambda a, b: [a, (b, None)],
    "dict": lambda a, b: {"logits": a, "side": {"deep": b}},
    "dataclass": Output,
}


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_output(form):
    model, x = Answers(FORMS[form]).double().eval(), torch.randn(6, 5, generator=seeded(1)).double()
    model.head.weight.data[:, :5] = 0.0
    model.side.weight.data[:, 2:7] = 0.0  # units 2, 3 and 4 are read by neither
    small = compressed(model, x)
    assert type(small(x)) is type(model(x))
    assert small.body.out_features == 5 and small.head.out_features == 3 and small.side.out_features == 2


def test_an_output_without_tensors_is_refused():
    class Hidden(Answers):
        def forward(self, x):
            return str(super().forward(x))

    with pytest.raises(TypeError, match=r"Hidden returns no tensor.*Wrap it"):
        compress(Hidden(FORMS["tuple"]), torch.ones(2, 5))


class Parts(nn.Module):
    """Tensors in a tuple on the way, an embedding of its own, and a layer without a rule."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)
        self.second, self.last = nn.Linear(8, 10), nn.Linear(10, 8)
        self.gain = nn.Parameter(torch.randn(8))

    def forward(self, x):
        one, two = self.norm(self.first(x)).chunk(2, -1)
        h = self.second(torch.cat([two, one], -1)[:, :, 0:] * self.gain)
        return self.last(torch.nn.functional.gelu(h))


def test_what_has_no_rule_stays_and_is_named(tmp_path):
    model, x = Parts().double().eval(), torch.randn(7, 3, 6, generator=seeded(1)).double()
    model.first.weight.data[:2] = 0.0
    model.second.weight.data[:, :4] = 0.0
    model.second.weight.data[:3] = model.second.bias.data[:3] = 0.0
    small = compressed(model, x)
    assert small.first.out_features == 8 and small.second.out_features == small.last.in_features == 7
    rows = {row["layers"][0]: row for row in blocked_units(model, x)}
    assert rows["first"]["stay"] == 2
    assert rows["first"]["reasons"] == {"they go into norm (LayerNorm), for which compress has no rule": 2}
    assert rows["second"] == {"layers": ["second"], "units": 10, "off": 3, "stay": 0, "reasons": {}}
    save_compressed(small, tmp_path / "net.pt")
    assert torch.equal(load_compressed(tmp_path / "net.pt", Parts())(x), small(x))


def test_the_weights_of_an_embedding_are_left_to_it():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.words, self.inner, self.out = nn.Embedding(9, 4), nn.Linear(4, 6), nn.Linear(6, 4)
            self.head = nn.Linear(4, 9, bias=False)
            self.head.weight = self.words.weight

        def forward(self, x):
            return self.head(self.out(torch.relu(self.inner(self.words(x)))))

    model, x = Tied().eval(), torch.tensor([[1, 2, 8], [0, 0, 3]])
    model.inner.weight.data[:2] = model.inner.bias.data[:2] = 0.0
    model.out.weight.data[1] = 0.0  # its bias is a constant that the head takes, and the embedding must not see that
    small = compressed(model, x)
    assert small.inner.out_features == 4 and small.out.out_features == 3
    assert torch.equal(small.words.weight, model.words.weight)


def test_what_keeps_the_channels_of_a_sum():
    model = bnn.insert_unit_noise(resnet(8, width=8, generator=seeded()), after=["layer1.0.bn2"])
    prune_noise(model, 3)
    rows = blocked_units(model, torch.randn(2, 3, 16, 16, generator=seeded(1)))
    (row,) = (row for row in rows if "layer1.0.conv2.layer" in row["layers"] or "layer1.0.conv2" in row["layers"])
    assert (row["off"], row["stay"]) == (5, 5)
    assert any(reason.startswith("another term of add() is not off") for reason in row["reasons"])


def test_the_report_leaves_the_model_alone():
    model = bnn.insert_unit_noise(Gated(), after=norms(Gated())).train()
    before = {name: values.clone() for name, values in model.state_dict().items()}
    blocked_units(model, images().float())
    assert model.training and all(torch.equal(before[name], v) for name, v in model.state_dict().items())
    with pytest.raises(ValueError, match="must be rows of inputs"):
        blocked_units(model, torch.ones(3))


COMPUTED = {
    "hook": lambda layer: prune.l1_unstructured(layer, "weight", 2),
    "parametrization": parametrizations.weight_norm,
    "old weight norm": torch.nn.utils.weight_norm,
}


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("how", COMPUTED)
@pytest.mark.parametrize("kind", ["gaussian", "gaussian_spike_slab", "spike_slab", "horseshoe"])
def test_a_weight_that_is_computed_after_the_conversion_is_refused_with_advice(kind, how):
    mixture = {"slab_scale": 1.0, "spike_scale": 0.1}
    settings = {"spike_slab": {"prior_inclusion_probability": 0.1}, "gaussian_spike_slab": mixture}.get(kind, {})
    model = bnn.to_bayesian(nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2)), kind, **settings)
    COMPUTED[how](model[0])
    x = torch.ones(3, 5)
    for call in (lambda: model(x), lambda: bnn.kl_divergence(model), lambda: bnn.predict(model, x, 2)):
        with pytest.raises(TypeError, match=r"no parameter 'weight' of its own any more.*before to_bayesian"):
            call()
    assert bnn.bayesian_share(model) < 100.0
    with pytest.raises(ValueError, match=r"0 is a .* whose weight is computed"):
        compress(model, x)


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("how", COMPUTED)
def test_a_weight_that_was_computed_before_stays_as_it_is(how):
    network = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))
    COMPUTED[how](network[0])
    x = torch.randn(3, 5, generator=seeded(1))
    expected = network(x)
    model = bnn.to_bayesian(network, unsupported="keep")
    with bnn.mean_weights(model):
        assert torch.equal(model(x), expected)
    noisy = bnn.insert_unit_noise(network, after=["0"])
    with pytest.raises(ValueError, match=r"weight is computed.*remove_parametrizations"):
        compress(noisy, x)


def test_noise_beside_a_layer_that_is_read_and_not_called():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(4, 6)

        def forward(self, x):
            return nn.functional.linear(x, self.qkv.weight, self.qkv.bias)

    noisy = bnn.insert_unit_noise(Reads(), after=["qkv"])
    assert str(noisy.qkv).startswith("Sequential(") and not hasattr(noisy.qkv, "width")
    assert noisy.qkv.in_features == 4  # which no noise changes
    with pytest.raises(AttributeError, match=r"reads \.weight of a Linear with noise beside it instead of calling"):
        noisy(torch.ones(2, 4))
    with pytest.raises(TypeError, match=r"cannot be followed.*instead of calling"):
        compress(noisy, torch.ones(2, 4))
