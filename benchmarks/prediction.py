"""Time and memory of posterior predictive draws: one after another, many at once, and by other libraries.

`python -m benchmarks.prediction [--json] [--samples 100] [--batch 1 128] [--networks LeNet-5 ...] [--memory]`

"calls" is model(x) so many times, which draws in each of its chunks anew; "predict" is `bnnlib.nn.predict`, one after
another; "at once" the same with `draws_at_once`. All networks have the same shapes and run without gradients. Rounds
take turns, and the ratio to "calls" of our Gaussian layers is the median over rounds. torchbnn and bayesian-torch are
measured where they are installed (`pip install torchbnn bayesian-torch`), always by calls. With --memory each of them
runs in a process of its own, and `peak_mb` is what it needed beyond the model (Linux); `copies_mb` is what so many
copies of the means would take. The virtual batch of stochastic batch norm is the business of
`benchmarks.virtual_batch`.
"""

import multiprocessing
import statistics
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks import command
from benchmarks.timing import seconds
from bnnlib import nn as bnn
from bnnlib.models import mlp
from chapters.shared.networks import lenet5_caffe

Kind = Callable[..., nn.Module]
AT_ONCE = 25


class First(nn.Module):
    """The first of what a layer returns: bayesian-torch's have their divergence beside the output."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def _lenet5(linear: Kind, conv: Kind) -> nn.Module:
    model = lenet5_caffe()  # whose layers are exchanged, since the other libraries' have other parameters
    for name, layer in list(model.named_children()):
        if isinstance(layer, nn.Linear):
            setattr(model, name, linear(layer.in_features, layer.out_features))
        elif isinstance(layer, nn.Conv2d):
            setattr(model, name, conv(layer.in_channels, layer.out_channels, layer.kernel_size[0]))
    return model


NETWORKS: dict[str, tuple[Callable[[Kind, Kind], nn.Module], tuple[int, ...]]] = {
    "13-50-1": (lambda linear, _: mlp((13, 50, 1), layer=linear), (13,)),
    "784-400-400-10": (lambda linear, _: mlp((784, 400, 400, 10), layer=linear), (784,)),
    "LeNet-5": (_lenet5, (1, 28, 28)),
}


def _torchbnn() -> tuple[Kind, Kind]:
    import torchbnn

    return partial(torchbnn.BayesLinear, 0.0, 1.0), partial(torchbnn.BayesConv2d, 0.0, 1.0)


def _bayesian_torch() -> tuple[Kind, Kind]:
    # the package's top level needs torchvision, its layers do not
    from bayesian_torch.layers.variational_layers.conv_variational import Conv2dReparameterization
    from bayesian_torch.layers.variational_layers.linear_variational import LinearReparameterization

    return lambda *a: First(LinearReparameterization(*a)), lambda *a: First(Conv2dReparameterization(*a))


def _spike_slab() -> tuple[Kind, Kind]:
    prior = {"prior_inclusion_probability": 1e-3}
    return partial(bnn.SpikeSlabLinear, **prior), partial(bnn.SpikeSlabConv2d, **prior)


LAYERS: dict[tuple[str, str], Callable[[], tuple[Kind, Kind]]] = {
    ("bnnlib", "gaussian"): lambda: (bnn.GaussianLinear, bnn.GaussianConv2d),
    ("bnnlib", "spike-slab"): _spike_slab,
    ("torchbnn", "gaussian"): _torchbnn,
    ("bayesian-torch", "gaussian"): _bayesian_torch,
}


@torch.no_grad()
def _calls(model: nn.Module, x: Tensor, samples: int) -> Tensor:
    return torch.stack([model(x) for _ in range(samples)])


WAYS: dict[str, Callable[[nn.Module, Tensor, int], Tensor]] = {
    "calls": _calls,
    "predict": bnn.predict,
    "at once": partial(bnn.predict, draws_at_once=AT_ONCE),
}
BASE = ("bnnlib", "gaussian", "calls")


def contenders(network: str, device: torch.device) -> dict[tuple[str, str, str], Callable[[Tensor, int], Tensor]]:
    """(library, layer, way) -> the draws as a function of the inputs and of their number, of what is installed."""
    build, _ = NETWORKS[network]
    found = {}
    for (library, layer), kinds in LAYERS.items():
        torch.manual_seed(0)
        try:
            model = build(*kinds()).to(device).eval()
        except ImportError as error:
            print(f"{library} is not measured: {error}", file=sys.stderr)
            continue
        for way in WAYS if library == "bnnlib" else ["calls"]:
            found[library, layer, way] = partial(WAYS[way], model)
    return found


def measure(network: str, batch: int, samples: int, rounds: int, device: torch.device) -> list[dict]:
    """Rows {network, batch, samples, device, library, layer, way, seconds, ratio}; a ratio above 1 is slower."""
    work = contenders(network, device)
    x = torch.rand(batch, *NETWORKS[network][1], device=device)
    times: dict[tuple[str, str, str], list[float]] = {key: [] for key in work}
    for draws in work.values():
        draws(x, samples)
    for _ in range(rounds):
        for key, draws in work.items():
            times[key].append(seconds(lambda draws=draws: draws(x, samples), device))
    common = {"network": network, "batch": batch, "samples": samples, "device": str(device)}
    return [
        common
        | dict(zip(("library", "layer", "way"), key, strict=True))
        | {
            "seconds": round(statistics.median(own), 5),
            "ratio": round(statistics.median(a / b for a, b in zip(own, times[BASE], strict=True)), 3),
        }
        for key, own in times.items()
    ]


def _peak(network: str, batch: int, samples: int, key: tuple[str, str, str], out) -> None:
    """Send the KiB that the draws needed beyond what was there before them."""
    torch.set_num_threads(1)
    draws = contenders(network, torch.device("cpu"))[key]
    x = torch.rand(batch, *NETWORKS[network][1])
    draws(x[:1], 1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is there
    before = _kib("VmHWM")
    draws(x, samples)
    out.send(_kib("VmHWM") - before)


def _kib(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def peak(row: dict) -> dict:
    """The row with `peak_mb` and `copies_mb`, from a process of its own."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    key = (row["library"], row["layer"], row["way"])
    process = context.Process(target=_peak, args=(row["network"], row["batch"], row["samples"], key, send))
    process.start()
    send.close()
    needed = receive.recv()
    process.join()
    means = sum(p.numel() for p in NETWORKS[row["network"]][0](nn.Linear, nn.Conv2d).parameters())
    return row | {"peak_mb": round(needed / 2**10, 2), "copies_mb": round(row["samples"] * 4 * means / 2**20, 2)}


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("prediction", __doc__, batch=[1, 128], rounds=5, device=True)
    parser.add_argument("--samples", type=int, default=100, help="posterior draws")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--memory", action="store_true", help="measure the peak too, each in a process of its own")
    options = parser.parse_args(arguments)
    if options.memory and options.device != "cpu":
        parser.error(f"--memory reads the peak of a process, but the device is {options.device}; leave it out")
    device, say = command.start(options)
    rows = []
    for network, batch in product(options.networks, options.batch):
        found = measure(network, batch, options.samples, options.rounds, device)
        found = [peak(row) for row in found] if options.memory else found
        for row in found:
            name = f"{row['library']} {row['layer']}, {row['way']}"
            memory = f"  {row['peak_mb']:8.1f} MB of {row['copies_mb']:.1f} MB" if options.memory else ""
            head = f"{network:15s} batch {batch:4d}  {name:34s}"
            print(f"{head} {1e3 * row['seconds']:9.1f} ms  {row['ratio']:7.3f}{memory}", file=say)
        rows += found
    return command.done(rows, options)


if __name__ == "__main__":
    main()
