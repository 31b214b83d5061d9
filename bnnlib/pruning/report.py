"""What CSR export gains and loses: bytes and latency, dense against CSR in one run."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib._checks import check_count
from bnnlib.pruning.compress.timing import paired_medians, rows_for_batch
from bnnlib.pruning.csr import _CSRLayer, exportable, save_csr, to_csr


@torch.no_grad()
def csr_report(
    model: nn.Module,
    example: Tensor,
    *,
    batches: Sequence[int] = (1, 256),
    repeats: int = 25,
    min_sparsity: float = 0.0,
) -> dict[str, Any]:
    """Size and latency of a pruned model, dense against CSR, measured side by side: see where CSR does not pay.

    Args:
        model: deterministic and pruned, as for `to_csr`; it is not changed.
        example: inputs (n, ...) on the model's device; rows are repeated to fill a batch.
        batches: batch sizes to time.
        repeats: pairs of passes; times are medians, and who goes first alternates.
        min_sparsity: as for `to_csr`.

    Returns:
        JSON-able dict. weights, nonzeros: of all linear and convolutional layers, without biases; sparsity: the share
        of zeros. csr_layers, dense_layers: the names of the layers that are CSR, and of those with parameters that stay
        dense, as normalization does. bytes_dense, bytes_csr: on disk; bytes_ratio: dense / CSR. latency: rows {layer,
        batch, dense_ms, csr_ms, speedup} for "model" and for each CSR layer on its own; slower: where CSR is slower, in
        words. max_difference: of the outputs, relative to the largest. device, threads, torch.

    Raises:
        ValueError: a count is below 1, example has no rows, or the model cannot be exported.
        TypeError: the model has a layer that cannot be exported.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Linear(100, 100))
        >>> report = csr_report(network, torch.randn(2, 100), batches=[2], repeats=1)
        >>> report["csr_layers"], report["weights"]
        (['0'], 10000)
    """
    check_count("repeats", repeats)
    batches = [check_count("batches", batch) for batch in batches]
    if example.dim() == 0 or len(example) == 0:
        raise ValueError(f"example has shape {tuple(example.shape)}, but it must have at least one row: (n, ...).")
    dense = copy.deepcopy(model).eval()
    sparse = to_csr(dense, min_sparsity)
    layers = {name: module for name, module in sparse.named_modules() if isinstance(module, _CSRLayer)}
    weights = [layer.weight for layer in exportable(dense).values()]
    total, nonzeros = sum(w.numel() for w in weights), sum(int(w.count_nonzero()) for w in weights)
    expected, given = dense(example), sparse(example)
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder, "dense.pt"), Path(folder, "csr.pt")
        torch.save(dense.state_dict(), paths[0])
        save_csr(sparse, paths[1])
        sizes = [path.stat().st_size for path in paths]
    rows: list[dict[str, Any]] = []
    for batch in batches:
        x = rows_for_batch(example, batch)
        seen = _layer_inputs(dense, layers, x)
        pairs = {"model": (dense, sparse, x)}
        pairs |= {name: (dense.get_submodule(name), layers[name], read) for name, read in seen.items() if name}
        rows += [{"layer": name, "batch": batch, **_latency(*pair, repeats)} for name, pair in pairs.items()]
    return {
        "weights": total,
        "nonzeros": nonzeros,
        "sparsity": 1.0 - nonzeros / total,
        "csr_layers": list(layers),
        "dense_layers": [n for n, m in sparse.named_modules() if next(m.parameters(recurse=False), None) is not None],
        "bytes_dense": sizes[0],
        "bytes_csr": sizes[1],
        "bytes_ratio": sizes[0] / sizes[1],
        "latency": rows,
        "slower": [
            f"{row['layer']}, batch {row['batch']}: {1.0 / row['speedup']:.2f} times the dense time"
            for row in rows
            if row["speedup"] < 1.0
        ],
        "max_difference": float((given - expected).abs().max() / expected.abs().max().clamp_min(1e-30)),
        "device": str(example.device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def _layer_inputs(model: nn.Module, names: Iterable[str], x: Tensor) -> dict[str, Tensor]:
    """What the layers read when the model runs on x."""
    seen: dict[str, Tensor] = {}
    hooks = [
        model.get_submodule(name).register_forward_pre_hook(lambda _, given, name=name: seen.update({name: given[0]}))
        for name in names
    ]
    try:
        model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _latency(dense: nn.Module, sparse: nn.Module, x: Tensor, repeats: int) -> dict[str, float]:
    dense_s, csr_s = paired_medians(dense, sparse, x, repeats)
    return {"dense_ms": 1e3 * dense_s, "csr_ms": 1e3 * csr_s, "speedup": dense_s / csr_s}
