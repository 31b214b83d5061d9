"""The grid of the experiments on images: a generator is trained, then filtered by implicit Metropolis-Hastings.

What each cell does is in `generators`, `judge` and `filtered`.
"""

from collections.abc import Sequence
from typing import Any

from book.lab.cells import Cell, Experiment, Need
from chapters.implicit_acceptance.experiments.filtered import (
    CCE,
    LOSSES,
    MCE,
    PICKED,
    RANDOM,
    RAW,
    UB,
    chain_cell,
    picked_cell,
)
from chapters.implicit_acceptance.experiments.generators import inversion_cell, raw_cell, schedules
from chapters.implicit_acceptance.experiments.judge import classifier_cell
from chapters.shared.images import reads

CLASSIFIER, INVERSION = "Classifier", "Inversion"
# the ways to train a discriminator that `picked_cell` chooses from
CANDIDATES = {
    "last weights": {},
    "averaged": {"average": 0.99},
    "falling rate": {"falling": True},
    "averaged, falling rate": {"average": 0.99, "falling": True},
}
# What decides a cell of these kinds, so that another filter does not train the generator again.
JUDGED = ("data", "shape", "held_out", "scaling", "samples", "bootstrap", "classifier")
MADE = (*JUDGED, "generator", "latent_dim")

# a real cell at the sizes of the digits
TINY: dict[str, Any] = {"data": "digits", "held_out": 100, "samples": 60, "bootstrap": 3, "chain_steps": 3}
TINY |= {"pool": 200, "pool_steps": 10}
TINY |= {
    "latent_dim": 8,
    "classifier": {"epochs": 8, "width": 8},
    "generator": {"width": 2, "steps": 3, "batch_size": 8},
}
TINY |= {
    "discriminator": {"width": 2, "iterations": [0, 2, 4], "iterations_markov": [0, 2, 4], "batch_size": 8},
    "inversion": {"images": 40, "steps": 3},
}


def grid(
    name: str, common: dict[str, Any], models: dict[str, dict[str, Any]], counts: dict[str, dict[str, int]]
) -> list[Cell]:
    """The classifier, and for each generator and replicate the cells of its methods.

    Args:
        name: of the experiment.
        common: parameters of all cells.
        models: setting ("WGAN-GP", "VAE") to the parameters that its cells have of their own.
        counts: the same to the number of replicates by method; none of a method that is not in it.
    """
    judge = Cell("Images", CLASSIFIER, (0,), _only(common, JUDGED))
    cells = [judge]
    for replicate in range(max(one[RAW] for one in counts.values())):
        for setting, own in models.items():
            params = common | own
            raw = Cell(setting, RAW, (replicate,), _only(params, MADE), (Need(name, judge),))
            both = (Need(name, judge), Need(name, raw))
            inverted = Cell(setting, INVERSION, (replicate,), _only(params, (*MADE, "inversion")), (Need(name, raw),))
            methods = [
                method for method in (RANDOM, CCE, PICKED, UB, MCE) if replicate < counts[setting].get(method, 0)
            ]
            cells.append(raw)
            if {UB, MCE} & set(methods):
                cells.append(inverted)
            for method in methods:
                needs = (*both, Need(name, inverted)) if method in (UB, MCE) else both
                more = {"candidates": CANDIDATES} if method == PICKED else {}
                cells.append(Cell(setting, method, (replicate,), params | more, needs))
    return cells


def _only(params: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: params[name] for name in names}


def budget(cell: Cell) -> tuple[float, str]:
    """Iterations of what a cell trains: discriminator, generator, latents; else steps of its chains, or epochs."""
    params = cell.params
    if cell.method in LOSSES:
        name = "iterations_markov" if cell.method in (UB, MCE) else "iterations"
        return params["discriminator"][name][-1] * len(params.get("candidates", [0])), "iterations"
    if cell.method == RANDOM:
        return params["pool_steps"], "iterations"
    part, name = {CLASSIFIER: ("classifier", "epochs"), RAW: ("generator", "steps"), INVERSION: ("inversion", "steps")}[
        cell.method
    ]
    return params[part][name], "iterations"


METHODS = {CLASSIFIER: classifier_cell, RAW: raw_cell, INVERSION: inversion_cell, PICKED: picked_cell}


def experiment(name: str, title: str, profiles: dict) -> Experiment:
    """An experiment of these cells on one data set."""
    return Experiment(
        name=name,
        summary=f"generators of {title}, filtered by implicit Metropolis-Hastings",
        profiles=profiles,
        run_cell=chain_cell,
        methods=METHODS,
        tiny=TINY,
        reads=reads,
        schedules=schedules,
        unavailable={"paper": "not run: no GPU"},
        budget=budget,
    )
