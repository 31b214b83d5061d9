"""Adam that takes the gradients of Bayesian weights as their draws leave them, and steps in one pass over each."""

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
    """`torch.optim.Adam` for less time a step on a processor, where weights are drawn by key.

    The numbers are those of PyTorch's Adam to rounding, and so are parameters, groups, schedulers and `state_dict`: one
    may be loaded into the other. What is saved is the gradient of every mean, standard deviation and inclusion
    probability: a layer's draw keeps what its gradients are made of, and the step makes them where it uses them.
    Memory is about what it was for Gaussian weights, and more with gates. It needs float32 on a CPU with the compiled
    kernels, layers that draw weights, and noise by key, as `bnnlib.train.fit` or `bnnlib.nn.redraw` fixes it;
    everything else is PyTorch's step.

    `.grad` of such a parameter is computed when it is looked at, between `backward` and `step`: clipping, accumulation
    and `torch.autograd.grad` work as usual, at the usual price. Look at it before you change a parameter in place
    between the two. The step uses it up: call `zero_grad` before the next backward pass. With amsgrad, maximize,
    decoupled decay, a gradient scaler, hooks on parameters or torch.distributed gradients are written as usual.

    Args:
        params: parameters, or groups, as for every optimizer of PyTorch.
        lr, betas, eps, weight_decay, amsgrad: as for `torch.optim.Adam`.
        fused: PyTorch's fused kernels for all other parameters, which is the fastest.
        others: the remaining settings of `torch.optim.Adam`.

    Raises:
        RuntimeError: a second step, or a backward pass, finds a gradient that a step has used up; a parameter was
            changed in place (but for `.data`, whose changes PyTorch does not count) before its gradient was computed.

    Example:
        >>> from bnnlib import nn
        >>> model, x, y = nn.GaussianLinear(3, 1), torch.randn(16, 3), torch.randn(16, 1)
        >>> optimizer = Adam(model.parameters(), lr=1e-2)
        >>> for step in range(3):
        ...     _ = nn.redraw(model, seed=0, step=step)
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
        self._slots: dict[int, Slot] = {}
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

    def _open(self, parameters: list[Any]) -> None:
        """Slots for those of the parameters that kernels may step."""
        for parameter in parameters:
            if id(parameter) not in self._slots and parameter.is_cpu and dense((parameter,)):
                self._slots[id(parameter)] = Slot(parameter, self._order)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
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
        usual = usual and not any(group[name] for name in _UNUSUAL)
        usual = usual and not (group.get("decoupled_weight_decay") and group["weight_decay"])
        slots = [slot for p in group["params"] if (slot := self._slots.get(id(p))) is not None and p.grad is slot.later]
        ready, calls, lr, (beta1, beta2) = [], [], float(group["lr"]), map(float, group["betas"])
        steps: list[Tensor] = []
        rates: dict[float, tuple[float, ...]] = {}
        for slot in slots:
            own, part, state = slot.parameter, slot.part, self.state[slot.parameter]
            if not usual or part is None or not part.fits(own) or not self._fits(own, state):
                own.grad = slot.later.computed()
                continue
            number = state["step"].item() + 1.0
            if number not in rates:
                size, root = lr / (1.0 - beta1**number), (1.0 - beta2**number) ** -0.5
                rates[number] = 1.0 - beta1, beta2, 1.0 - beta2, size, root, group["eps"]
            inputs = [part.grad.data_ptr(), 0, 0, 0]
            row, start = 4 * own.numel(), part.beside.data_ptr()
            name = "adam"
            if part.pull is not None:
                name, inputs[2] = "adam_pulled", start + part.pull * row
            if part.slope is not None:
                name, inputs[1] = "adam_scaled", start + part.slope * row
            outputs = own.data_ptr(), state["exp_avg"].data_ptr(), state["exp_avg_sq"].data_ptr(), 0
            constants = part.share, part.share * part.decay + group["weight_decay"], *rates[number]
            calls.append(_native.packed(name, own.numel(), 0, 0, *inputs, *outputs, constants=constants))
            steps.append(state["step"])
            ready.append(slot)
        if ready:
            _native.launch(calls)
            torch._foreach_add_(steps, 1.0)
            torch.autograd.graph.increment_version([slot.parameter for slot in ready])
            for slot in ready:
                slot.take()
        return ready

    def _fits(self, parameter: Tensor, state: dict[str, Any]) -> bool:
        """Whether the kernels can step a parameter, whose state begins here as it does in PyTorch."""
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device="cpu")
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(parameter, requires_grad=False, memory_format=torch.preserve_format)
        return dense((parameter, state["exp_avg"], state["exp_avg_sq"]))
