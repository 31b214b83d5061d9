"""Error, intervals, selected inputs and time of the estimators beside scikit-learn's and Laplace, in one run.

`python -m benchmarks.estimators [--json] [--sets diabetes boston wine breast_cancer] [--splits 10]`

Every estimator has its defaults, with one network, and gets raw data; the peers get scaled inputs. Boston and Wine have
their standard splits, the others a tenth of the rows by seed. A regression's coverage is of central 95 % intervals of
new targets, in percent: the lasso's is normal with the scale of its training residuals, the forest's takes the
quantiles of its out-of-bag residuals, the Gaussian process and Laplace have their own. For classes `nll` is the mean
negative log-likelihood in nats. Selected are inputs with path probability above a half, or a coefficient that is not 0.
The process has a length scale for every input; for labels, and above 1,000 rows, one for all, since learning them
would take minutes a split.
Laplace (`pip install laplace-torch`, where it is installed; "not installed" otherwise) is a network of the same size,
all weights, full Hessian, prior and noise by the marginal likelihood.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.preprocessing import StandardScaler

from bnnlib import datasets
from bnnlib.estimators import METHODS, SparseClassifier, SparseRegressor

SETS = ("diabetes", "boston", "wine", "breast_cancer")
PEERS = ("lasso", "random forest", "Gaussian process", "Laplace")
STANDARD = ("boston", "wine")
SEED = 0
QUICK: dict = {}  # settings of bnnlib's estimators that a test of this file shortens
FOREST, PEER_EPOCHS = 500, 300


@dataclass
class Split:
    """One division of a set: raw inputs and targets, and whether these are labels."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    labels: bool

    def scaled(self) -> tuple[np.ndarray, np.ndarray]:
        scaler = StandardScaler().fit(self.x)
        return scaler.transform(self.x), scaler.transform(self.test_x)


@dataclass
class Answer:
    """What a method says of the test rows: means and intervals (rows, 2), or probabilities; the number of inputs."""

    mean: np.ndarray
    interval: np.ndarray | None = None
    selected: int | None = None


def load(name: str, number: int) -> Split:
    """Split `number` of a set."""
    standard = name in STANDARD
    data = datasets.load(name, download=False, split=number if standard else None)
    x, y, test_x, test_y = (t.numpy() for t in (data.train_x, data.train_y, data.test_x, data.test_y))
    if not standard:
        x, y = np.concatenate([x, test_x]), np.concatenate([y, test_y])
        order = np.random.default_rng(number).permutation(len(x))
        test, train = np.split(order, [len(x) // 10])
        x, y, test_x, test_y = x[train], y[train], x[test], y[test]
    return Split(x, y.ravel(), test_x, test_y.ravel(), data.task == "classification")


def ours(method: str, split: Split) -> Answer:
    kind = SparseClassifier if split.labels else SparseRegressor
    model = kind(method, random_state=SEED, **QUICK).fit(split.x, split.y)
    selected = len(model.selected_features_)
    if split.labels:
        return Answer(model.predict_proba(split.test_x), selected=selected)
    return Answer(*model.predict(split.test_x, return_interval=True), selected)


def lasso(split: Split) -> Answer:
    x, test_x = split.scaled()
    if split.labels:
        model = LogisticRegressionCV(l1_ratios=(1.0,), solver="saga", max_iter=5000, random_state=SEED).fit(x, split.y)
        return Answer(model.predict_proba(test_x), selected=int(np.any(model.coef_ != 0, axis=0).sum()))
    model = LassoCV(random_state=SEED).fit(x, split.y)
    selected = int((model.coef_ != 0).sum())
    free = max(1, len(x) - selected - 1)
    scale = np.sqrt(np.square(split.y - model.predict(x)).sum() / free)
    mean = model.predict(test_x)
    return Answer(mean, _normal(mean, scale), selected)


def forest(split: Split) -> Answer:
    if split.labels:
        model = RandomForestClassifier(FOREST, random_state=SEED).fit(split.x, split.y)
        return Answer(model.predict_proba(split.test_x))
    model = RandomForestRegressor(FOREST, oob_score=True, random_state=SEED).fit(split.x, split.y)
    mean = model.predict(split.test_x)
    return Answer(mean, mean[:, None] + np.quantile(split.y - model.oob_prediction_, [0.025, 0.975]))


def gaussian_process(split: Split) -> Answer:
    x, test_x = split.scaled()
    scale = np.sqrt(x.shape[1])
    kernel = ConstantKernel() * RBF(scale if split.labels or len(x) > 1000 else np.full(x.shape[1], scale), (1e-1, 1e4))
    if split.labels:
        model = GaussianProcessClassifier(kernel, random_state=SEED).fit(x, split.y)
        return Answer(model.predict_proba(test_x))
    model = GaussianProcessRegressor(kernel + WhiteKernel(), normalize_y=True, random_state=SEED).fit(x, split.y)
    mean, std = model.predict(test_x, return_std=True)  # the white kernel's share is in it
    return Answer(mean, _normal(mean, std))


def laplace(split: Split) -> Answer:
    from laplace import Laplace

    torch.manual_seed(SEED)
    x, test_x = (torch.from_numpy(part).float() for part in split.scaled())
    center, spread = (0.0, 1.0) if split.labels else (split.y.mean(), split.y.std())
    y = torch.from_numpy(split.y) if split.labels else torch.from_numpy((split.y - center) / spread).float()[:, None]
    outputs = int(split.y.max()) + 1 if split.labels else 1
    network = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 16), torch.nn.Tanh(), torch.nn.Linear(16, outputs))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 128, shuffle=True)
    loss = torch.nn.CrossEntropyLoss() if split.labels else torch.nn.MSELoss()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2, weight_decay=1e-4)
    for _ in range(PEER_EPOCHS):
        for rows, targets in loader:
            optimizer.zero_grad()
            loss(network(rows), targets).backward()
            optimizer.step()
    task = "classification" if split.labels else "regression"
    model = Laplace(network, task, subset_of_weights="all", hessian_structure="full")
    model.fit(loader)
    if split.labels:
        model.optimize_prior_precision()
        return Answer(model(test_x).detach().numpy())
    precision, noise = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    tune = torch.optim.Adam([precision, noise], lr=1e-1)
    for _ in range(100):
        tune.zero_grad()
        (-model.log_marginal_likelihood(precision.exp(), noise.exp())).backward()
        tune.step()
    mean, variance = model(test_x)
    std = (variance.detach().flatten() + noise.detach().exp().square()).sqrt().numpy()
    mean = center + spread * mean.detach().flatten().numpy()
    return Answer(mean, _normal(mean, spread * std))


