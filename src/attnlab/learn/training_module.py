"""The LightningModule of all tasks: loss, optimiser, gradient clipping, and the check for NaN and infinite losses."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from attnlab.config.message_text import UserError
from attnlab.config.schema import Config
from attnlab.data.batch import Batch
from attnlab.data.task_spec import TaskSpec
from attnlab.learn.compiled_step import OwnGradients, compiled
from attnlab.learn.loss_monitor import LossMonitor, StepLosses
from attnlab.learn.objectives import hide_tokens, objective_for, over_pieces
from attnlab.learn.optimizers import make_optimizer, make_schedule


class NonFiniteLoss(UserError):
    """The loss or the weights became NaN or infinite; the message names step, examples and parameter."""


class TrainingModule(pl.LightningModule):
    """Trains a network on a task.

    Attributes:
        latest: metrics of the last step (`train/loss`, `train/ortho`, `train/gradient_norm`, `train/lr`).
        loss_monitor: decides when losses are checked; in any case before weights are validated or saved.
    """

    def __init__(self, config: Config, network: nn.Module, spec: TaskSpec) -> None:
        super().__init__()
        self.config, self.network, self.spec = config, network, spec
        self.objective = objective_for(spec)
        device = next(network.parameters()).device
        self._whole = compiled(self.objective, device) if config.trainer.compile else self.objective
        replayed = config.trainer.compile and device.type == "cuda"
        self._own_gradients = OwnGradients(network.parameters()) if replayed else None
        self.loss_monitor = LossMonitor(late=device.type == "cuda")
        self.latest: dict[str, Tensor | float] = {}
        self._batch: Batch | None = None
        self._losses: list[Tensor] = []

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if self.spec.kind == "masked_language_model":
            batch = hide_tokens(batch, self.spec)
        loss, penalty = self._losses_of(batch)
        self._batch = batch
        if len(self._losses) == self.config.train.accumulate:
            self._losses.clear()
        self._losses.append(loss.detach())
        self.latest["train/loss"] = torch.stack(self._losses).mean()
        weight = self.config.model.ortho.weight
        if weight > 0:
            self.latest["train/ortho"] = penalty.detach()
            loss = loss + weight * penalty
        return loss

    def _losses_of(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss and penalty of a batch; a batch of more than `train.max_tokens` is computed in pieces.

        Pieces are never compiled: each has another length.
        """
        pieces = batch.pieces(self.config.train.max_tokens)
        if len(pieces) == 1:
            return self._whole(self.network, batch)
        return over_pieces(partial(self.objective, self.network), pieces, [piece.counts.sum() for piece in pieces])

    def on_after_backward(self) -> None:
        if self._own_gradients is not None:
            self._own_gradients()
        self._check(self.loss_monitor.after(self.global_step, self._batch, self.latest))

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad(set_to_none=self._own_gradients is None)

    def check_losses(self) -> None:
        """Check the losses that were not checked yet.

        Raises:
            NonFiniteLoss: a loss is not finite.
        """
        self._check(self.loss_monitor.unchecked())

    def _check(self, due: Sequence[StepLosses]) -> None:
        for losses in due:
            if not all(map(math.isfinite, losses.numbers().values())):
                gradients = {n: p.grad for n, p in self.network.named_parameters() if p.grad is not None}
                raise NonFiniteLoss(self.describe_non_finite(losses, gradients))

    def describe_non_finite(self, losses: StepLosses, gradients: Mapping[str, Tensor]) -> str:
        """Message with step, examples and largest gradient; a gradient that is not finite counts as the largest."""
        sizes = {name: gradient.abs().max().item() for name, gradient in gradients.items()}
        name = max(sizes, key=lambda n: sizes[n] if math.isfinite(sizes[n]) else math.inf) if sizes else "none"
        numbers, examples = losses.numbers(), losses.batch.index.tolist()
        shown = ", ".join(map(str, examples[:8])) + (", ..." if len(examples) > 8 else "")
        penalty = f" (orthogonality loss {numbers['train/ortho']})" if "train/ortho" in numbers else ""
        return (
            f"the loss is {numbers['train/loss']}{penalty} at step {losses.step}, on training examples "
            f"{shown} ({len(examples)} in the batch); largest gradient{' by now' if self.loss_monitor.late else ''}: "
            f"{sizes.get(name, float('nan'))} in {name}"
        )

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips single gradients, then the norm of all gradients; without a limit the norm is only measured."""
        limit, largest = self.config.optim.clip_norm, self.config.optim.clip_value
        if largest is not None:
            nn.utils.clip_grad_value_(self.network.parameters(), largest)
        if limit is None:
            norm = nn.utils.get_total_norm([p.grad for p in self.network.parameters() if p.grad is not None])
        else:
            norm = nn.utils.clip_grad_norm_(self.network.parameters(), limit)
        self.latest["train/gradient_norm"] = norm.detach()
        self.latest["train/lr"] = optimizer.param_groups[0]["lr"]

    def require_finite_weights(self) -> None:
        """Check losses and weights before weights are saved or validated: an update can make weights NaN or infinite.

        Raises:
            NonFiniteLoss: a loss that was not checked yet, or a weight, is not finite.
        """
        self.check_losses()
        for name, parameter in self.network.named_parameters():
            if not parameter.isfinite().all():
                norm = float(self.latest.get("train/gradient_norm", math.nan))
                raise NonFiniteLoss(
                    f"the weights {name} are not finite after step {self.global_step} (loss "
                    f"{float(self.latest['train/loss'])}, gradient norm {norm}); try a lower optim.lr or clip_norm"
                )

    def configure_optimizers(self) -> dict:
        # With float16 a fused optimiser unscales gradients itself, after they were clipped: the limit would be wrong.
        fused = self.config.train.precision != "16-mixed"
        optimizer = make_optimizer(self.config.optim, self.network.parameters(), fused)
        schedule = make_schedule(self.config.optim, optimizer, self.config.train.max_steps)
        if schedule is None:
            return {"optimizer": optimizer}
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch.to(device)
