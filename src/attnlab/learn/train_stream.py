"""The stream of training batches, from any step on, as a loader."""

import signal
from collections.abc import Iterator

import torch
from torch.utils.data import DataLoader, IterableDataset

from attnlab.data.batch import Batch
from attnlab.data.batch_order import Order
from attnlab.data.length_buckets import LengthBuckets
from attnlab.learn.stop_signals import NOTICES
from attnlab.tasks.base import Examples


class TrainStream(IterableDataset):
    """Training batches from number `first` on, without end; the order knows seed and step, so nothing is replayed.

    Args:
        round_lengths: pad batches up to a few lengths, for compiled steps.
    """

    def __init__(self, examples: Examples, order: Order, first: int, round_lengths: bool = False) -> None:
        self.examples, self.order, self.first = examples, order, first
        self.buckets = LengthBuckets(examples) if round_lengths else None

    def __iter__(self) -> Iterator[Batch]:
        worker = torch.utils.data.get_worker_info()
        offset, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        number = self.first + offset
        while True:
            batch = self.examples.batch(self.order[number])
            yield batch if self.buckets is None else self.buckets(batch)
            number += stride


SECONDS_LEFT = 10
"""that a worker goes on after SIGTERM, so that the step under way can be saved"""


def _leave_signals_to_the_parent(worker: int) -> None:
    """Signals reach every process of a terminal or of a Slurm job; a worker that died of one would break the step that
    is to be saved. SIGTERM is also what ends a worker that hangs.
    """
    for signum in (signal.SIGINT, *NOTICES):
        signal.signal(signum, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda signum, frame: signal.alarm(SECONDS_LEFT))


def train_loader(
    examples: Examples, order: Order, first: int, workers: int, pin: bool = False, round_lengths: bool = False
) -> DataLoader:
    """The stream as a loader; with workers, batch k comes from worker k modulo their number, so the order stays.

    Data on a device needs no workers and no page-locked memory: both are left out.
    """
    if examples.store is not None:
        workers, pin = 0, False
    return DataLoader(
        TrainStream(examples, order, first, round_lengths),
        batch_size=None,
        num_workers=workers,
        pin_memory=pin,
        worker_init_fn=_leave_signals_to_the_parent,
        persistent_workers=workers > 0,
        # A generator of its own: making the loader must not draw from the global random state.
        generator=torch.Generator(),
    )
