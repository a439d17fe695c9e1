"""Where a run goes on: reading its last checkpoint, and batches from that step on."""

import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile

import torch
from torch.utils.data import DataLoader, IterableDataset

from attnlab.data.batch import Batch
from attnlab.data.order import BatchOrder
from attnlab.data.padding import LengthBuckets
from attnlab.run.record import RunError
from attnlab.tasks.base import Examples


def read_checkpoint(path: Path) -> dict:
    """A file written by torch, plain types only.

    Raises:
        RunError: it is missing, cut short or damaged.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise RunError(f"{path} does not exist: the run has saved no weights yet, or they were removed") from None
    except (RuntimeError, EOFError, OSError, KeyError, ValueError, pickle.UnpicklingError, BadZipFile) as error:
        raise RunError(
            f"{path} is cut short or damaged ({type(error).__name__}); restore it from a copy, or move "
            f"{path.parent} away and repeat the training command to train from the start"
        ) from error


class TrainStream(IterableDataset):
    """Training batches from number `first` on, without end; the order knows seed and step, so nothing is replayed.

    Args:
        round_lengths: pad batches up to a few lengths, for compiled steps.
    """

    def __init__(self, examples: Examples, order: BatchOrder, first: int, round_lengths: bool = False) -> None:
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


def _leave_signals_to_the_parent(worker: int) -> None:
    """Ctrl-C reaches every process of a terminal; a worker that died of it would break the step that is to be saved."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def train_loader(
    examples: Examples, order: BatchOrder, first: int, workers: int, pin: bool = False, round_lengths: bool = False
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
