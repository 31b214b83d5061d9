"""Time of a full training step of every Bayesian layer and sampler, as a ratio to the deterministic network's.

`python -m benchmarks.step_time [--quick] [--json] [--device cuda] [--batch 128 1024] [--layers gaussian ...]`

A step is forward pass, loss with the gradient of the exact KL divergence, backward pass and Adam, on a 784-400-400-10
classifier. The noise comes by key, as `bnnlib.train.fit` draws it (on a GPU where Triton is found); `--unkeyed` takes
it from PyTorch's generator. All networks use the same Adam (fused). Each round times the deterministic network and a
Bayesian one right after each other, so that whatever else the machine does hits both; the ratio is the median over
rounds. torchbnn and bayesian-torch are measured in the same rounds where they are installed (`pip install torchbnn
bayesian-torch`). The samplers ("sgld", "sghmc", with the learned prior "sghmc-sa") take the place of Adam on the
deterministic network; posteriors is measured beside them (`pip install posteriors`). So does the adaptive variational
optimizer ("avo", "avo-natural") and IVON ("ivon", its authors' too with `pip install ivon-opt`). Noise on units and
stochastic batch norm ("sbp-...", "sbn-...") are measured on networks of their papers, each against the same
without, and so are the posteriors on convolutions ("lenet5-...", "resnet20-...").

Beside the median stand the quartiles over the rounds. On a machine with other work `--processor` takes the
processor's time in place of the clock's: with one thread on a CPU it counts what the step itself has used.

`--quick` is 128 rows on one thread, all fully connected networks and samplers in under three minutes. Behind a ratio
stands the goal of the project, where there is one.

On a GPU every step is measured as it is and as a CUDA graph, the deterministic ones too, and a table at the end has
both; what cannot be recorded is left out. `--graphs` measures the graphs alone, and `--quick` has both batch sizes.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks import command, timing
from benchmarks.goals import GOALS
from benchmarks.samplers import Adaptive, Ivon, Ours, Posteriors
from benchmarks.timing import Graphed, StepNoise, Timed, adam
from benchmarks.unit_noise import NETWORKS, with_loss
from bnnlib import nn as bnn
from bnnlib.functional import inclusion_probability_for
from bnnlib.models import mlp
from bnnlib.sampling import SGHMC, SGLD

SIZES = (784, 400, 400, 10)
NUM_DATA = 60_000
MIXTURE = {"slab_scale": 1.0, "spike_scale": math.exp(-6.0)}
Loss = Callable[[Tensor, Tensor], Tensor]


def deterministic() -> tuple[nn.Module, Loss]:
    model = mlp(SIZES)
    return model, lambda x, y: F.cross_entropy(model(x), y)


def ours(linear: Callable[[int, int], nn.Module]) -> tuple[nn.Module, Loss]:
    model = mlp(SIZES, layer=linear)
    return model, lambda x, y: F.cross_entropy(model(x), y) + bnn.kl_gradient(model) / NUM_DATA


def torchbnn() -> tuple[nn.Module, Loss]:
    import torchbnn as peer

    model, kl = mlp(SIZES, layer=partial(peer.BayesLinear, 0.0, 1.0)), peer.BKLLoss(reduction="sum")
    return model, lambda x, y: F.cross_entropy(model(x), y) + kl(model).squeeze() / NUM_DATA


def bayesian_torch(flipout: bool) -> tuple[nn.Module, Loss]:
    # the package's top level needs torchvision, its layers do not
    if flipout:
        from bayesian_torch.layers.flipout_layers.linear_flipout import LinearFlipout as Peer
    else:
        from bayesian_torch.layers.variational_layers.linear_variational import LinearReparameterization as Peer
    model = mlp(SIZES, layer=Peer)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        total = 0.0
        for layer in model:
            if isinstance(layer, Peer):
                x, kl = layer(x)  # cheaper than asking for the divergence separately; it is a mean, see the tests
                total = total + kl
            else:
                x = layer(x)
        return F.cross_entropy(x, y) + total / NUM_DATA

    return model, loss


def contenders() -> dict[tuple[str, str], Callable[[], tuple[nn.Module, Loss]]]:
    """(library, layer) -> a function that builds the model and its loss."""
    prior = inclusion_probability_for(SIZES, NUM_DATA)
    return {
        ("bnnlib", "gaussian"): lambda: ours(bnn.GaussianLinear),
        ("bnnlib", "gaussian-local"): lambda: ours(lambda a, b: bnn.GaussianLinear(a, b, estimator="local")),
        ("bnnlib", "gaussian-flipout"): lambda: ours(lambda a, b: bnn.GaussianLinear(a, b, estimator="flipout")),
        ("bnnlib", "gaussian-spike-slab"): lambda: ours(lambda a, b: bnn.GaussianSpikeSlabLinear(a, b, **MIXTURE)),
        ("bnnlib", "scale-mixture"): lambda: ours(lambda a, b: bnn.ScaleMixtureLinear(a, b, **MIXTURE)),
        ("bnnlib", "spike-slab"): lambda: ours(
            lambda a, b: bnn.SpikeSlabLinear(a, b, prior_inclusion_probability=prior)
        ),
        ("bnnlib", "sparse-vd"): lambda: ours(bnn.SparseVDLinear),
        ("bnnlib", "horseshoe"): lambda: ours(
            lambda a, b: bnn.HorseshoeLinear(a, b) if b != SIZES[-1] else bnn.GaussianLinear(a, b)
        ),
        ("torchbnn", "gaussian"): torchbnn,
        ("bayesian-torch", "gaussian"): lambda: bayesian_torch(False),
        ("bayesian-torch", "gaussian-flipout"): lambda: bayesian_torch(True),
    }


def samplers(keyed: bool = True) -> dict[tuple[str, str], Callable[[nn.Module, int], Timed]]:
    """(library, layer) -> a function of the network and its number of data that builds the step of a sampler."""
    ours = partial(Ours, keyed=keyed)
    return {
        ("bnnlib", "sgld"): partial(ours, sampler=SGLD),
        ("bnnlib", "sghmc"): partial(ours, sampler=SGHMC),
        ("bnnlib", "sghmc-euler"): partial(ours, sampler=partial(SGHMC, scheme="euler")),
        ("bnnlib", "sghmc-sa"): partial(ours, sampler=SGHMC, learned=True),
        ("bnnlib", "avo"): partial(Adaptive, form="sghmc"),
        ("bnnlib", "avo-natural"): partial(Adaptive, form="natural"),
        ("bnnlib", "ivon"): Ivon,
        ("ivon", "ivon"): partial(Ivon, ours=False),
        ("posteriors", "sgld"): partial(Posteriors, name="sgld"),
        ("posteriors", "sghmc"): partial(Posteriors, name="baoa"),  # the same integrator as ours
        ("posteriors", "sghmc-euler"): partial(Posteriors, name="sghmc"),
    }


class Step(Timed):
    """One training step of one network."""

    def __init__(self, build: Callable[[], tuple[nn.Module, Loss]], device: torch.device, keyed: bool = True):
        torch.manual_seed(0)
        self.model, self.loss = build()
        self.model.to(device)
        self.optimizer, self.noise = adam(self.model, device), StepNoise(self.model, device, keyed)

    def step(self, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad()
        with self.noise:
            self.loss(x, y).backward()
        self.optimizer.step()


def pairs(name: str, batch: int, device: torch.device) -> tuple[Timed, Timed, Tensor, Tensor]:
    """The steps of a network without noise and with it, and a batch for both."""
    shape, *builds = NETWORKS[name]
    x = torch.rand(batch, *shape, device=device)
    y = torch.randint(0, 5, (batch,), device=device)
    return *(Step(partial(with_loss, build), device) for build in builds), x, y


def build_steps(device: torch.device, layers: list[str], keyed: bool = True) -> dict[tuple[str, str], Timed]:
    """Every contender that is installed and asked for; without layers, all."""
    builders = {key: partial(Step, build, keyed=keyed) for key, build in contenders().items()}
    builders |= {key: lambda device, build=build: _sampler(build, device) for key, build in samplers(keyed).items()}
    steps = {}
    for key, build in builders.items():
        if not layers or key[1] in layers:
            try:
                steps[key] = build(device)
            except ImportError as error:
                print(f"{key[0]} is not measured: {error}", file=sys.stderr)
    return steps


def _sampler(build: Callable[[nn.Module, int], Timed], device: torch.device) -> Timed:
    torch.manual_seed(0)
    return build(deterministic()[0].to(device), num_data=NUM_DATA)


def measure(
    batch: int,
    device: torch.device,
    layers: list[str],
    rounds: int,
    steps: int,
    graphs: bool = False,
    keyed: bool = True,
) -> list[dict]:
    """Rows {library, layer, batch, device, ratio, quartiles, ms, base_ms}: the ratio's, and medians of both steps.

    On a GPU a row has its mode too, "eager" or "graphs".
    """
    x = torch.rand(batch, SIZES[0], device=device)
    y = torch.randint(0, SIZES[-1], (batch,), device=device)
    base = Step(deterministic, device)
    compared = {key: (base, step, x, y) for key, step in build_steps(device, layers, keyed).items()}
    compared |= {("bnnlib", n): pairs(n, batch, device) for n in NETWORKS if not layers or n in layers}
    if graphs:
        compared = _recorded(compared)
    times: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in compared}
    for base, step, x, y in compared.values():
        base.seconds(x, y, 3)
        step.seconds(x, y, 3)
    for round_number in tqdm(
        range(rounds), desc=f"batch {batch}{', graphs' * graphs}, rounds", file=sys.stderr, disable=None
    ):
        for key, (base, step, x, y) in compared.items():
            # who goes first alternates, so that neither always finds the caches warm
            order = 1 if round_number % 2 else -1
            pair = [timed.seconds(x, y, steps) for timed in (step, base)[::order]]
            times[key].append(tuple(pair[::order]))
    return [
        {
            "library": library,
            "layer": layer,
            "batch": batch,
            "device": str(device),
            **timing.compared(times[library, layer]),
            **({"mode": "graphs" if graphs else "eager"} if device.type == "cuda" else {}),
        }
        for library, layer in compared
    ]


def _recorded(compared: dict) -> dict:
    """The same pairs as CUDA graphs, without those that cannot be recorded."""
    found, bases = {}, {}
    for key, (base, step, x, y) in compared.items():
        try:
            bases[base] = bases[base] if base in bases else Graphed(base, x, y)
            found[key] = (bases[base], Graphed(step, x, y), x, y)
        except (RuntimeError, ValueError) as error:
            print(f"{key[0]} {key[1]} is not recorded: {str(error).splitlines()[0]}", file=sys.stderr)
            torch.cuda.synchronize(x.device)
    return found


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.parser("step_time", __doc__, batch=[128, 1024], rounds=25)
    names = sorted({key[1] for key in contenders() | samplers()} | set(NETWORKS))
    parser.add_argument("--quick", action="store_true", help="128 rows, one thread, no convolutions: a minute or two")
    parser.add_argument("--layers", nargs="+", default=[], choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--steps", type=int, help="training steps in one measurement (4, on a GPU 20)")
    parser.add_argument("--device", help="cpu or cuda; by default cuda where it is, and with --quick cpu")
    parser.add_argument("--processor", action="store_true", help="take the processor's time, not the clock's")
    parser.add_argument("--unkeyed", action="store_true", help="noise from PyTorch's generator, not by key")
    parser.add_argument("--graphs", action="store_true", help="CUDA graphs of every step alone")
    options = parser.parse_args(arguments)
    if options.device is None:
        options.device = "cuda" if torch.cuda.is_available() and not options.quick else "cpu"
    on_gpu = options.device.startswith("cuda")
    options.steps = options.steps or (20 if on_gpu else 4)
    if options.graphs and not on_gpu:
        parser.error(f"--graphs records CUDA graphs, but the device is {options.device}; leave it out")
    if options.processor and options.device != "cpu":
        parser.error(f"--processor takes the CPU's time, but the device is {options.device}; leave it out")
    if options.quick:
        options.batch, options.rounds = [128, 1024] if on_gpu else [128], min(options.rounds, 9)
        options.layers = options.layers or sorted({key[1] for key in contenders() | samplers()})
        torch.set_num_threads(1)
    return options


def main(arguments: list[str] | None = None) -> list[dict]:
    options = _options(arguments)
    Timed.clock = staticmethod(time.process_time if options.processor else time.perf_counter)
    device, say = command.start(options, "Adam(fused=True)")
    modes = [True] if options.graphs else [False, True] if device.type == "cuda" else [False]
    rows: list[dict] = []
    for batch, graphs in product(options.batch, modes):
        found = measure(batch, device, options.layers, options.rounds, options.steps, graphs, not options.unkeyed)
        for row in found:
            name = f"{'graph  ' * graphs}{row['library']} {row['layer']}"
            low, high = row["quartiles"]
            goal = GOALS.get((row["layer"], batch)) if row["library"] == "bnnlib" else None
            aim = f"goal {goal:.2f}" if goal else " " * 9
            print(
                f"batch {batch:5d}  {name:38s} {row['ratio']:6.2f} [{low:.2f}, {high:.2f}]  {aim}   "
                f"({row['ms']:.2f} ms against {row['base_ms']:.2f} ms)",
                file=say,
            )
        rows += found
    if device.type == "cuda":
        print("\n" + table(rows), file=say)
    return command.done(rows, options)


def table(rows: list[dict]) -> str:
    """A line for each step: by batch and mode its milliseconds and, behind them, the ratio."""
    columns = list(dict.fromkeys((row["batch"], row["mode"]) for row in rows))
    cells: dict[str, dict] = {}
    for row in rows:
        at = row["batch"], row["mode"]
        cells.setdefault(f"{row['library']} {row['layer']}", {})[at] = f"{row['ms']:.3f} {row['ratio']:5.2f}"
        if row["layer"] not in NETWORKS:
            cells.setdefault("deterministic", {})[at] = f"{row['base_ms']:.3f}  1.00"
    heads = [f"{batch} rows, {mode}" for batch, mode in columns]
    lines = [["ms and ratio", *heads], *([name, *(own.get(at, "-") for at in columns)] for name, own in cells.items())]
    return "\n".join(f"{line[0]:32s}" + "".join(f"{cell:>20s}" for cell in line[1:]) for line in lines)


if __name__ == "__main__":
    main()
