"""Error, likelihood, intervals, selection and time of the estimators beside scikit-learn's and Laplace, in one run.

`python -m benchmarks.estimators [--json] [--sets diabetes boston] [--splits 5] [--keep FILE] [--minutes 30]`

`benchmarks.tables` has the sets. Every estimator has its defaults and gets raw data; the peers get scaled inputs.
`nll` is the mean negative log-likelihood of a test row in nats, for numbers in units of the training targets' spread
and of a normal distribution: the lasso's scale is that of its training residuals, the forest's of its out-of-bag ones,
boosting's of five folds, the Gaussian process and Laplace have their own. A regression's coverage is of central 95 %
intervals, in percent; `coverage_1` to `coverage_3` are of the thirds of the test rows with the lowest to the highest
predictions. The noise is the standard deviation that a method learns, over the true one where that is known, else in
the target's units. Selected are inputs with path probability above a half, or a coefficient that is not 0; of a
simulation, `false` is the share of them that does not matter and `power` the share of what matters among them.
`warned` counts the splits in which the default fit warned. With `--seeds 3` bnnlib's methods are fitted from so many
random states, and `moved` is the largest difference that this makes to the path probability of any input.
The process has a length scale for every input; for labels, above 1,000 rows and above 100 inputs, one for all, since
learning them would take minutes a split.
Laplace (`pip install laplace-torch`, where it is installed; "not installed" otherwise) is a network of 16 hidden units,
all weights, full Hessian, prior and noise by the marginal likelihood.

The first split of everything comes first, then the second. `--keep` appends each answer's scores to a file and reads
those that are there, so that a run goes on where one stopped; `--minutes` starts nothing after that time. A mean is
over the splits that its row names.
"""

import time
import warnings
from importlib.util import find_spec

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from benchmarks import command, tables
from benchmarks.rivals import PEERS, SEED, Answer
from benchmarks.tables import Split
from bnnlib.estimators import METHODS, SparseClassifier, SparseRegressor

SETS = (*(name for name in tables.NAMES if name not in tables.SELECTIONS), "five_of_200")
QUICK: dict = {}  # settings of bnnlib's estimators that a test of this file shortens


def friedman(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Friedman's function of the first five of 200 inputs, each in units of its own; the noise's scale is 100."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(size=(rows, 200))
    f = 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]
    return rng.uniform(-100, 100, 200) + u * 10.0 ** rng.uniform(-3, 3, 200), 5000 + 100 * (f + rng.normal(size=rows))


def load(name: str, number: int) -> Split:
    """Split `number` of a set."""
    if name == "five_of_200":
        x, y = friedman(3000, number)
        return Split(x[:1000], y[:1000], x[1000:], y[1000:], labels=False, noise=100.0, relevant=np.arange(200) < 5)
    return tables.load(name, number)


def ours(method: str, split: Split, seeds: int = 1) -> Answer:
    kind = SparseClassifier if split.labels else SparseRegressor
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kind(method, random_state=SEED, **QUICK).fit(split.x, split.y)
        told = "; ".join(str(one.message).partition(":")[0][:80] for one in caught)
        others = [kind(method, random_state=SEED + number, **QUICK) for number in range(1, seeds)]
        every = [one.path_inclusion_probability_ for one in (model, *(one.fit(split.x, split.y) for one in others))]
    moved = float(np.ptp(every, axis=0).max()) if seeds > 1 else None
    if split.labels:
        return Answer(model.predict_proba(split.test_x), selected=model.get_support(), warned=told, moved=moved)
    mean, std, interval = model.predict(split.test_x, return_std=True, return_interval=True)
    return Answer(mean, interval, model.get_support(), model.noise_scale_, std, told, moved)


def score(split: Split, answer: Answer) -> dict[str, float]:
    """error (RMSE in the target's units, or wrong labels in percent), nll, coverage, and what was selected.

    Of a selection that is known, `false` is the share of it that does not matter and `power` that of what matters that
    is in it, in percent.
    """
    y, found = split.test_y, {}
    if split.labels:
        found["error"] = 100.0 * float(np.mean(answer.mean.argmax(axis=1) != y))
        found["nll"] = float(-np.log(np.maximum(answer.mean[np.arange(len(y)), y], 1e-12)).mean())
    else:
        found["error"] = float(np.sqrt(np.mean((answer.mean - y) ** 2)))
        if answer.std is not None:
            z = (y - answer.mean) / answer.std
            found["nll"] = float(np.mean(0.5 * z**2 + np.log(answer.std / split.y.std()) + 0.5 * np.log(2 * np.pi)))
        inside = (answer.interval[:, 0] <= y) & (y <= answer.interval[:, 1])
        found["coverage"] = 100.0 * float(inside.mean())
        thirds = np.array_split(inside[np.argsort(answer.mean, kind="stable")], 3)
        found |= {f"coverage_{number}": 100.0 * float(third.mean()) for number, third in enumerate(thirds, start=1)}
        if answer.noise is not None:
            found["noise"] = answer.noise / split.noise
    if answer.moved is not None:
        found["moved"] = answer.moved
    if answer.selected is not None:
        found["selected"] = int(answer.selected.sum())
        if split.relevant is not None:
            found["false"] = 100.0 * float((answer.selected & ~split.relevant).sum() / max(1, answer.selected.sum()))
            if split.relevant.any():
                found["power"] = 100.0 * float((answer.selected & split.relevant).sum() / split.relevant.sum())
    return found


