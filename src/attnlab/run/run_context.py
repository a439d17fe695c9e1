"""State of one run while it runs: configuration, folder, data, network, and where its metrics go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attnlab.config.classes.recorded_code import CODE, Code
from attnlab.config.job_config import JobConfig
from attnlab.config.run_identity import identity
from attnlab.config.schema import Config
from attnlab.data.examples import Examples
from attnlab.learn.devices.process_group import Ranks
from attnlab.learn.evaluator import Evaluator
from attnlab.learn.reporter import Reporter
from attnlab.learn.stop_signals import StopRequest
from attnlab.learn.weight_files import IDENTITY
from attnlab.nn.output_head import Network
from attnlab.run.read_run_files import stored_config
from attnlab.run.run_folder import MetricsFile, RunFolder
from attnlab.tasks.base import Prepared, Task


class Sinks:
    """metrics.csv, and a wandb run (`wandb_mirror.WandbMirror`) where asked for, whose errors never stop a run."""

    def __init__(self, file: MetricsFile, mirror: Any, say: Callable[[str], None]) -> None:
        self.file, self.mirror, self.say = file, mirror, say

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.file.log(step, metrics)
        self.mirrored(lambda mirror: mirror.log(step, metrics))

    def pictures(self, step: int, files: Sequence[Path]) -> None:
        """Show figures of the run folder in the wandb run."""
        self.mirrored(lambda mirror: mirror.pictures(step, files))

    def mirrored(self, action: Callable[[Any], None]) -> None:
        """Call a function with the wandb run, if there is one that works."""
        if self.mirror is None:
            return
        try:
            action(self.mirror)
        except Exception as error:
            self.mirror = None
            self.say(f"wandb stopped working ({error}); metrics go on into {self.file.path}")


class NoSinks(Sinks):
    """Of a process that writes no metrics, because rank 0 does."""

    def __init__(self) -> None:
        self.mirror = None

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Does nothing."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run that is trained or tested.

    prepared: the task's data, on the device if `trainer.data_on_device` says so.
    step: number of training steps already done, as in last.ckpt.
    code: the code of every part of the run in turn, the present one last.
    """

    device: torch.device
    task: Task
    prepared: Prepared[Examples]
    ranks: Ranks
    job: JobConfig
    folder: RunFolder
    reporter: Reporter
    stop: StopRequest
    network: Network
    sinks: Sinks
    evaluator: Evaluator
    step: int
    code: Sequence[Code]

    @property
    def config(self) -> Config:
        """The typed configuration, with `train.max_steps` filled in."""
        return self.job.typed

    @property
    def stamp(self) -> dict[str, Any]:
        """Entries of every file of weights and of the result: the identity of the run, and its code."""
        return {IDENTITY: identity(stored_config(self.folder.config_file)), CODE: [*self.code]}

    def close(self, failed: bool) -> None:
        self.sinks.mirrored(lambda mirror: mirror.finish(int(failed)))
