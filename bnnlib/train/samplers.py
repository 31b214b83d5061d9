"""What a loader's samplers say: how many observations an epoch is about, and whether its middle is found again."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import sampler as samplers
from torch.utils.data.distributed import DistributedSampler

_SEEDED = (
    samplers.BatchSampler,
    samplers.RandomSampler,
    samplers.SequentialSampler,
    samplers.SubsetRandomSampler,
    samplers.WeightedRandomSampler,
    DistributedSampler,
)
# What a sampler draws from, however many rows an epoch has of it.
_SOURCES = {
    samplers.RandomSampler: "data_source",
    samplers.SequentialSampler: "data_source",
    samplers.WeightedRandomSampler: "weights",
    DistributedSampler: "dataset",
}


def samplers_of(loader: DataLoader) -> list[Any]:
    """Those that decide about the order: of rows, of batches, and of rows within these."""
    outer = loader.batch_sampler
    own = [loader.sampler, outer, getattr(outer, "sampler", None)]
    return [sampler for at, sampler in enumerate(own) if sampler is not None and sampler not in own[:at]]


def repeats(loader: DataLoader) -> bool:
    """Whether the same states of generators make the same epoch."""
    order = all(type(one) in _SEEDED or hasattr(one, "generator") for one in samplers_of(loader))
    return not isinstance(loader.dataset, IterableDataset) and getattr(loader, "in_order", True) and order


def observations(loader: DataLoader) -> tuple[int | None, str | None]:
    """The rows that an epoch is about, and what is in doubt about their number."""
    outer = loader.batch_sampler
    if outer is None:  # batch_size=None: an item is a batch, of rows that nobody has counted
        return None, None
    rows, inner = size_of(loader.dataset), getattr(outer, "sampler", None)
    if isinstance(loader.dataset, IterableDataset):
        return rows, None
    for kind, source in _SOURCES.items():
        if isinstance(inner, kind):
            return size_of(getattr(inner, source)), None
    # of all other rows somebody else makes use, such as the validation; those that come twice are one
    listed = None
    if isinstance(inner, samplers.SubsetRandomSampler | Sequence | Tensor):
        listed = len(inner)
    elif inner is None and isinstance(outer, Sequence):
        listed = sum(map(len, outer))
    if listed is not None:
        return listed if rows is None else min(listed, rows), None
    chosen = None if inner is None else size_of(inner)
    if rows is None or (chosen is not None and chosen >= rows):
        return rows, None
    number = "rows that cannot be counted" if chosen is None else f"{chosen} rows an epoch"
    return rows, (
        f"{type(outer if inner is None else inner).__name__} chooses {number} of the {rows} of the data set, and n, "
        f"against which the prior is weighed, is taken to be {rows}. Give num_data: {rows} if each epoch has others of "
        "them, else the number of those that it chooses."
    )


def size_of(data: Any) -> int | None:
    """The length of what has one."""
    try:
        return len(data)
    except TypeError:
        return None
