"""The one LightningModule: loss, optimiser, clipping, and the guard against a loss that is not finite."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from attnlab.config.schema import Config
from attnlab.data.batch import Batch
from attnlab.data.task_spec import TaskSpec
from attnlab.learn.compiled_step import OwnGradients, compiled
from attnlab.learn.loss_monitor import Seen, Watch
from attnlab.learn.objectives import hide_tokens, objective_for, over_pieces
from attnlab.learn.optimizers import make_optimizer, make_schedule


class NonFiniteLoss(Exception):
    """The loss or the weights became NaN or infinite; the message names the step and where."""


class TrainingModule(pl.LightningModule):
    """Trains a network on a task.

    Attributes:
        latest: metrics of the last step as tensors (`train/loss`, `train/ortho`, `train/gradient_norm`, `train/lr`).
        watch: when losses are looked at; what is validated or saved has been looked at in any case.
    """

    def __init__(self, config: Config, network: nn.Module, spec: TaskSpec) -> None:
        super().__init__()
        self.config, self.network, self.spec = config, network, spec
        self.objective = objective_for(spec)
        device = next(network.parameters()).device
        self._whole = compiled(self.objective, device) if config.trainer.compile else self.objective
        replayed = config.trainer.compile and device.type == "cuda"
        self._own_gradients = OwnGradients(network.parameters()) if replayed else None
        self.watch = Watch(late=device.type == "cuda")
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
        """Loss and penalty of a batch; one too large for `train.max_tokens` is computed in pieces.

        Pieces are never compiled: each has lengths of its own.
        """
        pieces = batch.pieces(self.config.train.max_tokens)
        if len(pieces) == 1:
            return self._whole(self.network, batch)
        return over_pieces(partial(self.objective, self.network), pieces, [piece.counts.sum() for piece in pieces])

    def on_after_backward(self) -> None:
        if self._own_gradients is not None:
            self._own_gradients()
        self._look(self.watch.after(self.global_step, self._batch, self.latest))

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad(set_to_none=self._own_gradients is None)

    def look(self) -> None:
        """Look at the loss that was not looked at yet.

        Raises:
            NonFiniteLoss: it is not finite.
        """
        self._look(self.watch.rest())

    def _look(self, due: Sequence[Seen]) -> None:
        for seen in due:
            if all(map(math.isfinite, seen.numbers().values())):
                continue
            gradients = {n: p.grad for n, p in self.network.named_parameters() if p.grad is not None}
            raise NonFiniteLoss(self.describe_non_finite(seen, gradients))

    def describe_non_finite(self, seen: Seen, gradients: Mapping[str, Tensor]) -> str:
        """Step, batch and the largest gradient; one that is not finite counts as larger than any number."""
        sizes = {name: gradient.abs().max().item() for name, gradient in gradients.items()}
        name = max(sizes, key=lambda n: sizes[n] if math.isfinite(sizes[n]) else math.inf) if sizes else "none"
        numbers, examples = seen.numbers(), seen.batch.index.tolist()
        shown = ", ".join(map(str, examples[:8])) + (", ..." if len(examples) > 8 else "")
        penalty = f" (orthogonality loss {numbers['train/ortho']})" if "train/ortho" in numbers else ""
        return (
            f"the loss is {numbers['train/loss']}{penalty} at step {seen.step}, on training examples "
            f"{shown} ({len(examples)} in the batch); largest gradient{' by now' if self.watch.late else ''}: "
            f"{sizes.get(name, float('nan'))} in {name}"
        )

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips the gradients' entries, then the norm of all together; without a limit only measures it."""
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
        """Refuse weights that an update made NaN or infinite, before they are saved or validated.

        Raises:
            NonFiniteLoss: names step and parameter; the loss that led there may have been finite. Or a loss that was
                not looked at yet is not.
        """
        self.look()
        for name, parameter in self.network.named_parameters():
            if not parameter.isfinite().all():
                norm = float(self.latest.get("train/gradient_norm", math.nan))
                raise NonFiniteLoss(
                    f"the weights {name} are not finite after step {self.global_step} (loss "
                    f"{float(self.latest['train/loss'])}, gradient norm {norm}); try a lower optim.lr or clip_norm"
                )

    def configure_optimizers(self) -> dict:
        # A fused optimiser takes gradients as float16's loss scaling left them: they would be clipped in that scale.
        fused = self.config.train.precision != "16-mixed"
        optimizer = make_optimizer(self.config.optim, self.network.parameters(), fused)
        schedule = make_schedule(self.config.optim, optimizer, self.config.train.max_steps)
        if schedule is None:
            return {"optimizer": optimizer}
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch.to(device)
