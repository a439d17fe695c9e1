"""What is kept of a step until its loss is looked at, so that a GPU need not wait for the question."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.data.batch import Batch


@dataclass(frozen=True)
class Seen:
    """The loss of a step, on its way to the CPU.

    step: optimiser steps done before it.
    batch: what it is of.
    """

    step: int
    batch: Batch
    values: dict[str, Tensor]
    arrived: torch.cuda.Event | None

    @classmethod
    def of(cls, step: int, batch: Batch, values: dict[str, Tensor]) -> "Seen":
        """Copies the values, numbers or one for each run, without waiting for them."""
        # a GPU's go into page-locked memory
        copies = {name: value.detach().to("cpu", non_blocking=True) for name, value in values.items()}
        if not any(value.is_cuda for value in values.values()):
            return cls(step, batch, copies, None)
        arrived = torch.cuda.Event()
        arrived.record()
        return cls(step, batch, copies, arrived)

    def arrive(self) -> dict[str, Tensor]:
        """The values; waits until they are there."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.values

    def numbers(self) -> dict[str, float]:
        """The same of one run."""
        return {name: float(value) for name, value in self.arrive().items()}

    def of_run(self, row: int, runs: int) -> "Seen":
        """That of one of many runs, whose examples and values stand one after another."""
        size = len(self.batch) // runs
        rows = torch.arange(row * size, (row + 1) * size, device=self.batch.index.device)
        values = {name: value[row] for name, value in self.values.items()}
        return Seen(self.step, self.batch.select(rows), values, self.arrived)


class Watch:
    """Which losses are to be looked at now.

    Args:
        late: a loss is looked at when the next step is under way, so that a GPU never waits for it.
    """

    def __init__(self, late: bool) -> None:
        self.late = late
        self._seen: Seen | None = None

    def after(self, step: int, batch: Batch, metrics: Mapping[str, Tensor]) -> list[Seen]:
        """What is due after the backward pass of a step."""
        due = self.rest()
        values = {name: metrics[name] for name in ("train/loss", "train/ortho") if name in metrics}
        self._seen = Seen.of(step, batch, values)
        return due if self.late else due + self.rest()

    def rest(self) -> list[Seen]:
        """What was not looked at yet, before anything is saved or validated."""
        seen, self._seen = self._seen, None
        return [] if seen is None else [seen]
