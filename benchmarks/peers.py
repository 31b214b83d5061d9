"""What libraries make of a transformer encoder, an LSTM and a residual network: each cell is a call.

`python -m benchmarks.peers [--json] [--store] [--libraries bnnlib]`

Each package converts or wraps the same three networks by its own means and its own defaults, then eight things are
tried, each on a fresh copy: the result is "yes", a share in percent, or the error of the call that fails. A package
that is not installed reads "not installed". `--store` keeps the rows in `benchmarks/stored/peers.json`, which the page
"What layers can" shows; of libraries that `--libraries` does not name it keeps those that are there.

- converted: parameters of the network that got a posterior, in percent.
- training: a step on its own objective gives finite gradients, and moves the outputs. laplace-torch comes after the
  training of the network: the step is one on the marginal likelihood of the prior's precision.
- prediction: two draws differ.
- state_dict: a second network, made alike, predicts the same after loading, at the same seed.
- deepcopy: the same of a copy.
- vmap over draws: `torch.func.vmap` with `randomness="different"` gives draws that differ.
- compile: a draw, and its backward pass where it has one, under `torch.compile(fullgraph=True)`.
- compression: fewer parameters, and outputs of the same shape.
"""

import copy
import importlib
import importlib.metadata
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import command

STORED = Path(__file__).parent / "stored" / "peers.json"
SEED = 0


class Encoder(nn.Module):
    """Two layers of a transformer encoder over five steps of eight features; three logits."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean(dim=1))


class Recurrent(nn.Module):
    """An LSTM over the same rows; three logits of its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0][:, -1])


