"""Pruning by rank: one score a weight, and the lowest share of them goes (Saha, Liu and Liang, 2024, section 4)."""

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor, nn

from bnnlib._copies import copied, replaced
from bnnlib.nn.base import NESTED, BayesianLayer, Parameters, check_choice, give_hooks
from bnnlib.nn.parameters import ParameterPosterior

_NEEDS = {
    "inclusion": ("inclusion_log_odds", "an inclusion probability p*", "gaussian_spike_slab"),
    "signal_to_noise": ("scale", "a posterior scale", "gaussian"),
}


def rank_mask(score: Tensor, sparsity: float, batch_dims: int = 0) -> Tensor:
    """Boolean mask, False for the `sparsity` share of lowest scores.

    Args:
        score: any shape; infinities are in order.
        sparsity: share of entries to remove, in [0, 1]; the number removed is rounded to the nearest integer.
        batch_dims: leading dimensions that are ranked independently (1 for a stack of replicates).

    Returns:
        Tensor of bool in score's shape. Ties are broken by position, so exactly the asked number is removed.

    Raises:
        ValueError: sparsity is outside [0, 1], or score is empty or has NaN.

    Example:
        >>> rank_mask(torch.tensor([0.9, 0.1, 0.8, 0.2]), sparsity=0.5)
        tensor([ True, False,  True, False])
    """
    _check_score("score", score)
    return _lowest_out(score, sparsity, batch_dims)


def step_mask(score: Tensor, sparsity: float, batch_dims: int = 0) -> Tensor:
    """`rank_mask` for a step of training: on a GPU NaN ranks highest, where looking for it would wait."""
    return rank_mask(score, sparsity, batch_dims) if score.is_cpu else _lowest_out(score, sparsity, batch_dims)


def _lowest_out(score: Tensor, sparsity: float, batch_dims: int) -> Tensor:
    _check_share(sparsity)
    flat = score.detach().reshape(*score.shape[:batch_dims], -1)
    remove = round(sparsity * flat.shape[-1])
    if remove == 0:
        return torch.ones_like(score, dtype=torch.bool)
    # selection, not sorting: several times faster for the 15 million weights of a VGG network
    cut = flat.kthvalue(remove, dim=-1, keepdim=True).values
    low, tied = flat < cut, flat == cut
    first = tied & (tied.cumsum(-1) <= remove - low.sum(-1, keepdim=True))
    return ~(low | first).reshape(score.shape)


def _check_share(sparsity: float) -> None:
    if not 0.0 <= sparsity <= 1.0:
        raise ValueError(
            f"sparsity is {sparsity:g}, but it is the share of weights to remove, between 0 and 1: for a drop rate of "
            "95 % pass 0.95."
        )


def weight_scores(model: nn.Module, by: str = "inclusion") -> dict[str, Tensor]:
    """What ranks each weight and bias of linear and convolutional layers: the lower, the sooner it is pruned.

    "inclusion" is logit p*, equation (sbnn-log-odds), which orders as p* does but tells apart what p* rounds to 1 (of
    the Dirac spike and slab, logit phi); "signal_to_noise" is |mean| / scale, equation (sbnn-snr), as Blundell et al.
    (2015) prune; "magnitude" is |mean|, or |weight| of a deterministic layer. Normalization is never scored.

    Args:
        model: with Bayesian layers; for "magnitude" it may be deterministic. The first two score Bayesian layers alone:
            what is deterministic in the model stays.
        by: "inclusion", "signal_to_noise" or "magnitude".

    Returns:
        Parameter name -> score in the parameter's shape; a shared layer appears once, under its first name.

    Raises:
        ValueError: `by` is unknown, no layer can be scored, a Bayesian layer has no p* or scale, a layer is empty, or
            scores are NaN.

    Example:
        >>> from bnnlib.nn import SpikeSlabLinear
        >>> scores = weight_scores(SpikeSlabLinear(3, 2, prior_inclusion_probability=0.1))
        >>> {name: score.shape for name, score in scores.items()}
        {'weight': torch.Size([2, 3]), 'bias': torch.Size([2])}
    """
    check_choice("by", by, (*_NEEDS, "magnitude"))
    scores: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, ParameterPosterior):
            raise ValueError(
                f"{name or 'the model'} is a {type(module).__name__}, and only linear layers and 2-d convolutions can "
                "be ranked. Leave it deterministic with to_bayesian(..., where=...)."
            )
        if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
            if by != "magnitude" and not isinstance(module, BayesianLayer):
                continue
            for kind, score in zip(("weight", "bias"), _layer_scores(name, module, by), strict=True):
                if score is not None:
                    key = f"{name}.{kind}" if name else kind
                    _check_score(key, score)
                    scores[key] = score
    if not scores and by == "magnitude":
        raise ValueError(f"{type(model).__name__} has no linear or convolutional layer, so there is nothing to rank.")
    if not scores:
        _, needs, kind = _NEEDS[by]
        raise ValueError(
            f"{type(model).__name__} has no weights to rank: by={by!r} needs Bayesian layers with {needs}. Convert it "
            f"with bnnlib.nn.to_bayesian(model, {kind!r}, ...) and train it, or rank by='magnitude'."
        )
    return scores


