"""LightningModule of a pack: the training step of all its runs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from pytorch_lightning.utilities.types import OptimizerConfig, OptimizerLRSchedulerConfig
from torch import Tensor

from attnlab.config.training_steps import steps_of
from attnlab.data.batch import Batch
from attnlab.launch.pack.member import PackMember
from attnlab.launch.pack.network_stack import NetworkStack
from attnlab.launch.pack.optimizer_groups import OptimizerGroups
from attnlab.learn.loss_monitor import StepLosses
from attnlab.learn.objectives import over_pieces
from attnlab.learn.optimizers import make_grouped, optimizer_options, with_schedule
from attnlab.learn.training_module import NonFiniteLoss, StepModule


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


class PackedModule(StepModule):
    """Trains the runs of a pack in one forward and backward pass over the stack of their networks.

    Loss, gradient clipping and optimiser are separate for each run. A run whose loss is not finite ends and is
    not saved any more; the others continue.

    Args:
        members: the runs; their networks are the rows of `stack`.
    """

    def __init__(self, members: Sequence[PackMember], stack: NetworkStack) -> None:
        first = members[0].run
        weights = [member.run.config.model.ortho.weight for member in members]
        ortho = torch.tensor(weights, dtype=stack.flat.dtype, device=stack.flat.device) if any(weights) else None
        super().__init__(first.config, first.prepared.spec, stack.losses, [stack.flat], ortho)
        self.members, self.stack = list(members), stack
        self.groups = OptimizerGroups([member.run.config.optim for member in members])
        if self._own_gradients is not None:
            for tensor in (stack.flat, *stack.buffers.values()):
                # otherwise a CUDA graph copies them before every step
                torch._dynamo.mark_static_address(tensor)
        self.clip_value = _limits([member.run.config.optim.clip_value for member in members], stack.flat)
        self.clip_norm = _limits([member.run.config.optim.clip_norm for member in members], stack.flat)
        for row, (member, weight) in enumerate(zip(members, weights, strict=True)):
            member.module.latest = MemberMetrics(self._numbers, row, () if weight else ("train/ortho",))
            # before saving and validation the loss is checked, as in a run alone
            member.module.check_losses = partial(self._look_at, row)

    @property
    def latest(self) -> dict[str, Tensor]:
        """Mean loss of the runs that are still trained, for the progress display."""
        active = [row for row, member in enumerate(self.members) if member.active]
        return {"train/loss": self._numbers["train/loss"][active].mean()}

    @property
    def _numbers(self) -> Mapping[str, Tensor]:
        """The metrics: in a pack, a number for every run."""
        return cast(Mapping[str, Tensor], self.metrics)

    @property
    def _gradients(self) -> Tensor:
        """The gradients [members, numbers], which exist after every backward pass."""
        return cast(Tensor, self.stack.flat.grad)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return super().training_step(batch, batch_idx).sum()

    def losses_of(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Losses and penalties [members] of a batch of all members, one after another."""
        size = self.stack.size
        parts = batch.pieces(self.config.train.max_tokens, size)
        if len(parts) == 1:
            return self._whole(self.stack.flat, self.stack.buffers, type(batch), self.stack.given(batch))
        return over_pieces(self.stack.of_batch, parts, [part.counts.view(size, -1).sum(1) for part in parts])

    def on_after_backward(self) -> None:
        super().on_after_backward()
        for row, parameter in enumerate(self.stack.rows):
            # an optimiser does not change a parameter without a gradient
            parameter.grad = self._gradients[row] if self.members[row].active else None

    def check(self, due: Sequence[StepLosses]) -> None:
        """Check losses; a run whose loss is not finite ends."""
        for seen in due:
            finite = torch.stack(list(seen.arrive().values())).isfinite().all(0)
            for row, member in enumerate(self.members):
                if member.active and not finite[row]:
                    gradients = dict(zip(self.stack.names, self.stack.parts(self._gradients[row]), strict=True))
                    own = seen.of_run(row, self.stack.size)
                    member.error = NonFiniteLoss(member.module.describe_non_finite(own, gradients))

    def _look_at(self, row: int) -> None:
        self.check(self.loss_monitor.unchecked())
        if (error := self.members[row].error) is not None:
            raise error

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        """Clip gradients as in TrainingModule, with separate limits for every run."""
        gradients = self._gradients
        if self.clip_value is not None:
            gradients.clamp_(-self.clip_value, self.clip_value)
        norms = torch.linalg.vector_norm(gradients, dim=1)
        if self.clip_norm is not None:
            gradients.mul_((self.clip_norm / (norms[:, None] + 1e-6)).clamp(max=1.0))
        self.metrics["train/gradient_norm"] = norms
        rates = [optimizer.param_groups[place.group]["lr"] for place in self.groups.places]
        self.metrics["train/lr"] = torch.tensor(rates, dtype=torch.float64)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig | OptimizerConfig:
        options = self.groups.optims
        groups = [
            {"params": [self.stack.rows[row] for row in rows], **optimizer_options(optim)}
            for rows, optim in zip(self.groups.rows, options, strict=True)
        ]
        optimizer = make_grouped(options[0], groups, fused=True)
        return with_schedule(optimizer, options, steps_of(self.config.train))

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:
        if self._own_gradients is None:
            self.stack.flat.grad = None
        elif self.stack.flat.grad is not None:
            self.stack.flat.grad.zero_()


def _limits(values: Sequence[float | None], like: Tensor) -> Tensor | None:
    """Limits [members, 1], infinite for a member without limit; None if no member has a limit."""
    if all(value is None for value in values):
        return None
    numbers = [float("inf") if value is None else value for value in values]
    return torch.tensor(numbers, dtype=like.dtype, device=like.device)[:, None]
