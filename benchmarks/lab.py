"""From overrides to the objects of a training run, on the CPU, as `attnlab.run.train` puts them together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from attnlab.config.check import checked
from attnlab.config.compose import compose_config
from attnlab.config.schema import Config
from attnlab.data.order import BatchOrder
from attnlab.learn.module import LabModule
from attnlab.run.fit import batch_order, quiet_lightning, with_steps
from attnlab.run.setup import make_network, prepare
from attnlab.tasks.base import Prepared, make_task

# A step does not depend on the number of pictures; a few are drawn in a moment and take no room in the cache.
SMALL_DATA = {"sort_of_clevr": ["task.train_images=500", "task.val_images=20", "task.test_images=20"]}


@dataclass(frozen=True)
class Lab:
    """A configuration, its data and its freshly initialised network."""

    config: Config
    prepared: Prepared
    network: nn.Module

    @property
    def order(self) -> BatchOrder:
        return batch_order(self.config, self.prepared)


def make_lab(task: str, model: str, overrides: Sequence[str] = ()) -> Lab:
    """The lab of a task and a model at the task's own sizes, unless overridden."""
    quiet_lightning()
    raw = compose_config([f"task={task}", f"model={model}", "trainer=cpu", *SMALL_DATA.get(task, []), *overrides])
    config = checked(raw)
    prepared = prepare(make_task(config.task), config.paths)
    return Lab(with_steps(config, prepared), prepared, make_network(config, prepared.spec))


def stepper(lab: Lab, waits: bool = True) -> Callable[[], torch.Tensor]:
    """A training step without Lightning: next batch, objective, backward, check, clip, Adam.

    Args:
        waits: gather a batch for every step; else every step takes the first.
    """
    module = LabModule(lab.config, lab.network, lab.prepared.spec)
    optimizer = module.configure_optimizers()["optimizer"]
    train, orders = lab.prepared.subsets["train"], lab.order.since(0)
    first = train.batch(lab.order[0])
    lab.network.train()

    def step() -> torch.Tensor:
        loss = module.training_step(train.batch(next(orders)) if waits else first, 0)
        optimizer.zero_grad()
        loss.backward()
        module.on_after_backward()
        module.configure_gradient_clipping(optimizer)
        optimizer.step()
        return loss

    return step
