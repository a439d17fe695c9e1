"""Memory that earlier jobs of a process have left."""

import gc
from itertools import count

import torch

from attnlab.learn.compiled_step import drop_graphs

_earlier = count()


def free_earlier_jobs() -> None:
    """Frees data, networks and recorded graphs of earlier jobs, before the next one takes memory; to be called at the
    start of every job.

    The objects of a job refer to each other, so they live until the garbage collector runs, and no lack of memory makes
    it run.
    """
    if not next(_earlier):
        return
    drop_graphs()
    gc.collect()
    # What is alive between jobs, mostly modules, is not searched again.
    gc.freeze()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
