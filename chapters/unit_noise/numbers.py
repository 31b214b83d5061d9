"""Numbers from the store that the chapter on structured Bayesian pruning says, and what it claims of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from book import lab
from book.lab.queries import Rows


def numbers(rows: Mapping[str, Rows]) -> dict[str, str]:
    """The texts by key.

    Args:
        rows: {name: what `lab.compare("sbp-name")` returns}, for all experiments of the chapter.

    Raises:
        AssertionError: what is stored no longer says what the text says; nothing is asked of what is not stored.
    """
    runs = {f"run-{name}-{key}": text for name in rows for key, text in lab.run_in_words(f"sbp-{name}").items()}
    return runs | _digits(rows["mnist"]) | _vgg(rows["vgg"]) | _random_labels(rows["random-labels"])


def _digits(rows: Rows) -> dict[str, str]:
    def found(setting: str, method: str, metric: str) -> float | None:
        return lab.stored_mean(rows, setting, method, metric)

    def units(setting: str, method: str, layers: int) -> str:
        left = [found(setting, method, f"units_{k + 1}") for k in range(layers)]
        return lab.number(None if None in left else "-".join(f"{one:.0f}" for one in left))

    def weights(setting: str) -> str:
        label = f"{setting}, SBP with kl_weights="
        given = (row["setting"][len(label) :] for row in rows if row["setting"].startswith(label))
        return lab.number(next(given, None))

    five, three, free = ("LeNet-5", "SBPa"), ("LeNet-500-300", "SBPa"), ("LeNet-5", "SBPa, fixed mu")
    for (setting, method), error, flops in ((five, 1.0, 8), (three, 1.7, 10)):
        ours = [found(setting, method, metric) for metric in ("error_test", "flops_ratio")]
        assert ours[0] is None or ours[0] <= error
        assert ours[1] is None or ours[1] >= flops
    ratio = found(*free, "flops_ratio")
    assert ratio is None or abs(ratio - 10.3) < 1.2
    error_of_mean = next(
        (r["se"] for r in rows if (r["setting"], r["method"], r["metric"]) == (*five, "flops_ratio")), None
    )
    texts = {
        "lenet5-cpu-one": lab.number(found(*five, "cpu_batch_1"), "{:.1f}"),
        "lenet5-cpu-many": lab.number(found(*five, "cpu_batch_256"), "{:.1f}"),
        "lenet5-onnx-one": lab.number(found(*five, "cpu_onnx_batch_1"), "{:.1f}"),
        "lenet5-onnx-many": lab.number(found(*five, "cpu_onnx_batch_256"), "{:.1f}"),
        "lenet300-cpu-many": lab.number(found(*three, "cpu_batch_256"), "{:.1f}"),
        "lenet5-dense": lab.number(found("LeNet-5", "Original", "error_test"), "{:.2f}"),
        "lenet5-flops-se": lab.number(error_of_mean, "{:.1f}"),
        "lenet5-weights": weights("LeNet-5"),
        "lenet300-weights": weights("LeNet-500-300"),
    }
    for key, cell in (("lenet5", five), ("lenet300", three), ("lenet5-ssl", ("LeNet-5", "SSL")), ("fixed", free)):
        texts[f"{key}-error"] = lab.number(found(*cell, "error_test"), "{:.2f}")
        texts[f"{key}-flops"] = lab.number(found(*cell, "flops_ratio"), "{:.1f}")
    for key, setting, layers in (("three", "LeNet-500-300", 3), ("five", "LeNet-5", 4)):
        for end, method in (("", "SBPa"), ("-vd", "SparseVD"), ("-ssl", "SSL")):
            texts[f"units-{key}{end}"] = units(setting, method, layers)
    return texts


def _vgg(rows: Rows) -> dict[str, str]:
    def units(method: str) -> float | None:
        layers = [lab.stored_mean(rows, "width 0.25", method, f"units_{k}") for k in range(1, 15)]
        return None if None in layers else sum(layers)

    whole, left = units("Original"), {method: units(method) for method in ("SBP", "SBPa")}
    gone = {method: None if None in (whole, one) else whole - one for method, one in left.items()}
    assert all(one is None or one < 0.05 * whole for one in gone.values())
    errors = {method: lab.stored_mean(rows, "width 0.25", method, "error_test") for method in ("Original", "SBP")}
    return {
        "vgg-original": lab.number(errors["Original"], "{:.1f}"),
        "vgg-error": lab.number(errors["SBP"], "{:.1f}"),
        "vgg-all": lab.number(whole, "{:.0f}"),
        "vgg-gone": lab.number(gone["SBP"], "{:.0f}"),
        "vgg-a-gone": lab.number(gone["SBPa"], "{:.0f}"),
    }


def _random_labels(rows: Rows) -> dict[str, str]:
    def last_bound(method: str) -> float | None:  # mean over the replicates of -(N nll + kl) in the last epoch
        curves = [v for k, v in lab.stored_arrays("sbp-random-labels").items() if (k[1], k[3]) == (method, "curve")]
        return -float(np.mean([curve[-1, 2:].sum() for curve in curves])) if curves else None

    texts = {}
    for key, method, metric, low, high in (
        ("random-dropout", "Dropout", "accuracy_train", 90, 100),
        ("random-sbp", "SBP", "accuracy_train", 0, 20),
        ("random-removed", "SBP", "removed", 99, 100),
        ("random-slow", "SBP, slow noise", "accuracy_train", 90, 100),
        ("random-slow-removed", "SBP, slow noise", "removed", 0, 100),
    ):
        mean = lab.stored_mean(rows, "MNIST, MLP", method, metric)
        assert mean is None or low <= mean <= high
        texts[key] = lab.number(mean, "{:.0f}")
    slow, fast = last_bound("SBP, slow noise"), last_bound("SBP")
    assert None in (slow, fast) or slow > fast + 1_000
    bounds = {"random-bound-slow": lab.number(slow, "{:,.0f}"), "random-bound-fast": lab.number(fast, "{:,.0f}")}
    return texts | bounds
