"""Numbers from the store that the chapter on structured Bayesian pruning says, and what it claims of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows
from chapters.unit_noise import prices

FIVE, THREE = "LeNet-5", "LeNet-500-300"
WEIGHTED = "SBPa"
LABELS = "MNIST, MLP"
VGG = "k=1.0"


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("sbp-name")` returns}, for all experiments of the chapter.

    Raises:
        AssertionError: what is stored no longer says what the text says; nothing is asked of what is not stored.
    """
    return _digits(rows["mnist"]) | _vgg(rows["vgg"]) | _random_labels(rows["random-labels"])


def _digits(rows: Rows) -> dict[str, str]:
    def found(setting: str, method: str, metric: str) -> float | None:
        return lab.stored_mean(rows, setting, method, metric)

    def weights(setting: str) -> str:
        label = f"{setting}, {WEIGHTED} with kl_weights="
        given = (row["setting"][len(label) :] for row in rows if row["setting"].startswith(label))
        return lab.number(next(given, None))

    texts = {
        "lenet5-cpu-one": lab.number(found(FIVE, "SBPa", "cpu_batch_1"), "{:.1f}"),
        "lenet5-onnx-one": lab.number(found(FIVE, "SBPa", "cpu_onnx_batch_1"), "{:.1f}"),
        "lenet5-weights": weights(FIVE),
        "lenet300-weights": weights(THREE),
        "fixed-runs": _runs(rows, "SBPa, fixed mu"),
        "fixed-error": lab.number(found(FIVE, "SBPa, fixed mu", "error_test"), "{:.2f}"),
        "fixed-flops": lab.number(found(FIVE, "SBPa, fixed mu", "flops_ratio"), "{:.1f}"),
    }
    row = next((r for r in rows if (r["setting"], r["method"], r["metric"]) == (FIVE, "SBPa", "flops_ratio")), None)
    known = row and row["mean"] is not None and row["profile"] != "smoke"
    text = f"{row['mean']:.1f} ± {row['se']:.1f}" if known else None
    texts["lenet5-flops"] = lab.number(text, runs=row["n"] if known else None)
    for key, setting in (("five", FIVE), ("three", THREE)):
        pair = "sbp-mnist", setting, WEIGHTED, "Original", "error_test"
        texts[f"{key}-less-original"] = lab.difference(*pair)
        # the text: neither difference is decided, and on LeNet-5 every run has more errors
        assert lab.shows(lab.paired_difference(*pair), 0), key
        ours, dense = (lab.stored_values("sbp-mnist", setting, one, "error_test") for one in (WEIGHTED, "Original"))
        assert key != "five" or (ours > dense).all()
    for key, metric in {"flops": "flops_ratio", "error": "error_test"}.items():
        pair = "sbp-mnist", FIVE, WEIGHTED, f"{WEIGHTED}, fixed mu", metric
        texts[f"free-less-fixed-{key}"] = lab.difference(*pair)
        # the text: a free location saves a little more, and costs no error that is seen
        assert lab.shows(lab.paired_difference(*pair), key == "flops"), key
    exported, plain = (lab.stored_values("sbp-mnist", FIVE, WEIGHTED, f"cpu_{one}batch_1") for one in ("onnx_", ""))
    assert lab.shows(lab.estimate(exported - plain), 1), "at batch 1 pruning gains more in ONNX Runtime"
    texts |= {"exact-three": _exact(rows, THREE, 3), "exact-five": _exact(rows, FIVE, 4)}
    exact = (row["budget"] for row in rows if (row["setting"], row["method"]) == (FIVE, "SBP") and row["n"])
    texts["exact-five-epochs"] = lab.number(next(exact, None), "{:.0f}")
    ours, paper = (
        next(
            one.params
            for one in lab.get("sbp-mnist").profiles[profile]()
            if (one.setting, one.method) == (THREE, "SBP")
        )
        for profile in ("book", "paper")
    )
    assert all(ours[name] == paper[name] for name in ("epochs", "noise_factor", "learning_rate"))
    return texts | {"exact-three-epochs": f"{ours['epochs']}"}


def _runs(rows: Rows, method: str) -> str:
    """How many runs a method has on LeNet-5, in words."""
    found = next((r["n"] for r in rows if (r["setting"], r["method"], r["metric"]) == (FIVE, method, "error_test")), 0)
    return lab.number({1: "one run", 2: "two runs", 3: "three runs"}.get(found))


def _exact(rows: Rows, setting: str, layers: int) -> str:
    """What the exact divergence leaves of a network, in words."""
    found = {row["metric"]: row for row in rows if (row["setting"], row["method"]) == (setting, "SBP") and row["n"]}
    if not found or found["error_test"]["profile"] == "smoke":
        return "not run"
    units = "-".join(f"{found[f'units_{k + 1}']['mean']:.0f}" for k in range(layers))
    n = found["error_test"]["n"]
    runs = {1: "one run", 2: "two runs"}.get(n, f"{n} runs")
    error, ratio = (found[metric]["mean"] for metric in ("error_test", "flops_ratio"))
    return f"{units} units, {error:.2f} % error, {ratio:.1f} times fewer operations ({runs})"


