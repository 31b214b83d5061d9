"""Memory of a piece of work."""

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak_bytes(work: Callable[[], object]) -> int:
    """Bytes at the worst moment of some work on the CPU beyond those at its start; a mapped file counts as its size."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = worst = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        worst = max(worst, now)
    return worst
