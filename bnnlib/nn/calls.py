"""Layers with a posterior whose weights a pass reads without calling them, and so without a draw."""

import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn

from bnnlib.nn.parameters import ParameterPosterior


class UncalledWarning(UserWarning):
    """A pass of a model has not called some of its Bayesian layers.

    A layer that is called, and whose weights are read besides, is not named; `to_bayesian` says how to tie weights.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("error", UncalledWarning)  # where it must not pass unseen
    """


@contextmanager
def noticing_uncalled(model: nn.Module, layers: Iterable[nn.Module]) -> Iterator[None]:
    """Context of a pass, after which a warning names those of the layers that it has not called.

    Nothing is said of a compiled model, whose graph does without calls.
    """
    if any(module._compiled_call_impl is not None or hasattr(module, "_orig_mod") for module in model.modules()):
        yield
        return
    # an attention module draws for its projection, and a shared parameter is drawn with the pass of the model
    served: set[nn.Module] = set()
    for module in model.modules():
        if isinstance(module, ParameterPosterior):
            served.update(module.children())
        for owner, _ in module.__dict__.get("_owners", {}).values():
            served |= {module, owner}
    waiting = {layer for layer in layers if layer not in served and any(True for _ in layer.parameters(recurse=False))}
    own = threading.get_ident()

    def called(layer: nn.Module, inputs: tuple) -> None:
        if threading.get_ident() == own:  # not by the pass of another thread, which runs the same hooks
            waiting.discard(layer)

    hooks = [layer.register_forward_pre_hook(called) for layer in tuple(waiting)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    if waiting:
        names = [name or "the model" for name, module in model.named_modules() if module in waiting]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        warnings.warn(
            f"{type(model).__name__} has not called {shown}: where a pass reads the weights of a layer without calling "
            "it, as F.linear(x, layer.weight) does, they are its means, and nothing of their posterior is seen. Call "
            "the layer, or leave it deterministic: to_bayesian(model, where=...).",
            UncalledWarning,
            stacklevel=7,
        )