@torch.no_grad()
def _layer_scores(name: str, layer: nn.Linear | nn.modules.conv._ConvNd, by: str) -> tuple[Tensor, Tensor | None]:
    if by == "magnitude":
        weight, bias = layer.mean() if isinstance(layer, BayesianLayer) else (layer.weight, layer.bias)
        return weight.abs(), None if bias is None else bias.abs()
    if by == "inclusion" and hasattr(layer, "weight_logit"):  # the Dirac spike and slab, where phi is a parameter
        return cast(Tensor, layer.weight_logit), cast("Tensor | None", layer.bias_logit)
    method, what, _ = _NEEDS[by]
    if not hasattr(layer, method):
        spike = " (weight_rho is the scale of a weight that is in, and says nothing of whether it is: by='inclusion')"
        raise ValueError(
            f"{name or 'the model'} is a {type(layer).__name__}, which has no {what.split(' ', 1)[1]}"
            f"{spike if hasattr(layer, 'weight_logit') else ''}. Rank by='magnitude', or use GaussianSpikeSlabLinear."
        )
    scores: Parameters = getattr(layer, method)()
    if by == "inclusion":
        return scores
    scale, bias_scale = scores
    weight, bias = layer.weight, layer.bias
    return weight.abs() / scale, None if bias is None or bias_scale is None else bias.abs() / bias_scale


def _check_score(name: str, score: Tensor) -> None:
    if score.numel() == 0:
        raise ValueError(f"{name} is empty, of shape {tuple(score.shape)}, and cannot be ranked. Remove that layer.")
    if bad := int(score.isnan().sum()):
        raise ValueError(
            f"{bad} of {score.numel()} values of {name} are NaN, so they have no rank. If training has diverged, go "
            "back to an earlier state, or train with a smaller learning rate."
        )


def global_masks(scores: Mapping[str, Tensor], sparsity: float) -> dict[str, Tensor]:
    """Masks that keep the best weights of the whole network, in one ranking over all layers, equation (sbnn-sparsity).

    A layer may lose more than the share, even all of its weights, where others matter more.

    Args:
        scores: name -> score, from `weight_scores`.
        sparsity: share of all scored weights to remove, in [0, 1); the number is rounded to the nearest integer.

    Returns:
        Name -> mask of bool in the score's shape, False for what is pruned; exactly the asked number over all.

    Raises:
        ValueError: there are no scores, one is empty or NaN, the share is outside [0, 1), or it rounds to all weights.

    Example:
        >>> global_masks({"a": torch.tensor([0.9, 0.8]), "b": torch.tensor([0.1, 0.7])}, sparsity=0.25)
        {'a': tensor([True, True]), 'b': tensor([False,  True])}
    """
    if not scores:
        raise ValueError("scores is empty, so there is nothing to rank. Take those of weight_scores(model).")
    for name, score in scores.items():
        _check_score(name, score)
    _check_share(sparsity)
    total = sum(score.numel() for score in scores.values())
    if round(sparsity * total) == total:
        raise ValueError(
            f"sparsity is {sparsity:g}, a drop rate that removes all {total} weights: nothing would be left to carry "
            f"the signal. Give less than {1.0 - 0.5 / total:.10g}, which keeps at least one."
        )
    return jointly(rank_mask, scores, sparsity)


def jointly(mask: Callable[..., Tensor], scores: Mapping[str, Tensor], sparsity: float) -> dict[str, Tensor]:
    """Masks of all scores in one ranking by `rank_mask` or `step_mask`, each on the device of its score."""
    device = next(iter(scores.values())).device
    flat = mask(torch.cat([score.flatten().to(device) for score in scores.values()]), sparsity)
    parts = flat.split([score.numel() for score in scores.values()])
    return {n: part.view_as(s).to(s.device) for (n, s), part in zip(scores.items(), parts, strict=True)}


