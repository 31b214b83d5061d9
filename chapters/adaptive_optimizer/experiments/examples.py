"""The three examples of Ke and Fan (2023): the published optimizer, what it is without its parts, and other methods.

Settings are those of the published code, in `chapters.adaptive_optimizer.problems`, but for the groups, see "AVO, every
layer"; every method has the code's number of epochs. Ten data sets are one stack. Errors are on rows that nothing was
chosen by, and of the last epoch but one (`SPARE`): the code's loop ends there, one epoch short, and as its clock is one
epoch ahead it ends with a cycle. One epoch more would be the first and hottest of another.

AVO                  the published method
AVO, exact E-step    with the threshold (avo-threshold) in place of the code's
AVO, no warm-up      groups are judged from the second epoch on
AVO, long warm-up    they are judged after a tenth of the epochs
AVO, no noise        at temperature 0
AVO, no group prior  the slab's weight decay alone: no input is removed
AVO, none removed    the group prior without the hard threshold: a group may always come back; on example 3 alone
AVO, every layer     the prior on the columns of all layers, hidden units too, as in the published code; all else here
                     has it on the inputs, as the paper tells. Written down before it ran: where its test error minus
                     AVO's is decided by t, or it removes units in most networks, the chapter says what that changes
magnitude            of the training before, the largest inputs at half of the epochs, as many as matter
group lasso, SVBNN, SA-EM, lasso    see `chapters.adaptive_optimizer.experiments.baselines`
"""

from typing import Any

import torch
from torch import Tensor

from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, Experiment, epochs_of, profiles, rows_of
from book.lab.probes import first
from chapters.adaptive_optimizer.experiments import baselines, measures
from chapters.adaptive_optimizer.experiments.training import Training, data_of
from chapters.adaptive_optimizer.problems import CYCLES, NUM_TRAIN, PROBLEMS, WARM_UP

ABLATIONS: dict[str, dict[str, Any]] = {
    "AVO": {},
    "AVO, exact E-step": {"soft": "exact"},
    "AVO, no warm-up": {"warm_up": 0},
    "AVO, long warm-up": {"warm_up": 0.1},  # of the epochs
    "AVO, no noise": {"temperature": 0.0},
    "AVO, no group prior": {"rule": "none"},
    "AVO, none removed": {"hard": None},
    "AVO, every layer": {"groups": "every layer"},
    "magnitude": {"rule": "magnitude"},
}


OTHERS: dict[str, dict[str, Any]] = {
    "group lasso": {"rule": "lasso", "temperature": 0.0},
    "SVBNN": {"learning_rate": 5e-3, "prior_scale": 1.3, "draws": 30},  # as in chapter 03
    "SA-EM": {"rule": "none", "grid": [0.001, 0.003, 0.01, 0.03]},
    "lasso": {"alphas": 100, "strengths": [0.001, 0.002, 0.005, 0.01, 0.02, 0.05]},
}
STRENGTHS = {  # of the group lasso: around those that change between all inputs and none
    "example 1": [0.005, 0.01, 0.02, 0.03, 0.04, 0.06],
    "example 2": [0.02, 0.04, 0.06, 0.09, 0.13],
    "example 3": [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02],
}
SPARE = {"spare": 1}  # epochs at the end that the code's loop leaves out
METHODS = {"group lasso": baselines.run_tuned, "SVBNN": baselines.run_svbnn, "SA-EM": baselines.run_tuned}
METHODS["lasso"] = baselines.run_lasso


def run_cell(cell: Cell, device: torch.device, checkpoint: Checkpoint | None = None) -> CellResult:
    """Train one stack and measure it."""
    data = data_of(cell.params, cell.replicates)
    training = Training(cell.params, data, device, cell.replicates[0]).run(checkpoint)
    return result_of(cell, training, data)


