"""Seconds of a training step, measured by earlier runs of the same task, sizes and model. Imports no torch."""

import contextlib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.config.run_identity import unique_text
from attnlab.run.read_run_files import RunError, read_config
from attnlab.run.run_folder import RunFolder

MOST_FOLDERS = 100
"""run folders of a task and model that are read"""
_OF_TRAIN = ("batch_size", "batch_tokens", "bucket_window", "accumulate", "max_tokens", "precision", "tf32")
"""keys of `train` that a step's time depends on"""
_NOT_OF_TASK = ("data_seed", "from_run")
"""options of a task that leave the lengths of its examples as they are; any other may change them"""


@dataclass(frozen=True)
class MeasuredStep:
    """A measured training step: of one run, or the median of several.

    sizes:    the values that a step's time depends on besides the model, as text.
    settings: the section `model` of the run, as text.
    model:    its name.
    hardware: name of the GPU, or of the CPU with the number of threads.
    seconds:  of a step, without validations.
    devices:  number of GPUs, or of processes of a CPU, on which the run was trained.
    """

    sizes: str
    settings: str
    model: str
    hardware: str
    is_gpu: bool
    seconds: float
    devices: int

    def is_of(self, job: JobConfig) -> bool:
        """Whether it is of the whole model of a job, not of another one of the same sizes."""
        return (self.settings, self.model) == (unique_text(job.raw["model"]), job.typed.model.name)


def measured_step(job: JobConfig) -> MeasuredStep | None:
    """The median step of finished runs of a job's sizes and model, or of another model; None if there are none.

    The runs have one kind of hardware: with `trainer.device=auto` a GPU, if one was measured, and as many devices as
    the job, if runs on so many were measured.
    """
    top = Path(job.raw["paths"]["runs"]) / job.label
    sizes = _sizes(job.raw)
    folders = sorted(folder for folder in top.glob("*") if folder.is_dir()) if top.is_dir() else []
    rows = [row for folder in folders for row in _measured_below(folder) if row.sizes == sizes]
    alike, device = [row for row in rows if row.is_of(job)] or rows, job.typed.trainer.device
    if device == "auto":
        alike = [row for row in alike if row.is_gpu] or alike
    else:
        alike = [row for row in alike if row.is_gpu == (device != "cpu")]
    alike = [row for row in alike if row.devices == _devices(job)] or alike
    if not alike:
        return None
    first = alike[0]
    times = [row.seconds for row in alike if replace(row, seconds=first.seconds) == first]
    return replace(first, seconds=statistics.median(times))


def _devices(job: JobConfig) -> int | None:
    """Number of devices of a run on all its machines; None: it is known when the run starts."""
    devices, nodes = job.typed.trainer.devices, job.typed.trainer.nodes
    return None if devices == "auto" or nodes == "auto" else devices * nodes


@cache
def _measured_below(folder: Path) -> Sequence[MeasuredStep]:
    """The finished runs of a model with a measured step."""
    steps = []
    for path in sorted(folder.glob("*/seed*/result.json"))[:MOST_FOLDERS]:
        # a damaged folder is named when its run is started or reported
        with contextlib.suppress(RunError, KeyError, TypeError):
            steps += _step_of(RunFolder(path.parent))
    return steps


def _step_of(run: RunFolder) -> list[MeasuredStep]:
    # A run of an earlier version has no time of a step, or shares it with runs that were trained together (`packed`).
    status, result = run.status(), run.result() or {}
    each, hardware = status.get("step_seconds"), status["hardware"]
    if not each or not result or "packed" in result:
        return []
    config, gpu = read_config(run.config_file), hardware["gpu"]
    name = gpu or f"{hardware['cpu']}, threads: {hardware['threads']}"
    model, sizes, devices = config["model"], _sizes(config), hardware.get("processes", 1)
    return [MeasuredStep(sizes, unique_text(model), model["name"], name, bool(gpu), each, devices)]


def _sizes(config: Mapping[str, Any]) -> str:
    """`MeasuredStep.sizes` of a run."""
    train = {key: config["train"].get(key) for key in _OF_TRAIN}
    task = {key: value for key, value in config["task"].items() if key not in _NOT_OF_TASK}
    return unique_text([task, config["backbone"], train, config["trainer"].get("compile", False)])
