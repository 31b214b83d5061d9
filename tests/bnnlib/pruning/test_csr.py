"""CSR export: equal outputs, smaller files and safe loading."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from bnnlib import nn as bnn
from bnnlib.models import mlp
from bnnlib.pruning import CSRConv2d, CSRLinear, Masks, load_csr, prune_ranked, rank_mask, save_csr, to_csr
from bnnlib.pruning.stored import digest
from chapters.shared.networks import lenet5_caffe, resnet, vgg_like
from tests.bnnlib.pruning.networks import Own, seeded
from tests.refused import refusals


def pruned(layer, sparsity, seed=0):
    """A layer with weights of its own, most of them 0."""
    with torch.no_grad():
        for values in layer.parameters():
            values.normal_(generator=seeded(seed))
        layer.weight.mul_(rank_mask(layer.weight.abs(), sparsity))
    return layer


def equal(a, b):
    # float64: the same products in another order
    torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_hooks_come_along():
    layer, x = nn.Linear(3, 2), torch.ones(1, 3)
    layer.register_forward_hook(lambda *_: torch.zeros(1, 2))
    assert not CSRLinear(layer)(x).any() and not to_csr(layer)(x).any()


def test_a_compiled_network_is_converted_inside():
    network, x = mlp((3, 4, 2), generator=seeded()), torch.ones(2, 3)
    sparse = to_csr(torch.compile(network, backend="eager"))
    assert type(sparse._orig_mod[0]) is CSRLinear
    torch.testing.assert_close(sparse(x), network(x))


@pytest.mark.parametrize("sparsity", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 7), (5, 7), (7,), (2, 3, 7), (0, 7)])
def test_linear_layers(sparsity, bias, shape):
    layer = pruned(nn.Linear(7, 30, bias=bias), sparsity).double()
    x = torch.randn(shape, generator=seeded(1)).double()
    csr = to_csr(layer)
    assert type(csr) is CSRLinear and csr.nonzeros == int(layer.weight.count_nonzero())
    assert csr.sparsity == pytest.approx(1 - csr.nonzeros / 210)
    equal(csr(x), layer(x))


GEOMETRIES = [
    {"kernel_size": 3},
    {"kernel_size": (5, 2), "stride": (2, 1)},
    {"kernel_size": 3, "padding": 1, "stride": 2, "bias": False},
    {"kernel_size": (3, 2), "padding": "same", "dilation": (1, 2)},
    {"kernel_size": 3, "padding": (2, 1), "padding_mode": "reflect"},
    {"kernel_size": 3, "padding": 1, "padding_mode": "circular", "groups": 2},
    {"kernel_size": 1, "groups": 4},
    {"kernel_size": 2, "padding": "valid", "dilation": 2, "groups": 2, "stride": 3},
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("sparsity", [0.0, 0.8])
def test_convolutions(geometry, sparsity):
    layer = pruned(nn.Conv2d(4, 8, **geometry), sparsity).double()
    csr = to_csr(layer)
    zeros = layer.weight.numel() - int(layer.weight.count_nonzero())
    assert type(csr) is CSRConv2d and csr.sparsity == pytest.approx(zeros / layer.weight.numel())
    for shape in ((1, 4, 9, 11), (3, 4, 9, 11), (4, 9, 11)):
        x = torch.randn(shape, generator=seeded(1)).double()
        equal(csr(x), layer(x))
    # a stored tensor for each nonzero and each row, none for the zeros
    assert csr.column.numel() == csr.value.numel() == int(layer.weight.count_nonzero())


def test_images_go_in_chunks(monkeypatch):
    layer = pruned(nn.Conv2d(4, 8, 3), 0.5).double()
    csr, x = to_csr(layer), torch.randn(7, 4, 6, 6, generator=seeded(1)).double()
    for chunk in (1, 36 * 16 * 2, 10**9):  # one image, two, all seven at once
        monkeypatch.setattr("bnnlib.pruning.csr._CHUNK", {"cpu": chunk})
        equal(csr(x), layer(x))


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (lambda: mlp((784, 300, 100, 10), flatten=True, generator=seeded()), (6, 1, 28, 28)),
        (lambda: lenet5_caffe(generator=seeded()), (6, 1, 28, 28)),
        (lambda: vgg_like(0.1, generator=seeded()), (3, 3, 32, 32)),
        (lambda: resnet(8, width=4, generator=seeded()), (3, 3, 32, 32)),
    ],
    ids=["lenet-300-100", "lenet-5", "vgg", "resnet"],
)
@pytest.mark.parametrize("sparsity", [0.5, 0.9])
def test_networks(model, shape, sparsity):
    dense, x = model().train(), torch.randn(shape, generator=seeded(1))
    Masks(dense).update(sparsity)
    with torch.no_grad():
        for _ in range(20):
            dense(x)  # the moments of the normalization, without which little comes through a deep pruned network
    csr = to_csr(dense.eval())
    assert not any(type(m) in (nn.Linear, nn.Conv2d) for m in csr.modules())
    assert all(p.dim() == 1 for p in csr.parameters())  # those of the normalization
    expected = dense(x).detach()
    assert expected.std(0).max() > 1e-3  # the pruned network still looks at its input
    # float32 keeps 6e-8 of a number; sums in another order and 14 normalizations take up to a hundred times that. Then
    # float64 leaves no doubt that these are the same networks.
    close = {"rtol": 0, "atol": 1e-5 * float(expected.abs().max())}
    torch.testing.assert_close(csr(x), expected, **close)
    with torch.inference_mode():
        torch.testing.assert_close(csr(x), expected, **close)
    assert torch.equal(dense(x), expected)
    equal(csr.double()(x.double()), dense.double()(x.double()))


def test_input_gradients_are_those_of_the_dense_network():
    dense = prune_ranked(lenet5_caffe(generator=seeded()), 0.5, by="magnitude").double()
    x = torch.rand(2, 1, 28, 28, generator=seeded(1)).double().requires_grad_()
    gradients = [torch.autograd.grad(m(x).square().sum(), x)[0] for m in (dense, to_csr(dense))]
    equal(gradients[1], gradients[0])


def test_a_shared_layer_stays_shared_a_dense_one_can_stay_dense_and_a_single_one_is_saved(tmp_path):
    shared = pruned(nn.Linear(6, 6), 0.9)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.Linear(6, 2))
    csr, x = to_csr(model, min_sparsity=0.5), torch.ones(2, 6)
    assert csr[0] is csr[2] and type(csr[0]) is CSRLinear and type(csr[3]) is nn.Linear
    torch.testing.assert_close(csr(x), model(x))
    save_csr(csr[0], tmp_path / "layer.pt")
    torch.testing.assert_close(load_csr(tmp_path / "layer.pt", nn.Linear(6, 6))(x), shared(x))


def test_saving_and_loading(tmp_path):
    model = vgg_like(0.1, generator=seeded())
    with torch.no_grad():
        model.train()(torch.rand(8, 3, 32, 32, generator=seeded(1)))  # moves the running moments
    dense = prune_ranked(model.eval(), 0.9, by="magnitude")
    csr = to_csr(dense, min_sparsity=0.5)
    save_csr(csr, tmp_path / "csr.pt")
    torch.load(tmp_path / "csr.pt", weights_only=True)
    other = vgg_like(0.1, generator=seeded(9))
    before = {name: values.clone() for name, values in other.state_dict().items()}
    loaded = load_csr(tmp_path / "csr.pt", other)
    assert all(torch.equal(before[name], values) for name, values in other.state_dict().items())
    x = torch.rand(2, 3, 32, 32, generator=seeded(2))
    assert torch.equal(loaded(x), csr(x)) and not loaded.training
    assert [type(a) for a in loaded.modules()] == [type(a) for a in csr.modules()]
    torch.save(dense.state_dict(), tmp_path / "dense.pt")
    sizes = [(tmp_path / f"{kind}.pt").stat().st_size for kind in ("dense", "csr")]
    assert sizes[1] < sizes[0] / 3  # 8 bytes for a tenth of the weights against 4 for all, and the file's own overhead


def test_damaged_and_foreign_files_are_refused(tmp_path):
    model = mlp((6, 8, 3), generator=seeded())
    path = tmp_path / "csr.pt"
    save_csr(to_csr(prune_ranked(model, 0.5, by="magnitude")), path)
    with pytest.raises(ValueError, match=r"(?s)does not fit 0, a Linear\(in_features=6, out_features=9"):
        load_csr(path, mlp((6, 9, 3)))
    with pytest.raises(ValueError, match="is of another network than this Sequential"):
        load_csr(path, mlp((6, 8)))
    good = torch.load(path, weights_only=True)
    bad = {**good, "state": {**good["state"], "0.column": good["state"]["0.column"] + 3}}
    for contents in ({**good, "state": {**good["state"], "0.column": 3}}, bad):  # not even a tensor; other numbers
        torch.save(contents, path)
        with pytest.raises(ValueError, match="do not fit its checksum"):
            load_csr(path, model)
    none = {name: value for name, value in bad["state"].items() if name != "0.column"}
    for state in (bad["state"], none):  # indices beyond the matrix would read foreign memory
        torch.save({**good, "state": state, "digest": digest([], state)}, path)
        with pytest.raises(ValueError, match=r"does not fit 0, a Linear.*damaged"):
            load_csr(path, model)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match=re.escape(str(path))):
        load_csr(path, model)
    torch.save(model.state_dict(), path)
    with pytest.raises(ValueError, match="is not a file of save_csr"):
        load_csr(path, model)
    with pytest.raises(ValueError, match="has no CSR layer"):
        save_csr(model, path)
    with pytest.raises(FileNotFoundError):
        load_csr(tmp_path / "none.pt", model)


def hooked():
    layer = prune.random_unstructured(nn.Linear(3, 3), "weight", 2)
    layer(torch.ones(1, 3))  # whose weight is no leaf from then on
    return nn.Sequential(layer)


NO_NETWORKS = [
    (hooked, ValueError, r"0 is a Linear whose weight is computed.*prune\.remove"),
    (lambda: nn.Sequential(nn.Linear(3, 3), nn.LSTM(3, 2)), TypeError, "1 is a LSTM, which cannot be exported"),
    (lambda: nn.Sequential(nn.Conv1d(1, 2, 3)), TypeError, "0 is a Conv1d, which cannot be exported"),
    (lambda: nn.Sequential(nn.Linear(3, 3), Own()), TypeError, "1 is a Own, which cannot be exported"),
    (lambda: nn.Sequential(bnn.GaussianLinear(3, 2)), TypeError, "0 is a GaussianLinear, whose weights are random"),
    (lambda: nn.Linear(3, 2).bfloat16(), ValueError, "the model has weights of torch.bfloat16"),
    (lambda: nn.Sequential(nn.BatchNorm1d(3)), ValueError, "nothing to export"),
]
test_what_cannot_be_exported_is_named = refusals(
    [(lambda make=make: to_csr(make()), words, error) for make, error, words in NO_NETWORKS]
)
