"""Networks of this project and of torch.nn alone for `benchmarks.networks`, and what a network is there."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from bnnlib import models
from chapters.shared.networks import lenet5_caffe, resnet20, vgg_like

CLASSES = 10


@dataclass(frozen=True)
class Network:
    """One row of the table: how it is built, and an example of two inputs."""

    name: str
    package: str
    build: Callable[[], nn.Module]
    example: Callable[[], Tensor]

    def installed(self) -> bool:
        """Whether its package is."""
        return self.package == "own" or find_spec(self.package) is not None


class Squeezed(nn.Module):
    """Convolutions with a squeeze-and-excite gate on the channels between them, in ten lines."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Conv2d(16, 8, 3)
        self.gate = nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 16), nn.Sigmoid())
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.first(x)).relu()
        gate = self.gate(h.mean((2, 3)))
        return self.head(self.last(h * gate[:, :, None, None]).relu().mean((2, 3)))


class Answers(nn.Module):
    """A network whose answer is a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.side = models.mlp((12, 32, 16)), nn.Linear(16, CLASSES), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.body(x).relu()
        return {"logits": self.head(h), "side": self.side(h)}


class Autoencoder(nn.Module):
    """A U-shaped network with a transposed convolution and a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.inner = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(8, 8, 2, stride=2), nn.Conv2d(11, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cat([x, self.up(self.inner(self.down(x).relu()).relu())], dim=1))


class Read(nn.Module):
    """A body and a linear layer on its last step, or on the mean of its steps."""

    def __init__(self, body: nn.Module, width: int, last: bool = True) -> None:
        super().__init__()
        self.body, self.head, self.last = body, nn.Linear(width, CLASSES), last

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x)
        h = h[0] if isinstance(h, tuple) else h
        return self.head(h[:, -1] if self.last else h.mean(1))


class Attended(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


class Pairs(nn.Module):
    """A bilinear form of two halves of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.form, self.head = nn.Bilinear(6, 6, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.form(x[:, :6], x[:, 6:]).relu())


class Translator(nn.Module):
    """PyTorch's encoder and decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x, x)


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return Read(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), 16, last=False)


def _weight_norm() -> nn.Module:
    norm = nn.utils.parametrizations.weight_norm
    return nn.Sequential(norm(nn.Linear(12, 16)), nn.ReLU(), nn.Linear(16, CLASSES))


def _flat(width: int, *layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, CLASSES))


def _grouped() -> nn.Module:
    return _flat(1152, nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 8, 3))


def _pruned() -> nn.Module:
    network = models.mlp((12, 32, CLASSES))
    prune.ln_structured(network[0], "weight", 0.5, n=2, dim=0)
    return network


def images(size: int, channels: int = 3) -> Callable[[], Tensor]:
    return lambda: torch.randn(2, channels, size, size)


def rows(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(2, *shape)


def tokens(length: int = 16, vocabulary: int = 64) -> Callable[[], Tensor]:
    return lambda: torch.randint(2, vocabulary - 1, (2, length))


def own_networks() -> list[Network]:
    """Ours, then those of torch.nn."""
    own = {
        "mlp": (lambda: models.mlp((12, 64, 32, CLASSES)), rows(12)),
        "lenet5": (lenet5_caffe, images(28, 1)),
        "resnet20": (resnet20, images(32)),
        "vgg_like(0.25)": (lambda: vgg_like(0.25), images(32)),
        "squeeze-and-excite": (Squeezed, images(16)),
        "dict of answers": (Answers, rows(12)),
        "autoencoder": (Autoencoder, images(16)),
        "weight norm": (_weight_norm, rows(12)),
        "pruned by a hook": (_pruned, rows(12)),
        "group norm": (_grouped, images(16)),
    }
    core = {
        "LSTM": (lambda: Read(nn.LSTM(8, 12, batch_first=True), 12), rows(5, 8)),
        "GRU, both ways": (lambda: Read(nn.GRU(8, 12, batch_first=True, bidirectional=True), 24), rows(5, 8)),
        "RNN": (lambda: Read(nn.RNN(8, 12, batch_first=True), 12), rows(5, 8)),
        "TransformerEncoder": (_encoder, rows(5, 16)),
        "Transformer": (Translator, rows(5, 16)),
        "MultiheadAttention": (Attended, rows(5, 16)),
        "Conv1d": (lambda: _flat(80, nn.Conv1d(4, 8, 3), nn.ReLU()), rows(4, 12)),
        "Conv3d": (lambda: _flat(1728, nn.Conv3d(1, 8, 3), nn.ReLU()), rows(1, 8, 8, 8)),
        "EmbeddingBag": (lambda: nn.Sequential(nn.EmbeddingBag(64, 16), nn.Linear(16, CLASSES)), tokens()),
        "Bilinear": (Pairs, rows(12)),
    }
    return [Network(n, "own", *v) for n, v in own.items()] + [Network(n, "torch", *v) for n, v in core.items()]
