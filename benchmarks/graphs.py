"""A training step recorded once as a CUDA graph and replayed: one launch in place of hundreds."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bnnlib._checks import check_count


class GraphedStep:
    """Record a step on its first call's shapes, then replay it; where there is no CUDA it just calls the step.

    A small Bayesian network spends most of its time on a GPU launching kernels; a replay launches them all at once.
    The noise is new in every replay, of PyTorch's generator of the device and of `generators`. What Python computes is
    recorded as it was: a learning rate must be a tensor (`capturable=True` and `lr=torch.tensor(...)`), and a step may
    neither wait for the device (`item`, `nonzero`) nor change its shapes. Samplers and priors whose step sizes are
    numbers of Python, as `SpikeSlabGaussianLaplacePrior.update`, therefore cannot be recorded.

    Args:
        step: of tensors, returns a tensor or a tuple of them; gradients, optimizer and updates happen inside.
        example: tensors of the shapes, types and device of all later calls.
        warm_up: calls before the recording, in which kernels and buffers are chosen. They and the recording draw noise;
            parameters and optimizer are moved by the warm-up, not by the recording.
        generators: generators of the device that the step draws from, beside PyTorch's own.

    Raises:
        ValueError: there is no example, or a later call gives other shapes or types.

    Example:
        >>> device = "cuda" if torch.cuda.is_available() else "cpu"
        >>> x, model = torch.randn(8, 3, device=device), torch.nn.Linear(3, 1, device=device)
        >>> lr = torch.tensor(0.01, device=device)
        >>> optimizer = torch.optim.Adam(model.parameters(), lr=lr, capturable=device == "cuda")
        >>> def step(x):
        ...     optimizer.zero_grad()
        ...     loss = model(x).square().mean()
        ...     loss.backward()
        ...     optimizer.step()
        ...     return loss
        >>> graphed = GraphedStep(step, (x,))
        >>> before = graphed(x).item()
        >>> graphed(x).item() < before
        True
    """

    def __init__(
        self,
        step: Callable[..., Tensor | tuple[Tensor, ...]],
        example: Sequence[Tensor],
        *,
        warm_up: int = 3,
        generators: Sequence[torch.Generator] = (),
    ) -> None:
        if not example:
            raise ValueError(
                "example is empty, but the step is recorded for given shapes. Give the tensors of a batch."
            )
        self.step = step
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs = tuple(tensor.clone() for tensor in example)
        self.outputs: Tensor | tuple[Tensor, ...] = ()
        check_count("warm_up", warm_up)
        if example[0].device.type == "cuda":
            self._record(warm_up, generators)

    def _record(self, warm_up: int, generators: Sequence[torch.Generator]) -> None:
        device = self.inputs[0].device
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(warm_up):
                self.step(*self.inputs)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self.graph.register_generator_state(generator)
        with torch.cuda.graph(self.graph):
            self.outputs = self.step(*self.inputs)

    def __call__(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """One step; on CUDA the outputs' memory is that of every call, so clone what is kept."""
        given = [(tuple(one.shape), one.dtype) for one in inputs]
        recorded = [(tuple(one.shape), one.dtype) for one in self.inputs]
        if given != recorded:
            raise ValueError(
                f"the step was recorded for {recorded}, but got {given}. Drop the last, smaller batch of an epoch, or "
                "record a second step for it."
            )
        if self.graph is None:
            return self.step(*inputs)
        for buffer, tensor in zip(self.inputs, inputs, strict=True):
            buffer.copy_(tensor)
        self.graph.replay()
        return self.outputs
