"""Experiments 3 and 4 of Saha, Liu and Liang (2024): selection of inputs (Figures 4-8) and pruning (Figure 9).

n = 2,000 rows of (4.1), 80 % for training, f(x) = exp(|x|) - 2 x + sin(2 pi x). Networks, training and prior are in
`sbnn_simulations_nets`; NN, NN-Dr and the sBNN train equally long and without early stopping, NN-Dr's rate is chosen
on other data sets (`sbnn-priors`). BNN is the sBNN with all inputs, BNN-VS Algorithm 2: keep the 20 % of inputs with
the highest phi and fit again. BNN-VS-CV chooses the kept share by cross-validation inside the training rows: in every
fold a network of its own ranks the inputs, so that the rows that judge a share had no part in the ranking. The fit
with all inputs stands for the share 1. "BNN-VS, true share" keeps as many inputs as are active, on the same data sets.
Written down before it ran, for each pi where cross-validation is below the published 80 % in the mean: the share is the
cause if the true one lies above 80, decided by t, the ranking if below, and else neither is shown. It was the ranking
at pi = 0.7 and neither at 0.5; so, before that ran, "longer" has four times the epochs and the true share: where its
mean lies above 80, decided by t, the length of the training is the cause, and else we do not know.
"BNN, inputs of LM" is the second training of BNN-VS on the fifth that LM selects. Written down before it ran, for
pi = 0.1 and 0.2: the network is needed for the selection where its inputs give a lower test error than those of LM,
decided by t; a linear model is enough where the whole interval lies within 0.05 of zero; and else it is undecided.
Experiment 4 has twenty data sets for each pi: of five, networks that differed by rounding alone, p* was decided to be
worse than the ratio at pi = 0.9 with 95 % removed in one run and not in another. Written down before the twenty ran:
what they say counts, whatever five of them said.
LM keeps the 20 % highest absolute coefficients for its selection accuracy; its
errors are those of the model with all inputs. `selection_ceiling` is the accuracy of keeping the 20 % largest effects;
"keep all" and "keep none" look at nothing: the first is right about every active input, the second about every other.
"""

from functools import partial

import torch
from torch import Tensor

from bnnlib.functional import scaled_importance
from bnnlib.pruning import rank_mask
from bnnlib.train.checkpoint import Checkpoint
from book.lab.cells import Cell, CellResult, epochs_of, profiles, rows_of
from chapters.closed_form.experiments import simulation_nets as nets
from chapters.closed_form.experiments.simulations import linear_model, with_intercept

KEPT_SHARE = 0.2
PIS = tuple(round(0.05 * k, 2) for k in range(20))
ALPHAS = tuple(range(1, 11))
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
DROP_RATES = tuple(range(0, 100, 5))  # percent
TRIVIAL = ("keep all", "keep none")
LINEAR_PIS = (0.1, 0.2)  # of the second training on the linear model's inputs


def setting_name(size: int, alpha: float, pi: float) -> str:
    """How settings name a case of Experiment 3."""
    return f"D={size}, alpha={alpha:g}, pi={pi:g}"


def _data(cell: Cell, device: torch.device) -> nets.Data:
    """The data sets of a cell: its cases (alpha, pi) in turn, each with all replicates."""
    params = cell.params
    n, size = params["num_samples"], params["num_inputs"]
    cases = [(alpha, pi) for alpha, pi in params["cases"] for _ in cell.replicates]
    numbers = cell.replicates * len(params["cases"])
    sets = [nets.graded_set(r, n, size, alpha, activity=pi) for r, (alpha, pi) in zip(numbers, cases, strict=True)]
    return nets.stack(sets, int(nets.TRAIN_SHARE * n)).to(device)


def _rows(cell: Cell, method: str, metrics: dict[str, Tensor]) -> list[dict]:
    settings = [setting_name(cell.params["num_inputs"], alpha, pi) for alpha, pi in cell.params["cases"]]
    return rows_of(cell, metrics, settings, method)


def _errors(model, data: nets.Data, generator: torch.Generator | None) -> dict[str, Tensor]:
    """Errors with all the mean weights where there is no generator, of the mean of draws otherwise."""
    x, y = data.x.transpose(0, 1), data.y.transpose(0, 1)
    return {
        "mse_train": nets.mse(model, x, y, generator),
        "mse_test": nets.mse(model, data.test_x, data.test_y, generator),
    }


