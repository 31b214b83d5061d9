"""Several chains of one network as one batch: each tensor gets a leading dimension, and every step is one for all."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap


class Chains:
    """Independent chains of one structure, moved together by one sampler.

        chains = Chains([network() for _ in range(4)])
        sampler = SGHMC(chains.parameters(), lr=1e-6)
        energies = chains.energy(x, y, num_data=len(x))
        sampler.zero_grad(); energies.sum().backward(); sampler.step()

    A chain's energy depends on its own weights alone, so the gradient of the sum is that of each chain. The samplers
    draw noise of the stacked shape, so that no two chains share any. A prior for each chain:
    ``SpikeSlabGaussianLaplacePrior({"fc1.weight": chains.named_parameters()["fc1.weight"]}, batch_dims=1, ...)``.
    A diverging chain turns to NaN alone; set ``sampler.check_every = 0`` to let the others go on.

    Args:
        models: one for each chain, of one structure; the same module several times starts all chains from its state.
            They are copied. Buffers, such as the statistics of batch norm, are kept for each chain.

    Raises:
        ValueError: there is no model.

    Example:
        >>> chains = Chains([torch.nn.Linear(3, 1) for _ in range(4)])
        >>> sampler = SGHMC(chains.parameters(), lr=1e-3)
        >>> chains(torch.randn(8, 3)).shape
        torch.Size([4, 8, 1])
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        if not models:
            raise ValueError("models is empty, but there must be at least one chain: Chains([model] * 4).")
        self._parameters, self._buffers = stack_module_state(list(models))
        self._structure = copy.deepcopy(models[0]).to("meta")

    def __len__(self) -> int:
        return len(next(iter(self._parameters.values())))

    def named_parameters(self) -> dict[str, Tensor]:
        """The stacked parameters by their names in the model, each (chains, ...)."""
        return dict(self._parameters)

    def parameters(self) -> list[Tensor]:
        """The stacked parameters, for a sampler."""
        return list(self._parameters.values())

    def train(self, mode: bool = True) -> Chains:
        """Switch the mode of the network, as `torch.nn.Module.train`."""
        self._structure.train(mode)
        return self

    def eval(self) -> Chains:
        """Switch to evaluation mode, as `torch.nn.Module.eval`."""
        return self.train(False)

    def __call__(self, x: Tensor, *, per_chain: bool = False) -> Tensor:
        """Outputs of all chains.

        Args:
            x: inputs (batch, ...), the same for all chains, or (chains, batch, ...) with `per_chain`.

        Returns:
            Tensor (chains, batch, ...).
        """

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], rows: Tensor) -> Tensor:
            return functional_call(self._structure, (parameters, buffers), (rows,))

        mapped = vmap(one, in_dims=(0, 0, 0 if per_chain else None), randomness="different")
        return mapped(self._parameters, self._buffers, x)

    def energy(
        self,
        x: Tensor,
        y: Tensor,
        *,
        num_data: int,
        loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
        per_chain: bool = False,
    ) -> Tensor:
        """num_data times the mean negative log-likelihood of the batch under each chain, in nats.

        Args:
            x, y: inputs and targets (batch, ...), or (chains, batch, ...) with `per_chain`.
            num_data: N; the batch stands for all of them.
            loss: called as loss(outputs, y) for one chain, returns the mean over the batch.

        Returns:
            Tensor (chains,).
        """
        outputs = self(x, per_chain=per_chain)
        return num_data * vmap(loss, in_dims=(0, 0 if per_chain else None))(outputs, y)

    def state(self, index: int) -> dict[str, Tensor]:
        """State dict of one chain, for `model.load_state_dict`; views of the stacked tensors."""
        tensors = {**self._parameters, **self._buffers}
        return {name: value.detach()[index] for name, value in tensors.items()}

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return (self.state(index) for index in range(len(self)))

    def state_dict(self) -> dict[str, Tensor]:
        """All stacked tensors by name, detached."""
        return {name: value.detach() for name, value in {**self._parameters, **self._buffers}.items()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave.

        Raises:
            ValueError: it is of another network or number of chains.
        """
        own = {**self._parameters, **self._buffers}
        shapes = {name: tuple(value.shape) for name, value in own.items()}
        given = {name: tuple(value.shape) for name, value in state.items()}
        if given != shapes:
            raise ValueError(f"this state has the tensors {given}, but these chains have {shapes}.")
        for name, value in own.items():
            value.copy_(state[name])
