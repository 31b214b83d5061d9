"""Times of experiments that compare two ways to do the same."""

import time
from collections.abc import Callable


def processor_milliseconds(call: Callable[[], object]) -> float:
    """What a call takes of the processor: on one thread, other work on the machine does not count."""
    began = time.process_time()
    call()
    return 1e3 * (time.process_time() - began)
