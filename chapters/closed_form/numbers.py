"""Numbers from the store that the chapter on closed-form inclusion says in its text, and what it claims of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import stats

from book import lab
from book.lab.queries import Rows


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("sbnn-name")` returns}, for all experiments of the chapter.

    Raises:
        AssertionError: what is stored no longer says what the text says; nothing is asked of what is not stored.
    """
    runs = {f"run-{name}-{key}": text for name in rows for key, text in lab.run_in_words(f"sbnn-{name}").items()}
    return runs | _simulations(rows) | _removal(rows) | _data_sets(rows) | _images(rows) | _convolutions(rows)


def _mean(rows: Rows, setting: str, metric: str, method: str = "sBNN") -> float | None:
    return lab.stored_mean(rows, setting, method, metric)


def _swept(rows: Rows, metric: str, start: str = "", method: str = "sBNN", prior: bool = False) -> list[float]:
    """Our means of one metric over the settings, with the UCI prior or ours; [] while none is stored."""
    settings = [setting for setting in dict.fromkeys(row["setting"] for row in rows) if setting.startswith(start)]
    means = [_mean(rows, setting, metric, method) for setting in settings if ("log tau" in setting) == prior]
    return [mean for mean in means if mean is not None]


def _simulations(rows: Mapping[str, Rows]) -> dict[str, str]:
    one, two, influence = (_swept(rows["influence"], metric) for metric in ("psi_1", "psi_2", "influence"))
    rank = [stats.spearmanr(psi, influence)[0] if psi else None for psi in (one, two)]
    swept = lambda *which, **how: _swept(rows["importance"], "correlation", *which, **how)  # noqa: E731
    selection, base = rows["selection"], "D=100, alpha=2, pi=0.2"
    folds = dict.fromkeys(row["setting"] for row in selection if row["setting"].startswith("cv,"))
    folds = [_mean(selection, name, "selection_accuracy", "BNN-VS-CV") for name in folds]
    return {
        "influence-one": lab.number(rank[0], "{:.2f}"),
        "influence-two": lab.number(rank[1], "{:.2f}"),
        "importance-linear": lab.number(min(swept("linear,"), default=None), "{:.2f}"),
        "importance-nonlinear": lab.number(min(swept("nonlinear,"), default=None), "{:.2f}"),
        "importance-lm": lab.number(min(swept("nonlinear,", "LM"), default=None), "{:.2f}"),
        "importance-uci": lab.number(max(swept("linear,", prior=True), default=None), "{:.2f}"),
        "selection-accuracy": lab.number(_mean(selection, base, "selection_accuracy", "BNN-VS"), "{:.0f}"),
        "selection-ceiling": lab.number(_mean(selection, base, "selection_ceiling", "BNN-VS"), "{:.0f}"),
        "selection-lm": lab.number(_mean(selection, base, "selection_accuracy", "LM"), "{:.0f}"),
        "selection-cv": lab.number(min((fold for fold in folds if fold is not None), default=None), "{:.0f}"),
        "selection-small": lab.number(_mean(selection, base, "mse_test", "BNN-VS"), "{:.2f}"),
        "selection-full": lab.number(_mean(selection, base, "mse_test", "BNN"), "{:.2f}"),
    }


def _removal(rows: Mapping[str, Rows]) -> dict[str, str]:
    shrunk = [[_mean(rows["pruning"], f"pi={p}", f"mse_test_at_{k}") for k in (90, 0)] for p in (0.2, 0.5, 0.9)]
    ninety = None if any(None in pair for pair in shrunk) else 100 * max(a / b - 1 for a, b in shrunk)
    at_95 = [_mean(rows["pruning"], "pi=0.9", "mse_test_at_95", method) for method in ("sBNN", "signal-to-noise")]
    assert ninety is None or ninety < 15
    assert None in at_95 or at_95[0] > 2 * at_95[1]
    return {
        "removed-ninety": lab.number(ninety, "{:.0f}"),
        "removed-p": lab.number(at_95[0], "{:.2f}"),
        "removed-snr": lab.number(at_95[1], "{:.2f}"),
    }


