"""The report on compression, and the export to ONNX that it times."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bnnlib import nn as bnn
from bnnlib.models import mlp
from bnnlib.pruning import compress, compression_report, export_onnx, save_compressed
from chapters.shared.networks import resnet
from tests.bnnlib.pruning.networks import noisy_lenet, prune_noise, seeded

onnx = pytest.importorskip("onnx", reason="onnx is not installed: export not run")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: export not run")

EXPORT = importlib.import_module("bnnlib.pruning.compress.onnx_export")  # `bnnlib.pruning.compress` is a function
PAPER = {"conv1_noise": 3, "conv2_noise": 18, "fc1_input_noise": 800, "fc2_input_noise": 283}


@pytest.mark.slow
def test_the_report(tmp_path):
    model = prune_noise(noisy_lenet(), PAPER).train()
    x = torch.rand(100, 1, 28, 28, generator=seeded(1))
    small = compress(model, x)
    before = {name: values.clone() for name, values in model.state_dict().items()}
    report = compression_report(model, small, x, batches=(1, 5), repeats=3)
    assert json.loads(json.dumps(report)) == report
    assert model.training and all(torch.equal(before[n], v) for n, v in model.state_dict().items())
    rows = {row["layer"]: row for row in report["layers"]}
    assert list(rows) == ["conv1", "conv2", "fc1", "fc2"] and report["cut"] == []
    assert rows["fc1"] == {
        "layer": "fc1", "type": "Linear", "inputs_before": 800, "inputs_after": 288, "units_before": 500,
        "units_after": 283,
    }  # fmt: skip
    assert [row["units_after"] for row in rows.values()] == [3, 18, 283, 10]
    # by hand: weights and biases, and twice the multiply-adds at 24 x 24 and 8 x 8 positions
    parameters = 3 * 26 + 18 * (3 * 25 + 1) + 283 * 289 + 10 * 284
    assert report["parameters"] == {"before": 431_080, "after": parameters, "ratio": 431_080 / parameters}
    operations = [
        2 * (a * 25 * 24**2 + a * b * 25 * 8**2 + 16 * b * c + 10 * c) for a, b, c in ((20, 50, 500), (3, 18, 283))
    ]
    assert [report["flops"][key] for key in ("before", "after")] == operations
    assert report["flops"]["ratio"] > 8  # issue: 8 times fewer
    save_compressed(small, tmp_path / "net.pt")
    # the archive stores the name of the file, which may differ by a few bytes
    assert report["bytes"]["after"] == pytest.approx((tmp_path / "net.pt").stat().st_size, abs=500)
    assert report["bytes"]["ratio"] == report["bytes"]["before"] / report["bytes"]["after"] > 4
    assert report["max_difference"] <= 1e-6
    assert [(r["runtime"], r["device"], r["batch"]) for r in report["latency"]] == [
        ("eager", "cpu", 1), ("eager", "cpu", 5), ("onnxruntime", "cpu", 1), ("onnxruntime", "cpu", 5)
    ]  # fmt: skip
    assert all(row["ratio"] == row["dense_ms"] / row["compressed_ms"] for row in report["latency"])
    assert report["threads"] == torch.get_num_threads() and report["torch"] == torch.__version__
    assert report["onnxruntime"] == onnxruntime.__version__


def test_the_report_names_what_is_cut_and_picks_runtimes():
    model = prune_noise(noisy_lenet(), {"conv2_noise": 0})
    x = torch.rand(2, 1, 28, 28, generator=seeded(1))
    report = compression_report(model, compress(model, x), x, batches=(2,), repeats=1, runtimes=["eager"])
    assert report["cut"] == ["fc1", "fc2"]  # all units of fc1 are constant, so that fc2 reads nothing either
    assert [row["units_after"] for row in report["layers"]] == [1, 1, 1, 10]
    assert [row["runtime"] for row in report["latency"]] == ["eager"]


def test_a_report_without_a_runtime_says_what_is_missing(monkeypatch):
    model, x = mlp((4, 8, 3)), torch.ones(2, 4)
    small = compress(model, x)
    monkeypatch.setattr(EXPORT, "_PACKAGES", ("onnx", "not_there"))
    report = compression_report(model, small, x, batches=(1,), repeats=1)
    assert [row["runtime"] for row in report["latency"]] == ["eager"] and report["onnxruntime"] is None
    with pytest.raises(ImportError, match=r"needs not_there, which is not installed.*bnnlib\[onnx\]"):
        compression_report(model, small, x, batches=(1,), repeats=1, runtimes=["onnxruntime"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lenet", "resnet"])
def test_an_exported_network_takes_any_batch(tmp_path, kind):
    if kind == "lenet":
        model = prune_noise(noisy_lenet(), PAPER | {"fc1_input_noise": 300})
        x = torch.rand(7, 1, 28, 28, generator=seeded(1))
    else:
        model, x = resnet(8, width=4, generator=seeded()), torch.rand(7, 3, 16, 16, generator=seeded(1))
    small = compress(model, x)
    path = tmp_path / "net.onnx"
    difference = export_onnx(small.train(), x[:1], path)
    assert difference < 1e-5 and small.training
    assert [file.name for file in Path(tmp_path).iterdir()] == ["net.onnx"]  # the weights are inside
    onnx.checker.check_model(str(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for rows in (1, 2, 7):
        (output,) = session.run(["output"], {"input": x[:rows].numpy()})
        with torch.no_grad():
            # float32: sums in another order
            np.testing.assert_allclose(output, small.eval()(x[:rows]).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_export_that_computes_something_else_is_not_kept(tmp_path, monkeypatch):
    path = tmp_path / "net.onnx"
    monkeypatch.setattr(EXPORT, "onnx_runner", lambda path: lambda x: np.ones((len(x), 3), "float32"))
    network, x = nn.utils.weight_norm(nn.Linear(4, 3)), torch.ones(2, 4)
    network(x)  # whose weight is no leaf from then on, which PyTorch does not copy
    with pytest.raises(RuntimeError, match=r"ONNX Runtime differs from PyTorch by .* was not kept"):
        export_onnx(network, x, path)
    assert not path.exists()


def test_what_cannot_be_exported_is_explained(tmp_path, monkeypatch):
    path = tmp_path / "net.onnx"
    model = nn.Sequential(nn.Linear(3, 3), bnn.StructuredBayesianPruning(3))
    with pytest.raises(TypeError, match="1 is a StructuredBayesianPruning, which draws at random"):
        export_onnx(model, torch.ones(2, 3), path)
    with pytest.raises(ValueError, match=r"example has shape \(0, 3\)"):
        export_onnx(nn.Linear(3, 2), torch.ones(0, 3), path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match="needs onnxscript, which is not installed"):
        export_onnx(nn.Linear(3, 2), torch.ones(2, 3), path)
