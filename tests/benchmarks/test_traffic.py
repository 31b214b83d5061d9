"""The benchmark of traffic counts the bytes that operations read and write."""

import json

import torch

from benchmarks import step_time, traffic
from benchmarks.traffic import Traffic


def bytes_of(work) -> tuple[int, int]:
    with Traffic() as found:
        work()
    return found.bytes, found.operations


def test_operations_read_and_write():
    a, b = torch.ones(100), torch.ones(100)
    assert bytes_of(lambda: a + b) == (1200, 1)  # two read, one written
    assert bytes_of(lambda: a.add_(b)) == (1200, 1)
    assert bytes_of(lambda: torch.add(a, b, out=b)) == (1200, 1)
    assert bytes_of(lambda: a.view(10, 10).t()) == (0, 0)
    assert bytes_of(lambda: a.sum()) == (404, 1)
    assert bytes_of(lambda: a * torch.ones(1).expand(100)) == (800 + 4 + 4, 2)  # the expanded one holds one number
    assert bytes_of(lambda: torch._foreach_add_([a, b], 1.0)) == (1600, 1)


def test_a_plain_step_moves_what_its_operations_say():
    """Linear layers without a bias under plain gradient descent: products, sums of gradients, updates."""
    weight = torch.ones(30, 20, requires_grad=True)
    x = torch.ones(8, 20)

    def step():
        (weight.grad,) = torch.autograd.grad((x @ weight.t()).sum(), [weight])

    moved, _ = bytes_of(step)
    product, gradient = 4 * (160 + 600 + 240), 4 * (240 + 160 + 600)
    assert product + gradient <= moved <= product + gradient + 4 * (3 * 240 + 8)


def test_rows_of_traffic(capsys):
    found = traffic.main(["--json", "--batch", "8"])
    captured = capsys.readouterr()
    assert json.loads(captured.out) == found and found["bandwidth"] > 0 and "GB/s" in captured.err
    rows = {(row["library"], row["layer"]): row for row in found["rows"]}
    ours = {layer for library, layer in step_time.contenders() | step_time.samplers() if library == "bnnlib"}
    assert ours == {layer for library, layer in rows if library == "bnnlib"}
    plain, weights = rows["torch", "none"]["bytes"], 478_410
    samplers = {key for key in step_time.samplers() if key[0] == "bnnlib"}
    assert all(row["bytes"] > plain for key, row in rows.items() if key[1] != "none" and key not in samplers)
    # a sampler in one pass moves less than Adam: it reads weight and gradient and writes the weight
    assert all(rows[key]["bytes"] > 3 * 4 * weights for key in samplers)
