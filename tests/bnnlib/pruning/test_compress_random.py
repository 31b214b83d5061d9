"""Networks of random shape with random zeros: whatever compress removes, the outputs stay."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.bnnlib.pruning.networks import compressed, seeded


class Random(nn.Module):
    """A network of random shape: convolutions with and without padding, batch norm, sums, pooling, linear layers."""

    def __init__(self, seed):
        super().__init__()
        generator = seeded(seed)
        draw = lambda *choices: choices[int(torch.randint(len(choices), (), generator=generator))]  # noqa: E731
        torch.manual_seed(seed)
        width = draw(5, 8)
        self.stem = nn.Conv2d(2, width, 3, padding=draw(0, 1), bias=draw(True, False))
        self.parts = nn.ModuleList()
        self.kinds = []
        for _ in range(draw(2, 3, 4)):
            kind = draw("sum", "conv", "depthwise", "pool", "act")
            new = draw(4, 7, 9) if kind == "conv" else width
            groups = width if kind == "depthwise" else 1
            padding = 1 if kind == "sum" else draw(0, 1)
            mode = draw("zeros", "reflect")
            part = {
                "pool": lambda: draw(nn.MaxPool2d(2, 1), nn.AvgPool2d(3, 1, padding=1), nn.AvgPool2d(2, 1)),
                "act": lambda: draw(nn.Tanh(), nn.Sigmoid(), nn.ReLU(inplace=True)),
            }.get(kind, lambda: nn.Sequential(
                nn.Conv2d(width, new, 3, padding=padding, padding_mode=mode, groups=groups, bias=draw(True, False)),  # noqa: B023
                draw(nn.BatchNorm2d(new), nn.Identity()), draw(nn.ReLU(), nn.SiLU(), nn.Identity()),  # noqa: B023
            ))()  # fmt: skip
            self.kinds.append(kind)
            self.parts.append(part)
            width = new
        self.flat = draw(True, False)
        with torch.no_grad():
            features = self.features(torch.zeros(1, 2, 14, 14)).shape[1]
        self.hidden, self.norm = nn.Linear(features, 9), draw(nn.BatchNorm1d(9), nn.BatchNorm1d(9, affine=False))
        self.head = nn.Linear(9, 3, bias=draw(True, False))

    def features(self, x):
        x = self.stem(x)
        for kind, part in zip(self.kinds, self.parts, strict=True):
            x = part(x) + x if kind == "sum" else part(x)
        return x.flatten(1) if self.flat else F.adaptive_avg_pool2d(x, 2).flatten(1)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.hidden(self.features(x)))))


@torch.no_grad()
def zero_at_random(model, seed):
    """Zeros as pruning leaves them: whole units, whole columns, single weights, factors of batch norm."""
    generator = seeded(seed)
    coin = lambda shape, share: torch.rand(shape, generator=generator) < share  # noqa: E731
    for layer in model.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            layer.weight[coin((len(layer.weight),), 0.3)] = 0.0
            layer.weight[:, coin((layer.weight.shape[1],), 0.3 if layer.weight.shape[1] > 1 else 0.0)] = 0.0
            layer.weight[coin(layer.weight.shape, 0.1)] = 0.0
            if layer.bias is not None:
                layer.bias[coin(layer.bias.shape, 0.5)] = 0.0
        elif isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.affine:
            layer.weight[coin(layer.weight.shape, 0.2)] = 0.0
            layer.bias[coin(layer.bias.shape, 0.5)] = 0.0
    return model


@pytest.mark.parametrize("block", range(4))
def test_random_networks_with_random_zeros(block):
    fewer = 0
    for seed in range(10 * block, 10 * block + 10):
        model = Random(seed)
        for layer in model.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.running_mean.normal_(generator=seeded(seed))
                layer.running_var.uniform_(0.5, 2.0, generator=seeded(seed))
        model = zero_at_random(model, seed)
        small = compressed(model, torch.randn(20, 2, 14, 14, generator=seeded(seed)), 1e-10)
        fewer += sum(p.numel() for p in small.parameters()) < sum(p.numel() for p in model.parameters())
    assert fewer >= 9  # nearly each has something to remove
