"""The page's table of features by layers is what the layers do."""

import copy
import json
import pickle
import re
import textwrap
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap

from benchmarks import peer_libraries, peers
from bnnlib import nn as bnn
from bnnlib.pruning import compress
from tests.bnnlib.nn.test_parameters import Attention, Last

PAGE = Path(__file__).resolve().parents[2] / "book" / "what_layers_can.md"
MIXTURE = {"slab_scale": 1.0, "spike_scale": 0.05}
ESTIMATORS = ("weight", "local", "flipout")


def vectors():
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(0))


def images():
    return torch.randn(5, 2, 4, 4, generator=torch.Generator().manual_seed(0))


def by_parameter(module, inputs, **settings):
    return lambda: bnn.to_bayesian(module(), initial_scale=0.1, **settings), inputs


def noisy():
    return nn.Sequential(nn.Linear(6, 4), bnn.StructuredBayesianPruning(4, -1, initial_scale=0.4), nn.Linear(4, 2))


def normalized():
    model = nn.Sequential(nn.Linear(6, 4), bnn.StochasticBatchNorm1d(4), nn.Linear(4, 2))
    bnn.match_moments(model, [vectors(), vectors() + 1.0])
    return model.eval()


ROWS = {
    **{f'`GaussianLinear("{e}")`': (lambda e=e: bnn.GaussianLinear(6, 4, estimator=e), vectors) for e in ESTIMATORS},
    "`GaussianConv2d`": (lambda: bnn.GaussianConv2d(2, 3, 3), images),
    "`GaussianSpikeSlabLinear`": (lambda: bnn.GaussianSpikeSlabLinear(6, 4, **MIXTURE), vectors),
    "`GaussianSpikeSlabConv2d`": (lambda: bnn.GaussianSpikeSlabConv2d(2, 3, 3, **MIXTURE), images),
    "`ScaleMixtureLinear`": (lambda: bnn.ScaleMixtureLinear(6, 4, **MIXTURE), vectors),
    "`SpikeSlabLinear`": (lambda: bnn.SpikeSlabLinear(6, 4, prior_inclusion_probability=0.1), vectors),
    "`SpikeSlabConv2d`": (lambda: bnn.SpikeSlabConv2d(2, 3, 3, prior_inclusion_probability=0.1), images),
    "`SparseVDLinear`": (lambda: bnn.SparseVDLinear(6, 4), vectors),
    "`SparseVDConv2d`": (lambda: bnn.SparseVDConv2d(2, 3, 3), images),
    "`HorseshoeLinear`": (lambda: bnn.HorseshoeLinear(6, 4), vectors),
    "`StructuredBayesianPruning`": (noisy, vectors),
    "`StochasticBatchNorm1d`": (normalized, vectors),
    "`to_bayesian(Conv1d)`": by_parameter(lambda: nn.Conv1d(2, 3, 3), lambda: images().flatten(2)),
    "`to_bayesian(Embedding)`": by_parameter(lambda: nn.Embedding(9, 4), lambda: torch.arange(5)),
    "`to_bayesian(LSTM)`": by_parameter(lambda: Last(4, 3, batch_first=True), lambda: images().flatten(1, 2)),
    "`to_bayesian(MultiheadAttention)`": by_parameter(
        lambda: Attention(4, 2, batch_first=True), lambda: images().flatten(1, 2)
    ),
}


def values(model):
    return {name: p.detach() for name, p in model.named_parameters()}


def loss(model, x):
    return lambda v: functional_call(model, v, (x,)).square().mean()


def draws(model, x):
    assert not torch.equal(*bnn.predict(model, x, 2))


def diverges(model, x):
    assert float(bnn.kl_divergence(model)) > 0 and float(bnn.kl_divergence(model)) == float(bnn.kl_divergence(model))


def selects(model, x):
    assert any(hasattr(m, "inclusion_probability") for m in bnn.bayesian_layers(model))


