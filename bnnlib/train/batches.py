"""Where the batches of an epoch come from: tensors, a data set, or a loader with workers of its own."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate
from torch.utils.data import sampler as samplers
from torch.utils.data.distributed import DistributedSampler

from bnnlib._checks import check_count

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
        self.items: Any = data
        self.rows, self.size, self.device = _length(data), size, device
        self.number = -(-self.rows // size)
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
        (self.rows, self.doubt), self.number = _observations(loader), None
        try:
            self.number = len(loader)
        except TypeError:  # a stream without a length
            pass
        self._samplers = _samplers(loader)
        self.exact = not isinstance(loader.dataset, IterableDataset) and (
            getattr(loader, "in_order", True)
            and all(type(source) in _KNOWN or hasattr(source, "generator") for source in self._samplers)
        )
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


_KNOWN = {
    samplers.BatchSampler,
    samplers.RandomSampler,
    samplers.SequentialSampler,
    samplers.SubsetRandomSampler,
    samplers.WeightedRandomSampler,
    DistributedSampler,
}
# What a sampler draws from, however many rows an epoch has of it.
_SOURCES = {
    samplers.RandomSampler: "data_source",
    samplers.SequentialSampler: "data_source",
    samplers.WeightedRandomSampler: "weights",
    DistributedSampler: "dataset",
}
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


def _samplers(loader: DataLoader) -> list[Any]:
    """Those that decide about the order: of rows, of batches, and of rows within these."""
    outer = loader.batch_sampler
    own = [loader.sampler, outer, getattr(outer, "sampler", None)]
    return [sampler for at, sampler in enumerate(own) if sampler is not None and sampler not in own[:at]]


def _observations(loader: DataLoader) -> tuple[int | None, str | None]:
    """The rows that an epoch is about, and what is in doubt about their number."""
    outer = loader.batch_sampler
    if outer is None:  # batch_size=None: an item is a batch, of rows that nobody has counted
        return None, None
    rows, inner = _size(loader.dataset), getattr(outer, "sampler", None)
    if isinstance(loader.dataset, IterableDataset):
        return rows, None
    for kind, source in _SOURCES.items():
        if isinstance(inner, kind):
            return _size(getattr(inner, source)), None
    # of all other rows somebody else makes use, such as the validation; those that come twice are one
    if isinstance(inner, samplers.SubsetRandomSampler | Sequence | Tensor):
        return _least(len(inner), rows), None
    if inner is None and isinstance(outer, Sequence):
        return _least(sum(map(len, outer)), rows), None
    chosen = None if inner is None else _size(inner)
    if rows is None or (chosen is not None and chosen >= rows):
        return rows, None
    number = "rows that cannot be counted" if chosen is None else f"{chosen} rows an epoch"
    return rows, (
        f"{type(outer if inner is None else inner).__name__} chooses {number} of the {rows} of the data set, and n, "
        f"against which the prior is weighed, is taken to be {rows}. Give num_data: {rows} if each epoch has others of "
        "them, else the number of those that it chooses."
    )


def _least(chosen: int, rows: int | None) -> int:
    return chosen if rows is None else min(chosen, rows)


def _size(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:
        return None


def _length(data: Any) -> int:
    rows = _size(data)
    if rows is None:
        raise ValueError(
            f"{type(data).__name__} has no length, which the order of its rows needs. Give it a __len__, or make it an "
            "IterableDataset and give num_data."
        )
    if rows == 0:
        raise ValueError(f"{type(data).__name__} is empty, but it needs at least one row.")
    return rows


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
