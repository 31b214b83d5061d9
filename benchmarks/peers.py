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
from benchmarks.peer_libraries import LIBRARIES, Laplace, Library, Posteriors, TyXe

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


def _seeded(work: Callable[[], Any]) -> Any:
    torch.manual_seed(SEED)
    return work()


def _converted(make: Callable[[], Library]) -> str:
    return f"{make().converted():.1f} %"


def _training(make: Callable[[], Library]) -> None:
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


def _prediction(make: Callable[[], Library]) -> None:
    library = make()
    with torch.no_grad():
        assert not torch.equal(library.draw(library.x), library.draw(library.x)), "two draws are equal"


def _same(one: Library, other: Library) -> None:
    with torch.no_grad():
        a, b = (_seeded(lambda library=library: library.draw(library.x)) for library in (one, other))
    assert torch.allclose(a, b, atol=1e-6), "the second one predicts otherwise"


def _state(make: Callable[[], Library]) -> None:
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


def _copy(make: Callable[[], Library]) -> None:
    one = make()
    _same(one, copy.deepcopy(one))


def _vmap(make: Callable[[], Library]) -> None:
    library = make()
    found = torch.func.vmap(lambda _: library.draw(library.x), randomness="different")(torch.arange(3.0))
    assert not torch.equal(found[0], found[1]), "the draws are equal"


def _compile(make: Callable[[], Library]) -> None:
    library = make()
    library.draw(library.x)
    torch.compiler.reset()
    value = torch.compile(library.draw, fullgraph=True, backend="eager")(library.x)
    if value.requires_grad:
        value.sum().backward()


def _compression(make: Callable[[], Library]) -> None:
    library = make()
    small = library.compress()
    left = sum(p.numel() for p in small.parameters())
    assert left < library.size and small(library.x).shape == (len(library.x), 3), "it is not smaller"


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
            row[feature] = check(make) or "yes"
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
