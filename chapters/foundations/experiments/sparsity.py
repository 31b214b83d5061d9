"""What zeros buy: the same share of weights, of hidden units or of inputs taken out of one network.

A 64-300-100-10 network learns the 8 x 8 digits, loses a share of one kind of part by size, learns on with the rest held
at 0, and is stored and counted in every form: the file with its zeros, CSR, and the smaller network of
`bnnlib.pruning.compress`. Bytes are those of files; operations are a forward pass's FLOPs, and for CSR the products
with weights that are not 0, whatever they cost. Times are the matter of `python -m benchmarks.csr` and `python -m
benchmarks.compression`. "Nothing" is the whole network after as many epochs.

Written before version 2 ran, whose pixels are from 0 to 1 (they had been divided by 16 twice) and whose inputs are
ranked by their column's norm times their standard deviation: a pixel that is never lit keeps its first column, so that
the norm alone may keep it. After five epochs weights cost less accuracy than the same share of units if their paired
difference at 90 % is decided. Three quarters of the units leave about as many weights as nine tenths of the weights:
where these two are undecided, or units are ahead, the share and not the kind makes the difference. "50 epochs after" is
the run without the cause "hardly any training after": if the difference of the same share falls there, that was a part.
Three runs left the first difference undecided, 9.8 ± 4.0 points; seven more are added, whatever they say.
"""

import copy
import io
import tempfile
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bnnlib import metrics
from bnnlib.models import mlp
from bnnlib.pruning import Masks, compress, compression_report, save_csr, to_csr
from bnnlib.pruning.ranking import rank_mask
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, profiles, rows_of
from book.lab.probes import first
from chapters.shared.images import held_out_parts
from chapters.shared.training import fit

KINDS = ("Weights", "Units", "Inputs")
SHARES = (50, 75, 90)
SIZES = (64, 300, 100, 10)
AFTER = {"digits": 5, "50 epochs after": 50}  # setting to the epochs after parts are removed


def load_digits() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Rows to train on and to test on, with pixels from 0 to 1."""
    parts = held_out_parts("digits", 0)
    train, test = ((x.flatten(1).float(), y) for x, y in (parts["train"], parts["test"]))
    return train, test


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Train one network; from there remove each share of each kind, train on, store in three forms."""
    (replicate,), params = cell.replicates, cell.params
    train, test = load_digits()
    generator = torch.Generator().manual_seed(40_000 + replicate)
    whole = mlp(SIZES, generator=generator)
    _fit(whole, train, params, params["epochs"], generator)
    rows, own_setting = [], f", {cell.setting}" if cell.setting != "digits" else ""
    keep = dict(zip(KINDS, (keep_weights, keep_units, partial(keep_inputs, spread=train[0].std(dim=0))), strict=True))
    for share, kind in [(0, "Nothing"), *product(params["shares"], KINDS)]:
        model = copy.deepcopy(whole)
        masks = Masks(model)
        if share:
            masks.load_state_dict(keep[kind](model, share / 100.0))
        # the same batches for all of them
        own = torch.Generator().manual_seed(41_000 + replicate)
        _fit(model, train, params, params["epochs_after"], own, masks)
        accuracy = metrics.accuracy(model.eval()(test[0]).detach(), test[1])
        values = {"accuracy": accuracy, "bytes_ratio_zeros": _bytes(whole) / _bytes(model)}
        rows += rows_of(cell, values | costs(model, test[0][:16]), f"{share} % removed{own_setting}", kind)
    return CellResult(rows)


def _fit(model: nn.Module, train, params: dict[str, Any], epochs: int, generator, *callbacks: Masks) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=params["learning_rate"])
    fit(
        model,
        train,
        epochs=epochs,
        batch_size=params["batch_size"],
        optimizer=optimizer,
        generator=generator,
        callbacks=callbacks,
    )


def _layers(model: nn.Module) -> dict[str, nn.Linear]:
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Linear)}