def _normal(mean: np.ndarray, std: np.ndarray | float) -> np.ndarray:
    reach = 1.959963984540054 * std
    return np.stack([mean - reach, mean + reach], axis=1)


def methods(names: list[str]) -> dict[str, Callable[[Split], Answer]]:
    """The methods by name, bnnlib's first."""
    peers = dict(zip(PEERS, (lasso, forest, gaussian_process, laplace), strict=True))
    every = {method: (lambda split, method=method: ours(method, split)) for method in METHODS} | peers
    return {name: every[name] for name in names}


def score(split: Split, answer: Answer) -> dict[str, float]:
    """error (RMSE in the target's units, or wrong labels in percent), coverage or nll, selected."""
    y, found = split.test_y, {}
    if split.labels:
        found["error"] = 100.0 * float(np.mean(answer.mean.argmax(axis=1) != y))
        found["nll"] = float(-np.log(np.maximum(answer.mean[np.arange(len(y)), y], 1e-12)).mean())
    else:
        found["error"] = float(np.sqrt(np.mean((answer.mean - y) ** 2)))
        inside = (answer.interval[:, 0] <= y) & (y <= answer.interval[:, 1])
        found["coverage"] = 100.0 * float(inside.mean())
    return found | ({} if answer.selected is None else {"selected": answer.selected})


def measure(name: str, method: str, work: Callable[[Split], Answer], splits: int) -> dict:
    """One row {set, method, splits, rows, inputs, error, error_se, coverage or nll, selected, fit_s, cpu_s}.

    Seconds are the mean of a fit with its predictions, by the clock and of the processor.
    """
    if method == "Laplace" and find_spec("laplace") is None:
        return {"set": name, "method": method, "note": "not installed"}
    scores, seconds, processor = [], [], []
    for number in range(splits):
        split = load(name, number)
        start, began = time.perf_counter(), time.process_time()
        answer = work(split)
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - began)
        scores.append(score(split, answer))
    row = {"set": name, "method": method, "splits": splits, "rows": len(split.x), "inputs": split.x.shape[1]}
    row |= {key: round(float(np.mean([one[key] for one in scores])), 3) for key in scores[0]}
    if splits > 1:
        row["error_se"] = round(float(np.std([one["error"] for one in scores], ddof=1) / np.sqrt(splits)), 3)
    return row | {"fit_s": round(float(np.mean(seconds)), 2), "cpu_s": round(float(np.mean(processor)), 2)}


def text(row: dict) -> str:
    """A row as a line."""
    line = f"{row['set']:14s} {row['method']:20s} "
    if "note" in row:
        return line + row["note"]
    line += f"error {row['error']:8.3f} +- {row.get('error_se', float('nan')):6.3f}  "
    line += f"coverage {row['coverage']:5.1f} %  " if "coverage" in row else f"nll {row['nll']:6.3f}       "
    chosen = f"{row['selected']:.1f} of {row['inputs']}" if "selected" in row else "-"
    return line + f"selected {chosen:12s} fit {row['fit_s']:6.1f} s ({row['cpu_s']:.1f} s of a core)"


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimators", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON list and nothing else on stdout")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--methods", nargs="+", default=[*METHODS, *PEERS], choices=[*METHODS, *PEERS])
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args(arguments)
    say, rows = sys.stderr if options.json else sys.stdout, []
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.splits} splits", file=say)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of peers at their defaults, and of a shortened test
        for kind in (UserWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        for name in options.sets:
            for method, work in methods(options.methods).items():
                rows.append(measure(name, method, work, options.splits))
                print(text(rows[-1]), file=say, flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    return rows


if __name__ == "__main__":
    main()
