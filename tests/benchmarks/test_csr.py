"""The CSR benchmark's rows, and that it times a network which is as sparse as it says."""

import json

import torch

from benchmarks import csr
from bnnlib.pruning import to_csr


def test_rows(capsys):
    options = ["--json", "--sparsity", "0.9", "0.99", "--batch", "1", "2", "--rounds", "1", "--device", "cpu"]
    csr.main(options)
    rows = json.loads(capsys.readouterr().out)
    keys = {"network", "sparsity", "batch", "device", "dense_ms", "csr_ms", "speedup", "bytes_ratio"}
    assert all(set(row) == keys for row in rows)
    assert [(row["sparsity"], row["batch"]) for row in rows] == [(s, b) for s in (0.9, 0.99) for b in (1, 2)]
    assert all(row["network"] == "784-1200-1200-10" and row["dense_ms"] > 0 < row["csr_ms"] for row in rows)
    # 8 bytes for each weight that is left against 4 for all: about 5 and 50, less the biases and the row starts
    assert 4.5 < rows[0]["bytes_ratio"] < 5.0 and 40 < rows[2]["bytes_ratio"] < 50


def test_every_layer_has_the_share_of_zeros(monkeypatch):
    seen = []

    def convert(model):
        seen.extend(float((layer.weight == 0).float().mean()) for layer in model if hasattr(layer, "weight"))
        return to_csr(model)

    monkeypatch.setattr(csr, "to_csr", convert)
    csr.measure(0.95, [1], 1, torch.device("cpu"))
    # rounded to a whole weight in each layer
    assert len(seen) == 3 and all(abs(share - 0.95) < 1e-4 for share in seen)
