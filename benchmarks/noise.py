"""What a step's noise costs: standard normal numbers by every way at hand, and steps whose noise is for nothing.

`python -m benchmarks.noise [--json] [--rounds 9] [--device cuda]`

The first rows draw one number for every weight of the 784-400-400-10 network. PyTorch's own numbers come from a
Mersenne Twister, one 32-bit word each, and NumPy's from newer generators by the ziggurat method; "16-bit words" cuts
the twister's words into halves and takes each half's quantile from a table, a discrete distribution; "compiled" is what
`torch.compile` makes of `torch.randn`, where a compiler is found. "By key" are numbers that are a function of a key and
of their place, from C++ and from PyTorch.

The other rows are training steps with 128 rows: with noise from PyTorch's generator; with noise that is drawn once and
used again and again, which no training may do: the ratio to the deterministic step is what would be left if numbers
cost nothing; and with noise by key, drawn and used in one pass. All times are of the
processor, with one thread, in turns.

With `--device cuda` the rows are passes over memory on a GPU: numbers, draws and gradients of weights by key, and a
copy, with the bytes that each reads and writes a second. Times are of the GPU, between two events, calls in a row.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from benchmarks import command
from benchmarks.step_time import SIZES, Step, build_steps, deterministic
from benchmarks.timing import Timed
from bnnlib import _native
from bnnlib import _noise as noise
from bnnlib._native import counter

LAYERS = ("gaussian", "spike-slab", "gaussian-spike-slab", "sparse-vd", "horseshoe")
Draw = Callable[[], object]


def quantiles() -> Tensor:
    """The 65,536 quantiles in the middle of equal shares, scaled to a variance of one."""
    share = (torch.arange(2**16, dtype=torch.float64) + 0.5) / 2**16
    normal = torch.special.ndtri(share)
    return (normal / normal.square().mean().sqrt()).float()


def ways(count: int) -> dict[str, Draw]:
    """Name to a function that makes `count` numbers."""
    full, half = torch.empty(count), torch.empty(count, dtype=torch.bfloat16)
    words, table = torch.empty(-(-count // 4), dtype=torch.int64), quantiles().roll(2**15)
    found: dict[str, Draw] = {
        "PyTorch, normal": full.normal_,
        "PyTorch, uniform": full.uniform_,
        "PyTorch, normal, bfloat16": half.normal_,
        "16-bit words through a table": lambda: table[words.random_(-(2**63), None).view(torch.int16)[:count].int()],
    }
    for kind in ("MT19937", "PCG64", "Philox", "SFC64"):
        generator = np.random.Generator(getattr(np.random, kind)(0))
        found[f"NumPy, {kind}, normal"] = partial(generator.standard_normal, out=full.numpy(), dtype=np.float32)
    if _native.available():
        found["by key, C++"] = lambda: _native.fill(full, "normal", 1)
    found["by key, PyTorch"] = lambda: counter.fill(full, "normal", 1)
    try:
        compiled = torch.compile(lambda: torch.randn(count))
        compiled()
        found["PyTorch, normal, compiled"] = compiled
    except Exception as error:  # no compiler, or one that fails: whatever it says, this row is left out
        print(f"compiled is not measured: {type(error).__name__}", file=sys.stderr)
    return found


class Repeated:
    """Noise that is drawn at the first call with a shape and given again at every later one."""

    def __init__(self) -> None:
        self.kept: dict[tuple, Tensor] = {}
        self.draw = noise._draw

    def __call__(self, like: Tensor, shape: tuple[int, ...] | None, kind: str, generator) -> Tensor:
        key = tuple(like.shape if shape is None else shape), kind
        if key not in self.kept:
            self.kept[key] = self.draw(like, shape, kind, generator)
        return self.kept[key]


PASSES = {  # by key, with noise, parameters and gradients for each weight: inputs and outputs of 4 bytes
    "draw, Gaussian": ("gaussian", 2, 1, ()),
    "gradients, Gaussian": ("gaussian_grad", 3, 2, (0.1, 0.1)),
    "gradients, closed form": ("profile_grad", 3, 2, (0.1, 1.0, 9999.0, -4.6)),
    "gradients, scale mixture": ("mixture_grad", 3, 2, (0.1, 1.0, 9999.0, -4.6)),
    "draw, spike and slab": ("spike_slab", 3, 1, ()),
    "gradients, spike and slab": ("spike_slab_grad", 4, 3, (0.1, 1.0, 10.0, 2.0)),
}


def passes(count: int, device: torch.device) -> dict[str, tuple[int, Draw]]:
    """Name to the bytes for each number, and a function that goes over `count` numbers on a GPU."""
    made = [torch.randn(count, device=device) for _ in range(7)]
    first = made[0]
    found: dict[str, tuple[int, Draw]] = {
        "copy": (8, lambda: made[1].copy_(first)),
        "PyTorch, normal": (4, first.normal_),
        "PyTorch, uniform": (4, first.uniform_),
        "by key, PyTorch, normal": (4, lambda: counter.fill(first, "normal", 1)),
    }
    if not _native.serves(first):
        print("by key, Triton is not measured: it is not installed, or fails here", file=sys.stderr)
        return found
    for kind in ("normal", "uniform", "logistic"):
        found[f"by key, Triton, {kind}"] = 4, partial(_native.fill, first, kind, 1)
    for name, (kernel, inputs, outputs, constants) in PASSES.items():
        arguments = (1, 2), made[:inputs], made[4 : 4 + outputs], constants
        found[name] = 4 * (inputs + outputs), partial(_native.run, kernel, *arguments)
    return found


def on_gpu(count: int, rounds: int, device: torch.device, calls: int = 20) -> list[dict]:
    """Rows {way, count, device, ns, ns_quartiles, per_second, gb_s, of_copy}: by number, and as shares of a copy."""
    made = passes(count, device)
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds + 1):
        for name, (_, work) in made.items():
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            number = 1 if "by key, PyTorch" in name else calls
            before.record()
            for _ in range(number):
                work()
            after.record()
            after.synchronize()
            times[name].append(before.elapsed_time(after) * 1e6 / number / count)  # of milliseconds
    rows = []
    for name, (size, _) in made.items():
        row = {"way": name, "count": count, "device": str(device), **_middle("ns", times[name][1:], 5)}
        ns = statistics.median(times[name][1:])
        rows.append(row | {"per_second": float(f"{1e9 / ns:.4g}"), "gb_s": round(size / ns, 1)})
    return [row | {"of_copy": round(row["gb_s"] / rows[0]["gb_s"], 3)} for row in rows]


def _seconds(work: Draw) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def numbers(count: int, rounds: int) -> list[dict]:
    """Rows {way, ns}: median nanoseconds of a number and its quartiles."""
    made = ways(count)
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds + 1):  # the first warms up
        for name, work in made.items():
            times[name].append(_seconds(work) / count * 1e9)
    return [{"way": name, **_middle("ns", found[1:], 2)} for name, found in times.items()]


def steps(layers: tuple[str, ...], rounds: int, batch: int = 128) -> list[dict]:
    """Rows {layer, ratio, free, keyed}: the step over the deterministic one, with noise drawn, repeated and by key."""
    device = torch.device("cpu")
    x, y = torch.rand(batch, SIZES[0]), torch.randint(0, SIZES[-1], (batch,))
    base, own, by_key = Step(deterministic, device), *(build_steps(device, list(layers), one) for one in (False, True))
    base.seconds(x, y, 3)
    rows = []
    for layer in layers:
        step, repeated = own["bnnlib", layer], Repeated()
        drawn, free, keyed = [], [], []
        for _ in range(rounds + 1):
            whole = base.seconds(x, y, 5)
            drawn.append(step.seconds(x, y, 5) / whole)
            with mock.patch.object(noise, "_draw", repeated):
                free.append(step.seconds(x, y, 5) / base.seconds(x, y, 5))
            keyed.append(by_key["bnnlib", layer].seconds(x, y, 5) / base.seconds(x, y, 5))
        found = {"ratio": drawn, "free": free, "keyed": keyed}
        rows.append(
            {"layer": layer} | {k: v for name, one in found.items() for k, v in _middle(name, one[1:], 3).items()}
        )
    return rows


def _middle(name: str, values: list[float], digits: int) -> dict:
    low, middle, high = (round(one, digits) for one in statistics.quantiles(values, n=4))
    return {name: middle, f"{name}_quartiles": [low, high]}


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("noise", __doc__, rounds=9)
    parser.add_argument("--layers", nargs="+", default=list(LAYERS), help="whose steps are timed")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    options = parser.parse_args(arguments)
    count = sum(a * b + b for a, b in pairwise(SIZES))
    if options.device == "cpu":
        torch.set_num_threads(1)
        Timed.clock = staticmethod(time.process_time)
        rows = numbers(count, options.rounds) + steps(tuple(options.layers), options.rounds)
    else:  # the network's weights, which caches hold, and more than they do
        device = torch.device(options.device)
        rows = [row for size in (count, 2**26) for row in on_gpu(size, options.rounds, device)]
    say = command.progress(options)
    for row in rows:
        name, values = row.get("way", row.get("layer")), {key: one for key, one in row.items() if "quart" not in key}
        print(f"{name:32s} {values}", file=say)
    return command.done(rows, options)


if __name__ == "__main__":
    main()