def measure(name: str, number: int, method: str, seeds: int = 1) -> dict:
    """The scores of one split: {set, split, method, rows, inputs, error, coverage or nll, ..., fit_s, cpu_s}.

    Seconds are of a fit with its predictions, by the clock and of the processor.
    """
    split = load(name, number)
    start, began = time.perf_counter(), time.process_time()
    answer = PEERS[method](split) if method in PEERS else ours(method, split, seeds)
    seconds = {"fit_s": time.perf_counter() - start, "cpu_s": time.process_time() - began}
    about = {"set": name, "split": number, "method": method, "rows": len(split.x), "inputs": split.x.shape[1]}
    return about | score(split, answer) | seconds | ({"warned": answer.warned} if answer.warned else {})


def summary(found: list[dict], own: dict[int, dict] | None = None) -> dict:
    """One row of the scores of a method's splits of a set: means, and standard errors NAME_se from two splits on.

    `moved` is the largest of all.

    With the scores of bnnlib's default by split, `nll_behind` is by how many nats a row it is better, by pairs.
    """
    first, number = found[0], len(found)
    row = {"set": first["set"], "method": first["method"], "splits": number}
    row |= {key: first[key] for key in ("rows", "inputs")}
    found = [dict(one) for one in found]
    for one in found:
        if own and one["split"] in own and "nll" in one:
            one["nll_behind"] = one["nll"] - own[one["split"]]["nll"]
    first = found[0]
    row["warned"] = sum("warned" in one for one in found)
    for key in [key for key in first if key not in ("split", "warned", *row) and all(key in one for one in found)]:
        values = [one[key] for one in found]
        row[key] = round(float(np.mean(values)), 3)
        if number > 1 and not key.endswith("_s"):
            row[f"{key}_se"] = round(float(np.std(values, ddof=1) / np.sqrt(number)), 3)
    if "moved" in row:
        row["moved"] = round(max(one["moved"] for one in found), 3)
        row.pop("moved_se", None)
    return row


def text(row: dict) -> str:
    """A row as a line."""
    line = f"{row['set']:14s} {row['method']:20s} "
    if "note" in row:
        return line + row["note"]
    line += f"error {row['error']:8.3f} +- {row.get('error_se', float('nan')):6.3f}  "
    line += f"coverage {row['coverage']:5.1f} %  " if "coverage" in row else f"nll {row['nll']:6.3f}       "
    line += f"noise {row['noise']:8.3f}  " if "noise" in row else " " * 16
    chosen = f"{row['selected']:.1f} of {row['inputs']}" if "selected" in row else "-"
    return line + f"selected {chosen:12s} fit {row['fit_s']:6.1f} s ({row['cpu_s']:.1f} s of a core)"


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("estimators", __doc__, goes_on=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=(*SETS, *tables.SELECTIONS))
    parser.add_argument("--methods", nargs="+", default=[METHODS[0], *list(PEERS)[:4]], choices=[*METHODS, *PEERS])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1, help="random states of bnnlib's methods")
    options = parser.parse_args(arguments)
    say, end = command.progress(options), time.monotonic() + 60 * options.minutes
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {options.splits} splits", file=say)
    found = command.kept(options.keep, "set", "split", "method")
    absent = () if find_spec("laplace") else ("Laplace",)
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, UserWarning, FutureWarning):  # of peers' defaults, and of a shortened test
            warnings.simplefilter("ignore", kind)
        for number in range(options.splits):
            for name in options.sets:
                for method in options.methods:
                    if method == "Gaussian process" and name in ("digits_300", "protein_41000"):
                        continue  # ten processes, and a matrix of 13 GB
                    if method in absent or (name, number, method) in found or time.monotonic() > end:
                        continue
                    found[name, number, method] = measure(name, number, method, options.seeds)
                    command.keep(options.keep, found[name, number, method])
    rows = []
    for name in options.sets:
        for method in options.methods:
            some = [
                one for key, one in found.items() if key[0] == name and key[2] == method and key[1] < options.splits
            ]
            own = {key[1]: one for key, one in found.items() if key[0] == name and key[2] == METHODS[0]}
            own = {} if method in METHODS else own
            note = {"set": name, "method": method, "note": "not installed" if method in absent else "not run"}
            rows.append(summary(some, own) if some else note)
            print(text(rows[-1]), file=say, flush=True)
    return command.done(rows, options)


if __name__ == "__main__":
    main()