def run_plain(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """NN and NN-Dr on all cases as one stack; predictions with the mean weights, that is without dropout's noise."""
    data, dropout = _data(cell, device), cell.params["dropout"]
    build = partial(nets.plain, dropout=tuple(dropout) if dropout else None)
    model, _ = nets.Trainings(checkpoint, device, 51 + bool(dropout)).fit(build, data.x, data.y, cell.params)
    return CellResult(_rows(cell, cell.method, _errors(model, data, None)))


def run_linear(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Least squares."""
    data = _data(cell, device)
    solution = linear_model(data)

    def error(x: Tensor, y: Tensor) -> Tensor:
        return (with_intercept(x.double()) @ solution - y).square().mean(dim=(1, 2))

    kept = nets.keep_top(solution[:, :-1, 0].abs(), KEPT_SHARE)
    metrics = {
        "mse_train": error(data.x.transpose(0, 1), data.y.transpose(0, 1)),
        "mse_test": error(data.test_x, data.test_y),
        "selection_accuracy": nets.selection_accuracy(kept, data.effects),
    }
    return CellResult(_rows(cell, cell.method, metrics))


def run_selection(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """BNN and BNN-VS on all cases as one stack."""
    data, params = _data(cell, device), cell.params
    training, build = nets.Trainings(checkpoint, device, 53), partial(nets.sbnn, prior=params["prior"])
    draws = torch.Generator(device).manual_seed(53)
    full, _ = training.fit(build, data.x, data.y, params)
    phi = scaled_importance(nets.importance(full))
    kept = nets.keep_top(phi, KEPT_SHARE)
    part = nets.columns(data, kept)
    small, _ = training.fit(build, part.x, part.y, params)
    best = nets.keep_top(data.effects, KEPT_SHARE)
    chosen = {
        "selection_accuracy": nets.selection_accuracy(kept, data.effects),
        "selection_ceiling": nets.selection_accuracy(best, data.effects),
        "active_share": 100.0 * (data.effects != 0).double().mean(dim=1),
    }
    rows = _rows(cell, "BNN", _errors(full, data, draws))
    return CellResult(rows + _rows(cell, "BNN-VS", _errors(small, part, draws) | chosen))


def run_linear_choice(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """The network of Algorithm 2 on the inputs that the linear model selects."""
    data, params = _data(cell, device), cell.params
    kept = nets.keep_top(linear_model(data)[:, :-1, 0].abs(), KEPT_SHARE)
    part = nets.columns(data, kept)
    build = partial(nets.sbnn, prior=params["prior"])
    small, _ = nets.Trainings(checkpoint, device, 53).fit(build, part.x, part.y, params)
    metrics = _errors(small, part, torch.Generator(device).manual_seed(53))
    return CellResult(_rows(cell, cell.method, metrics))


def folds(data: nets.Data, number: int) -> nets.Data:
    """The training rows as `number` stacks of (training, held-out) rows, folds varying slowest.

    Raises:
        ValueError: the rows cannot be divided into equal folds.
    """
    n = len(data.x)
    if n % number:
        raise ValueError(f"{n} rows do not divide into {number} equal folds; choose a divisor of the number of rows.")
    parts = []
    for k in range(number):
        held = torch.arange(n, device=data.x.device) % number == k
        parts.append((data.x[~held], data.y[~held], data.x[held].transpose(0, 1), data.y[held].transpose(0, 1)))
    x, y, test_x, test_y = (
        torch.cat(part, dim=d) for part, d in zip(zip(*parts, strict=True), (1, 1, 0, 0), strict=True)
    )
    return nets.Data(x, y, test_x, test_y, data.effects.repeat(number, 1))


def validation_errors(data: nets.Data, training: nets.Trainings, build, params: dict, draws: torch.Generator) -> Tensor:
    """Held-out error of every kept share, shape (shares, folds, R); nothing but the training rows is used."""
    split = folds(data, params["folds"])
    full, _ = training.fit(build, split.x, split.y, params)
    phi, errors = scaled_importance(nets.importance(full)), []
    for share in params["shares"]:
        if share == 1.0:
            model, part = full, split
        else:
            part = nets.columns(split, nets.keep_top(phi, share))
            model, _ = training.fit(build, part.x, part.y, params)
        errors.append(nets.mse(model, part.test_x, part.test_y, draws).view(params["folds"], -1))
    return torch.stack(errors)


def run_cross_validation(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """BNN-VS-CV for one pi: the share with the lowest mean held-out error, one for each replicate."""
    data, params = _data(cell, device), cell.params
    training, build = nets.Trainings(checkpoint, device, 54), partial(nets.sbnn, prior=params["prior"])
    draws = torch.Generator(device).manual_seed(54)
    curve = validation_errors(data, training, build, params, draws).mean(dim=1)  # (shares, R)
    best = curve.argmin(dim=0)
    full, _ = training.fit(build, data.x, data.y, params)
    phi = scaled_importance(nets.importance(full))
    metrics = {name: torch.zeros(len(best)) for name in ("selection_accuracy", "mse_train", "mse_test")}
    for k in best.unique().tolist():  # replicates that keep equally many inputs are one stack
        members = (best == k).nonzero()[:, 0]
        some = nets.Data(data.x[:, members], data.y[:, members], *(part[members] for part in data[2:]))
        kept = nets.keep_top(phi[members], params["shares"][k])
        part = nets.columns(some, kept)
        model, _ = training.fit(build, part.x, part.y, params)
        found = _errors(model, part, draws) | {"selection_accuracy": nets.selection_accuracy(kept, some.effects)}
        for name, values in found.items():
            metrics[name][members.cpu()] = values.float().cpu()
    metrics["detected_share"] = 100.0 * torch.tensor(params["shares"], dtype=torch.float64)[best.cpu()]
    metrics["active_share"] = 100.0 * (data.effects != 0).double().mean(dim=1)
    rows = rows_of(cell, metrics)
    return CellResult(rows, {f"curve/{cell.setting}": curve.float().cpu().numpy()})


def run_true_share(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Accuracy of the ranking alone: of each data set as many inputs are kept as are active in it."""
    data, params = _data(cell, device), cell.params
    build = partial(nets.sbnn, prior=params["prior"])
    model, _ = nets.Trainings(checkpoint, device, 54).fit(build, data.x, data.y, params)
    phi, active = scaled_importance(nets.importance(model)), (data.effects != 0).double().mean(dim=1)
    found = [
        nets.selection_accuracy(nets.keep_top(score[None], float(share)), effects[None])
        for score, share, effects in zip(phi, active, data.effects, strict=True)
    ]
    return CellResult(rows_of(cell, {"selection_accuracy": torch.cat(found)}))


def run_trivial(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Accuracy of the rules that keep every input, or none, on the same data sets."""
    active = 100.0 * (_data(cell, device).effects != 0).double().mean(dim=1)
    accuracy = {"selection_accuracy": active if cell.method == "keep all" else 100.0 - active}
    if cell.setting.startswith("cv,"):
        return CellResult(rows_of(cell, accuracy))
    return CellResult(_rows(cell, cell.method, accuracy))


def run_pruning(cell: Cell, device: torch.device, checkpoint: Checkpoint | None) -> CellResult:
    """Experiment 4: test error of the mean weights when the lowest-ranked ones of the whole network are 0.

    Before that, of all weights, `mse_test` is the error of the mean of draws, as in Experiment 3 (whose networks are
    others). Rows "sBNN" rank by p*, as the paper; "signal-to-noise" ranks the same weights by |mean| / scale,
    "magnitude" by |mean|.
    """
    data, params = _data(cell, device), cell.params
    build = partial(nets.sbnn, prior=params["prior"])
    model, _ = nets.Trainings(checkpoint, device, 55).fit(build, data.x, data.y, params)
    posterior = model.posterior
    mean, scale = posterior.mean(), torch.nn.functional.softplus(posterior.weight_rho.detach())
    draws = torch.Generator(device).manual_seed(55)
    rows = rows_of(cell, {"mse_test": nets.mse(model, data.test_x, data.test_y, draws)})
    size = mean.abs()
    scores = {"sBNN": posterior.inclusion_log_odds(), "signal-to-noise": size / scale, "magnitude": size}
    for method, score in scores.items():
        metrics = {}
        for percent in DROP_RATES:
            kept = rank_mask(score, percent / 100.0, batch_dims=1)
            output = model.propagate(posterior.layout.layers(mean * kept), data.test_x)
            metrics[f"mse_test_at_{percent}"] = (output - data.test_y).square().mean(dim=(1, 2))
        rows += rows_of(cell, metrics, method=method)
    return CellResult(rows)


def _params(scale: dict, cases: list[tuple[float, float]], size: int, **more) -> dict:
    training = nets.TRAINING | {"epochs": scale["epochs"], "num_samples": scale["num_samples"]}
    return training | {"cases": [list(case) for case in cases], "num_inputs": size} | more


def _selection_cells(scale: dict) -> list[Cell]:
    """One stack for each D and method, then one cell for each pi with its cross-validation."""
    replicates, size, prior = tuple(range(scale["replicates"])), scale["size"], {"prior": list(nets.PREDICT_PRIOR)}
    base = (2, 0.2)
    series = [base] + [(a, 0.2) for a in scale["alphas"] if a != 2] + [(2, pi) for pi in scale["pis"] if pi != 0.2]
    cells = []
    for d, cases in [(size, series)] + [(d, [base]) for d in scale["sizes"] if d != size]:
        params, name = _params(scale, cases, d), f"D={d}"
        cells += [
            Cell(name, "BNN-VS", replicates, params | prior),
            Cell(name, "NN", replicates, params | {"dropout": None}),
            Cell(name, "NN-Dr", replicates, params | {"dropout": list(nets.DROPOUT)}),
            Cell(name, "LM", replicates, params),
            *(Cell(name, rule, replicates, params) for rule in TRIVIAL),
        ]
        if d == size:
            few_active = _params(scale, [(2, pi) for pi in LINEAR_PIS], d) | prior
            cells.append(Cell(name, "BNN, inputs of LM", replicates, few_active))
    few, options = tuple(range(scale["cv_replicates"])), {"folds": scale["folds"], "shares": list(SHARES)}
    for pi in scale["cv_pis"]:
        params = _params(scale, [(2, pi)], size) | options | prior
        cells.append(Cell(f"cv, pi={pi:g}", "BNN-VS-CV", few, params))
        cells.append(Cell(f"cv, pi={pi:g}", "BNN-VS, true share", few, _params(scale, [(2, pi)], size) | prior))
        longer = _params(scale | {"epochs": 4 * scale["epochs"]}, [(2, pi)], size) | prior
        cells.append(Cell(f"cv, pi={pi:g}, longer", "BNN-VS, true share", few, longer))
        cells += [Cell(f"cv, pi={pi:g}", rule, few, _params(scale, [(2, pi)], size)) for rule in TRIVIAL]
    return cells


def _pruning_cells(scale: dict) -> list[Cell]:
    replicates = tuple(range(scale["pruned_replicates"]))
    prior = {"prior": list(nets.PREDICT_PRIOR)}
    return [
        Cell(f"pi={pi:g}", "sBNN", replicates, _params(scale, [(2, pi)], scale["size"]) | prior)
        for pi in (0.2, 0.5, 0.9)
    ]


_FULL = {"epochs": nets.TRAINING["epochs"], "num_samples": nets.NUM_SAMPLES, "size": 100, "sizes": (20, 50, 100, 200)}
_SMOKE = {"replicates": 2, "epochs": 2, "num_samples": 100, "size": 10, "sizes": (10, 20), "folds": 2}
_SMOKE |= {"alphas": (2,), "pis": (0.2, 0.9), "cv_replicates": 2, "cv_pis": (0.2,), "pruned_replicates": 2}
_BOOK = _FULL | {"alphas": ALPHAS, "pis": PIS, "replicates": 5, "folds": 5, "cv_replicates": 3}
_BOOK |= {"cv_pis": (0.1, 0.2, 0.3, 0.5, 0.7, 0.9), "pruned_replicates": 20}
_PAPER = _BOOK | {"epochs": 500, "replicates": 50, "folds": 10, "cv_replicates": 10, "cv_pis": PIS}
_PAPER |= {"pruned_replicates": 50}

EXPERIMENTS = [
    nets.experiment(
        name="sbnn-selection",
        summary="Experiment 3: selection of inputs against D, alpha, pi, and by cross-validation (Figures 4-8)",
        profiles=profiles(_selection_cells, smoke=_SMOKE, book=_BOOK, paper=_PAPER),
        run_cell=run_selection,
        methods={"NN": run_plain, "NN-Dr": run_plain, "LM": run_linear, "BNN-VS-CV": run_cross_validation}
        | {"BNN-VS, true share": run_true_share, "BNN, inputs of LM": run_linear_choice}
        | dict.fromkeys(TRIVIAL, run_trivial),
        unavailable={
            "paper": "not run: the book profile has the paper's sizes, but 5 folds, fewer replicates and epochs"
        },
        budget=epochs_of,
    ),
    nets.experiment(
        name="sbnn-pruning",
        summary="Experiment 4: test error against the share of pruned weights for three pi (Figure 9)",
        version=3,
        sources={"signal-to-noise": "sBNN", "magnitude": "sBNN"},
        profiles=profiles(_pruning_cells, smoke=_SMOKE, book=_BOOK, paper=_PAPER),
        run_cell=run_pruning,
        unavailable={"paper": "not run: the book profile has the paper's sizes, but fewer replicates and epochs"},
    ),
]
