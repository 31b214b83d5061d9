"""Which units leave: dead, constant and unread ones, and what keeps a unit; and which networks are refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune

from bnnlib import nn as bnn
from bnnlib.models import mlp
from bnnlib.pruning import SelectedLinear, compress
from chapters.shared.networks import lenet5_caffe
from tests.bnnlib.pruning.networks import Own, compressed, prune_noise, seeded
from tests.refused import refusals


def run(model, *shape):
    return compressed(model, torch.randn(9, *shape, generator=seeded(1)))


def convolutions(padding=0, mode="zeros", pool=None):
    torch.manual_seed(0)
    first = nn.Conv2d(2, 6, 3)
    second = nn.Conv2d(6, 4, 3, padding=padding, padding_mode=mode)
    middle = [nn.ReLU()] if pool is None else [nn.ReLU(), pool]
    return nn.Sequential(first, *middle, second, nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))


@torch.no_grad()
def lazy(model, *shape):
    model(torch.zeros(1, *shape))
    return model


class Divided(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 2, divisor_override=3)


@pytest.mark.parametrize(
    ("settings", "stay"),
    [
        *(({"padding": padding, "mode": mode}, 3) for padding, mode in ((0, "zeros"), (0, "reflect"), (1, "reflect"))),
        ({"padding": 1}, 5),  # zeros stand around it: the unit that is 0 goes in any case
        ({"pool": nn.MaxPool2d(2, padding=1)}, 3),  # borders of -inf
        ({"pool": nn.AvgPool2d(2)}, 3),
        ({"pool": nn.AvgPool2d(3, 1, padding=1)}, 5),  # borders of 0: the constant 0 alone stays constant
        ({"pool": nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)}, 3),
        ({"pool": nn.AvgPool2d(2, divisor_override=3)}, 5),  # makes other constants: 0 alone stays what it is
        ({"pool": Divided()}, 5),
        ({"pool": nn.AdaptiveAvgPool2d(3)}, 3),
    ],
    ids=str,
)
def test_a_constant_unit_goes_unless_what_follows_makes_it_another(settings, stay):
    model = lazy(convolutions(**settings), 2, 9, 9)
    model[0].weight.data[:3] = 0.0
    model[0].bias.data[:3] = torch.tensor([0.5, -0.5, 0.7])  # relu: 0.5, 0, 0.7
    small = run(model, 2, 9, 9)
    assert small[0].out_channels == small[3 if "pool" in settings else 2].in_channels == stay


def test_constants_go_through_batch_norm_and_make_a_bias():
    model = nn.Sequential(
        nn.Linear(5, 8, bias=False), nn.BatchNorm1d(8), nn.Sigmoid(), nn.Linear(8, 6, bias=False), nn.Linear(6, 2)
    )
    with torch.no_grad():
        model[0].weight[:2] = 0.0  # batch norm makes its shift of it, the sigmoid 0.5 or more
        model[1].running_mean.normal_()
        model[1].bias.normal_()
        model[1].weight[2] = 0.0
    small = run(model, 5)
    assert small[0].out_features == small[1].num_features == small[3].in_features == 5
    assert small[3].bias is not None and model[3].bias is None


def test_units_that_nobody_reads_go_back_to_the_first_layer():
    model = mlp((6, 8, 8, 8, 3), generator=seeded())
    model[6].weight.data[:, 2:] = 0.0  # 2 units of the third layer are read ...
    model[4].weight.data[:2, 3:] = 0.0  # ... which read 3 of the second, which read 4 of the first
    model[2].weight.data[:3, 4:] = 0.0
    small = run(model, 6)
    assert [(m.in_features, m.out_features) for m in small[::2]] == [(6, 4), (4, 3), (3, 2), (2, 3)]


def test_a_network_that_is_cut_keeps_one_unit():
    model = lenet5_caffe(generator=seeded())
    model.conv2.weight.data.zero_()
    model.conv2.bias.data.fill_(-1.0)
    small = run(model, 1, 28, 28)
    assert small.conv1.out_channels == small.conv2.out_channels == 1
    assert not small.fc1.weight.any() and small.fc1.out_features == 1  # only the bias of fc2 counts
    assert small(torch.randn(5, 1, 28, 28).double()).std(0).max() == 0.0


class MobileBlock(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.expand, self.norm1 = nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8)
        self.deep, self.norm2 = nn.Conv2d(8, 8, 3, padding=1, groups=groups), nn.BatchNorm2d(8)
        self.project, self.head = nn.Conv2d(8, 6, 1), nn.Linear(6, 2)

    def forward(self, x):
        x = F.relu6(self.norm2(self.deep(F.relu6(self.norm1(self.expand(x))))))
        return self.head(self.project(x).mean([2, 3]))


@pytest.mark.parametrize(("groups", "left"), [(8, 5), (2, 8), (1, 5)])
def test_depthwise_convolutions_lose_channels_and_grouped_ones_keep_them(groups, left):
    model = MobileBlock(groups)
    model.project.weight.data[:, :3] = 0.0
    model.head.weight.data[:, 0] = 0.0
    small = run(model, 3, 8, 8)
    assert small.deep.out_channels == small.project.in_channels == left
    assert small.expand.out_channels == (5 if groups == 8 else 8)
    assert small.deep.groups == (5 if groups == 8 else groups)
    assert small.project.out_channels == 5


class Functional(nn.Module):
    """The same steps as calls, in one of several spellings."""

    def __init__(self, spelling):
        super().__init__()
        self.spelling = spelling
        self.conv, self.fc, self.last = nn.Conv2d(1, 6, 3), nn.Linear(54, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv(x)), 2)
        if self.spelling == "flatten":
            x = torch.flatten(x, 1)
        elif self.spelling == "view":
            x = x.view(x.size(0), -1)
        elif self.spelling == "reshape":
            x = x.reshape((x.shape[0], -1))
        elif self.spelling == "typed in":
            x = x.view(-1, 54)
        elif self.spelling == "concatenated":
            x = torch.cat([x[:, :2].flatten(1), x[:, 2:].flatten(1)], 1)
        x = F.dropout(x, 0.5, self.training)
        x = self.fc(x).relu() if self.spelling == "view" else F.leaky_relu(self.fc(x), 0.2)
        x = 0.5 * x if self.spelling == "flatten" else x * 0.5
        return F.log_softmax(self.last(x), 1)


@pytest.mark.parametrize("spelling", ["flatten", "view", "reshape", "typed in", "concatenated"])
def test_calls_are_followed_and_what_has_no_rule_keeps_its_units(spelling):
    model = Functional(spelling)
    model.fc.weight.data[:, :18] = 0.0  # 2 of 6 channels, at 9 positions each
    model.last.weight.data[:, 3:] = 0.0
    small = run(model, 1, 8, 8)
    follows = spelling not in ("typed in", "concatenated")
    assert small.conv.out_channels == (4 if follows else 6)
    assert (type(small.fc) is SelectedLinear) == (not follows) and small.fc.in_features == 36
    assert small.fc.out_features == (8 if spelling == "flatten" else 3)  # no rule for 0.5 * x, one for x * 0.5


def test_a_few_unread_inputs_are_not_picked_out():
    model = mlp((20, 6, 3), generator=seeded())
    model[0].weight.data[:, 4] = 0.0
    x = torch.ones(2, 20)
    assert type(compress(model, x)[0]) is nn.Linear
    assert compress(model, x, select_below=0.95)[0].index.tolist() == [i for i in range(20) if i != 4]
    assert "in_features=19, out_features=6, bias=True, features=20" in str(compress(model, x, select_below=1.0)[0])
    with pytest.raises(ValueError, match="select_below is 90"):
        compress(model, x, select_below=90)


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x


class Draws(nn.Module):
    def forward(self, x):
        return x + torch.randn(x.shape)


def shared():
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer)


def tied():
    model = mlp((3, 3, 3))
    model[2].weight = model[0].weight
    return model


def recurrent():
    return bnn.to_bayesian(nn.Sequential(nn.Linear(3, 3), nn.LSTM(3, 2)))


def hooked():
    model = mlp((3, 3, 3))
    prune.l1_unstructured(model[0], "weight", 2)
    return model


NO_NETWORKS = [
    (recurrent, TypeError, r"1 is a .*LSTM, converted parameter by parameter.*Leave it out of to_bayesian"),
    (shared, TypeError, "0 is a Linear that runs 2 times"),
    (tied, TypeError, r"2\.weight is the same tensor as 0\.weight"),
    (hooked, ValueError, r"0 is a Linear whose weight is computed.*prune\.remove"),
    (lambda: torch.compile(mlp((3, 2))), TypeError, "the model is compiled. Put its ._orig_mod"),
    (Branch, TypeError, "forward pass of Branch cannot be followed"),
    (lambda: nn.Sequential(nn.Linear(3, 3), Draws()), RuntimeError, "differs from the masked one.*draw at random"),
    (lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, track_running_stats=False)), ValueError, "1 is a Ba"),
    (lambda: nn.Linear(7, 2), TypeError, r"on an example of shape \(2, 3\)"),
]
test_what_cannot_be_compressed_is_named = refusals(
    [(lambda m=m: compress(m(), torch.ones(2, 3)), f"(?s){words}", error) for m, error, words in NO_NETWORKS]
)


@pytest.mark.parametrize(
    "layer",
    [nn.LSTM(3, 2), nn.LayerNorm(3), nn.Softmax(1), Own(), nn.Unflatten(1, (3, 1))],
    ids=lambda m: type(m).__name__,
)
def test_layers_without_a_rule_keep_their_units(layer):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3), layer).eval()
    model[0].weight.data[1:3] = model[0].bias.data[1:3] = 0.0
    model[2].weight.data[0] = 0.0
    small = run(model, 3)
    assert small[0].out_features == 2 and small[2].out_features == 3


@pytest.mark.parametrize(("slopes", "left"), [(1, 2), (4, 4)])
def test_units_go_through_a_prelu_of_one_slope(slopes, left):
    model = nn.Sequential(nn.Linear(3, 4), nn.PReLU(slopes), nn.Linear(4, 3)).eval()
    noisy = prune_noise(bnn.insert_unit_noise(model, after=["0"]), 2)
    model[0].weight.data[1:3], model[0].bias.data[1:3] = 0.0, torch.tensor([-1.0, 0.0])
    for network in (model, noisy):
        assert run(network, 3)[0].out_features == left


def test_single_layers_and_networks_without_anything_to_remove():
    layer = nn.Linear(6, 4)
    layer.weight.data[:, ::2] = 0.0
    small = run(layer, 6)
    assert type(small) is SelectedLinear and small.index.tolist() == [1, 3, 5]
    dense = mlp((6, 8, 3), generator=seeded())
    same = compress(dense, torch.ones(2, 6))
    assert all(torch.equal(a, b) for a, b in zip(dense.parameters(), same.parameters(), strict=True))
