"""The negative ELBO of a model built from Bayesian layers."""

import math
import warnings
from typing import Any, cast

import torch
from torch import Tensor, nn

from bnnlib._checks import check_choice, check_count, check_non_negative
from bnnlib.functional._autograd import transformed
from bnnlib.nn.base import BayesianLayer, StochasticLayer, bayesian_layers
from bnnlib.posteriors.kl_tokens import drawn_from_others


def _total(terms: list[Tensor]) -> Tensor:
    return cast(Tensor, sum(term.to(terms[0].device) for term in terms))


def kl_divergence(model: nn.Module) -> Tensor:
    """Exact KL divergence of the posterior to the prior: the sum over all Bayesian layers of `model`, in nats, a
    scalar.

    Divided by the number of data and added to the mean loss it makes the variational objective, equation (fnd-elbo). It
    is differentiable in closed form. A layer that appears twice in the model counts once, as its weights do. Two priors
    leave no closed form: with a scale mixture a layer gives an unbiased estimate from one draw, with the horseshoe an
    upper bound.

    Warns:
        UserWarning: as `elbo_loss` does, while gradients are on.

    Raises:
        ValueError: the model has no Bayesian layers.

    Example:
        >>> model = torch.nn.Sequential(GaussianLinear(3, 4), torch.nn.ReLU(), GaussianLinear(4, 1))
        >>> kl_divergence(model).shape, torch.equal(kl_divergence(model), kl_divergence(model))
        (torch.Size([]), True)
    """
    return _total([layer.kl_divergence() for layer in _seen_layers(model)])


def kl_gradient(model: nn.Module) -> Tensor:
    """A scalar of value 0 whose gradient is exactly that of `kl_divergence(model)`.

    For training loops: `loss = nll + kl_gradient(model) / num_data`. After a forward pass of the model it costs a few
    operations a weight, because the gradient is added in the backward pass of the weights' draw; at any other time it
    is evaluated on its own.

    Raises:
        ValueError: the model has no Bayesian layers.

    Example:
        >>> model = GaussianLinear(3, 4)
        >>> kl_gradient(model).item()
        0.0
    """
    return _total([layer.kl_gradient() for layer in _seen_layers(model)])


def _seen_layers(model: nn.Module) -> list[StochasticLayer]:
    """The Bayesian layers; with a warning where no derivative that is asked for can reach their divergence."""
    layers = bayesian_layers(model)
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return layers
    if transformed():
        stack = torch._C._functorch.get_interpreter_stack() or []
        followed = any(level.key() == torch._C._functorch.TransformType.Grad for level in stack)
        unseen = followed and not any(_followed(p) for layer in layers for p in layer.parameters())
    else:
        unseen = any(drawn_from_others(layer) for layer in layers)
    if unseen:
        warnings.warn(
            f"the divergence of {type(model).__name__} has no gradient here if you differentiate its parameters: "
            "outside of functional_call its layers have their own, not those that it was given. Give functional_call a "
            "module whose forward calls the network and returns the whole objective.",
            stacklevel=3,
        )
    return layers


