"""The order of training examples: a pure function of (seed, step), so a resumed run meets the same batches."""

from collections.abc import Iterator, Sequence

import numpy as np


class BatchOrder:
    """Endless batches of example numbers.

    Each epoch shuffles every group anew; its batches take one batch of each group in turn (sort-of-CLEVR: ternary,
    binary, unary). The incomplete batch at the end of an epoch is dropped; a group smaller than a batch is one batch.

    Args:
        groups: example numbers of each group; most tasks have one group, all of them.
        batch_size: examples a batch.
        seed: `seed` of the run.
    """

    def __init__(self, groups: Sequence[np.ndarray], batch_size: int, seed: int) -> None:
        if not groups or any(len(group) == 0 for group in groups):
            raise ValueError("a training set without examples cannot be ordered: every group needs at least one")
        self.groups = [np.asarray(group, dtype=np.int64) for group in groups]
        self.batch_size = min(batch_size, *(len(group) for group in self.groups))
        self.seed = seed
        self._epoch, self._permuted = -1, self.groups

    @property
    def rounds(self) -> int:
        """Batches of each group in an epoch."""
        return min(len(group) for group in self.groups) // self.batch_size

    @property
    def batches_per_epoch(self) -> int:
        return self.rounds * len(self.groups)

    def __getitem__(self, batch: int) -> np.ndarray:
        """Example numbers [batch_size] of batch number `batch`, counted from 0 over all epochs."""
        epoch, place = divmod(batch, self.batches_per_epoch)
        if epoch != self._epoch:
            draw = np.random.default_rng((self.seed, epoch))
            self._permuted = [draw.permutation(group) for group in self.groups]
            self._epoch = epoch
        turn, group = divmod(place, len(self.groups))
        return self._permuted[group][turn * self.batch_size : (turn + 1) * self.batch_size]

    def since(self, batch: int) -> Iterator[np.ndarray]:
        """Batches from number `batch` on, without end."""
        while True:
            yield self[batch]
            batch += 1