def copies(model, x):
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        found = [bnn.predict(m, x, 1, generator=torch.Generator().manual_seed(1)) for m in (model, other)]
        assert torch.equal(*found)


def transforms(model, x):
    assert all(g.isfinite().all() for g in grad(loss(model, x))(values(model)).values())


def maps(model, x):
    found = vmap(lambda _: functional_call(model, values(model), (x,)), randomness="different")(torch.arange(3.0))
    assert not torch.equal(found[0], found[1])


def twice(model, x):
    parameters = [p for p in model.parameters() if p.requires_grad]
    for p in parameters:
        p.data.copy_(torch.where(p.abs() < 1.0, p.sign(), p))  # in size 1, far out of a narrow spike
    objective = model(x).square().mean() + bnn.kl_divergence(model)
    first = torch.autograd.grad(objective, parameters, create_graph=True, allow_unused=True)
    sum(g.square().sum() for g in first if g is not None).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in parameters)


def compiles(model, x):
    torch.compiler.reset()
    step = torch.compile(lambda x: model(x).square().mean() + bnn.kl_gradient(model), fullgraph=True, backend="eager")
    step(x).backward()


def compresses(model, x):
    whole = nn.Sequential(model, nn.Flatten())
    compress(whole, x[:1])


FEATURES = {
    "samples in `predict`": draws,
    "exact divergence": diverges,
    "inclusion probability": selects,
    "`deepcopy`, `pickle`": copies,
    "`func.grad`": transforms,
    "`vmap` over draws": maps,
    "second derivatives": twice,
    "one compiled graph": compiles,
    "`compress`": compresses,
}


def cell(check, make, inputs, yes):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(make(), inputs())
        except Exception:  # whatever it is: the layer cannot do it
            return "no"
    return yes


def table_of(columns, yes="yes", depends=()):
    """Markdown of what happened with every layer; `depends` (row, column) is a cell that the processor decides."""
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, (make, inputs) in ROWS.items():
        cells = ("–" if (name, c) == depends else cell(check, make, inputs, yes) for c, check in columns.items())
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


@pytest.mark.slow
def test_the_table_says_what_the_layers_do():
    assert table_of(FEATURES) in PAGE.read_text(encoding="utf-8")


def test_the_form_for_grad_gives_the_gradient_of_a_step():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    network, x, y = bnn.GaussianLinear(6, 1, estimator="local"), vectors(), torch.ones(5, 1)
    names = {"nn": nn, "F": F, "torch": torch, "functional_call": functional_call, "elbo_loss": bnn.elbo_loss}
    names |= {"network": network, "x": x, "y": y}
    with bnn.redraw(network, 0):
        exec(textwrap.dedent(code), names)
    with bnn.redraw(network, 0):
        names["objective"](x, y).backward()
    for name, p in names["objective"].named_parameters():
        torch.testing.assert_close(names["gradients"][name], p.grad)


def test_the_table_of_libraries_is_the_stored_one():
    rows = json.loads(peers.STORED.read_text())["rows"]
    assert peers.table(rows) in PAGE.read_text(encoding="utf-8")
    assert [(r["network"], r["library"]) for r in rows] == [
        (network, library.title) for network in peers.NETWORKS for library in peers.LIBRARIES
    ]


@pytest.mark.slow
@pytest.mark.parametrize("network", peers.NETWORKS)
def test_the_row_of_this_library_is_what_it_does(network):
    stored = next(r for r in json.loads(peers.STORED.read_text())["rows"] if r["network"] == network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = peers.measure(peer_libraries.Ours, network)
    assert {f: peers.brief(found[f]) for f in peers.FEATURES} == {f: peers.brief(stored[f]) for f in peers.FEATURES}


def test_a_package_that_is_not_there_is_named_so(monkeypatch):
    monkeypatch.setattr(peer_libraries.Torchbnn, "package", "no_such_package_anywhere")
    assert peers.measure(peer_libraries.Torchbnn, "LSTM")["note"] == "not installed"
