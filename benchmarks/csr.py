"""Latency and size of a pruned network with CSR weights, as ratios to the dense network's, against sparsity.

`python -m benchmarks.csr [--json] [--sparsity 0.5 0.9] [--batch 1 256]`

The network is the 784-1200-1200-10 classifier of Blundell et al. (2015); every layer has the same share of zeros. It is
not trained, since neither form looks at what a weight is worth: the time depends on how many are left. Dense and CSR
passes take turns, so that whatever else the machine does hits both; times are medians over them.
"""

import tempfile
from pathlib import Path

import torch

from benchmarks import command
from bnnlib.models import mlp
from bnnlib.pruning import Masks, save_csr, to_csr
from bnnlib.pruning.compress.timing import paired_medians, rows_for_batch

SIZES = (784, 1200, 1200, 10)
SPARSITIES = (0.5, 0.9, 0.95, 0.98, 0.99)


def measure(sparsity: float, batches: list[int], rounds: int, device: torch.device) -> list[dict]:
    """Rows {network, sparsity, batch, device, dense_ms, csr_ms, speedup, bytes_ratio}; above 1 CSR is the better."""
    generator = torch.Generator().manual_seed(0)
    dense = mlp(SIZES, generator=generator).to(device).eval()
    Masks(dense).update(sparsity)
    x = torch.rand(max(batches), SIZES[0], generator=generator).to(device)
    sparse = to_csr(dense)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "dense.pt"), Path(folder, "csr.pt")
        torch.save(dense.state_dict(), files[0])
        save_csr(sparse, files[1])
        bytes_ratio = files[0].stat().st_size / files[1].stat().st_size
    rows = []
    for batch in batches:
        with torch.no_grad():
            dense_s, csr_s = paired_medians(dense, sparse, rows_for_batch(x, batch), rounds)
        times = {"dense_ms": 1e3 * dense_s, "csr_ms": 1e3 * csr_s, "speedup": dense_s / csr_s}
        row = {"network": "-".join(map(str, SIZES)), "sparsity": sparsity, "batch": batch, "device": str(device)}
        row |= {name: round(value, 4) for name, value in times.items()}
        rows.append({**row, "bytes_ratio": round(bytes_ratio, 3)})
    return rows


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("csr", __doc__, batch=[1, 256], rounds=51, device=True)
    parser.add_argument("--sparsity", type=float, nargs="+", default=list(SPARSITIES), help="shares of zeros")
    options = parser.parse_args(arguments)
    device, say = command.start(options, "-".join(map(str, SIZES)))
    rows = []
    for sparsity in options.sparsity:
        found = measure(sparsity, options.batch, options.rounds, device)
        for row in found:
            verdict = "faster" if row["speedup"] > 1 else "slower"
            factor, ms = (
                max(row["speedup"], 1 / row["speedup"]),
                f"{row['csr_ms']:.3f} ms against {row['dense_ms']:.3f}",
            )
            print(
                f"sparsity {sparsity:5.3f}  batch {row['batch']:4d}  {factor:6.2f} times {verdict} ({ms}), file "
                f"{row['bytes_ratio']:.2f} times smaller",
                file=say,
            )
        rows += found
    return command.done(rows, options)


if __name__ == "__main__":
    main()
