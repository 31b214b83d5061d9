"""Draws of a posterior in bounded room: kept while the chain runs, averaged over afterwards."""

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bnnlib._callbacks import Callback, Run
from bnnlib._checks import check_count
from bnnlib._files import sealed, unsealed, write_atomic
from bnnlib._overrides import evaluating
from bnnlib.sampling.draws import DrawsInFolder, DrawsInMemory

_HEAD = b"bnnlib draws 1\n"


def at_a_draw(optimizer: Any) -> AbstractContextManager:
    """Context in which the parameters are a draw, where an optimizer holds their means (the natural form of
    `AdaptiveVariational`); nothing happens with others."""
    return optimizer.sampled_parameters() if getattr(optimizer, "form", None) == "natural" else nullcontext()


class SampleStore(Callback):
    """Thinned draws of a model's state, buffers such as the statistics of batch norm included.

        store = SampleStore(max_samples=100)
        sample(model, data, sampler=sampler, epochs=50, batch_size=1000, burn_in=500, thin=50, store=store)
        probabilities = store.predict(model, x_test)

    With an optimizer whose weights are draws, such as `bnnlib.optim.AdaptiveVariational`, it is a callback of
    `bnnlib.train.fit`, which is offered the state after each step (of `form="natural"` a draw around the means):

        store = SampleStore(max_samples=30, burn_in=500, every=50)
        fit(model, data, epochs=50, batch_size=1000, optimizer=optimizer, callbacks=[store])

    Of the draws offered, every `thin`-th is kept. When the store is full, `thin` doubles and every other draw is
    dropped, so that the draws stay evenly spaced over the whole chain: offers number thin, 2 thin, 3 thin, ...

    Args:
        max_samples: number of draws that fit.
        device: where the draws are kept; None where the model is. Not with a folder.
        folder: keeps each draw in a file of its own there, so that memory never holds more than the one in use;
            `save`, `load` and the state for a `Checkpoint` then hold the files' names alone. Each is a state_dict that
            `torch.load` reads. None keeps them in memory.
        burn_in, every: in steps, where this is a callback: it is offered every `every`-th state after the first
            `burn_in`. `bnnlib.train.sample` has its own.

    Raises:
        ValueError: a count is below 1 (burn_in: below 0), or both a device and a folder are given.

    Example:
        >>> model, store = torch.nn.Linear(3, 2), SampleStore(max_samples=100)
        >>> all(store.offer(model) for _ in range(5)), len(store), list(store[-1])  # each draw is a state_dict
        (True, 5, ['weight', 'bias'])
        >>> store.predict(model, torch.randn(8, 3)).shape, store.stacked("weight").shape
        (torch.Size([8, 2]), torch.Size([5, 2, 3]))
    """

    def __init__(
        self,
        max_samples: int,
        *,
        device: torch.device | str | None = None,
        folder: str | os.PathLike | None = None,
        burn_in: int = 0,
        every: int = 1,
    ) -> None:
        if folder is not None and device is not None:
            raise ValueError(f"draws go to the folder {str(folder)!r}, not to the device {str(device)!r}: give one.")
        self.max_samples, self.device = check_count("max_samples", max_samples), device
        self.burn_in, self.every = check_count("burn_in", burn_in, minimum=0), check_count("every", every)
        self.thin, self.offered = 1, 0
        self._draws: DrawsInMemory | DrawsInFolder = DrawsInMemory() if folder is None else DrawsInFolder(folder)

    def on_step(self, run: Run) -> None:
        """Take the state after a step of `fit`, if its turn has come."""
        since = run.step - self.burn_in
        if since > 0 and since % self.every == 0:
            with at_a_draw(run.optimizer):
                self.offer(run.model)

    @torch.no_grad()
    def offer(self, model: nn.Module) -> bool:
        """Keep the model's present state if its turn has come, and say whether.

        Raises:
            ValueError: the folder holds draws of another chain.
            StoreError: the draw cannot be written to the folder.
        """
        self.offered += 1
        if self.offered % self.thin:
            return False
        while len(self._draws) >= self.max_samples:
            self.thin *= 2
            self._draws.halve()
        if self.offered % self.thin:
            return False
        copy = isinstance(self._draws, DrawsInMemory)
        draw = {n: v.to(device=self.device or v.device, copy=copy) for n, v in model.state_dict().items()}
        self._draws.add(draw, self.offered)
        return True

    @property
    def nbytes(self) -> int:
        """Room that the draws take, in memory or in their folder, in bytes."""
        return self._draws.nbytes

    @property
    def offers(self) -> list[int]:
        """Number of the offer, from 1, that each draw was."""
        return [self.thin * (1 + index) for index in range(len(self._draws))]

    def __len__(self) -> int:
        return len(self._draws)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return iter(self._draws)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self._draws[index]

    def stacked(self, name: str) -> Tensor:
        """All draws of one tensor, shape (draws, ...): one chain of `effective_sample_size(store.stacked(name)[None])`.

        Raises:
            KeyError: the store keeps nothing of that name.
            ValueError: it is empty.
        """
        self._require_draws()
        return torch.stack([draw[name] for draw in self._draws])

    def _require_draws(self) -> None:
        if not self._draws:
            raise ValueError(
                f"the store is empty: {self.offered} states were offered. Sample beyond the burn-in, or lower thin."
            )

    @torch.no_grad()
    def outputs(self, model: nn.Module, x: Tensor, batch_size: int = 1024) -> Iterator[Tensor]:
        """Output of every draw at x, one tensor (batch, ...) after the other, with the model in `eval()`.

        Args:
            model: of the structure that was sampled; its weights are not changed.
            x: inputs, shape (batch, ...).
            batch_size: rows in one forward pass.

        Raises:
            ValueError: the store is empty.
        """
        check_count("batch_size", batch_size)
        self._require_draws()
        own = model.state_dict()
        with evaluating(model):
            for draw in self._draws:
                state = {n: v.to(device=own[n].device, dtype=own[n].dtype) for n, v in draw.items()}
                device = next(iter(state.values())).device
                # a draw has a tied weight under each of its names
                call = partial(functional_call, model, state, tie_weights=False)
                yield torch.cat([call((rows.to(device),)) for rows in x.split(batch_size)])

    def predict(self, model: nn.Module, x: Tensor, batch_size: int = 1024) -> Tensor:
        """Posterior predictive probabilities (batch, classes): the mean over draws of the softmax of `outputs`.

        Raises:
            ValueError: the store is empty, or the model has one output.
        """
        total: Tensor | float = 0.0
        for logits in self.outputs(model, x, batch_size):
            if logits.shape[-1] == 1:
                raise ValueError(
                    "the model has one output, and the softmax of one number is 1. Average torch.sigmoid of `outputs` "
                    "for one logit, or `outputs` themselves in regression."
                )
            total = total + torch.softmax(logits.float(), dim=-1)
        return cast(Tensor, total) / len(self)

    def save(self, path: str | os.PathLike) -> Path:
        """Write draws and counters to one file with a checksum, replaced whole or not at all; returns its path.

        Raises:
            StoreError: the file cannot be written.
        """
        buffer = io.BytesIO()
        torch.save(self.state_dict(), buffer)
        write_atomic(Path(path), sealed(_HEAD, buffer.getvalue()))
        return Path(path)

    def load(self, path: str | os.PathLike) -> None:
        """Take over what `save` wrote; only numbers, texts and tensors are read, never code.

        Raises:
            FileNotFoundError: there is no such file.
            DamagedFileError: it is no saved store, or was cut or altered; the store stays as it was.
        """
        body = unsealed(Path(path), _HEAD, "a store of draws", "Copy it again, or sample again.")
        self.load_state_dict(torch.load(io.BytesIO(body), map_location="cpu", weights_only=True))

    def state_dict(self) -> dict[str, Any]:
        """Draws, or names of their files, and counters: what a `Checkpoint` takes."""
        counters = {"thin": self.thin, "offered": self.offered}
        if isinstance(self._draws, DrawsInFolder):
            return counters | {"files": list(self._draws.names)}
        return counters | {"draws": [dict(draw) for draw in self._draws]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; the store goes on as if it had never stopped.

        Raises:
            ValueError: one of the two stores keeps its draws in a folder and the other one in memory.
            DamagedFileError: a file of a draw is missing.
        """
        if ("files" in state) != isinstance(self._draws, DrawsInFolder):
            there = "a folder: give this one that folder" if "files" in state else "memory: give this one no folder"
            raise ValueError(f"the saved store kept its draws in {there}.")
        thin = state["thin"]
        if isinstance(self._draws, DrawsInFolder):
            thin *= self._draws.restore(state["files"], state["offered"])
        else:
            draws = ({name: value.to(self.device or value.device) for name, value in d.items()} for d in state["draws"])
            self._draws = DrawsInMemory(draws)
        self.thin, self.offered = thin, state["offered"]
