"""Peak memory of a call, on the CPU and on a GPU."""

import os
from collections.abc import Callable
from itertools import accumulate

import torch
from torch.autograd.profiler import profile

from attnlab.learn.devices import memory_use

# Otherwise the profiler reports to stderr that it starts and stops.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def process_peak(device: torch.device, compiled: bool) -> int:
    """Returns the peak memory of this process in bytes since the last reset.

    On a GPU what torch's allocator gave out; with compiled steps what it reserved, since a CUDA graph computes in
    memory that is reserved as it is recorded and is not given out when it is replayed.
    """
    if compiled and device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    return memory_use.peak_memory_bytes(device)


def peak_of(run: Callable[[], object], device: torch.device) -> float:
    """Returns the most that torch's allocator gives out during a call, in bytes, beyond what is in use before it.

    On a GPU nothing while a CUDA graph is replayed. On the CPU from the profiler's events:
    resident memory would count gaps in the heap, too, which depend on the calls before; a matrix product's own buffers
    are not counted.
    """
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        memory_use.reset_peak_memory(device)
        run()
        torch.cuda.synchronize(device)
        return max(memory_use.peak_memory_bytes(device) - before, 0)
    with profile(profile_memory=True) as result:
        run()
    events = [event for event in result.kineto_results.events() if event.name() == "[memory]"]
    changes = (event.nbytes() for event in sorted(events, key=lambda event: event.start_ns()))
    return max(accumulate(changes, initial=0))
