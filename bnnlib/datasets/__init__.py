"""Data sets by name, downloaded once, verified, and loaded as tensors.

    from bnnlib import datasets
    mnist = datasets.load("mnist")  # images (60000, 1, 28, 28) in [0, 1]
    boston = datasets.standardize(datasets.load("boston", split=3))
    seed = torch.Generator().manual_seed(0)
    train, validation = mnist.validation_split(10_000, generator=seed)

Files are looked for in $BNNLIB_DATA, else in data/cache/sets of a checkout or bnnlib in the user's cache folder.
registry.toml lists the sets; data/README.md of the repository explains the layout.
"""

from bnnlib.datasets.api import available, fetch, fingerprint, load
from bnnlib.datasets.dataset import Dataset, Scaling, standardize
from bnnlib.datasets.errors import (
    DatasetError,
    DownloadError,
    IntegrityError,
    NotAvailableError,
    UnknownDatasetError,
)
from bnnlib.datasets.registry import names

__all__ = [
    "Dataset",
    "DatasetError",
    "DownloadError",
    "IntegrityError",
    "NotAvailableError",
    "Scaling",
    "UnknownDatasetError",
    "available",
    "fetch",
    "fingerprint",
    "load",
    "names",
    "standardize",
]
