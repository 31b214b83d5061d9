"""From a deterministic network, trained or not, to a Bayesian one in one call."""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from bnnlib._checks import check_choice, matching
from bnnlib._copies import copied, replaced
from bnnlib.nn.base import NESTED, BayesianLayer, StochasticLayer
from bnnlib.nn.gaussian import GaussianConv2d, GaussianLinear
from bnnlib.nn.gaussian_spike_slab import (
    GaussianSpikeSlabConv2d,
    GaussianSpikeSlabLinear,
    ScaleMixtureConv2d,
    ScaleMixtureLinear,
)
from bnnlib.nn.horseshoe import HorseshoeLinear
from bnnlib.nn.parameters import POSTERIORS, tie, with_posterior
from bnnlib.nn.sparse_vd import SparseVDConv2d, SparseVDLinear
from bnnlib.nn.spike_slab import SpikeSlabConv2d, SpikeSlabLinear

LAYERS: dict[str, dict[type[nn.Module], type[BayesianLayer]]] = {
    "gaussian": {nn.Linear: GaussianLinear, nn.Conv2d: GaussianConv2d},
    "gaussian_spike_slab": {nn.Linear: GaussianSpikeSlabLinear, nn.Conv2d: GaussianSpikeSlabConv2d},
    "scale_mixture": {nn.Linear: ScaleMixtureLinear, nn.Conv2d: ScaleMixtureConv2d},
    "spike_slab": {nn.Linear: SpikeSlabLinear, nn.Conv2d: SpikeSlabConv2d},
    "sparse_vd": {nn.Linear: SparseVDLinear, nn.Conv2d: SparseVDConv2d},
    "horseshoe": {nn.Linear: HorseshoeLinear},
}


# kinds whose parameters all get a posterior of their own, read by read
BY_PARAMETER = (
    nn.modules.conv._ConvNd,
    nn.Bilinear,
    nn.Embedding,
    nn.EmbeddingBag,
    nn.RNNBase,
    nn.RNNCellBase,
    nn.MultiheadAttention,
    nn.modules.linear.NonDynamicallyQuantizableLinear,
)
NORMALIZATION = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
UNSUPPORTED = ("warn", "keep", "error")
# values that a message shows for the settings without a default
_EXAMPLES = {"slab_scale": 1.0, "spike_scale": 0.01, "prior_inclusion_probability": 0.1}