def _data_sets(rows: Mapping[str, Rows]) -> dict[str, str]:
    ours = [row for row in rows["uci"] if (row["method"], row["metric"]) == ("sBNN", "rmse_test")]
    ours = [row for row in ours if row["setting"] != "year" and row["published"] is not None]
    near = [  # within the margin and two standard errors of both sides, or better
        row["difference"] <= row["margin"] + 2 * row["error"]
        for row in ours
        if _mean(ours, row["setting"], "rmse_test") is not None
    ]
    good = sum(near) if ours and len(near) == len(ours) else None
    pbp = [
        row["verdict"] == "agrees"
        for row in rows["uci"]
        if (row["method"], row["metric"]) == ("PBP", "rmse_test") and row["mean"] is not None
    ]
    texts = {
        "uci-good": lab.number(good),
        "uci-pbp": lab.number(sum(pbp) if len(pbp) == 9 else None),
    }
    stored = lab.load_result("sbnn-uci")["rows"] if near else []
    for key, method in (("whole", "sBNN"), ("half", "sBNN-50")):
        pairs = [
            [_mean(rows["uci"], row["setting"], k, method) for k in ("rmse_test_at_50", "rmse_test")] for row in ours
        ]
        complete = good is not None and not any(None in pair for pair in pairs)
        texts[f"uci-worse-{key}"] = lab.number(sum(a > 1.5 * b for a, b in pairs) if complete else None)
        plain, active = (
            np.array([row["value"] for row in stored if (row["method"], row["metric"]) == (method, metric)])
            for metric in ("kl_scale", "active")
        )
        texts[f"uci-plain-{key}"] = lab.number(100 * np.mean(plain == 1) if len(plain) else None, "{:.0f}")
        texts[f"uci-active-{key}"] = lab.number(active.mean() if len(active) else None, "{:.0f}")
        if complete and method == "sBNN":
            ratio = {row["setting"]: a / b for row, (a, b) in zip(ours, pairs, strict=True)}
            assert min(ratio[name] for name in ("boston", "concrete", "energy", "yacht")) > 1.5
            for name, printed in (("kin8nm", 0.33), ("power", 8.77)):
                assert abs(_mean(rows["uci"], name, "rmse_test_at_50") / printed - 1) < 0.1
    return texts


def _images(rows: Mapping[str, Rows]) -> dict[str, str]:
    mnist = rows["mnist"]
    texts = {}
    for method, prefix in (("sBNN", "mnist"), ("BbB", "mnist-bbb")):
        for key, metric in (("full", "error_test"), ("pruned", "error_at_95"), ("98", "error_at_98")):
            texts[f"{prefix}-{key}"] = lab.number(_mean(mnist, "1200", metric, method), "{:.2f}")
        texts[f"{prefix}-small-98"] = lab.number(_mean(mnist, "400", "error_at_98", method), "{:.1f}")
    orders = [_mean(mnist, "1200", "error_at_95", method) for method in ("sBNN", "sBNN by SNR", "sBNN by |m|")]
    apart = None if None in orders else max(orders) - min(orders)
    assert apart is None or apart < 0.05
    errors = [_mean(mnist, "1200", "error_at_98", method) for method in ("sBNN", "BbB")]
    assert None in errors or abs(errors[0] - errors[1]) < 0.25  # two binomial standard errors
    curves = lab.stored_arrays("sbnn-mnist").items()
    cdf = next((v for k, v in curves if (k[0], k[1], k[3]) == ("1200", "sBNN", "inclusion_cdf")), None)
    low = None if cdf is None else 100 * float(np.interp(0.25, *np.asarray(cdf, dtype=float).T))
    return texts | {
        "mnist-orders": lab.number(apart, "{:.2f}"),
        "mnist-low": lab.number(low, "{:.0f}"),
        "cifar-full": lab.number(_mean(rows["cifar10-mlp"], "1200", "error_test"), "{:.1f}"),
    }


def _convolutions(rows: Mapping[str, Rows]) -> dict[str, str]:
    below = [_mean(rows["lenet"], f"LeNet-5, set {k}", "share_below_quarter") for k in (1, 2)]
    errors = [_mean(rows["lenet"], f"LeNet-5, set {k}", "error_at_99") for k in (1, 2)]
    assert None in errors or (below[0] < below[1] and errors[0] > 5 * errors[1] and errors[1] > 1.03)
    lenet = [row for row in rows["lenet"] if row["setting"].startswith("LeNet-5") and row["profile"] != "smoke"]
    lenet = [row for row in lenet if row["metric"].startswith("error_at_") and row["mean"] is not None]
    most = max((float(row["metric"][9:]) for row in lenet if row["mean"] <= 1.2), default=None)
    texts = {"lenet-sparsity": lab.number(most, "{:g}")}
    for key, share, error in zip(("one", "two"), below, errors, strict=True):
        texts[f"lenet-used-{key}"] = lab.number(None if share is None else 100 - share, "{:.1f}")
        texts[f"lenet-{key}"] = lab.number(error, "{:.1f}")
    for key, metric in (("full", "error_test"), ("half", "error_at_50"), ("most", "error_at_95")):
        texts[f"vgg-{key}"] = lab.number(_mean(rows["vgg"], "VGG-like", metric), "{:.1f}")
    return texts
