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
class StepTime:
    """The time of a training step of one run.

    seconds:  the least and the most; equal where a step was measured. Without validations.
    hardware: name of the GPU, or of the CPU with the number of threads.
    devices:  number of GPUs, or of processes of a CPU, that train the run together.
    is_guess: of the configuration (`cost`); else measured.
    remarks:  on what was measured.
    """

    seconds: tuple[float, float]
    hardware: str
    is_gpu: bool
    devices: int = 1
    is_guess: bool = False
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _FinishedRun:
    """A finished run: the values that a step's time depends on besides the model, the model, and the step."""

    sizes: str
    model: tuple[str, str]
    step: StepTime


def measured_step(job: JobConfig) -> StepTime | None:
    """The median step of finished runs of a job's sizes and model, or of another model; None if there are none.

    The runs have one kind of hardware: with `trainer.device=auto` a GPU, if one was measured, and as many devices as
    the job, if runs on so many were measured.
    """
    top = Path(job.raw["paths"]["runs"]) / job.label
    sizes, model, device = _sizes(job.raw), _model(job.raw), job.typed.trainer.device
    folders = sorted(folder for folder in top.glob("*") if folder.is_dir())
    runs = [run for folder in folders for run in _finished_below(folder) if run.sizes == sizes]
    candidates = [run for run in runs if run.model == model] or runs
    if device == "auto":
        candidates = [run for run in candidates if run.step.is_gpu] or candidates
    else:
        candidates = [run for run in candidates if run.step.is_gpu == (device != "cpu")]
    candidates = [run for run in candidates if run.step.devices == _devices(job)] or candidates
    if not candidates:
        return None
    first = candidates[0]
    same = [run for run in candidates if replace(run.step, seconds=first.step.seconds) == first.step]
    seconds = statistics.median(run.step.seconds[0] for run in same if run.model == first.model)
    remarks = [] if first.model == model else [f"model={first.model[0]}, of the same sizes"]
    remarks += [f"a run on {first.step.devices} devices"] if first.step.devices > 1 else []
    return replace(first.step, seconds=(seconds, seconds), remarks=tuple(remarks))


def _devices(job: JobConfig) -> int | None:
    """Number of devices of a run on all its machines; None: it is known when the run starts."""
    devices, nodes = job.typed.trainer.devices, job.typed.trainer.nodes
    return None if devices == "auto" or nodes == "auto" else devices * nodes


@cache
def _finished_below(folder: Path) -> Sequence[_FinishedRun]:
    """The finished runs of a model with a measured step."""
    runs = []
    for path in sorted(folder.glob("*/seed*/result.json"))[:MOST_FOLDERS]:
        # a damaged folder is named when its run is started or reported
        with contextlib.suppress(RunError, KeyError, TypeError):
            runs += _finished_run(RunFolder(path.parent))
    return runs


def _finished_run(run: RunFolder) -> list[_FinishedRun]:
    # A run of an earlier version has no time of a step, or shares it with runs that were trained together (`packed`).
    status, result = run.status(), run.result() or {}
    each, hardware = status.get("step_seconds"), status["hardware"]
    if not each or not result or "packed" in result:
        return []
    config, gpu = read_config(run.config_file), hardware["gpu"]
    name = gpu or f"{hardware['cpu']}, threads: {hardware['threads']}"
    step = StepTime((each, each), name, bool(gpu), hardware.get("processes", 1))
    return [_FinishedRun(_sizes(config), _model(config), step)]


def _model(config: Mapping[str, Any]) -> tuple[str, str]:
    """Name and settings of a model."""
    return config["model"]["name"], unique_text(config["model"])


def _sizes(config: Mapping[str, Any]) -> str:
    """The values that a step's time depends on besides the model, as text."""
    train = {key: config["train"].get(key) for key in _OF_TRAIN}
    task = {key: value for key, value in config["task"].items() if key not in _NOT_OF_TASK}
    return unique_text([task, config["backbone"], train, config["trainer"].get("compile", False)])
