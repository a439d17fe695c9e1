"""Losses of training steps on their way to the CPU, so that the check for NaN does not make the GPU wait."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.data.batch import Batch


@dataclass(frozen=True)
class StepLosses:
    """Losses of a training step, as they are copied to the CPU.

    step: number of optimiser steps before it.
    batch: the batch of the step.
    values: loss and penalty by name.
    arrived: signals on a GPU that the copies are complete.
    """

    step: int
    batch: Batch
    values: dict[str, Tensor]
    arrived: torch.cuda.Event | None

    @classmethod
    def of(cls, step: int, batch: Batch, values: dict[str, Tensor]) -> "StepLosses":
        """Starts to copy the values, without waiting for them."""
        # non_blocking: copies from a GPU go into page-locked memory
        copies = {name: value.detach().to("cpu", non_blocking=True) for name, value in values.items()}
        arrived = torch.cuda.Event() if any(value.is_cuda for value in values.values()) else None
        if arrived is not None:
            arrived.record()
        return cls(step, batch, copies, arrived)

    def arrive(self) -> dict[str, Tensor]:
        """The values, after waiting for them."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.values

    def numbers(self) -> dict[str, float]:
        """The values as Python numbers."""
        return {name: float(value) for name, value in self.arrive().items()}


class LossMonitor:
    """Keeps the losses that are not checked yet.

    Args:
        late: check losses one step later, so that a GPU never waits for the check.
    """

    def __init__(self, late: bool) -> None:
        self.late = late
        self._kept: StepLosses | None = None

    def after(self, step: int, batch: Batch, metrics: Mapping[str, Tensor | float]) -> list[StepLosses]:
        """Losses to check after the backward pass of a step."""
        due = self.unchecked()
        losses = {name: metrics.get(name) for name in ("train/loss", "train/ortho")}
        values = {name: value for name, value in losses.items() if isinstance(value, Tensor)}
        self._kept = StepLosses.of(step, batch, values)
        return due if self.late else due + self.unchecked()

    def unchecked(self) -> list[StepLosses]:
        """Losses that were not checked yet: to be checked before weights are saved or validated."""
        kept, self._kept = self._kept, None
        return [] if kept is None else [kept]