class Residual(nn.Module):
    """A convolution, a residual block with batch normalization, and a linear layer; images of 8 by 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.a, self.b = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        h = (h + self.norm(self.b(self.a(h).relu()))).relu()
        return self.head(h.mean(dim=(2, 3)))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "transformer encoder": (Encoder, (5, 8)),
    "LSTM": (Recurrent, (5, 8)),
    "residual CNN": (Residual, (1, 8, 8)),
}


class NotOffered(Exception):
    """A package has no function for this at all: the search for it in the package is what failed."""


def offered(package: Any, *names: str) -> Any:
    """The first of the names that a package has.

    Raises:
        NotOffered: it has none.
    """
    for name in names:
        if hasattr(package, name):
            return getattr(package, name)
    raise NotOffered(f"{package.__name__} has no {' or '.join(names)}")


class Library:
    """One package: how it converts a network, and what its converted network is trained and drawn with."""

    package = title = ""
    spread = ""  # part of the names of the parameters that a posterior adds

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        self.plain, self.x, self.y = network, x, y
        self.model = copy.deepcopy(network)
        self.size = sum(p.numel() for p in network.parameters())

    def converted(self) -> float:
        return 100.0 * sum(p.numel() for n, p in self.model.named_parameters() if self.spread in n) / self.size

    def draw(self, x: Tensor) -> Tensor:
        """Outputs of one draw of the weights."""
        return self.model(x)

    def loss(self) -> Tensor:
        raise NotOffered

    def parameters(self) -> list[Tensor]:
        return [p for p in self.model.parameters() if p.requires_grad]

    def compress(self) -> nn.Module:
        module = importlib.import_module(self.package)
        return offered(module, "compress", "prune", "to_deterministic")(self.model, self.x)


class Ours(Library):
    package = title = "bnnlib"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        from bnnlib.nn import to_bayesian

        super().__init__(network, x, y)
        self.model = to_bayesian(self.model, initial_scale=0.1).train()

    def converted(self) -> float:
        from bnnlib.nn import bayesian_share

        return bayesian_share(self.model)

    def loss(self) -> Tensor:
        from bnnlib.nn import kl_divergence

        return nn.functional.cross_entropy(self.model(self.x), self.y) + kl_divergence(self.model) / len(self.x)

    def compress(self) -> nn.Module:
        from bnnlib.nn import StructuredBayesianPruning, insert_unit_noise
        from bnnlib.pruning import compress

        layers = [name for name, m in self.plain.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)]
        noisy = insert_unit_noise(copy.deepcopy(self.plain), before=layers[1:] or layers)
        for module in noisy.modules():
            if isinstance(module, StructuredBayesianPruning):
                with torch.no_grad():  # as training leaves a unit that only carries noise
                    module.location[0], module.log_scale[0] = -15.0, 4.0
        return compress(noisy, self.x)


class BayesianTorch(Library):
    package, title, spread = "bayesian_torch", "bayesian-torch", "rho_"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn

        super().__init__(network, x, y)
        prior = {"prior_mu": 0.0, "prior_sigma": 1.0, "posterior_mu_init": 0.0, "posterior_rho_init": -3.0}
        dnn_to_bnn(self.model, prior | {"type": "Reparameterization", "moped_enable": False, "moped_delta": 0.5})

    def loss(self) -> Tensor:
        from bayesian_torch.models.dnn_to_bnn import get_kl_loss

        return nn.functional.cross_entropy(self.model(self.x), self.y) + get_kl_loss(self.model) / len(self.x)


class Torchbnn(Library):
    package = title = "torchbnn"
    spread = "log_sigma"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        super().__init__(network, x, y)
        # it is in no public name of the package
        convert = importlib.import_module("torchbnn.utils._convert_model")
        convert.nonbayes_to_bayes(self.model, 0.0, 0.1)

    def loss(self) -> Tensor:
        import torchbnn

        divergence = torchbnn.BKLLoss(reduction="sum", last_layer_only=False)(self.model)
        return nn.functional.cross_entropy(self.model(self.x), self.y) + divergence.sum() / len(self.x)


class TyXe(Library):
    package, title = "tyxe", "TyXe"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        import pyro
        import tyxe
        from pyro import distributions

        super().__init__(network, x, y)
        pyro.clear_param_store()
        prior = tyxe.priors.IIDPrior(distributions.Normal(0.0, 1.0))
        self.model = tyxe.PytorchBNN(self.model, prior, tyxe.guides.AutoNormal)
        self.trained = list(self.model.pytorch_parameters(x))

    def converted(self) -> float:
        sites = self.model.net_guide(self.x)
        return 100.0 * sum(value.numel() for value in sites.values()) / self.size

    def loss(self) -> Tensor:
        likelihood = nn.functional.cross_entropy(self.model(self.x), self.y)
        return likelihood + self.model.cached_kl_loss / len(self.x)

    def parameters(self) -> list[Tensor]:
        return self.trained


class Laplace(Library):
    package, title = "laplace", "laplace-torch"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        from laplace import Laplace as Fit

        super().__init__(network, x, y)
        self.model.eval()
        # of several ways to the curvature: the others do not know these layers
        from laplace.curvature import CurvlinopsEF

        self.fitted = Fit(self.model, "classification", "all", "diag", backend=CurvlinopsEF)
        self.precision = torch.ones(1, requires_grad=True)
        self.fitted.fit(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), len(x)))

    def converted(self) -> float:
        return 100.0 * self.fitted.n_params / self.size

    def draw(self, x: Tensor) -> Tensor:
        return self.fitted.predictive_samples(x, pred_type="nn", n_samples=1)[0]

    def loss(self) -> Tensor:
        return -self.fitted.log_marginal_likelihood(self.precision)

    def parameters(self) -> list[Tensor]:
        return [self.precision]  # what it learns itself, after the network has been trained


class Posteriors(Library):
    package = title = "posteriors"

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor) -> None:
        import posteriors
        import torchopt

        super().__init__(network, x, y)

        def log_posterior(values: Any, batch: Any) -> tuple[Tensor, Tensor]:
            output = torch.func.functional_call(self.model, values, (batch[0],))
            prior = posteriors.diag_normal_log_prob(values)
            return -nn.functional.cross_entropy(output, batch[1]) + prior / len(x), torch.zeros(())

        self.method = posteriors.vi.diag.build(log_posterior, torchopt.adam(lr=1e-2), init_log_sds=-2.0)
        self.state = self.method.init(dict(self.model.named_parameters()))

    def converted(self) -> float:
        return 100.0 * sum(value.numel() for value in self.state.log_sd_diag.values()) / self.size

    def draw(self, x: Tensor) -> Tensor:
        import posteriors

        values = posteriors.vi.diag.sample(self.state)
        return torch.func.functional_call(self.model, values, (x,))

    def step(self) -> None:
        self.state = self.method.update(self.state, (self.x, self.y), inplace=False)[0]


class TorchPruning(Library):
    package, title = "torch_pruning", "torch-pruning"

    def converted(self) -> float:
        offered(importlib.import_module(self.package), "to_bayesian", "kl_divergence", "sample")
        raise NotOffered

    def draw(self, x: Tensor) -> Tensor:
        self.converted()
        raise NotOffered

    loss = converted

    def compress(self) -> nn.Module:
        import torch_pruning

        ignored = [self.model.head]
        heads = {m: m.num_heads for m in self.model.modules() if isinstance(m, nn.MultiheadAttention)}
        importance = torch_pruning.importance.MagnitudeImportance(p=2)
        pruner = torch_pruning.pruner.MagnitudePruner(
            self.model, self.x, importance, pruning_ratio=0.5, ignored_layers=ignored, num_heads=heads
        )
        pruner.step()
        return self.model


LIBRARIES = (Ours, BayesianTorch, Torchbnn, TyXe, Laplace, Posteriors, TorchPruning)


def _seeded(work: Callable[[], Any]) -> Any:
    torch.manual_seed(SEED)
    return work()


def _converted(make: Callable[[], Library]) -> str:
    return f"{make().converted():.1f} %"


def _training(make: Callable[[], Library]) -> str:
    library = make()
    if hasattr(library, "step"):
        before = _seeded(lambda: library.draw(library.x))
        library.step()
    else:
        parameters = library.parameters()
        optimizer = torch.optim.Adam(parameters, lr=1e-2)
        before = _seeded(lambda: library.draw(library.x)).detach()
        library.loss().backward()
        gradients = [p.grad for p in parameters if p.grad is not None]
        assert gradients and all(g.isfinite().all() for g in gradients), "no finite gradient"
        optimizer.step()
        if isinstance(library, Laplace):
            library.fitted.prior_precision = library.precision.detach()
    after = _seeded(lambda: library.draw(library.x))
    assert after.isfinite().all(), "the outputs are not finite"
    assert isinstance(library, Laplace) or not torch.equal(before, after), "the outputs did not move"
    return "yes"


def _prediction(make: Callable[[], Library]) -> str:
    library = make()
    with torch.no_grad():
        assert not torch.equal(library.draw(library.x), library.draw(library.x)), "two draws are equal"
    return "yes"


def _same(one: Library, other: Library) -> None:
    with torch.no_grad():
        a, b = (_seeded(lambda library=library: library.draw(library.x)) for library in (one, other))
    assert torch.allclose(a, b, atol=1e-6), "the second one predicts otherwise"


def _state(make: Callable[[], Library]) -> str:
    one = make()
    one.draw(one.x)
    torch.manual_seed(SEED + 1)
    other = make()
    if isinstance(one, Posteriors):
        other.state.load_state_dict(one.state.state_dict())
    else:
        holder, receiver = (getattr(library, "fitted", library.model) for library in (one, other))
        receiver.load_state_dict(holder.state_dict())
    _same(one, other)
    return "yes"


def _copy(make: Callable[[], Library]) -> str:
    one = make()
    _same(one, copy.deepcopy(one))
    return "yes"


def _vmap(make: Callable[[], Library]) -> str:
    library = make()
    found = torch.func.vmap(lambda _: library.draw(library.x), randomness="different")(torch.arange(3.0))
    assert not torch.equal(found[0], found[1]), "the draws are equal"
    return "yes"


def _compile(make: Callable[[], Library]) -> str:
    library = make()
    library.draw(library.x)
    torch.compiler.reset()
    value = torch.compile(library.draw, fullgraph=True, backend="eager")(library.x)
    if value.requires_grad:
        value.sum().backward()
    return "yes"


def _compression(make: Callable[[], Library]) -> str:
    library = make()
    small = library.compress()
    left = sum(p.numel() for p in small.parameters())
    assert left < library.size and small(library.x).shape == (len(library.x), 3), "it is not smaller"
    return "yes"


CHECKS = {
    "converted": _converted,
    "training": _training,
    "prediction": _prediction,
    "state_dict": _state,
    "deepcopy": _copy,
    "vmap over draws": _vmap,
    "compile": _compile,
    "compression": _compression,
}
FEATURES = tuple(CHECKS)


def batch(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Four rows and their labels."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.randn(4, *shape, generator=generator), torch.tensor([0, 1, 2, 0])


def measure(library: type[Library], network: str) -> dict[str, str]:
    """One row {library, version, network, and the features}: what happened, by feature."""
    row = {"library": library.title, "network": network}
    try:
        importlib.import_module(library.package)
    except ImportError as error:
        missing = error.name == library.package.split(".")[0]
        return row | {"note": "not installed" if missing else f"cannot be imported: {error}"}
    build, shape = NETWORKS[network]

    def make() -> Library:
        torch.manual_seed(SEED)
        made = library(build(), *batch(shape))
        for module in made.model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()  # a draw is one of weights, not of batches
        return made

    row["version"] = importlib.metadata.version(library.title if library is not TyXe else "tyxe")
    for feature, check in CHECKS.items():
        try:
            row[feature] = check(make)
        except Exception as error:  # whatever it is, it is what a user would see
            words = str(error).strip().splitlines()
            row[feature] = f"{type(error).__name__}: {words[0][:160] if words else 'no words'}"
    return row


def brief(value: str) -> str:
    """A cell of the table: the share, yes, or no."""
    return value if value == "yes" or value.endswith(" %") else "no"


def table(rows: list[dict[str, str]]) -> str:
    """The rows as a table of Markdown; what "no" stands for is in the rows."""
    lines = ["| | " + " | ".join(FEATURES) + " |", "|---" * (len(FEATURES) + 1) + "|"]
    for network in NETWORKS:
        lines.append(f"| **{network}** |" + " |" * len(FEATURES))
        for row in rows:
            if row["network"] == network:
                cells = [row.get("note") or brief(row[feature]) for feature in FEATURES]
                lines.append(
                    f"| {row['library']} {row.get('version', '')} | ".replace("  ", " ") + " | ".join(cells) + " |"
                )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> list[dict[str, str]]:
    parser = command.parser("peers", __doc__)
    parser.add_argument("--store", action="store_true", help=f"keep the rows in {STORED.name}")
    titles = [library.title for library in LIBRARIES]
    parser.add_argument("--libraries", nargs="+", default=titles, choices=titles)
    options = parser.parse_args(arguments)
    say, rows = command.progress(options), []
    stored = json.loads(STORED.read_text(encoding="utf-8"))["rows"] if set(options.libraries) < set(titles) else []
    kept = {(row["network"], row["library"]): row for row in stored}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for network in NETWORKS:
            for library in LIBRARIES:
                if library.title not in options.libraries:
                    rows.append(kept[network, library.title])
                    continue
                rows.append(measure(library, network))
                found = rows[-1].get("note") or ", ".join(f"{f}: {rows[-1][f]}" for f in FEATURES)
                print(f"{network:20s} {library.title:15s} {found}", file=say, flush=True)
    if options.store:
        STORED.write_text(json.dumps({"torch": torch.__version__.split("+")[0], "rows": rows}, indent=1) + "\n")
    return command.done(rows, options)


if __name__ == "__main__":
    main()
