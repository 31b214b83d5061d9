"""What the samplers share: noise, temperature, checks and a complete state."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from bnnlib import _native
from bnnlib._checks import DivergedError, check_generator, check_non_negative, check_positive
from bnnlib._memory import keep_pages
from bnnlib._native import has_kernels
from bnnlib._native.counter import signed
from bnnlib._native.keys import fold
from bnnlib._noise import Keys, dense, draw_normal, new_seed


class Sampler(torch.optim.Optimizer):
    """Base of the samplers: a `torch.optim.Optimizer` whose gradients are those of the energy and which adds noise.

    The energy is U = -log posterior in nats: the number of observations times the mean negative log-likelihood of a
    mini-batch, plus the penalties of the prior. A learning rate `lr` for the mean loss is `lr / n` here.

    Every tensor may carry leading dimensions for chains: the update is elementwise. The keys "lr" and "temperature" of
    `param_groups` may be changed between steps, by PyTorch's schedulers or by hand.

    With `keyed` the noise of a step is a function of a seed, which is drawn once, and of the number of the step, as
    `bnnlib.nn.redraw` has it: other numbers of the same law. On a CPU with a compiler a step of `SGHMC` or `SGLD` is
    then one pass over float32 parameters in C++, which saves most of what it costs beyond a step of Adam.

    Args:
        params: as for any optimizer.
        defaults: of the groups; "lr" and "temperature" among them.
        generator: of the noise, on the parameters' device. By default the sampler makes its own, seeded from PyTorch's
            global one, so that two chains never share noise. With `keyed` it gives the seed and nothing else.
        keyed: whether the noise comes by key.

    Raises:
        ValueError: a step size or temperature is out of range.

    Example:
        >>> issubclass(SGHMC, Sampler), issubclass(Sampler, torch.optim.Optimizer)
        (True, True)
    """

    takes_energy = True  # whether the gradients are those of the energy, as `bnnlib.train.sample` gives them
    check_every = 100  # steps between looks for NaN, each of which waits for a GPU; 0 never looks (stacks of chains)

    def __init__(
        self,
        params: Iterable,
        defaults: dict[str, Any],
        generator: torch.Generator | None = None,
        keyed: bool = False,
    ) -> None:
        check_generator("generator", generator)
        keep_pages()
        self.steps = 0
        super().__init__(params, defaults)
        device = self.param_groups[0]["params"][0].device
        if generator is None:
            generator = torch.Generator(device).manual_seed(int(torch.randint(2**62, (), device="cpu")))
        if generator.device.type != device.type:
            raise ValueError(
                f"the generator is on {generator.device} and the parameters are on {device}, but the noise is drawn "
                f"where the parameters are. Pass torch.Generator({str(device)!r})."
            )
        self.generator = generator
        self.seed = new_seed(generator) if keyed else None  # of noise by key
        self._noise: list[Tensor] = []

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles have: settings, and what decides the chain's future, its generator included."""
        own = {name: value for name, value in vars(self).items() if name[0] != "_" and name != "step"}  # a scheduler's
        return super().__getstate__() | own

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("_noise", [])
        for group in self.param_groups:  # of a state from before a setting was there
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, as `torch.optim.Optimizer.add_param_group`, after checking its settings."""
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except ValueError:
            del self.param_groups[-1]
            raise

    def _check_group(self, group: dict[str, Any]) -> None:
        check_positive("lr", group["lr"])
        check_non_negative("temperature", group["temperature"])
        check_non_negative("weight_decay", group.get("weight_decay", 0.0))
        if not 0.0 <= group.get("momentum", 0.0) < 1.0:
            raise ValueError(
                f"momentum is {group['momentum']:g}, but it must be at least 0 and below 1: 1 - momentum is the "
                "friction, without which noise and old gradients never fade."
            )

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:  # type: ignore[override]  # a tensor, not a number
        """Move every parameter that has a gradient; a closure recomputes the energy and its gradients before.

        Raises:
            ValueError: lr or temperature of a group have become negative or NaN.
            DivergedError: parameters are NaN or infinite; looked at every `check_every` steps.
        """
        loss = None
        if self.seed is not None:
            self._keys = Keys(torch.tensor(signed(fold(fold(0, self.seed), self.steps), 64), device="cpu"))
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            # lr = 0 is where a decaying schedule may end
            if not group["lr"] >= 0.0 or not group["temperature"] >= 0.0:
                check_non_negative("lr", group["lr"])
                check_non_negative("temperature", group["temperature"])
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                self._update(group, parameters, [p.grad for p in parameters])
        self.steps += 1
        if self.check_every and self.steps % self.check_every == 0:
            self.check_finite()
        return loss

    def _update(self, group: dict[str, Any], parameters: list[Tensor], gradients: list[Tensor]) -> None:
        raise NotImplementedError

    def _draw(self, parameters: list[Tensor], temperature: float) -> list[Tensor] | None:
        """Standard normal noise in the parameters' shapes, by key or from one flat draw; None at temperature 0."""
        if temperature == 0.0:
            return None
        if self.seed is not None:
            return [draw_normal(parameter, self._keys) for parameter in parameters]
        if [n.shape for n in self._noise] != [p.shape for p in parameters]:
            sizes = [p.numel() for p in parameters]
            self._flat = parameters[0].new_empty(sum(sizes))
            parts = self._flat.split(sizes)
            self._noise = [part.view(p.shape) for part, p in zip(parts, parameters, strict=True)]
        self._flat.normal_(generator=self.generator)
        return self._noise

    @staticmethod
    def _decayed(gradients: list[Tensor], parameters: list[Tensor], decay: float) -> Sequence[Tensor]:
        """The gradients with those of the normal prior."""
        if any(gradient.is_sparse for gradient in gradients):
            raise ValueError(
                f"weight_decay is {decay:g}, but a gradient is sparse, and the prior pulls at every row. Make the "
                "embedding with sparse=False, or give its parameters a group with weight_decay=0."
            )
        return torch._foreach_add(gradients, parameters, alpha=decay)

    def _move(self, kernel: str, groups: Sequence[tuple[Tensor, ...]], constants: tuple[float, ...]) -> bool:
        """Move each (parameter, its buffers ..., gradient) in one pass by a kernel of `kernels.cpp`, if one can."""
        if self.seed is None or not all(g[0].is_cpu and dense(g) and has_kernels(g[0]) for g in groups):
            return False
        for *moved, gradient in groups:
            key = self._keys.next_key(gradient.device)
            _native.run(kernel, (key,), (gradient, *moved), moved, constants)
        torch.autograd.graph.increment_version([tensor for group in groups for tensor in group[:-1]])
        return True

    def check_finite(self) -> None:
        """Raise a DivergedError if a parameter is NaN or infinite."""
        for group in self.param_groups:
            norms = torch.stack([norm.double() for norm in torch._foreach_norm(list(group["params"]))])
            bad = norms[~torch.isfinite(norms)]
            if len(bad):
                raise DivergedError(
                    f"the chain has diverged: after {self.steps} steps a parameter is NaN or infinite at step size "
                    f"lr = {group['lr']:g}, temperature {group['temperature']:g}. {self._advice(group)}",
                    f"step {self.steps}",
                    bad[0].item(),
                )

    def _advice(self, group: dict[str, Any]) -> str:
        return (
            "The gradients are those of the energy, n times those of a mean loss: lower lr (stability needs lr < "
            f"{self.stability_limit(group):g} / largest curvature), or start from a trained network."
        )

    def stability_limit(self, group: dict[str, Any]) -> float:
        """The chain is stable while lr times the largest curvature is below it."""
        return 2.0 * (1.0 + group.get("momentum", 0.0))

    @property
    def kind(self) -> str:
        """Class and scheme: what buffers mean."""
        return type(self).__name__

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides the chain's future: buffers, step count and the generator's state, or the seed."""
        own = {"kind": self.kind, "steps": self.steps, "generator": self.generator.get_state()}
        return super().state_dict() | own | ({} if self.seed is None else {"seed": self.seed})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the chain goes on bit for bit, by key if it was by key.

        Raises:
            ValueError: it is not the state of a sampler of this class and scheme over the same groups.
        """
        if "generator" not in state_dict:
            raise ValueError(
                "this state has no random state, so it is not that of a bnnlib sampler: the chain could not go on as "
                "it was. Save sampler.state_dict()."
            )
        if state_dict.get("kind", self.kind) != self.kind:  # older states do not say it
            raise ValueError(f"this state is of {state_dict['kind']}, not of {self.kind}. Make the sampler as it was.")
        super().load_state_dict({key: state_dict[key] for key in ("state", "param_groups")})
        self.steps, self.seed = state_dict["steps"], state_dict.get("seed")
        self.generator.set_state(state_dict["generator"].cpu())