def to_bayesian(
    model: nn.Module,
    layer: str = "gaussian",
    *,
    where: Callable[[str, nn.Module], bool] | None = None,
    parameters: Sequence[str] | None = None,
    unsupported: str = "warn",
    **settings,
) -> nn.Module:
    """A copy of `model` whose weights have posteriors around their present values.

    Every `nn.Linear` and `nn.Conv2d` becomes the Bayesian layer of that kind. Other convolutions, embeddings, recurrent
    layers and attention keep their own forward pass and read a draw where they read a parameter (for "gaussian",
    "gaussian_spike_slab" and "spike_slab"). Normalization stays deterministic.

    The weights of the network become posterior means, and their names in the state_dict stay, so a checkpoint of the
    deterministic network still loads. Layers that are Bayesian already, and layers that are used twice, are respected.
    Frozen ones, none of whose parameters requires a gradient, stay as they are, unless `parameters` names them.
    A parameter that several modules share keeps one posterior, one draw a pass of the model, and one divergence; for
    "scale_mixture", "sparse_vd" and "horseshoe" these modules stay deterministic. A weight that a module of yours reads
    of another, as ``F.linear(h, self.encoder.weight.t())`` does, is the mean there, beside a draw in the encoder, and
    no warning comes. Let one module own the weight and read it wherever it is used, and name it in `parameters`: then
    all of its reads in a pass are one draw.
    Where layers inside an `nn.TransformerEncoder` are converted, it computes what stands at padded positions, as it
    does in training; PyTorch's fast path, in `eval()` without gradients, puts zeros there. Mask them before a mean.
    Embeddings with `sparse=True` lose it: the divergence has a gradient in every row.

    Args:
        model: any module; it is not changed.
        layer: "gaussian", "gaussian_spike_slab", "scale_mixture", "spike_slab", "sparse_vd" or "horseshoe".
        where: called as where(name, module) on each module that could be converted, or that `parameters` names; return
            False to leave it deterministic.
        parameters: names or patterns (``"encoder.*.weight"``) of the only parameters that get a posterior, of modules
            of any class, normalization and your own too; for "scale_mixture", "sparse_vd" and "horseshoe" all
            parameters of layers that they have.
        unsupported: what to do about other modules that own parameters: "warn" leaves them deterministic and names
            them in a warning (normalization apart), "keep" leaves them in silence, "error" refuses and names them all.
            What `parameters` names and cannot have a posterior is refused unless this is "keep".
        settings: keyword arguments of the new layers, such as prior_scale or initial_scale; `help` of their class
            (``help(bnnlib.nn.SpikeSlabLinear)``) says which. "gaussian_spike_slab" and "scale_mixture" need slab_scale
            and spike_scale, "spike_slab" needs prior_inclusion_probability, the others nothing. The estimators "local"
            and "flipout" are those of linear layers and 2-d convolutions; the rest draws weights.

    Raises:
        ValueError: unknown layer or setting value, nothing to convert, a pattern that fits nothing, a
            named parameter that cannot have a posterior, or something unsupported with unsupported="error".
        TypeError: a setting that these layers do not have, or one that they need is missing; the message lists them.
            Or the model is no module.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
        >>> model = to_bayesian(network, "spike_slab", prior_inclusion_probability=0.1)
        >>> type(model[0]).__name__, torch.equal(model[0].weight, network[0].weight)
        ('SpikeSlabLinear', True)
    """
    kinds = LAYERS[check_choice("layer", layer, tuple(LAYERS))]
    _check_settings(layer, settings)
    check_choice("unsupported", unsupported, UNSUPPORTED)
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {model!r}, but it must be a torch.nn.Module.")
    if lazy := [name for name, p in model.named_parameters() if nn.parameter.is_lazy(p)]:
        raise ValueError(f"{lazy[0]} of the model has no shape yet. Run one batch through the model first.")
    model = copied(model)
    chosen = _chosen(model, parameters)
    shared = shared_parameters(model)
    new: dict[nn.Module, nn.Module] = {}
    stays: dict[str, tuple[nn.Module, str]] = {}
    left: dict[str, tuple[nn.Module, str]] = {}
    for name, module in model.named_modules():
        own = {key: p for key, p in module._parameters.items() if p is not None}
        names = [key for key in own if chosen is None or (f"{name}.{key}" if name else key) in chosen]
        if not names:
            continue
        fused = type(module) in kinds and len(names) == len(own) and shared.isdisjoint(map(id, own.values()))
        if isinstance(module, BayesianLayer):
            stays[name] = module, "Bayesian already"
        elif parameters is None and not any(p.requires_grad for p in own.values()):
            stays[name] = module, "frozen, and requires_grad_(True) thaws them"
        elif (reason := _obstacle(layer, module, fused, chosen is not None)) and (
            chosen is None or where is None or where(name, module)
        ):
            left[name] = module, reason
        elif reason or (where is not None and not where(name, module)):
            stays[name] = module, "not accepted by `where`"
        elif fused:
            new[module] = kinds[type(module)].from_deterministic(module, **settings)
        else:
            rest = {key: value for key, value in settings.items() if key != "estimator"}
            new[module] = with_posterior(module, layer, names, **rest)
    _report(layer, left, unsupported if chosen is None or unsupported == "keep" else "error")
    if not new:
        raise ValueError(
            f"{type(model).__name__} has no layer to convert to layer={layer!r}: "
            f"{_named(stays | left) or 'none of its modules has parameters'}."
        )
    model = replaced(model, new)
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and any(
            isinstance(m, BayesianLayer) for m in module.layers.modules()
        ):
            module.__dict__.setdefault(NESTED, module.use_nested_tensor)  # for `to_deterministic`
            module.use_nested_tensor = False  # what only the fused layers take
    tie(model)
    return model


def _check_settings(layer: str, settings: dict[str, object]) -> None:
    kind = next(iter(LAYERS[layer].values()))  # linear and convolutional layers have the same
    own = kind._arguments()
    required = [p for p in own if p.default is p.empty]
    unknown = sorted(set(settings) - {p.name for p in own})
    missing = [p.name for p in required if p.name not in settings]
    if not unknown and not missing:
        return
    wrong = f"does not know {' and '.join(unknown)}" if unknown else f"needs {' and '.join(missing)}"
    known = ", ".join(f"{p.name} (required)" if p in required else f"{p.name}={p.default!r}" for p in own)
    example = "".join(f", {p.name}={_EXAMPLES.get(p.name, p.default)!r}" for p in required or own[:1])
    raise TypeError(
        f"layer={layer!r} {wrong}. Beside the arguments of to_bayesian itself it takes {known}: "
        f"to_bayesian(model, {layer!r}{example})."
    )


