"""The tokens of a layer's last draw: how the gradient of its KL divergence comes out of the weights' backward pass.

A draw of `bnnlib.functional` returns a token beside each weight. `kl_gradient(model)` collects the tokens of the last
forward pass. A token that is not fresh any more (its pass was already differentiated, or the parameters or the
settings have changed) is dropped and the closed form is evaluated on its own: the result is the same.
"""

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from bnnlib.functional._autograd import transformed


class Spent(list[bool]):
    """What a backward pass adds to; while a weak reference to it is alive, the graph is."""


class _State:
    """What decides whether the tokens of one forward pass of a layer are still fresh."""

    def __init__(self, tokens: list[Tensor], parameters: Sequence[Tensor]) -> None:
        self.tokens, self.parameters, self.versions = tokens, parameters, [p._version for p in parameters]
        self.ids = {id(p) for p in parameters}
        self.spent = Spent()  # the graph holds it alone, and so never its own tokens
        for node in {token.grad_fn for token in tokens if token.grad_fn is not None}:
            node.register_prehook(lambda *_, spent=self.spent: spent.append(True))

    def fresh(self, layer: nn.Module) -> bool:
        same = self.ids <= {id(p) for p in layer._parameters.values()}  # none has been replaced since
        return same and not self.spent and self.versions == [p._version for p in self.parameters]


# outside the modules, so that copies, pickles and state_dicts never see a token
class _Kept(threading.local):
    def __init__(self) -> None:  # in each thread, whose passes are not those of the others
        self.states: weakref.WeakKeyDictionary[nn.Module, _State] = weakref.WeakKeyDictionary()
        self.strays: weakref.WeakKeyDictionary[nn.Module, weakref.ref[Spent]] = weakref.WeakKeyDictionary()


_KEPT = _Kept()


def remember(layer: nn.Module, tokens: list[Tensor | None], parameters: Sequence[Tensor]) -> None:
    """Keep the tokens of a draw from `parameters` in place of those of the layer's draw before."""
    forget(layer)
    differentiable = [token for token in tokens if token is not None and token.requires_grad]
    if tokens and len(differentiable) == len(tokens):
        _KEPT.states[layer] = _State(differentiable, parameters)


def remembered(layer: nn.Module, function: Callable[..., tuple], draws: list[tuple], **settings) -> list[Tensor]:
    """The weights function(*arguments, **settings)[0] of some draws, remembering their tokens [1] for the layer."""
    results = [function(*arguments, **settings) for arguments in draws]
    if not transformed():
        parameters = [p for p in layer._parameters.values() if p is not None]
        remember(layer, [token for _, token in results], parameters)
    return [weight for weight, _ in results]


def forget(layer: nn.Module) -> None:
    """Drop the tokens of the layer's last draw."""
    _KEPT.states.pop(layer, None)
    _KEPT.strays.pop(layer, None)


def drawn_from_others(layer: nn.Module) -> bool:
    """Whether the layer's last draw, not yet differentiated, was of tensors that `functional_call` gave in place of its
    parameters, and has taken back; False once nobody has its outputs any more, such as those of an evaluation."""
    state = _KEPT.states.get(layer)
    if state and not all(isinstance(p, nn.Parameter) for p in state.parameters):
        if not state.ids <= {id(p) for p in layer._parameters.values()}:
            # its tokens are of no use, and would hold the graph
            _KEPT.strays[layer] = weakref.ref(_KEPT.states.pop(layer).spent)
    del state
    spent = stray() if (stray := _KEPT.strays.get(layer)) else None
    return spent is not None and not spent


def take_token(layer: nn.Module) -> Tensor | None:
    """The token of the layer's last draw, if it is fresh; it can be taken once."""
    if transformed():
        return None
    state = _KEPT.states.pop(layer, None)
    return reduce(torch.add, state.tokens) if state is not None and state.fresh(layer) else None