@torch.no_grad()
def keep_weights(model: nn.Module, share: float) -> dict[str, Tensor]:
    """Masks that take the share of smallest weights out of every layer but the last."""
    masks = _whole(model)
    for name in list(masks)[:-1]:
        masks[name] = rank_mask(_layers(model)[name].weight.abs(), share)
    return _named(masks)


@torch.no_grad()
def keep_units(model: nn.Module, share: float) -> dict[str, Tensor]:
    """Masks that take a share of the units out of each hidden layer: those with the smallest product of norms."""
    masks, layers = _whole(model), list(_layers(model).items())
    for (name, layer), (after, reads) in pairwise(layers):
        kept = rank_mask(layer.weight.norm(dim=1) * reads.weight.norm(dim=0), share)
        masks[name] &= kept[:, None]
        masks[after] &= kept
    return _named(masks)


@torch.no_grad()
def keep_inputs(model: nn.Module, share: float, spread: Tensor) -> dict[str, Tensor]:
    """Masks that take out of the first layer the inputs that move it least: those with the smallest norm times sd.

    Args:
        model, share: as for the others.
        spread: standard deviation of each input.
    """
    masks, (name, layer) = _whole(model), next(iter(_layers(model).items()))
    masks[name] &= rank_mask(layer.weight.norm(dim=0) * spread, share)
    return _named(masks)


def _whole(model: nn.Module) -> dict[str, Tensor]:
    return {name: torch.ones_like(layer.weight, dtype=torch.bool) for name, layer in _layers(model).items()}


def _named(masks: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{name}.weight": mask for name, mask in masks.items()}


def _bytes(model: nn.Module) -> int:
    """Of the file of all weights, zeros included."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.tell()


def _csr_bytes_ratio(model: nn.Module) -> float:
    with tempfile.TemporaryDirectory() as folder:
        dense, sparse = Path(folder, "dense.pt"), Path(folder, "csr.pt")
        torch.save(model.state_dict(), dense)
        save_csr(to_csr(model), sparse)
        return dense.stat().st_size / sparse.stat().st_size


def costs(model: nn.Module, example: Tensor) -> dict[str, float]:
    """Share of weights left in percent, and how many times smaller files and operations are than those of all."""
    small = compress(model, example)
    report = compression_report(model, small, example, batches=(1,), repeats=1, runtimes=("eager",))
    matrices = [layer.weight for layer in _layers(model).values()]
    weights, nonzeros = sum(w.numel() for w in matrices), sum(int(w.count_nonzero()) for w in matrices)
    return {
        "weights_left": 100.0 * nonzeros / weights,
        "bytes_ratio_csr": _csr_bytes_ratio(model),
        "bytes_ratio": report["bytes"]["ratio"],
        "products_ratio": weights / nonzeros,
        "flops_ratio": report["flops"]["ratio"],
    }


def _cells(shares: tuple[int, ...], count: int, epochs: int, after: dict[str, int]) -> list[Cell]:
    params = {"shares": list(shares), "batch_size": 128, "learning_rate": 3e-3, "epochs": epochs}
    return [
        Cell(setting, "all kinds", (number,), params | {"epochs_after": epochs_after})
        for setting, epochs_after in after.items()
        for number in range(count)
    ]


EXPERIMENTS = [
    Experiment(
        name="fnd-sparsity",
        summary="The same share of weights, units or inputs removed: bytes, operations and accuracy",
        profiles=profiles(_cells, smoke=((75,), 1, 1, {"digits": 1}), book=(SHARES, 10, 20, AFTER)),
        run_cell=run_cell,
        data=("digits",),
        reads=lambda cell: [partial(load_digits)],
        version=2,
        tiny={"epochs": 1, "epochs_after": 1, "shares": first(1), "batch_size": 512},
        sources=dict.fromkeys((*KINDS, "Nothing"), "all kinds"),
        unavailable={"paper": "not run: no paper has this experiment, and the book profile is whole"},
    )
]
