"""Memory of the host that is given back to the system and asked for again at every step."""

from __future__ import annotations

from functools import cache

import torch

_LARGEST = 2**25 - 2**16  # bytes; glibc learns from no block of 32 MiB or more


@cache
def keep_pages() -> None:
    """Let the C library keep freed memory, once a process.

    A step frees as much as it takes. glibc returns what is free at the end of the heap to the system as soon as that is
    twice the largest block freed before, a few weights' worth, and each of its pages then costs a fault at the next
    step: 3,100 faults and a quarter of the time for a spike-and-slab network of 478,410 weights. It learns its
    threshold from the blocks that it gets back, so that one block that nobody writes to raises it to 64 MiB. Other
    allocators do not mind.
    """
    torch.empty(_LARGEST, dtype=torch.uint8, device="cpu")
