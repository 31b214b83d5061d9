"""Where the batches of an epoch come from: tensors, a data set, or a loader with workers of its own."""

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from bnnlib._checks import check_count
from bnnlib.train.samplers import observations, repeats, samplers_of, size_of

Data = tuple[Tensor, Tensor] | Dataset | DataLoader
Pair = tuple[Tensor, Tensor]


class Batches:
    """The batches of an epoch after each other, and what a checkpoint keeps to go on with the next one.

    Attributes:
        rows: observations; None where nobody knows.
        size: rows in a batch; None where a loader has none of its own.
        number: batches in an epoch; None where nobody knows.
        exact: whether a run can go on from the middle of an epoch.
    """

    rows: int | None
    size: int | None
    number: int | None
    doubt: str | None = None  # of the number of observations
    exact = True
    images = True  # whether the inputs may have four dimensions
    own_order = False  # whether the order of the rows leaves alone the generator of the run

    def observations(self, given: int | None) -> int:
        """`num_data` as it is given, or else the rows, with a warning where their number is in doubt."""
        if given is not None:
            return check_count("num_data", given)
        if self.rows is None:
            raise ValueError(
                "the data set of the loader has no length or gives whole batches (batch_size=None), so that nobody "
                "knows how many observations there are. Give num_data, the rows that an epoch is about."
            )
        if self.doubt:
            warnings.warn(self.doubt, stacklevel=4)  # where fit or sample is called
        return self.rows

    def epoch(self, epoch: int, done: int) -> Iterator[Pair]:
        """The batches of an epoch after the first `done`, on the device of the model."""
        raise NotImplementedError

    def end_epoch(self) -> None:
        """Forget the epoch that is over."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must keep."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave."""


