"""What compression gains: units, parameters, operations, bytes and latency, before and after in one run."""

import copy
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from bnnlib._checks import check_choice, check_count
from bnnlib.pruning.compress.file import save_compressed
from bnnlib.pruning.compress.graph import outputs
from bnnlib.pruning.compress.network import check_example, full_precision, masked_output, plain_network
from bnnlib.pruning.compress.onnx_export import export_onnx, onnx_missing, onnx_runner
from bnnlib.pruning.compress.timing import paired_medians, rows_for_batch

RUNTIMES = ("eager", "onnxruntime")


@torch.no_grad()
def compression_report(
    model: nn.Module,
    compressed: nn.Module,
    example: Tensor,
    *,
    batches: Sequence[int] = (1, 256),
    repeats: int = 25,
    runtimes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Measure a network of full size against its compressed form, side by side in one run.

    Full size is the deterministic network without layers of noise. At batch 1 small operations take less time than
    PyTorch needs to start them, so that "eager" gains little; ONNX Runtime shows what the units cost.

    Args:
        model: as given to `compress`; it is not changed.
        compressed: what `compress` returned.
        example: inputs (n, ...) on the device of both. Rows are repeated to fill a batch; the difference of the outputs
            is over all rows.
        batches: batch sizes to time.
        repeats: pairs of passes; times are medians, and who goes first alternates.
        runtimes: of "eager" (PyTorch) and "onnxruntime" (on the CPU, with as many threads); None takes what is
            installed.

    Returns:
        JSON-able dict. layers: rows {layer, type, inputs_before, inputs_after, units_before, units_after} of linear and
        convolutional layers. cut: names of layers that read nothing at all (every weight is 0): what stands before them
        has no effect, and one unit of it is left for the shapes. parameters, flops, bytes: each {before, after, ratio},
        where flops are for one row and count a multiply-add as 2, and bytes are on disk. latency: rows {runtime,
        device, batch, dense_ms, compressed_ms, ratio}; on the CPU, and for an example on a GPU there as well.
        max_difference: to the masked network, relative to its largest output. threads, torch, onnxruntime (version or
        None).

    Raises:
        ValueError: a count is below 1, example has no rows, a runtime is unknown, or the two are not one network.
        ImportError: a runtime that was asked for is not installed.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).eval()
        >>> network[2].weight.data[:, :3] = 0.0
        >>> small, x = compress(network, torch.randn(2, 3)), torch.randn(2, 3)
        >>> compression_report(network, small, x, batches=[2], repeats=1, runtimes=[])["parameters"]
        {'before': 21, 'after': 6, 'ratio': 3.5}
    """
    check_count("repeats", repeats)
    batches = [check_count("batches", batch) for batch in batches]
    installed = RUNTIMES[:1] if onnx_missing() else RUNTIMES
    runtimes = [check_choice("runtimes", runtime, RUNTIMES) for runtime in runtimes or installed]
    dense = plain_network(model, check_example(example)[:2])
    layers = _layers(dense, compressed)
    with full_precision():
        given, expected = (outputs(masked_output(network, example)) for network in (compressed, model))
    pair = dense, compressed
    latency = []
    if example.is_cuda:
        latency += [_timed("eager", pair, rows_for_batch(example, batch), repeats) for batch in batches]
        pair, example = (copy.deepcopy(dense).cpu(), copy.deepcopy(compressed).cpu()), example.cpu()
    with tempfile.TemporaryDirectory() as folder:
        sizes = _sizes(pair, Path(folder))
        if "eager" in runtimes:
            latency += [_timed("eager", pair, rows_for_batch(example, batch), repeats) for batch in batches]
        if "onnxruntime" in runtimes:
            calls = _sessions(pair, example, Path(folder))
            latency += [_timed("onnxruntime", calls, rows_for_batch(example, batch), repeats) for batch in batches]
    return {
        "layers": layers,
        "cut": [row["layer"] for row in layers if not bool(compressed.get_parameter(f"{row['layer']}.weight").any())],
        "parameters": _ratio(*(sum(p.numel() for p in network.parameters()) for network in pair)),
        "flops": _ratio(*(flops(network, example[:1]) for network in pair)),
        "bytes": _ratio(*sizes),
        "latency": latency,
        "max_difference": max(
            float((a - b).abs().max() / b.abs().max().clamp_min(1e-30)) for a, b in zip(given, expected, strict=True)
        ),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "onnxruntime": _version(),
    }


def _layers(dense: nn.Module, compressed: nn.Module) -> list[dict[str, Any]]:
    before, after = (
        {name: m for name, m in network.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}
        for network in (dense, compressed)
    )
    if list(before) != list(after):
        raise ValueError(
            f"the model has the layers {', '.join(before)}, the compressed one {', '.join(after)}, so they are not one "
            "network. Give the model and compress(model, example)."
        )
    return [
        {
            "layer": name,
            "type": "Linear" if isinstance(before[name], nn.Linear) else "Conv2d",
            "inputs_before": _inputs(before[name]),
            "inputs_after": _inputs(after[name]),
            "units_before": len(before[name].weight),
            "units_after": len(after[name].weight),
        }
        for name in before
    ]


def _inputs(layer: nn.Linear | nn.Conv2d) -> int:
    return layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels


def _ratio(before: float, after: float) -> dict[str, float]:
    return {"before": before, "after": after, "ratio": before / after}


def flops(network: nn.Module, row: Tensor) -> int:
    """Floating-point operations of a pass, a multiply-add counted as 2."""
    with FlopCounterMode(display=False) as counter:
        network(row)
    return counter.get_total_flops()


def _sizes(pair: tuple[nn.Module, nn.Module], folder: Path) -> tuple[int, int]:
    paths = folder / "dense.pt", folder / "compressed.pt"
    for network, path in zip(pair, paths, strict=True):
        save_compressed(network, path)
    return paths[0].stat().st_size, paths[1].stat().st_size


def _sessions(pair: tuple[nn.Module, nn.Module], example: Tensor, folder: Path) -> list[Callable]:
    paths = folder / "dense.onnx", folder / "compressed.onnx"
    for network, path in zip(pair, paths, strict=True):
        export_onnx(network, example[:2], path)
    return [onnx_runner(path) for path in paths]


def _timed(runtime: str, pair: Sequence[Callable], x: Tensor, repeats: int) -> dict[str, Any]:
    with torch.inference_mode():
        dense, compressed = paired_medians(pair[0], pair[1], x if runtime == "eager" else x.numpy(), repeats)
    times = {"dense_ms": 1e3 * dense, "compressed_ms": 1e3 * compressed, "ratio": dense / compressed}
    return {"runtime": runtime, "device": x.device.type, "batch": len(x), **times}


def _version() -> str | None:
    if onnx_missing():
        return None
    import onnxruntime

    return onnxruntime.__version__
