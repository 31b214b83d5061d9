"""Where an estimator computes: on the processor, with as many threads as it is told."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Let PyTorch use `n_jobs` threads, -1 for all cores; None for one, the fastest for networks of a few units.

    Contexts around it, such as `torch.no_grad()`, do not reach inside.
    """
    from joblib import effective_n_jobs  # which scikit-learn brings

    before = torch.get_num_threads()
    # a device that is set costs every operation some Python
    device = nullcontext() if torch.empty(0).device.type == "cpu" else torch.device("cpu")
    torch.set_num_threads(effective_n_jobs(1 if n_jobs is None else n_jobs))
    try:
        with torch.inference_mode(False), torch.enable_grad(), device:
            yield
    finally:
        torch.set_num_threads(before)
