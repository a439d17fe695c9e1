"""The order of training examples: a pure function of (seed, step), so a resumed run meets the same batches."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from attnlab.data.files.fetch import DataError


@runtime_checkable
class Order(Protocol):
    """Example numbers of every batch."""

    def __getitem__(self, batch: int) -> np.ndarray: ...


class BatchOrder:
    """Endless batches of example numbers.

    Each epoch shuffles every group anew; its batches take one batch of each group in turn (sort-of-CLEVR: ternary,
    binary, unary). The incomplete batch at the end of an epoch is dropped; a group smaller than a batch is one batch.

    With a window, each part of that many batches is sorted by length before it is cut, and its batches are shuffled:
    examples of like length meet, and lengths still come in any order. With a budget of tokens, a batch is as large as
    the budget allows, up to `batch_size` examples, and no example is left out (fairseq's max_tokens and max_sentences,
    Ott et al. 2019).

    Args:
        groups: example numbers of each group; most tasks have one group, all of them.
        batch_size: examples a batch; with a budget, the most.
        seed: `seed` of the run.
        extents: [n, sequences of an example] lengths of every example; for a window or a budget.
        window: batches of `batch_size` that are sorted together; None: nothing is sorted.
        tokens: padded tokens a batch, all sequences of its examples together; None: no such limit.

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
            self._require_lengths()
        # batches before each epoch that has been counted
        self._before = [0]
        self._epoch, self._planned = -1, []

    def _require_lengths(self) -> None:
        if self.extents is None:
            raise DataError(
                "train.bucket_window and train.batch_tokens need examples with lengths; write null for both"
            )
        self._mean = self.extents.mean(0)
        numbers = np.concatenate(self.groups)
        sizes = self.extents[numbers].sum(1)
        longest, size = numbers[sizes.argmax()], sizes.max()
        if self.tokens is not None and size > self.tokens:
            raise DataError(
                f"train.batch_tokens={self.tokens}: training example {longest} alone has {size} tokens (inputs and "
                f"outputs, framing included); expected at least {size}"
            )

    @property
    def batches_per_epoch(self) -> int:
        """Batches of an epoch; with a budget of tokens, where epochs differ, of the first one."""
        return self.batches_in(1)

    def batches_in(self, epochs: int) -> int:
        """Batches of the first so many epochs."""
        if self.tokens is None:
            return epochs * len(self.groups) * (min(map(len, self.groups)) // self.batch_size)
        while len(self._before) <= epochs:
            plan = self._plan(len(self._before) - 1)
            self._before.append(self._before[-1] + len(plan) * min(map(len, plan)))
        return self._before[epochs]

    def __getitem__(self, batch: int) -> np.ndarray:
        """Example numbers [batch_size] of batch number `batch`, counted from 0 over all epochs."""
        epoch, place = self._place(batch)
        turn, group = divmod(place, len(self.groups))
        return self._plan(epoch)[group][turn]

    def since(self, batch: int) -> Iterator[np.ndarray]:
        """Batches from number `batch` on, without end."""
        while True:
            yield self[batch]
            batch += 1

    def _place(self, batch: int) -> tuple[int, int]:
        """Epoch of a batch and its place there."""
        if self.tokens is None:
            return divmod(batch, self.batches_per_epoch)
        while self._before[-1] <= batch:
            self.batches_in(len(self._before))
        epoch = bisect_right(self._before, batch) - 1
        return epoch, batch - self._before[epoch]

    def _plan(self, epoch: int) -> list[Sequence[np.ndarray]]:
        """The batches of each group; the last one that was asked for is kept."""
        if epoch != self._epoch:
            draw = np.random.default_rng((self.seed, epoch))
            shuffled = [draw.permutation(group) for group in self.groups]
            self._planned = [self._batches(numbers, draw) for numbers in shuffled]
            self._epoch = epoch
        return self._planned

    def _batches(self, numbers: np.ndarray, draw: np.random.Generator) -> Sequence[np.ndarray]:
        """A shuffled group cut into batches."""
        if self.tokens is None:
            # what is left over is dropped before anything is sorted: else it were always the longest
            numbers = numbers[: len(numbers) // self.batch_size * self.batch_size]
        if self.window is None:
            return self._cut(numbers)
        size, found = self.window * self.batch_size, []
        for start in range(0, len(numbers), size):
            part = numbers[start : start + size]
            part = part[self._by_length(part)]
            batches = self._cut(part)
            found += [batches[place] for place in draw.permutation(len(batches))]
        return found

    def _by_length(self, numbers: np.ndarray) -> np.ndarray:
        """Places of the examples in ascending order of length; equal ones stay as they are drawn.

        Where an example has two sequences, the one that is longer for its kind counts first: sorted so, PCFG and
        Mathematics are padded less than by one of the two, or by their sum, and SCAN hardly more.
        """
        sizes = self.extents[numbers]
        return np.lexsort((sizes.sum(1), (sizes / self._mean).max(1)))

    def _cut(self, numbers: np.ndarray) -> Sequence[np.ndarray]:
        """Batches of examples in this order, each as large as it may be, the last two of one size where they can."""
        if self.tokens is None:
            return numbers.reshape(-1, self.batch_size)
        found, start = [], 0
        while start < len(numbers):
            part = numbers[start : start + self.batch_size]
            fitting = self._padded(part) <= self.tokens
            found.append(part[: fitting.sum()])
            start += len(found[-1])
        last = np.concatenate(found[-2:])
        halves = last[: -(len(last) // 2)], last[-(len(last) // 2) :]
        if len(found) > 1 and all(self._padded(half)[-1] <= self.tokens for half in halves):
            # else a few examples that are left over were a batch, and as much of a step as any other
            found[-2:] = halves
        return found

    def _padded(self, numbers: np.ndarray) -> np.ndarray:
        """Padded tokens [n] of a batch of the first 1, 2, ... of these examples."""
        return np.maximum.accumulate(self.extents[numbers]).sum(1) * np.arange(1, len(numbers) + 1)
