"""The networks of `benchmarks.conversions`: of torchvision, timm and Transformers with random weights, and our own.

torchvision's file on the Python package index is built for PyTorch with CUDA, and its compiled part does not load
beside PyTorch for processors. Then two of its operators, `nms` and `qnms`, are declared here without a body, so that
the import goes on; no network of this table calls them. Networks for detection, which would, are left out.
"""

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.own_networks import CLASSES, Network, images, own_networks, rows, tokens

PACKAGES = ("own", "torch", "torchvision", "timm", "transformers")


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
    **{name: (_SMALL, tokens()) for name in (
        "bert", "roberta", "electra", "mpnet", "llama", "mistral", "qwen2", "qwen3", "gemma2", "phi", "gpt_neox",
        "olmo2", "stablelm", "starcoder2", "modernbert")},
    "squeezebert": (_SMALL | {"embedding_size": 32}, tokens()),
    "albert": (_SMALL | {"embedding_size": 16}, tokens()),
    "deberta-v2": (_SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, tokens()),
    "distilbert": ({"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "vocab_size": 64}, tokens()),
    "fnet": (_SMALL, tokens()),
    "gpt2": (_GPT2, tokens()),
    "gpt_neo": ({"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 64, "max_position_embeddings": 64,
                 "attention_types": [[["global", "local"], 1]], "intermediate_size": 64}, tokens()),
    "opt": (_SMALL | {"ffn_dim": 64, "word_embed_proj_dim": 32}, tokens()),
    "bloom": ({"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64}, tokens()),
    "mixtral": (_SMALL | {"num_local_experts": 4}, tokens()),
    "mamba": ({"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64, "state_size": 8}, tokens()),
    "xlnet": ({"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "vocab_size": 64}, tokens()),
    "bart": (_ENCODER_DECODER, tokens()),
    "vit": (_VISION, images(32)),
    "beit": (_VISION, images(32)),
    "swin": ({"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4],
              "window_size": 4}, images(32)),
    "resnet": ({"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}, images(32)),
    "convnext": ({"hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 1, 1]}, images(32)),
    "segformer": ({"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1]}, images(64)),
    "wav2vec2": (_SOUND, rows(2000)),
    "patchtst": ({"num_input_channels": 2, "context_length": 32, "patch_length": 4, "d_model": 16,
                  "num_attention_heads": 2, "ffn_dim": 32, "num_hidden_layers": 2}, rows(32, 2)),
}  # fmt: skip


def _import_torchvision() -> Any:
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:  # its operators do not exist: see above
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _library.append(library)
        return importlib.import_module("torchvision")


_library: list[torch.library.Library] = []  # they are gone with it


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
    found = own_networks()
    for name, settings in _TORCHVISION.items():
        clips = name.startswith("video.")
        size = 96 if name == "inception_v3" else 64
        example = rows(3, 4, 32, 32) if clips else images(size)
        found.append(Network(name, "torchvision", lambda n=name, s=settings: _torchvision(n, s), example))
    for name in _TIMM:
        size = (240 if name.endswith("240") else 224) if name in _TIMM_224 else 64
        found.append(Network(name, "timm", lambda n=name: _timm(n), images(size)))
    for name, (settings, example) in _TRANSFORMERS.items():
        found.append(Network(name, "transformers", lambda n=name, s=settings: _transformers(n, s), example))
    return found
