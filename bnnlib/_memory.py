"""Memory of the host that is given back to the system and asked for again at every step."""

import ctypes
from functools import cache

_TRIM, _MMAP = -1, -3  # of malloc.h
_LARGEST = 2**25  # bytes, the largest threshold for a block of its own that glibc takes


@cache
def keep_pages() -> None:
    """Let the C library keep freed memory, once a process.

    A step frees as much as it takes. glibc returns what is free at the end of the heap to the system as soon as that is
    twice the largest block freed before, a few weights' worth, and each of its pages then costs a fault at the next
    step: 3,100 faults and a quarter of the time for a spike-and-slab network of 478,410 weights. Blocks of up to 32 MiB
    come from the heap here, whose end is kept up to 1 GiB. Other allocators know no `mallopt`.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not the allocator of Linux
        return
    mallopt(_MMAP, _LARGEST)
    mallopt(_TRIM, 2**30)
