"""Export to ONNX, checked on the spot by ONNX Runtime."""

import contextlib
import importlib.util
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bnnlib._copies import copied
from bnnlib.nn.base import StochasticLayer
from bnnlib.pruning.compress.timing import rows_for_batch

_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def onnx_missing() -> list[str]:
    """The packages that `export_onnx` needs and that are not installed."""
    return [name for name in _PACKAGES if importlib.util.find_spec(name) is None]


def export_onnx(model: nn.Module, example: Tensor, path: str | os.PathLike, *, tolerance: float = 1e-5) -> float:
    """Write a deterministic network to one ONNX file with a free batch size, and check it with ONNX Runtime.

    Args:
        model: without random layers, such as from `compress`; exported in eval mode on the CPU, and not changed.
        example: inputs (n, ...), on which PyTorch and ONNX Runtime are compared, together and one row alone.
        path: of the file.
        tolerance: largest difference that is allowed, relative to the largest output or to 1 if that is larger.

    Returns:
        The largest relative difference found.

    Raises:
        ImportError: onnx, onnxscript or onnxruntime is not installed.
        ValueError: example has no rows.
        TypeError: the model has layers that draw at random, or does not return one tensor.
        RuntimeError: ONNX Runtime computes something else; the file is removed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_onnx(torch.nn.Linear(3, 4), torch.randn(5, 3), f"{folder}/network.onnx") < 1e-5
        True
    """
    _check(model, example)
    model, example = copied(model).cpu().eval(), example.detach().cpu()
    rows = rows_for_batch(example, max(2, len(example)))  # a batch of 1 would be taken for a constant
    with torch.no_grad():
        if not isinstance(output := model(rows[:2]), Tensor):
            raise TypeError(
                f"{type(model).__name__} returns a {type(output).__name__}, but a file of export_onnx has one output. "
                "Wrap it in a module that returns the tensor you want; compression_report takes runtimes=['eager']."
            )
    with _quiet(), torch.no_grad():
        torch.onnx.export(
            model,
            (rows[:2],),
            str(path),
            input_names=["input"],
            output_names=["output"],
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            external_data=False,
            verbose=False,
        )
        run = onnx_runner(path)
        pairs = [(model(x), torch.from_numpy(run(x.numpy()))) for x in (rows, rows[:1])]
    difference = max(float((a - b).abs().max() / a.abs().max().clamp_min(1.0)) for a, b in pairs)
    if not difference <= tolerance:
        Path(path).unlink()
        raise RuntimeError(
            f"ONNX Runtime differs from PyTorch by {difference:.3g} of the largest output, but only {tolerance:g} is "
            f"allowed, so {path} was not kept. Allow more if the network is of low precision, else report the network."
        )
    return difference


def onnx_runner(path: str | os.PathLike, threads: int | None = None) -> Callable[[np.ndarray], np.ndarray]:
    """A function from an input array to the output array of an ONNX file, run on the CPU with so many threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads() if threads is None else threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x})[0]


def _check(model: nn.Module, example: Tensor) -> None:
    if missing := onnx_missing():
        raise ImportError(
            f"export_onnx needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed. "
            f"Install with pip install 'bnnlib[onnx]' or pip install {' '.join(missing)}."
        )
    if example.dim() == 0 or len(example) == 0:
        raise ValueError(f"example has shape {tuple(example.shape)}, but it must have at least one row: (n, ...).")
    for name, module in model.named_modules():
        if isinstance(module, StochasticLayer):
            raise TypeError(
                f"{name or 'the model'} is a {type(module).__name__}, which draws at random, and an ONNX file has no "
                "such thing. Export compress(model, example) or to_deterministic(model)."
            )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks on packages that are not there and on its own parts that are deprecated."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        logger.setLevel(level)