def result_of(cell: Cell, training: Training, data: dict[str, Tensor]) -> CellResult:
    """Rows and arrays of a finished training."""
    scores = {
        **measures.scores(training.problem, training.outputs(training.test_x).cpu(), data),
        **measures.selection(training.problem, training.inputs().cpu()),
        "zeros": training.zeros().cpu(),
        "minutes_training": training.seconds / 60.0,
        training.fit_name(): training.fit(),
    }
    if "groups" in cell.params:
        gone = [(weight.detach() == 0).all(dim=1).sum(dim=1) for weight in training.model.weights[1:]]
        scores["units_removed"] = sum(gone).cpu()
    return CellResult(rows_of(cell, scores), measures.traces(cell, training.trace) | _squares(cell, training))


def _squares(cell: Cell, training: Training) -> dict[str, Any]:
    """Mean squares of the inputs of the first network at three epochs: what the thresholds cut."""
    return {
        f"mean square/{cell.method}/{epoch}": value.half().numpy()
        for epoch, value in (training.squares.items() if cell.method == "AVO" else ())
    }


def params_of(name: str, scale: dict[str, Any], **more: Any) -> dict[str, Any]:
    problem = PROBLEMS[name]
    return {
        "problem": name,
        "num_inputs": scale.get("num_inputs", problem.sizes[0]),
        "num_train": scale.get("num_train", NUM_TRAIN),
        "epochs": scale.get("epochs", problem.epochs),
        "rule": "prior",
        "lr": problem.lr,
        "soft": problem.soft,
        "hard": scale.get("hard", problem.hard),
        "warm_up": scale.get("warm_up", WARM_UP),
        "temperature": None,
    } | more


def cells(name: str, scale: dict[str, Any]) -> list[Cell]:
    """All methods on one example; the ten data sets are one stack."""
    replicates = tuple(range(scale["replicates"]))
    made = []
    for method, more in ABLATIONS.items():
        if method == "AVO, none removed" and name != "example 3":
            continue
        params = params_of(name, scale, **SPARE, **more)
        if isinstance(params["warm_up"], float):
            params["warm_up"] = round(params["warm_up"] * params["epochs"])
        made.append(Cell(name, method, replicates, params))
    common = {key: value for key, value in params_of(name, scale).items() if key not in _PUBLISHED_ONLY}
    for method, settings in OTHERS.items():
        more = settings | ({"grid": STRENGTHS[name]} if method == "group lasso" else {})
        tuned = {"tuning_epochs": max(CYCLES, common["epochs"] // 10)} | SPARE if "grid" in more else {}
        made.append(Cell(name, method, replicates, common | tuned | more))
    return made


# the hard threshold is the mean square with which 30 inputs start, so that some are removed at once
_PUBLISHED_ONLY = ("soft", "hard", "warm_up", "temperature", "rule")
_SMOKE = {"replicates": 2, "num_inputs": 30, "num_train": 2048, "epochs": 12, "warm_up": 4, "hard": 0.01}
_TINY = {"replicates": 2, "num_inputs": 30, "num_train": 2048, "epochs": 12, "hard": lambda hard: hard and 0.01}
_TINY |= {"warm_up": lambda epochs: min(epochs, 4), "tuning_epochs": CYCLES, "alphas": 10, "draws": 3}
_TINY |= {"grid": first(2), "strengths": first(2)}


def _experiment(number: int, summary: str) -> Experiment:
    name = f"example {number}"
    return Experiment(
        name=f"avo-example-{number}",
        summary=summary,
        profiles=profiles(cells, smoke=(name, _SMOKE), paper=(name, {"replicates": 10})),
        run_cell=run_cell,
        methods=METHODS,
        schedules=baselines.schedules,
        sources={"mean": "lasso"},
        tiny=_TINY,
        measured=("minutes",),
        derived=measures.near_marks,
        budget=epochs_of,
        value=5.0,
    )


EXPERIMENTS = [
    _experiment(1, "Regression on 1,000 inputs, a small tanh network of five of them"),
    _experiment(2, "Regression on 2,000 inputs, a smooth function of five of them"),
    _experiment(3, "Two classes from 1,000 inputs, of which four matter"),
]
