"""Opens and closes the group of the processes of a run (`learn.process_group`)."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from attnlab.learn.process_group import ALONE, Ranks
from attnlab.learn.rank_layout import RankError, RankLayout, RankWatch, left_open

ARRIVAL_SECONDS = 600.0
"""until all processes of a run have begun; their imports may take minutes on a shared file system"""
LONGEST = timedelta(days=1)
"""time that a process waits for another, which may prepare data meanwhile; the end of a process is noticed sooner"""
CLOSE_SECONDS = 10.0
"""that the end of the connections may take after an error"""
_stores: dict[tuple[str, int], dist.Store] = {}
"""stores of processes that torchrun or srun started: one for all runs of a process, since rank 0 keeps its port"""
_opened = 0
"""number of groups that this process has opened; equal in all processes of torchrun or srun"""


@contextmanager
def opened_ranks(
    layout: RankLayout, uses_gpu: bool, watch: RankWatch | None = None, listening: int | None = None
) -> Iterator[Ranks]:
    """The group of the processes of a run, open in this block; `ALONE` for a run in one process.

    Args:
        uses_gpu: whether the run may be on GPUs.
        watch: as in `Ranks`.
        listening: file of the socket on which rank 0 listens, if this process started the others.

    Raises:
        RankError: not all processes have come.
        Stopped: a signal has ended one of them before.
    """
    if layout.world == 1:
        yield ALONE
        return
    global _opened  # noqa: PLW0603
    _opened += 1
    store = _store(layout, listening)
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    # A prefix for each group, since keys of an earlier one may be left; processes that rank 0 starts open one group.
    own = dist.PrefixStore(f"attnlab/{restart}/{_opened if layout.starter else 1}", store)
    _await_all(own, layout, watch or RankWatch())
    backend = "cpu:gloo,cuda:nccl" if uses_gpu and torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=own, rank=layout.rank, world_size=layout.world, timeout=LONGEST)
    alone, ranks = True, Ranks(layout, watch)
    try:
        yield ranks
        alone = False
    except RuntimeError as error:
        if (cause := ranks.cause(error)) is error:
            raise
        raise cause from error
    finally:
        _close_group(may_wait=alone and backend != "gloo")


def _close_group(may_wait: bool) -> None:
    """Close the group of this process.

    Args:
        may_wait: an error ended the run on this process, and NCCL would wait for the others without end: they may not
            know of the error yet. Then the group is left open after a while (`rank_layout.left_open`).
    """
    if not may_wait:
        dist.destroy_process_group()
        return
    closing = threading.Thread(target=dist.destroy_process_group, daemon=True)
    closing.start()
    closing.join(CLOSE_SECONDS)
    if closing.is_alive():
        left_open.set()


def _store(layout: RankLayout, listening: int | None) -> dist.Store:
    """The store by which processes find each other: at rank 0, or with torchrun at its agent."""
    host, port = layout.address
    arrival = timedelta(seconds=ARRIVAL_SECONDS)
    if listening is not None:
        return dist.TCPStore(
            host,
            port,
            is_master=True,
            wait_for_workers=False,
            timeout=arrival,
            master_listen_fd=listening,
            use_libuv=False,
        )
    if (host, port) not in _stores:
        at_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        try:
            _stores[host, port] = dist.TCPStore(
                host, port, is_master=layout.rank == 0 and not at_agent, wait_for_workers=False, timeout=arrival
            )
        except dist.DistError as error:
            raise RankError(f"rank {layout.rank} does not reach rank 0 at {host}:{port}: {error}") from error
    return _stores[host, port]


def _await_all(store: dist.Store, layout: RankLayout, watch: RankWatch) -> None:
    """Wait until all processes have begun; torch itself would wait as long as for data."""
    names = [f"here/{rank}" for rank in range(layout.world)]
    store.set(names[layout.rank], "")
    until = time.monotonic() + ARRIVAL_SECONDS
    while not store.check(names):
        if (fault := watch.ended()) is not None:
            raise fault
        if time.monotonic() > until:
            missing = [rank for rank, name in enumerate(names) if not store.check([name])]
            raise RankError(
                f"of the {layout.world} processes of this run, rank {', '.join(map(str, missing))} did not begin "
                f"within {ARRIVAL_SECONDS / 60:.0f} minutes"
            )
        time.sleep(0.05)
