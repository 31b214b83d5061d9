"""Adam that takes the gradients of Bayesian weights as their draws leave them, and steps in one pass over each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bnnlib import _native
from bnnlib._noise import dense
from bnnlib.posteriors.deferred import Order, Slot

_UNUSUAL = "amsgrad", "maximize", "differentiable"


class Adam(torch.optim.Adam):
    """`torch.optim.Adam` for less time and memory a step on a processor, where weights are drawn by key.

    The numbers are those of PyTorch's Adam to rounding, and so are parameters, groups, schedulers and `state_dict`: one
    may be loaded into the other. What is saved is the gradient of every mean, standard deviation and inclusion
    probability: a layer's draw keeps what its gradients are made of, and the step makes them where it uses them. That
    is done for float32 on a CPU with the compiled kernels, for noise by key, as `bnnlib.train.fit` or `bnnlib.redraw`
    fixes it; anything else is left to PyTorch.

    `.grad` of such a parameter is computed when it is looked at, between `backward` and `step`; so clipping and
    everything else works as usual, and costs what it saves. The step uses it up: call `zero_grad` before the next
    backward pass. Settings that PyTorch's Adam seldom has (amsgrad, maximize, decoupled decay), hooks on the parameters
    and torch.distributed have gradients written too.

    Args:
        params: parameters, or groups, as for every optimizer of PyTorch.
        lr, betas, eps, weight_decay, amsgrad: as for `torch.optim.Adam`.
        fused: PyTorch's fused kernels for all other parameters, which is the fastest.
        others: the remaining settings of `torch.optim.Adam`.

    Raises:
        RuntimeError: a second step, or a backward pass, finds a gradient that a step has used up.

    Example:
        >>> from bnnlib import nn, redraw
        >>> model, x, y = nn.GaussianLinear(3, 1), torch.randn(16, 3), torch.randn(16, 1)
        >>> optimizer = Adam(model.parameters(), lr=1e-2)
        >>> for step in range(3):
        ...     redraw(model, seed=0, step=step)
        ...     loss = nn.elbo_loss(torch.nn.functional.mse_loss(model(x), y), model, num_data=16, with_value=False)
        ...     optimizer.zero_grad()
        ...     loss.backward()
        ...     optimizer.step()
        >>> sorted(optimizer.state[model.weight_rho])
        ['exp_avg', 'exp_avg_sq', 'step']
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        fused: bool = True,
        **others: Any,
    ) -> None:
        self._slots: dict[Tensor, Slot] = {}
        self._order = Order()
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, fused=fused, **others)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As every optimizer of PyTorch has it."""
        super().add_param_group(param_group)
        self._open(self.param_groups[-1]["params"])

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_slots", {})
        self.__dict__.setdefault("_order", Order())
        for group in self.param_groups:
            self._open(group["params"])

    def _open(self, parameters: list[Tensor]) -> None:
        """Slots for those of the parameters that kernels may step."""
        for parameter in parameters:
            if parameter not in self._slots and parameter.is_cpu and dense((parameter,)):
                self._slots[parameter] = Slot(parameter, self._order)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One step of every parameter that has a gradient.

        Args:
            closure: computes the loss and its gradients again.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._order.step()
        done: list[Slot] = []
        for group in self.param_groups:
            done += self._swept(group)
        for slot in done:
            slot.parameter.grad = None
        if any(p.grad is not None for group in self.param_groups for p in group["params"]):
            with torch.set_grad_enabled(self.defaults["differentiable"]):
                inspect.unwrap(torch.optim.Adam.step)(self)  # without the hooks, which this method has run
        for slot in done:  # who looks at the gradient hears that it is gone
            slot.parameter.grad = slot.later
        return loss

    def _swept(self, group: dict[str, Any]) -> list[Slot]:
        """The slots of a group whose parameters have made their step; gradients of the others are written."""
        usual = not any(getattr(self, name, None) is not None for name in ("grad_scale", "found_inf"))
        usual = usual and not any(group[name] for name in ("amsgrad", "maximize", "differentiable"))
        usual = usual and not (group["decoupled_weight_decay"] and group["weight_decay"])
        own = [slot for p in group["params"] if (slot := self._slots.get(p)) is not None and p.grad is slot.later]
        ready = [slot for slot in own if usual and slot.part is not None and self._fits(slot.parameter)]
        for slot in own:
            if slot not in ready:
                slot.parameter.grad = slot.later.computed()
        if not ready:
            return []
        states = [self.state[slot.parameter] for slot in ready]
        torch._foreach_add_([state["step"] for state in states], 1.0)
        calls, lr, (beta1, beta2) = [], float(group["lr"]), map(float, group["betas"])
        for slot, state in zip(ready, states, strict=True):
            number, part = state["step"].item(), slot.part
            assert part is not None
            own, row = slot.parameter, 4 * slot.parameter.numel()
            inputs = [part.grad.data_ptr(), *(0 if r is None else part.beside.data_ptr() + r * row for r in part[2:4]), 0]
            outputs = own.data_ptr(), state["exp_avg"].data_ptr(), state["exp_avg_sq"].data_ptr(), 0
            rates = 1.0 - beta1, beta2, 1.0 - beta2, lr / (1.0 - beta1**number), (1.0 - beta2**number) ** -0.5
            constants = part.share, part.share * part.decay + group["weight_decay"], *rates, group["eps"]
            name = "adam" if part.pull is None else "adam_pulled" if part.slope is None else "adam_scaled"
            calls.append(_native.packed(name, own.numel(), 0, 0, *inputs, *outputs, constants=constants))
        _native.launch(calls)
        for slot in ready:
            slot.take()
        torch.autograd.graph.increment_version([slot.parameter for slot in ready])
        return ready

    def _fits(self, parameter: Tensor) -> bool:
        """Whether the kernels can step a parameter, whose state begins here as it does in PyTorch."""
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device="cpu")
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(parameter, requires_grad=False, memory_format=torch.preserve_format)
        return dense((parameter, state["exp_avg"], state["exp_avg_sq"]))
