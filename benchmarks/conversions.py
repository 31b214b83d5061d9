"""What becomes of 137 networks: converted, trained for a step, predicted, exported, compressed, and why not.

`python -m benchmarks.conversions [--json] [--networks mlp swin_t] [--packages own timm] [--keep FILE] [--minutes 30]`

`benchmarks.networks` builds them, with random weights. Each answer is "yes", "partly" or "no", with words for the
last two:

- converted: `to_bayesian(network, "gaussian")` in `eval()` is the network to 1e-4 of its largest output, at the
  posterior means; `share` is the percentage of its parameters that got a posterior.
- trained: a step of SGD at a rate of 1e-4 on `elbo_loss` of the mean square of the first output has finite gradients,
  no spread of a posterior has a gradient of 0 alone, and the loss is finite after it.
- predicted: two draws of `predict` differ; "partly" where layers are read without being called (`UncalledWarning`). An
  output that is no tensor is wrapped, as the error of `predict` advises.
- exported: `torch.export` of `to_deterministic(model)` gives what the network gives.
- compressed: `insert_unit_noise` behind every batch normalization, or where there is none behind every linear layer
  and 2-d convolution but the last, half of each layer's units off, then `compress`. `left` is the percentage of
  parameters that is left, `stay` that of units which are off and stay, and the note says what holds most of them.

A package that is not installed reads "not installed". `--keep` appends each answer to a file and reads those that are
there, so that a run goes on where one stopped; `--minutes` starts nothing after that time.
"""

import contextlib
import logging
import re
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import command
from benchmarks.conversion_tables import COLUMNS
from benchmarks.networks import PACKAGES, Network, networks
from bnnlib.nn import (
    StructuredBayesianPruning,
    UncalledWarning,
    bayesian_share,
    elbo_loss,
    insert_unit_noise,
    mean_weights,
    predict,
    to_bayesian,
)
from bnnlib.pruning import blocked_units, compress, to_deterministic

# what a note is about, the first that fits: (pattern, words)
REASONS = (
    (r"instead of calling|has not called", "weights are read without calling their layer"),
    (r"cannot be followed", "torch.fx cannot follow the forward pass"),
    (r"whose weight is computed", "a weight is computed, by a hook or parametrization"),
    (r"there is no batch normalization", "no place for noise on units: no such layer before the last"),
    (r"that runs \d+ times", "a layer runs more than once in a pass"),
    (r"differs from the masked", "the smaller network computes something else"),
    (r"has no rule|is not off$", "operations without a rule, or sums, hold all units that are off"),
    (r"takes the loss from", "the step is too long: random weights in eval() give huge outputs"),
    (r"nor is it before", "the network itself cannot be exported"),
    (r"it took more than", "it took too long"),
)
SECONDS = 240  # for one answer
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


