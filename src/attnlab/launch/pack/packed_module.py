"""LightningModule of a pack: the training step of all its runs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from attnlab.data.batch import Batch
from attnlab.launch.pack.member import PackMember
from attnlab.launch.pack.microbatch import pieces
from attnlab.launch.pack.network_stack import NetworkStack
from attnlab.learn.compiled_step import OwnGradients, compiled
from attnlab.learn.loss_monitor import LossMonitor, StepLosses
from attnlab.learn.objectives import hide_tokens, over_pieces
from attnlab.learn.optimizers import make_grouped, optimizer_options, schedule_of
from attnlab.learn.training_module import NonFiniteLoss


class MemberMetrics(Mapping[str, Tensor]):
    """Metrics of one member, read from the metrics of all members: `train/loss` [members] -> scalar."""

    def __init__(self, all_metrics: Mapping[str, Tensor], row: int, hidden: Sequence[str]) -> None:
        self.all_metrics, self.row, self.hidden = all_metrics, row, hidden

    def __getitem__(self, name: str) -> Tensor:
        return self.all_metrics[name][self.row]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.all_metrics if name not in self.hidden)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class PackedModule(pl.LightningModule):
    """Trains the runs of a pack in one forward and backward pass over the stack of their networks.

    Loss, gradient clipping and optimiser are separate for each run. A run whose loss is not finite ends and is
    not saved any more; the others continue.

    Args:
        members: the runs; their networks are the rows of `stack`.
    """

    def __init__(self, members: Sequence[PackMember], stack: NetworkStack) -> None:
        super().__init__()
        self.members, self.stack = list(members), stack
        first = members[0].run
        self.spec, self.train_options = first.prepared.spec, first.config.train
        device, compiles = stack.flat.device, first.config.trainer.compile
        self._compute = compiled(stack.losses, device) if compiles else stack.losses
        self._own_gradients = OwnGradients([stack.flat]) if compiles and device.type == "cuda" else None
        if self._own_gradients is not None:
            for tensor in (stack.flat, *stack.buffers.values()):
                # otherwise a CUDA graph copies them before every step
                torch._dynamo.mark_static_address(tensor)
        self.loss_monitor = LossMonitor(late=device.type == "cuda")
        weights = [member.run.config.model.ortho.weight for member in members]
        self.ortho = torch.tensor(weights, dtype=stack.flat.dtype, device=device) if any(weights) else None
        self.clip_value = _limits([member.run.config.optim.clip_value for member in members], stack.flat)
        self.clip_norm = _limits([member.run.config.optim.clip_norm for member in members], stack.flat)
        self.metrics: dict[str, Tensor] = {}
        self._losses: list[Tensor] = []
        self._batch: Batch | None = None
        for row, (member, weight) in enumerate(zip(members, weights, strict=True)):
            member.module.latest = MemberMetrics(self.metrics, row, () if weight else ("train/ortho",))
            # before saving and validation the loss is checked, as in a run alone
            member.module.check_losses = partial(self._look_at, row)

    @property
    def latest(self) -> dict[str, Tensor]:
        """Mean loss of the runs that are still trained, for the progress display."""
        active = [row for row, member in enumerate(self.members) if member.active]
        return {"train/loss": self.metrics["train/loss"][active].mean()}

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if self.spec.kind == "masked_language_model":
            batch = hide_tokens(batch, self.spec)
        losses, penalties = self._losses_of(batch)
        self._batch = batch
        if len(self._losses) == self.train_options.accumulate:
            self._losses.clear()
        self._losses.append(losses.detach())
        self.metrics["train/loss"] = torch.stack(self._losses).mean(0)
        if self.ortho is not None:
            self.metrics["train/ortho"] = penalties.detach()
            losses = losses + self.ortho * penalties
        return losses.sum()

    def _losses_of(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Losses and penalties [members] of a batch of all members, one after another."""
        size = self.stack.size
        parts = pieces(batch, size, self.train_options.max_tokens)
        if len(parts) == 1:
            return self._compute(self.stack.flat, self.stack.buffers, type(batch), self.stack.given(batch))
        return over_pieces(self.stack.of_batch, parts, [part.counts.view(size, -1).sum(1) for part in parts])

    def on_after_backward(self) -> None:
        if self._own_gradients is not None:
            self._own_gradients()
        self._look(self.loss_monitor.after(self.global_step, self._batch, self.metrics))
        for row, parameter in enumerate(self.stack.rows):
            # an optimiser does not change a parameter without a gradient
            parameter.grad = self.stack.flat.grad[row] if self.members[row].active else None

    def _look(self, due: Sequence[StepLosses]) -> None:
        """Check losses; a run whose loss is not finite ends."""
        for seen in due:
            finite = torch.stack(list(seen.arrive().values())).isfinite().all(0)
            for row, member in enumerate(self.members):
                if member.active and not finite[row]:
                    gradients = dict(zip(self.stack.names, self.stack.parts(self.stack.flat.grad[row]), strict=True))
                    own = seen.of_run(row, self.stack.size)
                    member.error = NonFiniteLoss(member.module.describe_non_finite(own, gradients))

    def _look_at(self, row: int) -> None:
        self._look(self.loss_monitor.unchecked())
        if self.members[row].error is not None:
            raise self.members[row].error

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip gradients as in TrainingModule, with separate limits for every run."""
        gradients = self.stack.flat.grad
        if self.clip_value is not None:
            gradients.clamp_(-self.clip_value, self.clip_value)
        norms = torch.linalg.vector_norm(gradients, dim=1)
        if self.clip_norm is not None:
            gradients.mul_((self.clip_norm / (norms[:, None] + 1e-6)).clamp(max=1.0))
        self.metrics["train/gradient_norm"] = norms
        self.metrics["train/lr"] = torch.tensor([g["lr"] for g in optimizer.param_groups], dtype=torch.float64)

    def configure_optimizers(self) -> dict:
        options = [member.run.config.optim for member in self.members]
        groups = [
            {"params": [row], **optimizer_options(optim)} for row, optim in zip(self.stack.rows, options, strict=True)
        ]
        optimizer = make_grouped(options[0], groups, fused=True)
        max_steps = self.train_options.max_steps
        schedules = [schedule_of(optim, max_steps) for optim in options]
        if not any(schedules):
            return {"optimizer": optimizer}
        schedule = LambdaLR(optimizer, [each or (lambda step: 1.0) for each in schedules])
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:
        if self._own_gradients is None:
            self.stack.flat.grad = None
        elif self.stack.flat.grad is not None:
            self.stack.flat.grad.zero_()

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch.to(device)


def _limits(values: Sequence[float | None], like: Tensor) -> Tensor | None:
    """Limits [members, 1], infinite for a member without limit; None if no member has a limit."""
    if all(value is None for value in values):
        return None
    numbers = [float("inf") if value is None else value for value in values]
    return torch.tensor(numbers, dtype=like.dtype, device=like.device)[:, None]
