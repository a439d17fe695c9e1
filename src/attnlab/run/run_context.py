"""What a run holds while it runs."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from attnlab.config.job_config import JobConfig
from attnlab.config.naming import identity
from attnlab.config.schema import Config
from attnlab.learn.stop_signals import StopRequest
from attnlab.learn.training_progress import Reporter
from attnlab.run.read_run_files import stored_config
from attnlab.run.run_folder import RunFolder
from attnlab.tasks.base import Prepared, Task


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run."""

    job: JobConfig
    folder: RunFolder
    reporter: Reporter
    stop: StopRequest
    device: torch.device
    task: Task
    prepared: Prepared
    network: nn.Module

    @property
    def config(self) -> Config:
        """The typed configuration, its number of steps filled in."""
        return self.job.typed

    @property
    def identity(self) -> dict[str, Any]:
        """What its checkpoints carry."""
        return identity(stored_config(self.folder.config_file))