def _followed(tensor: Tensor) -> bool:
    """Whether `torch.func.grad` differentiates with respect to a tensor, at any level."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        if tensor.requires_grad:
            return True
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return False


MINIBATCH_SCHEMES = ("uniform", "halving")


def minibatch_weights(num_batches: int, scheme: str = "uniform") -> Tensor:
    """Shares r_1, ..., r_M of the KL divergence that the batches of an epoch carry; they sum to 1.

    Equation (sbnn-minibatch), (4.2) and (4.3) of Saha, Liu and Liang (2024). They are evaluated through logarithms:
    2^M overflows float64 from M = 1024 on.

    Args:
        num_batches: M.
        scheme: "uniform" for 1/M, "halving" for 2^(M-i) / (2^M - 1) as Blundell et al. (2015) propose: the prior
            decides on the first batches of an epoch, the data on the others.

    Returns:
        Tensor (M,) of float64.

    Raises:
        ValueError: num_batches is not a positive integer, or the scheme is unknown.

    Example:
        >>> minibatch_weights(4)
        tensor([0.2500, 0.2500, 0.2500, 0.2500], dtype=torch.float64)
    """
    check_count("num_batches", num_batches)
    if check_choice("scheme", scheme, MINIBATCH_SCHEMES) == "uniform":
        return torch.full((num_batches,), 1.0 / num_batches, dtype=torch.float64, device="cpu")
    index = torch.arange(1, num_batches + 1, dtype=torch.float64, device="cpu")
    log_two = math.log(2.0)
    # 2^(M-i) / (2^M - 1) = 2^-i / (1 - 2^-M)
    return torch.exp(-index * log_two - math.log(-math.expm1(-num_batches * log_two)))


def elbo_loss(
    nll_mean: Tensor, model: nn.Module, num_data: int, kl_scale: float = 1.0, with_value: bool = True
) -> Tensor:
    """Negative ELBO per observation, mean NLL + kl_scale * KL / num_data, equation (svbnn-elbo).

    In a loop of one's own a layer that runs twice in a pass, such as a cell over time, has noise of its own at each
    call; with `redraw(model, seed, step)` before each step it has one draw, as under `fit` and in `predict`.

    Args:
        nll_mean: negative log-likelihood averaged over the mini-batch, a scalar.
        model: holds the Bayesian layers; called on the batch before. With `functional_call` and `torch.func.grad` the
            call of both stands in the forward of a module around it, or the divergence has no gradient.
        num_data: n, the observations of the whole training set, not of the batch.
        kl_scale: 1 for the exact objective; below 1 the posterior is tempered.
        with_value: with False the value of the KL term is left out (its gradient stays exact): cheaper, for steps
            that log nothing.

    Warns:
        UserWarning: `functional_call` has given the layers other parameters for the forward pass alone.

    Raises:
        ValueError: nll_mean is not a scalar, num_data is not a positive integer, kl_scale is negative, or there are no
            Bayesian layers.

    Example:
        >>> model, x, y = GaussianLinear(3, 1), torch.randn(8, 3), torch.randn(8, 1)
        >>> loss = elbo_loss(torch.nn.functional.mse_loss(model(x), y) / 2, model, num_data=8)
        >>> loss.backward()
        >>> model.weight_rho.grad.shape
        torch.Size([1, 3])
    """
    if not isinstance(nll_mean, Tensor) or nll_mean.numel() != 1:
        given = f"of shape {tuple(nll_mean.shape)}" if isinstance(nll_mean, Tensor) else f"a {type(nll_mean).__name__}"
        raise ValueError(
            f"nll_mean is {given}, but it must be the scalar mean over the batch: use reduction='mean' in the loss."
        )
    check_count("num_data", num_data)
    check_non_negative("kl_scale", kl_scale)
    layers = _seen_layers(model)
    divergence = _total([layer.kl_divergence() if with_value else layer.kl_gradient() for layer in layers])
    return nll_mean + divergence * (kl_scale / num_data)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Groups for an optimizer with weight decay, which leaves alone what a posterior is made of.

    The means have their prior in the KL divergence already. Decay of a `rho` or of a `logit` has no prior at all
    behind it: it draws the scale towards softplus(0) = 0.69 and the inclusion probability towards 1/2, whatever the
    data say. So Bayesian layers, noise on units and random statistics are not decayed, nor are biases and
    normalization of deterministic layers, as is usual.

    Args:
        model: with any layers.
        weight_decay: of the weights of two and more dimensions in deterministic layers.

    Returns:
        Two groups, decayed and not; a parameter that is shared is in the second if one of its owners is Bayesian.

    Raises:
        ValueError: weight_decay is negative.

    Example:
        >>> model = torch.nn.Sequential(GaussianLinear(3, 4), torch.nn.Linear(4, 1))
        >>> optimizer = torch.optim.AdamW(parameter_groups(model, 0.01), lr=1e-3)
        >>> [(group["weight_decay"], len(group["params"])) for group in optimizer.param_groups]
        [(0.01, 1), (0.0, 5)]
    """
    check_non_negative("weight_decay", weight_decay)
    layers = [module for module in model.modules() if isinstance(module, StochasticLayer)]
    spared = {id(parameter) for layer in layers for parameter in layer.parameters()}
    parameters: tuple[list[nn.Parameter], list[nn.Parameter]] = [], []
    for parameter in model.parameters():
        parameters[id(parameter) in spared or parameter.dim() < 2].append(parameter)
    decays = float(weight_decay), 0.0
    return [{"params": own, "weight_decay": d} for own, d in zip(parameters, decays, strict=True) if own]


@torch.no_grad()
def percent_active(model: nn.Module) -> float:
    """Share of active weights and biases over all Bayesian layers in percent; for spike-and-slab layers the sum of
    phi over T.

    Raises:
        ValueError: the model has no Bayesian layers.

    Example:
        >>> model = SpikeSlabLinear(3, 4, prior_inclusion_probability=0.1, initial_inclusion_probability=0.5)
        >>> round(percent_active(model), 2)
        50.0
    """
    layers = [layer for layer in bayesian_layers(model) if isinstance(layer, BayesianLayer)]
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no layer with random weights to count. Noise on units is counted by "
            "bnnlib.nn.percent_active_units(model)."
        )
    total = sum(layer.num_weights() for layer in layers)
    return 100.0 * sum(float(layer.num_active()) for layer in layers) / total
