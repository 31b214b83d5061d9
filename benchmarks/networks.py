"""The networks of `benchmarks.conversions`: of torchvision, timm and Transformers with random weights, and our own.

torchvision's file on the Python package index is built for PyTorch with CUDA, and its compiled part does not load
beside PyTorch for processors. Then two of its operators, `nms` and `qnms`, are declared here without a body, so that
the import goes on; no network of this table calls them. Networks for detection, which would, are left out.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from bnnlib import models
from chapters.shared.networks import lenet5_caffe, resnet20, vgg_like

PACKAGES = ("own", "torch", "torchvision", "timm", "transformers")
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


def _pruned() -> nn.Module:
    network = models.mlp((12, 32, CLASSES))
    prune.ln_structured(network[0], "weight", 0.5, n=2, dim=0)
    return network


def _images(size: int, channels: int = 3) -> Callable[[], Tensor]:
    return lambda: torch.randn(2, channels, size, size)


def _rows(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(2, *shape)


def _tokens(length: int = 16, vocabulary: int = 64) -> Callable[[], Tensor]:
    return lambda: torch.randint(2, vocabulary - 1, (2, length))


def _own() -> list[Network]:
    conv1d = lambda: nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, CLASSES))  # noqa: E731
    conv3d = lambda: nn.Sequential(nn.Conv3d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1728, CLASSES))  # noqa: E731
    grouped = lambda: nn.Sequential(  # noqa: E731
        nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.Flatten(), nn.Linear(1152, CLASSES)
    )
    bag = lambda: nn.Sequential(nn.EmbeddingBag(64, 16), nn.Linear(16, CLASSES))  # noqa: E731
    own = {
        "mlp": (lambda: models.mlp((12, 64, 32, CLASSES)), _rows(12)),
        "lenet5": (lenet5_caffe, _images(28, 1)),
        "resnet20": (resnet20, _images(32)),
        "vgg_like(0.25)": (lambda: vgg_like(0.25), _images(32)),
        "squeeze-and-excite": (Squeezed, _images(16)),
        "dict of answers": (Answers, _rows(12)),
        "autoencoder": (Autoencoder, _images(16)),
        "weight norm": (_weight_norm, _rows(12)),
        "pruned by a hook": (_pruned, _rows(12)),
        "group norm": (grouped, _images(16)),
    }
    core = {
        "LSTM": (lambda: Read(nn.LSTM(8, 12, batch_first=True), 12), _rows(5, 8)),
        "GRU, both ways": (lambda: Read(nn.GRU(8, 12, batch_first=True, bidirectional=True), 24), _rows(5, 8)),
        "RNN": (lambda: Read(nn.RNN(8, 12, batch_first=True), 12), _rows(5, 8)),
        "TransformerEncoder": (_encoder, _rows(5, 16)),
        "Transformer": (Translator, _rows(5, 16)),
        "MultiheadAttention": (Attended, _rows(5, 16)),
        "Conv1d": (conv1d, _rows(4, 12)),
        "Conv3d": (conv3d, _rows(1, 8, 8, 8)),
        "EmbeddingBag": (bag, _tokens()),
        "Bilinear": (Pairs, _rows(12)),
    }
    return [Network(n, "own", *v) for n, v in own.items()] + [Network(n, "torch", *v) for n, v in core.items()]


_TORCHVISION: dict[str, dict[str, Any]] = {
    "resnet18": {}, "resnet50": {}, "resnext50_32x4d": {}, "densenet121": {}, "mobilenet_v2": {},
    "mobilenet_v3_small": {}, "mobilenet_v3_large": {}, "efficientnet_b0": {}, "efficientnet_v2_s": {},
    "shufflenet_v2_x0_5": {}, "mnasnet0_5": {}, "regnet_x_400mf": {}, "regnet_y_400mf": {}, "squeezenet1_1": {},
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"aux_logits": False, "init_weights": False}, "alexnet": {}, "convnext_tiny": {}, "swin_t": {},
    "swin_v2_t": {}, "VisionTransformer": {"image_size": 64, "patch_size": 16, "num_layers": 2, "num_heads": 4,
                                           "hidden_dim": 64, "mlp_dim": 128},
    "segmentation.lraspp_mobilenet_v3_large": {"weights_backbone": None},
    "segmentation.fcn_resnet50": {"weights_backbone": None}, "video.r3d_18": {}, "video.r2plus1d_18": {},
}  # fmt: skip

_TIMM = """resnet10t resnet26d seresnet18 ecaresnet26t skresnet18 resnetv2_18 efficientnet_lite0 mobilenetv3_small_050
    mobilenetv4_conv_small_035 ghostnet_050 hardcorenas_a mixnet_s tinynet_e lcnet_035 rexnet_100 regnety_002 dpn48b
    dla46_c hrnet_w18_small ese_vovnet19b_slim_dw cspresnet50 selecsls42b repvgg_a0 mobileone_s0 nfnet_l0
    convnext_atto convnextv2_atto edgenext_xx_small mobilevit_xxs fastvit_t8 efficientformerv2_s0 efficientvit_b0
    repghostnet_050 repvit_m0_9 starnet_s1 inception_next_atto poolformer_s12 mixer_s32_224 resmlp_12_224
    vit_tiny_patch16_224 cait_xxs24_224 xcit_nano_12_p16_224 levit_128s pit_ti_224 pvt_v2_b0 twins_svt_small
    coat_lite_tiny crossvit_9_240 tnt_s_patch16_224 convit_tiny eva02_tiny_patch14_224 nest_tiny coatnet_pico_rw_224
    gcvit_xxtiny davit_tiny mambaout_femto""".split()
# those whose size is fixed by their position embedding or windows
_TIMM_224 = {"mixer_s32_224", "resmlp_12_224", "vit_tiny_patch16_224", "cait_xxs24_224", "xcit_nano_12_p16_224",
             "levit_128s", "pit_ti_224", "coat_lite_tiny", "tnt_s_patch16_224", "convit_tiny", "nest_tiny",
             "coatnet_pico_rw_224", "gcvit_xxtiny", "efficientformerv2_s0", "twins_svt_small", "pvt_v2_b0",
             "davit_tiny", "eva02_tiny_patch14_224", "crossvit_9_240"}  # fmt: skip

_SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 64,
    "max_position_embeddings": 64, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 1, "bos_token_id": 0,
    "eos_token_id": 2,
}  # fmt: skip
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 64}
_VISION = {"image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
           "intermediate_size": 64}  # fmt: skip
_SOUND = _SMALL | {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
                   "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}  # fmt: skip
_ENCODER_DECODER = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
                    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 64,
                    "max_position_embeddings": 64, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
                    "decoder_start_token_id": 2}  # fmt: skip
_TRANSFORMERS: dict[str, tuple[dict[str, Any], Callable[[], Tensor]]] = {
    **{name: (_SMALL, _tokens()) for name in (
        "bert", "roberta", "electra", "mpnet", "llama", "mistral", "qwen2", "qwen3", "gemma2", "phi", "gpt_neox",
        "olmo2", "stablelm", "starcoder2", "modernbert")},
    "squeezebert": (_SMALL | {"embedding_size": 32}, _tokens()),
    "albert": (_SMALL | {"embedding_size": 16}, _tokens()),
    "deberta-v2": (_SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, _tokens()),
    "distilbert": ({"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 64}, _tokens()),
    "fnet": (_SMALL, _tokens()),
    "gpt2": (_GPT2, _tokens()),
    "gpt_neo": ({"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 64, "max_position_embeddings": 64,
                 "attention_types": [[["global", "local"], 1]], "intermediate_size": 64}, _tokens()),
    "opt": (_SMALL | {"ffn_dim": 64, "word_embed_proj_dim": 32}, _tokens()),
    "bloom": ({"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64}, _tokens()),
    "mixtral": (_SMALL | {"num_local_experts": 4}, _tokens()),
    "mamba": ({"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64, "state_size": 8}, _tokens()),
    "xlnet": ({"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "vocab_size": 64}, _tokens()),
    "bart": (_ENCODER_DECODER, _tokens()),
    "vit": (_VISION, _images(32)),
    "beit": (_VISION, _images(32)),
    "swin": ({"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4],
              "window_size": 4}, _images(32)),
    "resnet": ({"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}, _images(32)),
    "convnext": ({"hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 1, 1]}, _images(32)),
    "segformer": ({"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1]}, _images(64)),
    "wav2vec2": (_SOUND, _rows(2000)),
    "patchtst": ({"num_input_channels": 2, "context_length": 32, "patch_length": 4, "d_model": 16,
                  "num_attention_heads": 2, "ffn_dim": 32, "num_hidden_layers": 2}, _rows(32, 2)),
}  # fmt: skip


def _import_torchvision() -> Any:
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:  # its operators do not exist: see above
        _declare()
        return importlib.import_module("torchvision")


_library: list[torch.library.Library] = []  # they are gone with it


def _declare() -> None:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _library.append(library)


def _torchvision(name: str, settings: dict[str, Any]) -> nn.Module:
    found = _import_torchvision().models
    for part in name.split("."):
        found = getattr(found, part)
    own = settings if name == "VisionTransformer" else {"weights": None} | settings
    return found(num_classes=CLASSES, **own)


def _timm(name: str) -> nn.Module:
    _import_torchvision()  # which timm imports
    import timm

    return timm.create_model(name, num_classes=CLASSES)


def _transformers(name: str, settings: dict[str, Any]) -> nn.Module:
    if find_spec("torchvision"):
        _import_torchvision()  # which the vision models import
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(name, use_cache=False, **settings)
    return AutoModel.from_config(config)


def networks() -> list[Network]:
    """All of them, in the table's order."""
    found = _own()
    for name, settings in _TORCHVISION.items():
        clips = name.startswith("video.")
        size = 96 if name == "inception_v3" else 64
        example = _rows(3, 4, 32, 32) if clips else _images(size)
        found.append(Network(name, "torchvision", lambda n=name, s=settings: _torchvision(n, s), example))
    for name in _TIMM:
        size = (240 if name.endswith("240") else 224) if name in _TIMM_224 else 64
        found.append(Network(name, "timm", lambda n=name: _timm(n), _images(size)))
    for name, (settings, example) in _TRANSFORMERS.items():
        found.append(Network(name, "transformers", lambda n=name, s=settings: _transformers(n, s), example))
    return found
