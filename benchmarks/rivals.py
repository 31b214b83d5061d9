"""What stands beside the estimators in `benchmarks.estimators`: scikit-learn's at their defaults, and Laplace."""

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.model_selection import cross_val_predict

from benchmarks.tables import Split

SEED = 0
FOREST, PEER_EPOCHS = 500, 300


@dataclass
class Answer:
    """What a method says of the test rows: means, intervals (rows, 2), or probabilities; a mask of inputs, noise."""

    mean: np.ndarray
    interval: np.ndarray | None = None
    selected: np.ndarray | None = None
    noise: float | None = None
    std: np.ndarray | None = None
    warned: str = ""
    moved: float | None = None


def lasso(split: Split) -> Answer:
    x, test_x = split.scaled()
    if split.labels:
        model = LogisticRegressionCV(l1_ratios=(1.0,), solver="saga", max_iter=1000, random_state=SEED, n_jobs=1)
        model.fit(x, split.y)
        return Answer(model.predict_proba(test_x), selected=np.any(model.coef_ != 0, axis=0))
    model = LassoCV(random_state=SEED).fit(x, split.y)
    free = max(1, len(x) - int((model.coef_ != 0).sum()) - 1)
    scale = np.sqrt(np.square(split.y - model.predict(x)).sum() / free)
    return _normally(model.predict(test_x), scale, model.coef_ != 0)


def forest(split: Split) -> Answer:
    if split.labels:
        model = RandomForestClassifier(FOREST, random_state=SEED).fit(split.x, split.y)
        return Answer(model.predict_proba(split.test_x))
    model = RandomForestRegressor(FOREST, oob_score=True, random_state=SEED).fit(split.x, split.y)
    mean, residuals = model.predict(split.test_x), split.y - model.oob_prediction_
    interval = mean[:, None] + np.quantile(residuals, [0.025, 0.975])
    return Answer(mean, interval, std=np.full(len(mean), residuals.std()))


def boosting(split: Split) -> Answer:
    if split.labels:
        model = GradientBoostingClassifier(random_state=SEED).fit(split.x, split.y)
        return Answer(model.predict_proba(split.test_x))
    model = GradientBoostingRegressor(random_state=SEED).fit(split.x, split.y)
    held_out = cross_val_predict(GradientBoostingRegressor(random_state=SEED), split.x, split.y, cv=5)
    return _normally(model.predict(split.test_x), (split.y - held_out).std())


def gaussian_process(split: Split) -> Answer:
    x, test_x = split.scaled()
    scale = np.sqrt(x.shape[1])
    shared = split.labels or len(x) > 1000 or x.shape[1] > 100
    kernel = ConstantKernel() * RBF(scale if shared else np.full(x.shape[1], scale), (1e-1, 1e4))
    if split.labels:
        model = GaussianProcessClassifier(kernel, random_state=SEED).fit(x, split.y)
        return Answer(model.predict_proba(test_x))
    model = GaussianProcessRegressor(kernel + WhiteKernel(), normalize_y=True, random_state=SEED).fit(x, split.y)
    mean, std = model.predict(test_x, return_std=True)  # the white kernel's share is in it
    return _normally(mean, std)


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
    return _normally(mean, spread * std)


def _normally(mean: np.ndarray, std: np.ndarray | float, selected: np.ndarray | None = None) -> Answer:
    std = np.broadcast_to(std, mean.shape)
    reach = 1.959963984540054 * std
    return Answer(mean, np.stack([mean - reach, mean + reach], axis=1), selected, std=std)


PEERS = {
    "lasso": lasso,
    "random forest": forest,
    "gradient boosting": boosting,
    "Gaussian process": gaussian_process,
    "Laplace": laplace,
}
