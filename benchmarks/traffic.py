"""Bytes that a training step reads and writes, operation by operation, beside those of the deterministic step.

`python -m benchmarks.traffic [--json] [--batch 128 1024]`

Every operation that PyTorch runs is counted with the sizes of the tensors that it takes and gives, each once; views
move nothing. On a processor a step of a network with more weights than its caches hold costs about this traffic over
the machine's bandwidth, plus the products of matrices, whose time goes with the batch. `bandwidth` is that of a
copy of 64 MiB, in bytes read and written a second.
"""

import statistics
import time
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import command
from benchmarks.step_time import SIZES, Step, build_steps, deterministic
from benchmarks.timing import Timed
from bnnlib import _native


class Traffic(TorchDispatchMode):
    """Counts operations and their bytes inside its block."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        given = _tensors((args, kwargs))
        made = {key: one for key, one in _tensors(out).items() if key not in given}
        if not func.is_view and (given or made):
            self.operations += 1
            self.bytes += sum(map(_size, (*given.values(), *_changed(func, args, kwargs).values(), *made.values())))
        return out


def _tensors(tree) -> dict[int, Tensor]:
    return {id(leaf): leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)}


def _changed(func, args: tuple, kwargs: dict) -> dict[int, Tensor]:
    """The arguments that an operation writes into."""
    values = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
    written = [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return _tensors([values.get(name) for name in written])


def _size(tensor: Tensor) -> int:
    """Bytes that are there; an expanded tensor has fewer than elements."""
    return min(tensor.numel(), tensor.untyped_storage().nbytes() // tensor.element_size()) * tensor.element_size()


def traffic(step: Timed, x: Tensor, y: Tensor) -> tuple[int, int]:
    """Bytes and operations of one step, after one that has made the optimizer's state."""
    step.step(x, y)
    run = _native.run

    def counted(kernel: str, keys, inputs, outputs, constants=(), share=None) -> None:
        found.operations += 1
        found.bytes += sum(map(_size, (*inputs, *outputs)))
        run(kernel, keys, inputs, outputs, constants, share)

    with Traffic() as found, mock.patch.object(_native, "run", counted):  # which PyTorch knows nothing of
        step.step(x, y)
    return found.bytes, found.operations


def bandwidth(rounds: int = 9) -> float:
    """Bytes a second of a copy, read and written."""
    a, b = torch.ones(2**24), torch.empty(2**24)
    times = []
    for _ in range(rounds):
        start = time.process_time()  # without what other work takes
        b.copy_(a)
        times.append(time.process_time() - start)
    return 2 * a.nbytes / statistics.median(times)


def measure(batch: int) -> list[dict]:
    """Rows {library, layer, batch, bytes, operations}; the layer of the deterministic network is "none"."""
    device = torch.device("cpu")
    x, y = torch.rand(batch, SIZES[0]), torch.randint(0, SIZES[-1], (batch,))
    steps = {("torch", "none"): Step(deterministic, device), **build_steps(device, [])}
    rows = []
    for (library, layer), step in steps.items():
        moved, operations = traffic(step, x, y)
        rows.append({"library": library, "layer": layer, "batch": batch, "bytes": moved, "operations": operations})
    return rows


def main(arguments: list[str] | None = None) -> dict:
    parser = command.parser("traffic", __doc__, batch=[128, 1024])
    options = parser.parse_args(arguments)
    say = command.progress(options)
    rows = [row for batch in options.batch for row in measure(batch)]
    found = {"bandwidth": bandwidth(), "rows": rows}
    print(f"a copy moves {found['bandwidth'] / 1e9:.1f} GB/s", file=say)
    for row in rows:
        name = f"{row['library']} {row['layer']}"
        print(f"batch {row['batch']:5d}  {name:32s} {row['bytes'] / 1e6:7.1f} MB {row['operations']:5d} ops", file=say)
    return command.done(found, options)


if __name__ == "__main__":
    main()
