"""Workloads: the objects of a training run, built from overrides as `attnlab.run.train_run` builds them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import torch
from pytorch_lightning import LightningModule
from torch import nn

from attnlab.config.conf_files import group_choices
from attnlab.config.job_config import compose_config, job_config
from attnlab.config.schema import Config
from attnlab.data.batch import Batch, ImageQuestionBatch
from attnlab.data.batch_order import BatchOrder
from attnlab.data.files.fetch import DataError
from attnlab.learn.devices.device_choice import device_of
from attnlab.learn.evaluator import precision_context
from attnlab.learn.lightning_trainer import quiet_lightning
from attnlab.learn.train_stream import TrainStream
from attnlab.learn.training_module import TrainingModule
from attnlab.run.build_runtime import make_network, place_data, prepare
from attnlab.run.fit import batch_order, with_steps
from attnlab.tasks.base import Prepared, make_task
from benchmarks.harness.environment import CPU

FEW_EXAMPLES = ("task.train_examples=8192", "task.val_examples=512", "task.test_examples=512")
# A step does not depend on how many examples there are; a few are drawn at once and take no room in the cache.
SMALL_DATA = {
    **dict.fromkeys(("algorithmic", "mad", "mqar", "word_problem"), FEW_EXAMPLES),
    # of val and test for each length
    "formal_language": ("task.train_examples=8192", "task.val_examples=1", "task.test_examples=1"),
    "sort_of_clevr": ("task.train_images=500", "task.val_images=20", "task.test_images=20"),
    "mathematics": ("task.questions_per_difficulty=2000", "task.test_questions=500"),
    "flip_flop": ("task.train_sequences=2000", "task.test_sequences=200"),
    "lra_listops": ("task.source=generated", "task.train_size=300", "task.val_size=20", "task.test_size=20"),
}
# Batch sizes for which a step takes seconds on two cores; the published sizes of other tasks are small enough.
SMALL_BATCH = {
    "flip_flop": 8,
    "glue": 4,
    "lra_image": 8,
    "lra_listops": 4,
    "lra_pathfinder": 8,
    "lra_retrieval": 2,
    "lra_text": 2,
    "mathematics": 8,
    "pcfg": 4,
    "wikitext103": 1,
    "wikitext103_masked": 1,
    "wikitext2": 8,
}
COMPILED = "trainer.compile=true"


@dataclass(frozen=True)
class Workload:
    """What a benchmark runs: a configuration, its data and its initialised network on a device."""

    config: Config
    prepared: Prepared
    network: nn.Module
    device: torch.device = CPU

    @property
    def order(self) -> BatchOrder:
        return batch_order(self.config, self.prepared)

    def batches(self, order: BatchOrder) -> Iterator[Batch]:
        """Training batches on the device, in this order, without end."""
        stream = TrainStream(self.prepared.subsets["train"], order, 0, self.config.trainer.compile)
        return (batch.to(self.device) for batch in stream)

    def positions(self, batch: Batch) -> tuple[int, int]:
        """Real tokens of a batch, and computed positions: real tokens and padding of all of its sequences."""
        if isinstance(batch, ImageQuestionBatch):
            return (len(batch) * self.network.embedding.n_tokens,) * 2
        return positions(batch)


def positions(batch: Batch) -> tuple[int, int]:
    """Real tokens of token sequences, and tokens with padding."""
    return sum(int(n.sum()) for n in batch.extents), len(batch) * sum(batch.widths)


def small_batch(task: str) -> list[str]:
    """Returns the override that makes a batch small enough for two cores; nothing where it is small already."""
    return [f"train.batch_size={SMALL_BATCH[task]}"] if task in SMALL_BATCH else []


def make_config(task: str, model: str, overrides: Sequence[str] = (), device: torch.device = CPU) -> Config:
    """Returns the checked configuration, with little data, and sets the device as a run does."""
    quiet_lightning()
    inputs = ["trainer=cpu", f"trainer.device={device.type}", f"trainer.threads={torch.get_num_threads()}"]
    config = job_config(
        compose_config([f"task={task}", f"model={model}", *inputs, *SMALL_DATA.get(task, ()), *overrides])
    ).typed
    device_of(config)
    return config


def make_workload(
    task: str,
    model: str,
    overrides: Sequence[str] = (),
    device: torch.device = CPU,
    prepared: Prepared | None = None,
) -> Workload:
    """Returns the workload of a task and a model: the task's own sizes and little data, unless overridden.

    Args:
        prepared: the data, if it is prepared already.
    """
    config = make_config(task, model, overrides, device)
    if prepared is None:
        prepared = place_data(prepare(make_task(config.task), config.paths), device, config.trainer.data_on_device)
    network = make_network(config, prepared.spec).to(device)
    return Workload(with_steps(config, prepared), prepared, network, device)


def tasks_of(names: str) -> list[str]:
    """Returns tasks by name, or all of them for `all`; a task without data is left out with a message."""
    collected = []
    for task in group_choices()["task"] if names == "all" else names.split(","):
        try:
            make_workload(task, "linear", ["backbone.d_model=16", "backbone.n_heads=2", "backbone.n_layers=1"])
            collected.append(task)
        except DataError as error:
            print(f"{task} is left out: {str(error).splitlines()[0]}")
    return collected


def stepper(workload: Workload, waits: bool = True) -> Callable[[], torch.Tensor]:
    """Returns a function that does one training step.

    Args:
        waits: gathers a batch for every step; otherwise every step takes the first batch.
    """
    batches = workload.batches(workload.order)
    return step_of_batches(workload, batches if waits else repeat(next(batches)))


def step_of_batches(workload: Workload, batches: Iterator[Batch]) -> Callable[[], torch.Tensor]:
    """Returns a function that does one training step on the next of these batches."""
    module = TrainingModule(workload.config, workload.network, workload.prepared.spec)
    return step_of(module, workload, batches)


def step_of(module: LightningModule, workload: Workload, batches: Iterator[Batch]) -> Callable[[], torch.Tensor]:
    """Returns a training step without Lightning: batch, objective, backward, check, clipping, optimiser."""
    optimizer = module.configure_optimizers()["optimizer"]
    workload.network.train()

    def step() -> torch.Tensor:
        batch = next(batches)
        with precision_context(workload.config.train.precision, workload.device):
            loss = module.training_step(batch, 0)
        module.optimizer_zero_grad(0, 0, optimizer)
        loss.backward()
        module.on_after_backward()
        module.configure_gradient_clipping(optimizer)
        optimizer.step()
        return loss

    return step