def _by_parameter(module: nn.Module) -> bool:
    # the linear layer of Hugging Face's GPT-2 is known by its name, since that library is not needed here
    return isinstance(module, BY_PARAMETER) or type(module) is nn.Linear or type(module).__name__ == "Conv1D"


def _obstacle(layer: str, module: nn.Module, fused: bool, named: bool) -> str:
    """Why a module cannot be converted, and what to do; nothing where it can."""
    keys, kinds = module._parameters, LAYERS[layer]
    # pruning and the older norms keep what they compute as an attribute beside its parts
    parts = [key for key in keys if key.endswith(("_orig", "_v", "_g"))]
    if module._forward_pre_hooks and any(isinstance(vars(module).get(key.rpartition("_")[0]), Tensor) for key in parts):
        return (
            "a hook computes its weight, which torch.nn.utils.prune.remove, remove_weight_norm or remove_spectral_norm "
            "makes a parameter again"
        )
    if type(module) in kinds and keys.get("weight") is None:
        return "its weight is no parameter"
    if any(parameter is not None and parameter.is_complex() for parameter in keys.values()):
        return "its parameters are complex"
    if fused or (layer in POSTERIORS and (named or _by_parameter(module))):
        return ""
    if layer in POSTERIORS:
        return "name theirs in parameters=[...], with all others that shall have posteriors"
    if is_parametrized(module) or isinstance(module, ParametrizationList):
        return "torch.nn.utils.parametrize.remove_parametrizations makes it a plain layer"
    plain = " and ".join(f"nn.{kind.__name__}" for kind in kinds)
    return (
        f"it replaces plain {plain} modules with all of their parameters, none of which another module has too, "
        f"and {', '.join(map(repr, POSTERIORS))} take any parameter that parameters=[...] names"
    )


def _chosen(model: nn.Module, patterns: Sequence[str] | None) -> set[str] | None:
    if patterns is None:
        return None
    named = list(model.named_parameters(remove_duplicate=False))
    fitting = set(matching("parameters", patterns, [name for name, _ in named]))
    ids = {id(p) for name, p in named if name in fitting}
    return {name for name, p in named if id(p) in ids}  # what is shared has one posterior, under all of its names


def shared_parameters(model: nn.Module) -> set[int]:
    """Parameters that more than one module owns, by id."""
    owners = Counter(id(p) for module in model.modules() for p in module._parameters.values() if p is not None)
    return {key for key, count in owners.items() if count > 1}


def _named(modules: Mapping[str, tuple[nn.Module, str]]) -> str:
    """Modules with what is to be said of them, those of one reason together."""
    groups: dict[str, list[str]] = {}
    for name, (module, reason) in modules.items():
        groups.setdefault(reason, []).append(f"{name or 'the model itself'} ({type(module).__name__})")
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in groups.items())


def _report(layer: str, left: dict[str, tuple[nn.Module, str]], unsupported: str) -> None:
    if unsupported == "warn":
        left = {name: pair for name, pair in left.items() if not isinstance(pair[0], NORMALIZATION)}
    if not left or unsupported == "keep":
        return
    words = f"layer={layer!r} has no Bayesian form of {_named(left)}"
    if unsupported == "error":
        raise ValueError(f"{words}. With unsupported='keep' they stay as they are.")
    count = sum(p.numel() for module, _ in left.values() for p in module.parameters(recurse=False))
    warnings.warn(
        f"{words}. Their {count:,} parameters stay deterministic; unsupported='keep' leaves them so in silence.",
        stacklevel=3,
    )


def bayesian_share(model: nn.Module) -> float:
    """Share of a model's parameters that are means of a posterior, in percent; spreads do not count.

    Example:
        >>> round(bayesian_share(torch.nn.Sequential(GaussianLinear(3, 4), torch.nn.Linear(4, 1))), 1)
        76.2
    """
    means: dict[int, nn.Parameter | None] = {}
    spreads = set()
    for module in model.modules():
        if isinstance(module, StochasticLayer):
            keys = set(getattr(module, "_posterior_keys", module._parameters))
            spreads |= {id(p) for key, p in module._parameters.items() if key in keys}
        if isinstance(module, BayesianLayer):
            random = [name for name in module._means() if name in module._parameters]
            means |= {id(module._parameters[name]): module._parameters[name] for name in random}
    total = sum(p.numel() for p in model.parameters() if id(p) not in spreads)
    return 100.0 * sum(p.numel() for p in means.values() if p is not None) / max(total, 1)
