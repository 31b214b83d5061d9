"""Latency and size of LeNet-5 after its pruned units are taken out, as ratios to the network that keeps them.

`python -m benchmarks.compression [--json] [--batch 1 256]`

Left are 3-18-288-283 of 20-50-800-500 units: those of the paper's Table 1, where features leave with their channel. The
network is not trained, since its time depends on how many units are left and not on which. Both take turns in
`compression_report`, in PyTorch and, where it is installed, in ONNX Runtime.
"""

import torch
from torch import nn

from benchmarks import command
from bnnlib.nn import insert_unit_noise
from bnnlib.pruning import compress, compression_report
from chapters.shared.networks import lenet5_caffe

KEPT = {"conv1_noise": 3, "conv2_noise": 18, "fc2_input_noise": 283}


@torch.no_grad()
def pruned_lenet() -> nn.Module:
    """LeNet-5 with noise in the paper's four places, of whose units the paper's numbers are left."""
    model = insert_unit_noise(lenet5_caffe(), ["conv1", "conv2"], ["fc1", "fc2"])
    for name, count in KEPT.items():
        model.get_submodule(name).log_scale[count:] = 3.0
    return model


def measure(batches: list[int], rounds: int, device: torch.device) -> list[dict]:
    """Rows {network, runtime, batch, device, dense_ms, compressed_ms, ratio, bytes_ratio}; above 1 is a gain."""
    torch.manual_seed(0)
    model, x = pruned_lenet().to(device), torch.rand(max(batches), 1, 28, 28, device=device)
    report = compression_report(model, compress(model, x), x, batches=batches, repeats=rounds)
    return [
        {
            "network": "LeNet-5",
            **{name: row[name] for name in ("runtime", "batch", "device")},
            **{name: round(row[name], 4) for name in ("dense_ms", "compressed_ms", "ratio")},
            "bytes_ratio": round(report["bytes"]["ratio"], 3),
        }
        for row in report["latency"]
    ]


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("compression", __doc__, batch=[1, 256], rounds=41, device=True)
    options = parser.parse_args(arguments)
    device, say = command.start(options)
    rows = measure(options.batch, options.rounds, device)
    for row in rows:
        ms = f"{row['compressed_ms']:.3f} ms against {row['dense_ms']:.3f}"
        told = f"{row['ratio']:5.2f} times faster ({ms}), file {row['bytes_ratio']:.1f} times smaller"
        print(f"{row['runtime']:12s} batch {row['batch']:4d}  {told}", file=say)
    return command.done(rows, options)


if __name__ == "__main__":
    main()
