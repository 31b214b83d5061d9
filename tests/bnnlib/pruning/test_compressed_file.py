"""Compressed networks on disk: what is loaded is what was saved, and damaged or foreign files are refused."""

import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib.models import mlp
from bnnlib.pruning import SelectedLinear, compress, load_compressed, save_compressed
from chapters.shared.networks import lenet5_caffe, resnet, vgg_like
from tests.bnnlib.pruning.networks import noises, noisy_lenet, norms, seeded


@torch.no_grad()
def halved(model):
    """Every second unit of the noise gets the width of the prior, and is pruned."""
    for layer in noises(model).values():
        layer.log_scale[::2] = 3.0
    return model


def test_a_file_holds_the_small_network_and_loads_into_any_form_of_its_architecture(tmp_path):
    x = torch.rand(4, 1, 28, 28, generator=seeded(1))
    small = compress(halved(noisy_lenet()), x)
    path = tmp_path / "lenet.pt"
    save_compressed(small, path)
    torch.load(path, weights_only=True)
    dense = tmp_path / "dense.pt"
    torch.save(lenet5_caffe().state_dict(), dense)
    assert path.stat().st_size < dense.stat().st_size / 6  # a quarter of 400,000 weights of fc1 twice over, and headers
    bayesian = lenet5_caffe(bnn.SparseVDConv2d, bnn.SparseVDLinear)
    for template in (noisy_lenet(), lenet5_caffe(), bayesian, lenet5_caffe().double()):
        before = {name: values.clone() for name, values in template.state_dict().items()}
        loaded = load_compressed(path, template)
        assert torch.equal(loaded(x), small(x)) and not loaded.training
        assert str(loaded) == str(small) and type(loaded.fc1) is SelectedLinear
        assert all(torch.equal(before[name], values) for name, values in template.state_dict().items())


class Between(nn.Module):
    """Noise between two functions that factors do not pass, so that it stays as a batch norm."""

    def __init__(self):
        super().__init__()
        self.first, self.noise, self.last = nn.Linear(4, 6), bnn.StructuredBayesianPruning(6), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.noise(torch.sigmoid(self.first(x)))))


def noisy(make, **settings):
    return bnn.insert_unit_noise(make(generator=seeded(), **settings), after=norms(make(**settings)))


def constant_unit():
    model = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2, bias=False))
    nn.init.zeros_(model[0].weight[0].data)
    return model


IMAGES = torch.rand(2, 3, 32, 32, generator=seeded(1))
NETWORKS = {  # the network, its template and inputs; and what is seen of the small network
    "batch norm": (lambda: noisy(vgg_like, width=0.1), lambda: vgg_like(0.1), IMAGES, lambda n: True),
    "residual": (lambda: noisy(resnet, depth=8, width=4), lambda: resnet(8, width=4), IMAGES, lambda n: True),
    "stochastic batch norm": (
        lambda: bnn.to_stochastic_batch_norm(vgg_like(0.1, generator=seeded())),
        lambda: bnn.to_stochastic_batch_norm(vgg_like(0.1)), IMAGES, lambda n: type(n.bn1_1) is nn.BatchNorm2d,
    ),
    "noise that stays as a batch norm": (
        Between, Between, torch.ones(2, 4), lambda n: type(n.noise) is nn.BatchNorm1d and n.first.out_features == 3,
    ),
    "a bias made of constants": (constant_unit, constant_unit, torch.ones(2, 3), lambda n: n[2].bias is not None),
    "a single layer": (lambda: nn.Linear(3, 2), lambda: nn.Linear(3, 2), torch.ones(2, 3), lambda n: True),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_loaded_is_what_was_saved(name, dtype, tmp_path):
    make, template, x, seen = NETWORKS[name]
    x = x.to(dtype)
    small = compress(halved(make()).to(dtype), x)
    save_compressed(small, tmp_path / "net.pt")
    loaded = load_compressed(tmp_path / "net.pt", template())
    assert torch.equal(loaded(x), small(x)) and next(loaded.parameters()).dtype == dtype
    assert str(loaded) == str(small) and seen(loaded)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "net.pt"
    model = bnn.insert_unit_noise(mlp((6, 8, 3), generator=seeded()), before=["0", "2"])
    save_compressed(compress(halved(model), torch.ones(2, 6)), path)
    return path


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (lambda: mlp((6, 8, 8, 3)), "of another network than this Sequential: 4 is in one of them only"),
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Linear(8, 3)), "0 had 6 inputs.*Conv2d"),
        (lambda: mlp((6, 3, 3)), "0 had 6 inputs and 8 units, and here .* has 6 inputs and 3 units. Give the archi"),
        (lambda: mlp((5, 8, 3)), "0 had 6 inputs and 8 units, and here .* has 5 inputs and 8 units"),
        (lambda: mlp((7, 8, 3)), "0 had 6 inputs and 8 units, and here .* has 7 inputs and 8 units"),
        (lambda: mlp((6, 8, 4)), "2 had 8 inputs and 3 units, and here .* has 8 inputs and 4 units"),
    ],
)  # fmt: skip
def test_files_of_other_networks_are_refused(saved, template, message):
    with pytest.raises(ValueError, match=message):
        load_compressed(saved, template())


def test_a_batch_norm_in_the_place_of_noise_asks_for_a_template_with_the_noise(tmp_path):
    save_compressed(compress(halved(Between()), torch.ones(2, 4)), tmp_path / "net.pt")
    plain = Between()
    plain.noise = nn.Identity()
    with pytest.raises(ValueError, match=r"noise is in one of them only.* with its noise on units where a batch norm"):
        load_compressed(tmp_path / "net.pt", plain)


def test_damaged_files_are_refused(saved, tmp_path):
    data = bytearray(saved.read_bytes())
    weights = torch.load(saved, weights_only=True)["state"]["0.weight"].numpy().tobytes()
    data[bytes(data).index(weights)] ^= 1
    saved.write_bytes(data)
    torch.save(mlp((6, 8, 3)).state_dict(), tmp_path / "foreign.pt")
    for name, message in (("net.pt", "damaged"), ("foreign.pt", "is not a file of save_compressed")):
        with pytest.raises(ValueError, match=message):
            load_compressed(tmp_path / name, mlp((6, 8, 3)))


def test_indices_beyond_the_features_are_refused(saved):
    from bnnlib.pruning.stored import digest

    stored = torch.load(saved, weights_only=True)
    stored["state"]["0.index"] += 4
    stored["digest"] = digest(stored["plan"], stored["state"])  # as someone who means harm would
    torch.save(stored, saved)
    with pytest.raises(ValueError, match="0 picks inputs outside its 6 features"):
        load_compressed(saved, mlp((6, 8, 3)))


def test_only_compressed_networks_are_saved(tmp_path):
    model = bnn.insert_unit_noise(mlp((6, 8, 3)), before=["0"])
    with pytest.raises(TypeError, match="0_input_noise is a StructuredBayesianPruning, which save_compressed does not"):
        save_compressed(model, tmp_path / "net.pt")
