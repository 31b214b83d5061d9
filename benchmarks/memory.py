"""Peak memory of training, in bytes a weight, of every Bayesian layer and sampler.

`python -m benchmarks.memory [--json] [--batch 128] [--layers gaussian ...] [--device cpu]`

The networks, steps and peers are those of `benchmarks.step_time`. Counted are parameters, what the optimizer keeps,
gradients, and what a step needs at its worst beside them, activations too; a weight is one of the 478,410 of the
deterministic network, whose own Adam step is the first row. The least for a step that keeps its gradients is 4 bytes
for each parameter, gradient and moment: 16 a weight without a posterior, 32 with two parameters for each, 48 with
three.
"""

import torch
from torch import Tensor

from benchmarks import command
from benchmarks.step_time import SIZES, Step, build_steps, contenders, deterministic, samplers
from benchmarks.timing import Timed
from chapters.shared.memory import peak_bytes


def _bytes(tensors: list[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def standing(step: Timed) -> int:
    """Bytes of parameters, gradients and of what the optimizer keeps, between two steps."""
    parameters = list(step.model.parameters())
    optimizer = step.optimizer if hasattr(step, "optimizer") else step.sampler
    states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    prior = getattr(step, "prior", None)
    if prior is not None:
        states += [value for name in ("rho", "kappa0", "kappa1") for value in getattr(prior, name).values()]
    states += getattr(optimizer, "_noise", [])
    return _bytes(parameters) + _bytes([p.grad for p in parameters if p.grad is not None]) + _bytes(states)


def needed(step: Timed, x: Tensor, y: Tensor) -> int:
    """Bytes at the worst moment of a step beyond those at its start."""
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
        torch.cuda.reset_peak_memory_stats(x.device)
        before = torch.cuda.memory_allocated(x.device)
        step.step(x, y)
        torch.cuda.synchronize(x.device)
        return torch.cuda.max_memory_allocated(x.device) - before
    return peak_bytes(lambda: step.step(x, y))


def measure(batch: int, device: torch.device, layers: list[str]) -> list[dict]:
    """Rows {library, layer, batch, device, standing, peak}, in bytes a weight."""
    x, y = torch.rand(batch, SIZES[0], device=device), torch.randint(0, SIZES[-1], (batch,), device=device)
    steps: dict[tuple[str, str], Timed] = {("torch", "deterministic"): Step(deterministic, device)}
    steps |= {key: step for key, step in build_steps(device, layers).items() if hasattr(step, "model")}
    weights = sum(parameter.numel() for parameter in steps["torch", "deterministic"].model.parameters())
    rows = []
    for (library, layer), step in steps.items():
        for _ in range(3):
            step.step(x, y)
        kept = standing(step)
        numbers = {"standing": kept / weights, "peak": (kept + needed(step, x, y)) / weights}
        row = {"library": library, "layer": layer, "batch": batch, "device": str(device)}
        rows.append(row | {name: round(value, 1) for name, value in numbers.items()})
    return rows


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("memory", __doc__, device=True)
    parser.add_argument("--batch", type=int, default=128, help="batch size")
    parser.add_argument(
        "--layers", nargs="+", default=[], choices=sorted({key[1] for key in contenders() | samplers()})
    )
    options = parser.parse_args(arguments)
    rows = measure(options.batch, torch.device(options.device), options.layers)
    say = command.progress(options)
    for row in rows:
        name = f"{row['library']} {row['layer']}"
        print(f"{name:36s} {row['peak']:6.1f} bytes a weight, {row['standing']:.1f} between steps", file=say)
    return command.done(rows, options)


if __name__ == "__main__":
    main()