class First(nn.Module):
    """A network whose output is the first tensor of another's."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return tensors(self.network(x))[0]


def tensors(output: Any) -> list[Tensor]:
    """The tensors of an output in order, of tuples and dicts too."""
    if isinstance(output, Tensor):
        return [output]
    parts = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else []
    return [found for part in parts for found in tensors(part)]


def _built(network: Network) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return network.build().eval(), network.example()


def _bayesian(network: Network) -> tuple[nn.Module, nn.Module, Tensor]:
    plain, x = _built(network)
    return plain, to_bayesian(plain, "gaussian", unsupported="keep").eval(), x


def _distance(given: Any, expected: Any) -> float:
    pairs = list(zip(tensors(given), tensors(expected), strict=True))
    scale = max(float(e.abs().max()) for _, e in pairs if e.is_floating_point())
    return max(float((g - e).abs().max()) for g, e in pairs if e.is_floating_point()) / max(scale, 1e-12)


@torch.no_grad()
def converted(network: Network) -> dict[str, Any]:
    plain, model, x = _bayesian(network)
    about = {"share": round(bayesian_share(model), 1), "parameters": sum(p.numel() for p in plain.parameters())}
    with mean_weights(model):
        distance = _distance(model(x), plain(x))
    if not distance <= 1e-4:
        return about | {"answer": "no", "note": f"at the means the output differs by {distance:.2g} of the largest"}
    return about | {"answer": "yes"}


def trained(network: Network) -> dict[str, Any]:
    _, model, x = _bayesian(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def loss() -> Tensor:
        return elbo_loss(tensors(model(x))[0].square().mean(), model, num_data=1000)

    first = loss()
    first.backward()
    used = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    if bad := [name for name, grad in used.items() if not grad.isfinite().all()]:
        return {"answer": "no", "note": f"the gradient of {bad[0]} is not finite"}
    spreads = [name for name, _ in model.named_parameters() if name.endswith("_rho")]
    if silent := [name for name in spreads if name not in used or not used[name].any()]:
        return {"answer": "no", "note": f"{silent[0]} has no gradient"}
    optimizer.step()
    if not bool((then := loss()).isfinite()):
        return {"answer": "no", "note": f"the step takes the loss from {float(first):.2g} to {float(then):.2g}"}
    return {"answer": "yes"}


def predicted(network: Network) -> dict[str, Any]:
    plain, model, x = _bayesian(network)
    with torch.no_grad():
        if not isinstance(plain(x), Tensor):
            model = First(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UncalledWarning)
        draws = predict(model, x, 2)
    if not draws.isfinite().all() or torch.equal(draws[0], draws[1]):
        return {"answer": "no", "note": "two draws are equal or not finite"}
    told = [str(one.message) for one in caught if issubclass(one.category, UncalledWarning)]
    return {"answer": "partly", "note": told[0].partition(": where")[0]} if told else {"answer": "yes"}


@torch.no_grad()
def exported(network: Network) -> dict[str, Any]:
    plain, model, x = _bayesian(network)
    expected = plain(x)
    try:
        program = torch.export.export(to_deterministic(model).eval(), (x,), strict=False)
    except Exception:
        try:
            torch.export.export(plain, (x,), strict=False)
        except Exception as error:
            return {"answer": "no", "note": f"nor is it before the conversion: {said(error)}"}
        raise
    distance = _distance(program.module()(x), expected)
    return {"answer": "yes"} if distance <= 1e-4 else {"answer": "no", "note": f"differs by {distance:.2g}"}


def compressed(network: Network) -> dict[str, Any]:
    plain, x = _built(network)
    noisy = _half_off(plain)
    small = compress(noisy, x)
    left = 100.0 * sum(p.numel() for p in small.parameters()) / sum(p.numel() for p in plain.parameters())
    rows = blocked_units(noisy, x)
    off, stay = sum(row["off"] for row in rows), sum(row["stay"] for row in rows)
    reasons = sum((Counter(row["reasons"]) for row in rows), Counter())
    about = {"left": round(left, 1), "off": off, "stay": round(100.0 * stay / max(off, 1), 1)}
    if reasons:
        about["note"] = reasons.most_common(1)[0][0]
    return about | {"answer": "yes" if left < 100.0 else "no"}


@torch.no_grad()
def _half_off(network: nn.Module) -> nn.Module:
    """With noise on units, of which every second one is noise alone."""
    layers = {name: module for name, module in network.named_modules() if name}
    names = [name for name, module in layers.items() if isinstance(module, _NORMS)]
    if not names:
        names = [name for name, module in layers.items() if isinstance(module, (nn.Linear, nn.Conv2d))][:-1]
    noisy = None
    while names and noisy is None:
        try:
            noisy = insert_unit_noise(network, after=names)
        except ValueError as error:  # one of them cannot have any, and its name stands first
            refused = str(error).partition("' ")[0].strip("'")
            if refused not in names:
                raise
            names.remove(refused)
    if noisy is None:
        raise ValueError(
            "there is no batch normalization, and no linear layer or 2-d convolution before the last, to have noise"
        )
    for layer in noisy.modules():
        if isinstance(layer, StructuredBayesianPruning):
            layer.log_scale[::2] = 3.0
    return noisy


def reason(note: str) -> str:
    """What a note is about, in the words of its group."""
    return next((words for pattern, words in REASONS if re.search(pattern, note)), note[:120])


def said(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    own = isinstance(error, (TypeError, ValueError)) and len(text) > 40
    return (text if own else f"{type(error).__name__}: {text}")[:300]


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def measure(network: Network, column: str) -> dict[str, Any]:
    """{network, column, answer, note, seconds, ...} of one call."""
    call: Callable[[Network], dict[str, Any]] = globals()[column]
    start = time.perf_counter()
    try:
        with _limited(SECONDS):
            found = call(network)
    except Exception as error:
        found = {"answer": "no", "note": said(error)}
    return {"network": network.name, "column": column, **found, "seconds": round(time.perf_counter() - start, 1)}


def row(network: Network, answers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The table's row: {network, package, parameters, share, left, off, stay, COLUMN: answer, COLUMN_note, _reason}."""
    found: dict[str, Any] = {"network": network.name, "package": network.package}
    for column in COLUMNS:
        answer = answers.get(column, {"answer": "not run" if network.installed() else "not installed"})
        found[column] = answer["answer"]
        found |= {key: answer[key] for key in ("parameters", "share", "left", "off", "stay") if key in answer}
        if "note" in answer:
            found[f"{column}_note"] = answer["note"]
            if answer["answer"] != "yes":
                found[f"{column}_reason"] = reason(answer["note"])
    return found


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("conversions", __doc__, goes_on=True)
    parser.add_argument("--networks", nargs="+", help="names of networks; all of them otherwise")
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES), choices=PACKAGES)
    parser.add_argument("--columns", nargs="+", default=list(COLUMNS), choices=COLUMNS)
    options = parser.parse_args(arguments)
    say, end = command.progress(options), time.monotonic() + 60 * options.minutes
    known = networks()
    if unknown := set(options.networks or ()) - {one.name for one in known}:
        parser.error(f"there is no network {sorted(unknown)}; benchmarks/networks.py has them")
    chosen = [one for one in known if one.package in options.packages and one.name in (options.networks or [one.name])]
    found = command.kept(options.keep, "network", "column")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for network in chosen:
            for column in options.columns:
                key = f"{network.package}/{network.name}", column
                if not network.installed() or key in found or time.monotonic() > end:
                    continue
                found[key] = measure(network, column) | {"network": key[0]}
                command.keep(options.keep, found[key])
            own = {column: one for (name, column), one in found.items() if name == f"{network.package}/{network.name}"}
            rows.append(row(network, own))
            answers = "  ".join(f"{rows[-1][column]:9s}" for column in COLUMNS)
            print(f"{network.package:12s} {network.name:40s} {answers}", file=say, flush=True)
    for column in COLUMNS:
        counted = Counter(one[column] for one in rows)
        print(f"{column:11s} {', '.join(f'{n} {answer}' for answer, n in counted.most_common())}", file=say)
    return command.done(rows, options)


if __name__ == "__main__":
    main()