class TensorBatches(Batches):
    """Rows of two tensors on the device, in an order that a generator draws for each epoch."""

    def __init__(self, data: Pair, size: int, device: torch.device, order: torch.Generator) -> None:
        # rows are gathered with out=, which autograd refuses; nothing trains what they come from
        self.data = tuple(part.detach().to(device) for part in data)
        self.images = data[0].dim() == 4
        self.device, self.rows, self.size, self.number = device, len(data[0]), size, -(-len(data[0]) // size)
        self.generator, self.order = order, None
        # gathered into one buffer: a fresh allocation a step costs more in page faults than the copy itself
        self._buffers = [part.new_empty(min(size, len(part)), *part.shape[1:]) for part in self.data]

    rows: int
    size: int
    order: Tensor | None  # of the epoch under way

    def epoch(self, epoch: int, done: int) -> Iterator[Pair]:
        if self.order is None:
            self.order = torch.randperm(self.rows, generator=self.generator, device=self.device)
        for rows in self.order.split(self.size)[done:]:
            yield self.take(rows)

    def take(self, rows: Tensor) -> Pair:
        """The rows of these numbers."""
        x, y = (
            torch.index_select(values, 0, rows, out=buffer[: len(rows)])
            for values, buffer in zip(self.data, self._buffers, strict=True)
        )
        return x, y

    def end_epoch(self) -> None:
        self.order = None

    def state_dict(self) -> dict[str, Any]:
        return {"order": self.order, "shuffle": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order = None if state["order"] is None else state["order"].to(self.device)
        if "shuffle" in state:
            self.generator.set_state(state["shuffle"])


class ItemBatches(TensorBatches):
    """Items of a data set, in an order that a generator draws for each epoch."""

    def __init__(self, data: Dataset, size: int, device: torch.device, order: torch.Generator) -> None:
        rows = size_of(data)
        if rows is None:
            raise ValueError(
                f"{type(data).__name__} has no length, which the order of its rows needs. Give it a __len__, or make "
                "it an IterableDataset and give num_data."
            )
        if rows == 0:
            raise ValueError(f"{type(data).__name__} is empty, but it needs at least one row.")
        self.items: Any = data
        self.device, self.rows, self.size, self.number = device, rows, size, -(-rows // size)
        self.generator, self.order = order, None

    def take(self, rows: Tensor) -> Pair:
        numbers, many = rows.tolist(), getattr(self.items, "__getitems__", None)
        return pair_of(default_collate(many(numbers) if many else [self.items[n] for n in numbers]), self.device)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"global": torch.get_rng_state()}  # of transforms

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        torch.set_rng_state(state["global"])


class LoaderBatches(Batches):
    """What a loader gives. The middle of an epoch is found again by starting it with the same states of generators."""

    own_order = True

    def __init__(self, loader: DataLoader, device: torch.device) -> None:
        self.loader, self.device, self.size = loader, device, loader.batch_size
        (self.rows, self.doubt), self.number = observations(loader), size_of(loader)
        self._samplers, self.exact = samplers_of(loader), repeats(loader)
        sources = {f"sampler {n}": getattr(source, "generator", None) for n, source in enumerate(self._samplers)}
        sources["loader"] = loader.generator
        self._generators = {name: source for name, source in sources.items() if isinstance(source, torch.Generator)}
        self._start: dict[str, Tensor] | None = None  # states at the start of the epoch under way
        self._now: dict[str, Tensor] | None = None  # those of a checkpoint

    def epoch(self, epoch: int, done: int) -> Iterator[Pair]:
        for sampler in self._samplers:
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
        if epoch and self.loader.persistent_workers and self.loader._iterator is None:
            states = self._states()
            iter(self.loader)  # workers that stay get their seed in the first epoch alone: it is no number of this one
            self._set(states)
        if done and self._start:
            self._set(self._start)
        else:
            self._start = self._states()
        batches = iter(self.loader)
        for _ in range(done):
            if next(batches, None) is None:
                raise ValueError(f"the loader gives fewer than the {done} batches of the epoch in the checkpoint.")
        if done and self._now:
            self._set(self._now)
        for batch in batches:
            yield pair_of(batch, self.device)

    def end_epoch(self) -> None:
        self._start = None

    def _states(self) -> dict[str, Tensor]:
        own = {name: generator.get_state() for name, generator in self._generators.items()}
        return {"global": torch.get_rng_state()} | own

    def _set(self, states: dict[str, Tensor]) -> None:
        torch.set_rng_state(states["global"])
        for name, generator in self._generators.items():
            generator.set_state(states[name])

    def state_dict(self) -> dict[str, Any]:
        return {"start": self._start, "now": self._states()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if missing := set(state["now"]) ^ {"global", *self._generators}:
            raise ValueError(
                f"the loader and the one of the checkpoint differ in their generators ({', '.join(sorted(missing))}): "
                "it cannot go on from there. Build the loader as before, or use another checkpoint file."
            )
        self._start, self._now = state["start"], state["now"]
        self._set(state["now"])


_WAYS = (
    "(x, y), two tensors, which stay in memory; a torch.utils.data.Dataset of pairs, such as one of torchvision; or a "
    "torch.utils.data.DataLoader"
)


def batches_of(
    data: Data, size: int | None, device: torch.device, order: torch.Generator | None, run: torch.Generator
) -> Batches:
    """The batches of what is given for `data` and `batch_size`, in the order of a generator or of that of the run."""
    if isinstance(data, DataLoader):
        if order is not None:
            raise ValueError(
                "shuffle_generator orders tensors and data sets, but a DataLoader draws its own order: give it the "
                "generator, DataLoader(..., shuffle=True, generator=...)."
            )
        if size is not None and size != data.batch_size:
            raise ValueError(
                f"batch_size is {size}, but the loader gives batches of its own (batch_size={data.batch_size}): leave "
                "it out."
            )
        return LoaderBatches(data, device)
    if size is None:
        raise ValueError("batch_size is missing: only a DataLoader brings one. Give the rows in a step.")
    size = check_count("batch_size", size)
    if isinstance(data, IterableDataset):
        return LoaderBatches(DataLoader(data, batch_size=size), device)
    if isinstance(data, TensorDataset) and len(data.tensors) == 2:
        data = data.tensors[0], data.tensors[1]
    generator = run if order is None else order
    if isinstance(data, Dataset):
        batches: TensorBatches = ItemBatches(data, size, device, generator)
    else:
        batches = TensorBatches(checked_pair(data), size, device, generator)
    batches.own_order = order is not None
    return batches


def pair_of(batch: Any, device: torch.device) -> Pair:
    """A batch of a loader on the device."""
    advice = "Let the data set return pairs, or give the DataLoader a collate_fn that makes them."
    x, y = _two("a batch", batch, "(x, y), two tensors, rows first", advice)
    return _same_rows(x.to(device, non_blocking=True), y.to(device, non_blocking=True))


def checked_pair(data: Any) -> Pair:
    """What is given as (x, y)."""
    return _same_rows(*_two("data", data, _WAYS, "Of arrays, give (torch.as_tensor(x), torch.as_tensor(y))."))


def _two(name: str, given: Any, allowed: str, advice: str) -> Pair:
    parts = given if isinstance(given, tuple | list) else (given,)
    if len(parts) != 2 or not all(isinstance(part, Tensor) for part in parts):
        kinds = ", ".join(type(part).__name__ for part in parts[:3])
        more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
        raise ValueError(f"{name} is {kinds}{more}, but it must be {allowed}. {advice}")
    return parts[0], parts[1]


def _same_rows(x: Tensor, y: Tensor) -> Pair:
    if x.dim() == 0 or y.dim() == 0 or len(x) != len(y) or len(x) == 0:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}, but both need the same number of rows, at least one."
        )
    return x, y
