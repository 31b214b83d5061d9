"""Numbers from the store that the chapter on learned priors says in its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from book import lab
from book.lab.queries import Rows

TABLE_ONE = [f"v0={v0}, sigma={sigma}" for v0 in (0.01, 0.1) for sigma in (2, 1)]
SETS = ("boston", "yacht", "energy", "wine-red", "concrete")


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("aeb-name")` returns}, for all experiments of the chapter.
    """
    return _regression(rows) | _data_sets(rows) | _images(rows)


def _mean(rows: Rows, setting: str, method: str, metric: str, form: str) -> str:
    return lab.number(lab.stored_mean(rows, setting, method, metric), form)


def _average(*cell: str, form: str, scale: float = 1.0) -> str:
    """The mean over all stored replicates of one metric: name, setting, method, metric."""
    values = lab.stored_values(*cell)
    return lab.number(scale * values.mean() if len(values) else None, form)


def _wins(rows: Rows, settings: Sequence[str], metric: str, method: str) -> str:
    """In how many settings a method has the lowest mean among the paper's."""
    named = [row for row in rows if "," not in row["method"]]  # without the variants of the published code
    firsts = [lab.best_method(named, setting, metric) for setting in settings]
    return lab.number(None if None in firsts else firsts.count(method))


def _regression(rows: Mapping[str, Rows]) -> dict[str, str]:
    linear, logistic = rows["regression"], rows["logistic"]
    shown = ("aeb-regression", "v0=0.1, sigma=1", "SGLD-SA")  # in the figure
    found = {
        "table-sa-wins": _wins(linear, TABLE_ONE, "mse_test", "SGLD-SA"),
        "table-covered": _average(*shown, "covered", form="{:.0f}", scale=100 / 3),
        "table-sigma": _average(*shown, "sigma", form="{:.2f}"),
        "table-train": _average(*shown, "mse_train", form="{:.2f}"),
        "table-sa-hard": _mean(linear, "v0=0.01, sigma=2", "SGLD-SA", "mse_test", "{:.1f}"),
        "table-constant-hard": _mean(linear, "v0=0.01, sigma=2", "SGLD-SA, w=0.1", "mse_test", "{:.1f}"),
        "logistic-fnr": _mean(logistic, "v0=0.1", "SGLD-EM", "fnr", "{:.0f}"),
    }
    for key, method in (("ridge", "SGLD, no L1"), ("both", "SGLD")):
        found[f"frozen-{key}"] = _mean(linear, "v0=0.1, sigma=1", method, "mse_test", "{:.0f}")
        found[f"frozen-{key}-two"] = _mean(linear, "v0=0.1, sigma=2", method, "mse_test", "{:.0f}")
    for key, method in (("sa", "SGLD-SA"), ("em", "SGLD-EM"), ("frozen", "SGLD")):
        found[f"logistic-{key}"] = _mean(logistic, "v0=0.1", method, "accuracy", "{:.1f}")
    return found


def _data_sets(rows: Mapping[str, Rows]) -> dict[str, str]:
    """Distances from the published means in published standard errors, without energy, and who is the best."""
    ours = [row for row in rows["uci"] if row["method"] == "A-SGHMC-SA" and row["published"] is not None]
    gaps = []
    for row in ours:
        mean = lab.stored_mean(rows["uci"], row["setting"], "A-SGHMC-SA", "rmse_test")
        if mean is not None and row["setting"] in SETS and row["setting"] != "energy":
            gaps.append((mean - row["published"]) / row["published_sd"])
    whole = len(gaps) == len(SETS) - 1
    return {
        "uci-near": lab.number(sum(abs(gap) <= 2 for gap in gaps) if whole else None),
        "uci-better": lab.number(sum(gap < -2 for gap in gaps) if whole else None),
        "uci-worse": lab.number(sum(gap > 2 for gap in gaps) if whole else None),
        "uci-wins": _wins(rows["uci"], SETS, "rmse_test", "A-SGHMC-SA"),
    }


def _images(rows: Mapping[str, Rows]) -> dict[str, str]:
    attack, methods = ("aeb-fgsm", "MNIST zeta=0.2", "SGHMC-SA"), ("SGHMC-SA", "SGHMC", "Dropout", "Vanilla")
    means = {method: lab.stored_mean(rows["mnist"], "MNIST", method, "accuracy") for method in methods}
    order = None if None in means.values() else ", ".join(sorted(means, key=means.__getitem__, reverse=True))
    return {
        "mnist-order": lab.number(order),
        "fgsm-ours": _average(*attack, "accuracy", form="{:.0f}"),
        "fgsm-raw": _average(*attack, "accuracy_max_log", form="{:.0f}"),
        "resnet-A-SGHMC": _mean(rows["resnet20"], "S=90", "A-SGHMC", "accuracy", "{:.0f}"),
        "resnet-SGHMC-SA": _mean(rows["resnet20"], "S=90", "SGHMC-SA", "accuracy", "{:.0f}"),
    }
