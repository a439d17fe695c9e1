"""The LightningModule of all tasks: loss, optimiser, gradient clipping, and the check for NaN and infinite losses."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import OptimizerConfig, OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnlab.config.problem import UserError
from attnlab.config.schema import Config, piece_tokens, steps_of
from attnlab.data.batch import Batch
from attnlab.data.task_spec import TaskSpec
from attnlab.kernels.compiled_step import KeptGradients, compiled
from attnlab.learn.devices.process_group import ALONE, Ranks
from attnlab.learn.devices.rank_layout import RankError
from attnlab.learn.optimizers import make_optimizer, with_schedule
from attnlab.tasks.kinds.base import kind_of


class NonFiniteLoss(UserError):
    """The loss or the weights became NaN or infinite; the message names step, examples and parameter."""


@dataclass(frozen=True)
class StepLosses:
    """Losses of a training step by name on their way to the CPU, so that the check for NaN does not make the GPU wait.

    step: number of optimiser steps before it.
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

    def numbers(self) -> dict[str, float]:
        """The values as Python numbers, after waiting for them."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return {name: float(value) for name, value in self.values.items()}


class LossMonitor:
    """Keeps the losses that are not checked yet, with `late` for a step more: a GPU never waits for the check."""

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


class TrainingModule(pl.LightningModule):
    """Trains a network on a task; the step is compiled if `trainer.compile` says so.

    Args:
        ranks: the processes among which every batch is divided.

    Attributes:
        metrics: `train/loss`, `train/ortho`, `train/gradient_norm`, `train/lr` of the last step.
        loss_monitor: decides when losses are checked; in any case before weights are validated or saved.
    """

    _batch: Batch

    def __init__(self, config: Config, network: nn.Module, spec: TaskSpec, ranks: Ranks = ALONE) -> None:
        super().__init__()
        self.config, self.network, self.kind, self.ranks = config, network, kind_of(spec), ranks
        # Kept: to collect them from the modules takes a percent of a small step.
        self.weights = list(network.parameters())
        device, compiles = self.weights[0].device, config.trainer.compile
        self.objective = self.kind.loss
        self._whole = compiled(self.objective, device) if compiles else self.objective
        self._kept_gradients = KeptGradients(self.weights) if compiles and device.type == "cuda" else None
        self.loss_monitor = LossMonitor(late=device.type == "cuda")
        self.metrics: dict[str, Tensor | float] = {}
        self._unchecked = True

    def losses_of(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss and penalty of a batch; in pieces beyond `train.max_tokens`, or as `train.accumulate` says.

        Pieces are never compiled: each has another length.
        """
        pieces = batch.pieces(piece_tokens(self.config.train), self.config.train.accumulate)
        if len(pieces) == 1:
            return self._whole(self.network, batch)
        return over_pieces(partial(self.objective, self.network), pieces, [piece.counts.sum() for piece in pieces])

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        batch = self.kind.training_batch(batch)
        loss, penalty = self.losses_of(batch)
        whole_loss, whole_penalty = loss.detach(), penalty.detach()
        if self.ranks.world > 1:
            loss, penalty, whole_loss, whole_penalty = shares_of_ranks(self.ranks, batch, loss, penalty)
        self._batch = batch
        self.metrics["train/loss"] = whole_loss
        weight = self.config.model.ortho.weight
        if weight > 0:
            self.metrics["train/ortho"] = whole_penalty
            loss = loss + weight * penalty
        return loss

    def on_after_backward(self) -> None:
        if self.ranks.world > 1 and self._unchecked:
            self._unchecked = False
            self._require_all_gradients()
        if self._kept_gradients is not None:
            self._kept_gradients()
        self.check(self.loss_monitor.after(self.global_step, self._batch, self.metrics))

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch.to(device)

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:
        if self._kept_gradients is not None:
            optimizer.zero_grad(set_to_none=False)
            return
        # as `zero_grad` does, in a tenth of its time
        for weight in self.weights:
            weight.grad = None

    def check(self, due: Sequence[StepLosses]) -> None:
        """Check that losses are finite. Raises NonFiniteLoss: one is not (`Ranks.refuse`)."""
        for losses in due:
            if not all(map(math.isfinite, losses.numbers().values())):
                gradients = {n: p.grad for n, p in self.network.named_parameters() if p.grad is not None}
                self.ranks.refuse(NonFiniteLoss(self.describe_non_finite(losses, gradients)))

    def describe_non_finite(self, losses: StepLosses, gradients: Mapping[str, Tensor]) -> str:
        """Message with step, examples and largest gradient; a gradient that is not finite counts as the largest."""
        sizes = {name: gradient.abs().max().item() for name, gradient in gradients.items()}
        name = max(sizes, key=lambda n: sizes[n] if math.isfinite(sizes[n]) else math.inf) if sizes else "none"
        numbers, examples = losses.numbers(), self._examples(losses.batch)
        shown = ", ".join(map(str, examples[:8])) + (", ..." if len(examples) > 8 else "")
        penalty = f" (orthogonality loss {numbers['train/ortho']})" if "train/ortho" in numbers else ""
        return (
            f"the loss is {numbers['train/loss']}{penalty} at step {losses.step}, on training examples "
            f"{shown} ({len(examples)} in the batch); largest gradient{' by now' if self.loss_monitor.late else ''}: "
            f"{sizes.get(name, float('nan'))} in {name}"
        )

    def _examples(self, batch: Batch) -> list[int]:
        """Numbers of the examples of a whole batch, of which each process has every `world`-th row."""
        parts = self.ranks.gather(batch.index.tolist() if batch.counted else [])
        return [part[row] for row in range(len(parts[0])) for part in parts if row < len(part)]

    def _require_all_gradients(self) -> None:
        """Refuse a parameter that a step does not use: DDP would wait for its gradient at the next step.

        Raises:
            RankError: names the parameter.
        """
        unused = [name for name, weight in self.network.named_parameters() if weight.grad is None]
        if unused:
            self.ranks.refuse(
                RankError(
                    f"the loss does not depend on the parameters {unused[0]} ({len(unused)} such in the network), and "
                    "several devices need a gradient of every parameter; write trainer.devices=1"
                )
            )

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        """Clips single gradients, then the norm of all gradients; without a limit the norm is only measured."""
        limit, largest = self.config.optim.clip_norm, self.config.optim.clip_value
        if largest is not None:
            nn.utils.clip_grad_value_(self.weights, largest)
        if limit is None:
            norm = nn.utils.get_total_norm([p.grad for p in self.weights if p.grad is not None])
        else:
            norm = nn.utils.clip_grad_norm_(self.weights, limit)
        self.metrics["train/gradient_norm"] = norm.detach()
        self.metrics["train/lr"] = optimizer.param_groups[0]["lr"]

    def require_finite_weights(self) -> None:
        """Check losses and weights before weights are saved or validated: an update can make weights NaN or infinite.

        Raises:
            NonFiniteLoss: a loss that was not checked yet, or a weight, is not finite.
        """
        self.check(self.loss_monitor.unchecked())
        for name, parameter in self.network.named_parameters():
            if not parameter.isfinite().all():
                norm = float(self.metrics.get("train/gradient_norm", math.nan))
                error = NonFiniteLoss(
                    f"the weights {name} are not finite after step {self.global_step} (loss "
                    f"{float(self.metrics['train/loss'])}, gradient norm {norm}); try a lower optim.lr or clip_norm"
                )
                self.ranks.refuse(error)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig | OptimizerConfig:
        # With float16 a fused optimiser unscales gradients itself, after they were clipped: the limit would be wrong.
        fused = self.config.train.precision != "16-mixed"
        optimizer = make_optimizer(self.config.optim, self.network.parameters(), fused)
        return with_schedule(optimizer, self.config.optim, steps_of(self.config.train))