def _vgg(rows: Rows) -> dict[str, str]:
    def found(method: str, metric: str) -> float | None:
        return lab.stored_mean(rows, VGG, method, metric)

    def units(method: str) -> float | None:
        layers = [found(method, f"units_{k}") for k in range(1, 15)]
        return None if None in layers else sum(layers)

    whole, left = units("Original"), {method: units(method) for method in ("SBP", "SBPa")}
    gone = {method: None if None in (whole, one) else whole - one for method, one in left.items()}
    assert all(one is None or one < 0.05 * whole for one in gone.values())
    profiles = lab.get("sbp-vgg").profiles
    ours, paper = (next(cell.params for cell in profiles[one]() if cell.method == "SBP") for one in ("book", "paper"))
    return (
        {
            "vgg-epochs": f"{ours['epochs']}",
            "vgg-rate": f"{ours['learning_rate'] / paper['learning_rate']:.3g}",
            "vgg-original": lab.number(found("Original", "error_test"), "{:.1f}"),
            "vgg-error": lab.number(found("SBP", "error_test"), "{:.1f}"),
            "vgg-a-error": lab.number(found("SBPa", "error_test"), "{:.1f}"),
            "vgg-all": lab.number(whole, "{:.0f}"),
            "vgg-gone": lab.number(gone["SBP"], "{:.0f}"),
            "vgg-a-gone": lab.number(gone["SBPa"], "{:.0f}"),
            "vgg-distance": f"{_distance(ours):.1f}",
        }
        | _vgg_curves()
        | _narrow()
    )


def _distance(params: dict) -> float:
    """How far Adam can move log(sigma) at all: the noise's rate, linear to zero, summed over the steps."""
    steps = -(-(50_000 - params["held_out"]) // params["batch_size"]) * params["epochs"]
    return params["learning_rate"] * params["noise_factor"] * steps / 2


def _narrow() -> dict[str, str]:
    """Units that go from a network of a quarter of the width, by the distance of its noise and what it fits."""
    stored, texts = lab.stored_arrays("sbp-vgg-causes"), {}
    runs = {
        "far": ("k=0.25", "SBP, farther"),
        "heart": ("k=0.25, by heart", "SBP"),
        "heart-far": ("k=0.25, by heart", "SBP, farther"),
    }
    whole, gone = None, {}
    for key, (setting, method) in runs.items():
        units = stored.get((setting, method, 0, "units"))
        if units is not None:
            whole, gone[key] = units[0].sum(), units[0].sum() - units[-1].sum()
        texts[f"vgg-{key}"] = lab.number(gone.get(key), "{:.0f}", 1)
    if len(gone) == len(runs):  # the text: the distance counts, but explains little
        assert gone["heart-far"] > gone["heart"] and max(gone.values()) < 0.1 * whole
    return texts | {"vgg-narrow": lab.number(whole, "{:,.0f}")}


def _vgg_curves() -> dict[str, str]:
    """How far SBP of the VGG-like network has come: divergence a unit, what is pruned and when, the data's part."""
    stored = lab.stored_arrays("sbp-vgg")
    curves = {name: stored.get((VGG, "SBP", 0, name)) for name in ("nll", "kl", "units")}
    if any(one is None for one in curves.values()):
        return {f"vgg-{key}": lab.number(None) for key in ("kl-first", "kl-last", "price", "from", "data", "sum")}
    units = curves["units"].sum(1)
    layers = np.flatnonzero(curves["units"][-1] < curves["units"][0]) + 1
    each = curves["kl"] / units[0]
    price = prices.cheapest(np.ones(1))[0].item()
    # the text: the run ended on the way; no early layer has lost a unit
    assert each[-1] > price and units[-6] > units[-1] and layers[0] > 7
    return {
        "vgg-kl-first": lab.number(each[0], "{:.1f}", 1),
        "vgg-kl-last": lab.number(each[-1], "{:.1f}", 1),
        "vgg-price": lab.number(price, "{:.1f}"),
        "vgg-from": lab.number(layers[0], "{:.0f}", 1),
        "vgg-data": lab.number(curves["nll"][-1], "{:.0f}", 1),
        "vgg-sum": lab.number(curves["nll"][-1] + curves["kl"][-1], "{:,.0f}", 1),
    }


def _random_labels(rows: Rows) -> dict[str, str]:
    def last_bounds(method: str) -> np.ndarray:  # -(N nll + kl) in the last epoch, of every replicate
        curves = lab.stored_arrays("sbp-random-labels")
        return np.array([-v[-1, 2:].sum() for k, v in sorted(curves.items()) if (k[1], k[3]) == (method, "curve")])

    texts = {}
    for key, method, metric, low, high in (
        ("random-dropout", "Dropout", "accuracy_train", 90, 100),
        ("random-sbp", "SBP", "accuracy_train", 0, 20),
        ("random-removed", "SBP", "removed", 99, 100),
        ("random-slow", "SBP, slow noise", "accuracy_train", 90, 100),
        ("random-slow-removed", "SBP, slow noise", "removed", 0, 100),
    ):
        mean = lab.stored_mean(rows, LABELS, method, metric)
        assert mean is None or low <= mean <= high
        texts[key] = lab.number(mean, "{:.1f}" if metric == "accuracy_train" else "{:.0f}")
    slow, fast = last_bounds("SBP, slow noise"), last_bounds("SBP")
    if not len(slow) or len(slow) != len(fast):
        return texts | {"random-bound-gap": lab.number(None)}
    gaps = slow - fast  # the replicates share their labels
    mean, error, n = lab.estimate(gaps)
    assert lab.side(mean - 1_000, error, n) == 1
    return texts | {"random-bound-gap": lab.Said(f"{mean:,.0f} ± {error:.0f}", n, lab.decided(mean, error, n))}
