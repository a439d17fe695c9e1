"""Order of the training examples: a pure function of (seed, step), so that a resumed run gets the same batches."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from attnlab.data.files.fetch import DataError

Batches = Sequence[np.ndarray] | np.ndarray
"""batches of example numbers: arrays of any sizes, or the rows of a table"""


@runtime_checkable
class Order(Protocol):
    """Example numbers of every batch."""

    def __getitem__(self, batch: int) -> np.ndarray: ...


class BatchOrder:
    """Endless batches of example numbers.

    Each epoch shuffles every group and takes one batch of each group in turn (sort-of-CLEVR: ternary, binary, unary).
    The incomplete batch at the end of an epoch is dropped. The smallest group limits the size of every batch.

    With a window, each window of batches is sorted by length before it is cut, and its batches are shuffled: a batch
    has similar lengths, and the lengths of successive batches are random. With a token budget, a batch is as large as
    the budget allows, up to `batch_size` examples, and no example is dropped (fairseq's max_tokens and max_sentences,
    Ott et al. 2019).

    Args:
        groups: example numbers of each group; most tasks have one group of all examples.
        batch_size: examples per batch; with a budget, the maximum.
        seed: `seed` of the run.
        extents: [n, sequences of an example] lengths of every example; needed for a window or a budget.
        window: number of batches of `batch_size` that are sorted together; None: no sorting.
        tokens: padded tokens per batch, over all sequences of its examples; None: no limit.

    Raises:
        DataError: an example is longer than the budget, or has no length.
    """

    def __init__(
        self,
        groups: Sequence[np.ndarray],
        batch_size: int,
        seed: int,
        *,
        extents: np.ndarray | None = None,
        window: int | None = None,
        tokens: int | None = None,
    ) -> None:
        if not groups or any(len(group) == 0 for group in groups):
            raise ValueError("a training set without examples cannot be ordered: every group needs at least one")
        self.groups = [np.asarray(group, dtype=np.int64) for group in groups]
        self.batch_size = min(batch_size, *(len(group) for group in self.groups))
        self.seed, self.extents, self.window, self.tokens = seed, extents, window, tokens
        if window is not None or tokens is not None:
            self._lengths = self._required_lengths()
            self._mean = self._lengths.mean(0)
        # number of batches before each epoch, for the epochs counted so far
        self._before = [0]
        self._epoch, self._planned = -1, list[Batches]()

    def _required_lengths(self) -> np.ndarray:
        if self.extents is None:
            raise DataError(
                "train.bucket_window and train.batch_tokens need examples with lengths; write null for both"
            )
        numbers = np.concatenate(self.groups)
        sizes = self.extents[numbers].sum(1)
        longest, size = numbers[sizes.argmax()], sizes.max()
        if self.tokens is not None and size > self.tokens:
            raise DataError(
                f"train.batch_tokens={self.tokens}: training example {longest} alone has {size} tokens (inputs and "
                f"outputs, framing included); expected at least {size}"
            )
        return self.extents

    @property
    def batches_per_epoch(self) -> int:
        """Batches per epoch; with a token budget, where epochs differ, batches of the first epoch."""
        return self.batches_in(1)

    def batches_in(self, epochs: int) -> int:
        """Total number of batches of the first `epochs` epochs."""
        if self.tokens is None:
            return epochs * len(self.groups) * (min(map(len, self.groups)) // self.batch_size)
        while len(self._before) <= epochs:
            plan = self._plan(len(self._before) - 1)
            self._before.append(self._before[-1] + len(plan) * min(map(len, plan)))
        return self._before[epochs]

    def __getitem__(self, batch: int) -> np.ndarray:
        """Example numbers [batch_size] of batch number `batch`, counted from 0 over all epochs."""
        epoch, offset = self._locate(batch)
        turn, group = divmod(offset, len(self.groups))
        return self._plan(epoch)[group][turn]

    def since(self, batch: int) -> Iterator[np.ndarray]:
        """Endless iterator over the batches from number `batch` on."""
        while True:
            yield self[batch]
            batch += 1

    def _locate(self, batch: int) -> tuple[int, int]:
        """Epoch of a batch and its number in that epoch."""
        if self.tokens is None:
            return divmod(batch, self.batches_per_epoch)
        while self._before[-1] <= batch:
            self.batches_in(len(self._before))
        epoch = bisect_right(self._before, batch) - 1
        return epoch, batch - self._before[epoch]

    def _plan(self, epoch: int) -> list[Batches]:
        """The batches of each group in an epoch; the last plan is kept."""
        if epoch != self._epoch:
            draw = np.random.default_rng((self.seed, epoch))
            shuffled = [draw.permutation(group) for group in self.groups]
            self._planned = [self._batches(numbers, draw) for numbers in shuffled]
            self._epoch = epoch
        return self._planned

    def _batches(self, numbers: np.ndarray, draw: np.random.Generator) -> Batches:
        """A shuffled group cut into batches."""
        if self.tokens is None:
            # the remainder is dropped before sorting; after sorting it would always be the longest examples
            numbers = numbers[: len(numbers) // self.batch_size * self.batch_size]
        if self.window is None:
            return self._cut(numbers)
        size, windows = self.window * self.batch_size, []
        for start in range(0, len(numbers), size):
            part = numbers[start : start + size]
            part = part[self._by_length(part)]
            batches = self._cut(part)
            windows += [batches[number] for number in draw.permutation(len(batches))]
        return windows

    def _by_length(self, numbers: np.ndarray) -> np.ndarray:
        """Indices that sort examples by length; the sort is stable.

        With two sequences per example, the main sort key is the larger ratio of a length to its mean, ascending. PCFG
        and Mathematics get less padding this way than with one of the lengths or their sum; SCAN gets hardly more.
        """
        sizes = self._lengths[numbers]
        return np.lexsort((sizes.sum(1), (sizes / self._mean).max(1)))

    def _cut(self, numbers: np.ndarray) -> Batches:
        """Batches of examples in this order, each as large as allowed; the last two get equal sizes if possible."""
        if self.tokens is None:
            return numbers.reshape(-1, self.batch_size)
        batches, start = [], 0
        while start < len(numbers):
            part = numbers[start : start + self.batch_size]
            fitting = self._padded(part) <= self.tokens
            batches.append(part[: fitting.sum()])
            start += len(batches[-1])
        last = np.concatenate(batches[-2:])
        halves = last[: -(len(last) // 2)], last[-(len(last) // 2) :]
        if len(batches) > 1 and all(self._padded(half)[-1] <= self.tokens for half in halves):
            # otherwise a few remaining examples could be a whole training step
            batches[-2:] = halves
        return batches

    def _padded(self, numbers: np.ndarray) -> np.ndarray:
        """Padded tokens [n] of batches of the first 1, 2, ..., n examples."""
        return np.maximum.accumulate(self._lengths[numbers]).sum(1) * np.arange(1, len(numbers) + 1)


class StepOrder:
    """Example numbers of every optimiser step: those of `batches` successive batches of an order."""

    def __init__(self, order: Order, batches: int) -> None:
        self.order, self.batches = order, batches

    def __getitem__(self, step: int) -> np.ndarray:
        first = step * self.batches
        return np.concatenate([self.order[number] for number in range(first, first + self.batches)])