def over_pieces(
    objective: Callable[[Batch], tuple[Tensor, Tensor]], pieces: Sequence[Batch], weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Loss and penalty of a batch that is computed in pieces, with activation checkpointing.

    The backward pass computes each piece again, so that only one graph is in memory at a time.

    Args:
        objective: returns loss and penalty of a piece.
        weights: for each piece, how many items its loss is a mean over.
    """
    # `checkpoint` restores the random state of the devices of its tensor arguments, and sees no tensor inside a batch.
    losses = [
        checkpoint(lambda batch, index: objective(batch), piece, piece.index, use_reentrant=False) for piece in pieces
    ]
    loss = sum(weight * each for weight, (each, _) in zip(weights, losses, strict=True))
    penalty = sum(len(piece) * each for piece, (_, each) in zip(pieces, losses, strict=True))
    return loss / sum(weights[1:], weights[0]).clamp(min=1), penalty / sum(map(len, pieces))


def shares_of_ranks(ranks: Ranks, batch: Batch, loss: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss and penalty of the rows of this process, weighted so that the mean of the gradients of all processes is the
    gradient of the whole batch; and loss and penalty of the whole batch, without gradients.

    A loss is a mean over the counts of its rows, a penalty over the rows (the orthogonality loss leaves out rows of
    fewer than two tokens, which all tasks but blocks of text lack). DDP averages the gradients of the processes.
    """
    counts = batch.counts.sum().double()
    share = torch.stack((counts, torch.full_like(counts, len(batch)))) * batch.counted
    means = torch.stack((loss.detach(), penalty.detach())).double()
    # One sum for all four numbers. What is not counted is 0, also if it is not finite.
    sums = ranks.sum(torch.cat((share, torch.where(share > 0, share * means, 0.0))))
    whole = sums[2:] / sums[:2].clamp(min=1)
    weights = ranks.world * share / sums[:2].clamp(min=1)
    return (
        loss * weights[0].to(loss.dtype),
        penalty * weights[1].to(penalty.dtype),
        whole[0].to(loss.dtype),
        whole[1].to(penalty.dtype),
    )