@torch.no_grad()
def to_deterministic(model: nn.Module, masks: Mapping[str, Tensor] | None = None) -> nn.Module:
    """A copy with plain modules in place of the Bayesian ones, `nn.Linear` or `nn.LSTM`, holding the posterior means.

    It computes what `model` does under `mean_weights`; normalization, hooks and all else are copied as they are.
    Deterministic layers can be masked too.

    Args:
        model: any module, which is not changed.
        masks: parameter name -> mask of bool, as from `global_masks`; where it is False the copy has exactly 0.

    Raises:
        ValueError: a mask is not of bool, names no weight or bias of a linear or convolutional layer of the model, or
            has another shape, or is of a weight that a hook or a parametrization computes.
        TypeError: a layer of your own has another forward pass than the class of bnnlib that it extends.

    Example:
        >>> from bnnlib.nn import GaussianLinear
        >>> to_deterministic(GaussianLinear(3, 2))
        Linear(in_features=3, out_features=2, bias=True)
    """
    model = copied(model)
    left = dict(masks or {})
    new: dict[nn.Module, nn.Module] = {}
    shared: dict[int, nn.Parameter] = {}
    for name, module in model.named_modules():
        if isinstance(module, ParameterPosterior):
            new[module] = module.plain(shared)
        elif isinstance(module, BayesianLayer):
            new[module] = _plain(name, module)
        if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
            plain = new.get(module, module)
            for kind in ("weight", "bias"):
                mask = left.pop(f"{name}.{kind}" if name else kind, None)
                if mask is not None:
                    _mask_parameter(f"{name}.{kind}", getattr(plain, kind), mask)
    if left:
        raise ValueError(
            f"masks has {', '.join(left)}, but {type(model).__name__} has no linear or convolutional layer with a "
            "parameter of that name. Take the masks from weight_scores of this model."
        )
    model = replaced(model, new)
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and NESTED in module.__dict__:
            module.use_nested_tensor = module.__dict__.pop(NESTED)
    return model


def _plain(name: str, layer: BayesianLayer) -> nn.Module:
    if type(layer).forward is not BayesianLayer.forward:
        base = "Linear" if isinstance(layer, nn.Linear) else "Conv2d"
        raise TypeError(
            f"{name or 'the model'} is a {type(layer).__name__} with a forward pass of its own, which nn.{base} does "
            "not have. Let a module around the layer do what that adds, and the layer its own part alone."
        )
    weight, bias = layer.mean()
    options = {"bias": bias is not None, "device": weight.device, "dtype": weight.dtype}
    if isinstance(layer, nn.Linear):
        plain = nn.utils.skip_init(nn.Linear, layer.in_features, layer.out_features, **options)
    else:
        names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")
        geometry = {name: getattr(layer, name) for name in (*names, "padding_mode")}
        plain = nn.utils.skip_init(nn.Conv2d, **geometry, **options)
    plain.weight = nn.Parameter(weight.detach().clone())
    plain.bias = None if bias is None else nn.Parameter(bias.detach().clone())
    give_hooks(layer, plain)
    return plain.train(layer.training)


def _mask_parameter(name: str, parameter: Tensor | None, mask: Tensor) -> None:
    if parameter is None:
        raise ValueError(f"masks has {name}, but that layer has no bias.")
    if parameter.shape != mask.shape or mask.dtype != torch.bool:
        raise ValueError(
            f"the mask of {name} is {mask.dtype} of shape {tuple(mask.shape)}, but it must be torch.bool of shape "
            f"{tuple(parameter.shape)}, True where the weight stays."
        )
    if not isinstance(parameter, nn.Parameter):
        raise ValueError(
            f"{name} is computed from others, which would bring back what is pruned. Make it permanent first: "
            "torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight'), or torch.nn.utils.prune.remove."
        )
    parameter.masked_fill_(~mask.to(parameter.device), 0.0)


def prune_ranked(model: nn.Module, sparsity: float, by: str = "inclusion") -> nn.Module:
    """A deterministic copy at the posterior means without the lowest-ranked weights of the whole network.

    Training it brings the zeros back; `Masks` of the copy hold them.

    Args:
        model: as for `weight_scores`; it is not changed.
        sparsity: share of the ranked weights to set to 0, in [0, 1).
        by: "inclusion", "signal_to_noise" or "magnitude".

    Raises:
        ValueError: the share is outside [0, 1) or leaves nothing, the model cannot be ranked, or a hook or a
            parametrization computes a ranked weight.

    Example:
        >>> from bnnlib.nn import SpikeSlabLinear
        >>> pruned = prune_ranked(SpikeSlabLinear(10, 4, prior_inclusion_probability=0.1), 0.75)
        >>> type(pruned).__name__, round(float((pruned.weight == 0).float().mean()), 3)
        ('Linear', 0.825)
    """
    return to_deterministic(model, global_masks(weight_scores(model, by), sparsity))
