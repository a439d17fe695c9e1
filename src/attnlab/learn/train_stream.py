"""Data loader of training batches, starting at any step."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import torch
from torch.utils.data import DataLoader, IterableDataset

from attnlab.data.batch import Batch
from attnlab.data.batch_order import Order
from attnlab.data.length_padding import LengthBuckets
from attnlab.learn.stop_signals import NOTICES
from attnlab.tasks.base import Examples


class TrainStream(IterableDataset):
    """Endless training batches from number `first` on; a function of seed and number, so nothing is replayed.

    Args:
        round_lengths: pad batches to few lengths, for compiled steps.
        share: (r, n): rows r, r + n, ... of every batch, for process r of n. A process for which a batch has no row
            gets the first one, which is not `counted`.
    """

    def __init__(
        self,
        examples: Examples,
        order: Order,
        first: int,
        round_lengths: bool = False,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self.examples, self.order, self.first, self.share = examples, order, first, share
        self.buckets = LengthBuckets(examples) if round_lengths else None
        self.extents = examples.extents()

    def __iter__(self) -> Iterator[Batch]:
        worker = torch.utils.data.get_worker_info()
        offset, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for number in count(self.first + offset, stride):
            numbers, (rank, world) = self.order[number], self.share
            has_rows = rank < len(numbers)
            numbers = numbers[rank::world] if has_rows else numbers[:1]
            batch = self.examples.batch(numbers)
            if not has_rows:
                batch = replace(batch, counted=False)
            if self.extents is not None:
                batch = replace(batch, host_extents=self.extents[numbers])
            yield batch if self.buckets is None else self.buckets(batch)


SECONDS_LEFT = 10
"""until a worker ends after SIGTERM, so that the current step can be saved"""


def _leave_signals_to_the_parent(worker: int) -> None:
    """Ignores stop signals in a worker, because they reach all processes of a terminal or Slurm job: if a worker died,
    the current step could not be saved. SIGTERM still ends the worker, later, so that no worker hangs.
    """
    for signum in (signal.SIGINT, *NOTICES):
        signal.signal(signum, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda signum, frame: signal.alarm(SECONDS_LEFT))


def train_loader(
    examples: Examples,
    order: Order,
    first: int,
    workers: int,
    pin: bool = False,
    round_lengths: bool = False,
    share: tuple[int, int] = (0, 1),
) -> DataLoader:
    """The data loader; with workers, batch k comes from worker k modulo their number, so the order is the same.

    Data on a device is read without workers and page-locked memory. `share` is as in `TrainStream`.
    """
    if examples.store is not None:
        workers, pin = 0, False
    return DataLoader(
        TrainStream(examples, order, first, round_lengths, share),
        batch_size=None,
        num_workers=workers,
        pin_memory=pin,
        worker_init_fn=_leave_signals_to_the_parent,
        persistent_workers=workers > 0,
        # A separate generator: making the loader must not draw from the global random state.
        generator=torch.Generator(),
    )
