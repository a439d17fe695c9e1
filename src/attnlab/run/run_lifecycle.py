"""One run from its configuration to its result: train, resume, or show what is finished.

Its steps are shared with runs that are trained together (`launch.pack`).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attnlab.config.job_config import JobConfig
from attnlab.config.schema import Config
from attnlab.learn.callbacks import Clock
from attnlab.learn.evaluator import Evaluator
from attnlab.learn.lightning_trainer import quiet_lightning
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.learn.training_progress import Reporter
from attnlab.nn.build_network import count_parameters
from attnlab.run import memory_use, provenance
from attnlab.run.figure_callback import drawn_figures
from attnlab.run.final_test import final_test
from attnlab.run.finished_run import finished_result
from attnlab.run.fit import fit, train_padding, with_steps
from attnlab.run.provenance import git_state
from attnlab.run.read_checkpoints import reached_step, read_checkpoint
from attnlab.run.resume_checks import check_history, note_hardware, require_same_data
from attnlab.run.run_context import RunContext
from attnlab.run.run_folder import MetricsFile, RunError, RunFolder
from attnlab.run.runtime import choose_device, make_network, place_data, prepared_task, require_compilation
from attnlab.run.wandb_mirror import Sinks, WandbMirror
from attnlab.run.warm_start import begin_with
from attnlab.tasks.base import Prepared, Task


def train_run(job: JobConfig, stop: StopRequest, label: str = "") -> tuple[dict[str, Any], bool]:
    """Train, resume or show one run.

    Args:
        stop: listens for signals.
        label: stands before every line of progress.

    Returns:
        the result, and whether it was there already.

    Raises:
        RunError, DataError, NonFiniteLoss, Stopped: recorded in status.json before they leave here.
    """
    quiet_lightning()
    folder = RunFolder(job.folder)
    folder.create()
    with folder.locked():
        if (result := finished_result(folder, job)) is not None:
            return result, True
        reporter = Reporter(job.typed.trainer.progress, label)
        with _status_of(folder):
            begin(folder, reporter)
            result = _train(job, folder, reporter, stop)
        return result, False


@contextmanager
def _status_of(folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        ended(folder, error)
        raise
    ended(folder, None)


def _train(job: JobConfig, folder: RunFolder, reporter: Reporter, stop: StopRequest) -> dict[str, Any]:
    device = device_of(job.typed)
    task, prepared = prepared_task(job.typed)
    prepared = place_data(prepared, device, job.typed.trainer.data_on_device)
    session = open_session(job, folder, (task, prepared), device, reporter, stop)
    reporter.say(size_line(session.run.network, device))
    failed = True
    try:
        if session.step < session.run.config.train.max_steps:
            session.evaluator.try_longest()
            fit(session.run, session.sinks, session.evaluator, session.step)
            # Lightning moves the network back to the CPU when it is done.
            session.run.network.to(device)
        result = record_result(session)
        failed = False
    finally:
        session.close(failed)
    return result


def begin(folder: RunFolder, reporter: Reporter) -> None:
    """Record the start and every commit the run was trained under; say when a resume is under another one."""
    status, now = folder.status(), git_state()
    commits = status.get("commits", [])
    if folder.checkpoint.exists():
        reporter.say(f"resuming {folder.path}")
        if commits and commits[-1] != now:
            reporter.say(f"note: last trained under commit {commits[-1]}, now under {now}; both are recorded")
    if not commits or commits[-1] != now:
        commits = [*commits, now]
    started = status.get("started", time.strftime("%Y-%m-%dT%H:%M:%S%z"))
    folder.set_status("running", started=started, commits=commits)


def ended(folder: RunFolder, error: BaseException | None) -> None:
    """How the run ended, in status.json."""
    match error:
        case None:
            folder.set_status("finished")
        case Stopped():
            folder.set_status("stopped", str(error))
        case _:
            folder.set_status("failed", f"{type(error).__name__}: {error}")


def device_of(config: Config) -> torch.device:
    """The device that a run is trained on.

    Raises:
        RunError: there is none as wanted, or it has not the precision.
    """
    device = choose_device(config.trainer.device, config.trainer.threads, config.train.tf32)
    if device.type == "cpu" and config.train.precision == "16-mixed":
        raise RunError("train.precision=16-mixed needs a GPU: on a CPU use 32-true or bf16-mixed")
    if config.trainer.compile:
        require_compilation(device)
    memory_use.reset_peak_memory(device)
    return device


@dataclass(frozen=True)
class Session:
    """step: optimiser steps already done, as in last.ckpt."""

    run: RunContext
    sinks: Sinks
    evaluator: Evaluator
    step: int

    def close(self, failed: bool) -> None:
        """Finish the wandb run."""
        self.sinks.mirrored(lambda mirror: mirror.finish(int(failed)))


def open_session(
    job: JobConfig,
    folder: RunFolder,
    data: tuple[Task, Prepared],
    device: torch.device,
    reporter: Reporter,
    stop: StopRequest,
) -> Session:
    """Network, metrics and wandb run; with a checkpoint, metrics as they were at its step.

    Args:
        folder: the run folder, locked.
        data: the task, and its data where batches are gathered.

    Raises:
        RunError: data or weights are not those the run was begun with.
    """
    task, prepared = data
    job = job.with_typed(with_steps(job.typed, prepared))
    config = job.typed
    note_hardware(folder, device, reporter)
    require_same_data(folder, task, prepared)
    folder.keep(prepared.keep)
    step = reached_step(folder)
    network = make_network(config, prepared.spec)
    if config.from_run is not None and not step:
        folder.set_status("running", from_run=begin_with(network, Path(config.from_run), job.raw))
    run = RunContext(
        job=job,
        folder=folder,
        reporter=reporter,
        stop=stop,
        device=device,
        task=task,
        prepared=prepared,
        network=network.to(device),
    )
    file = MetricsFile(folder.metrics_file)
    check_history(folder, file, step, config.train.log_every, reporter)
    rows = file.keep_until(step if step else -1)
    sinks = Sinks(file, _open_mirror(run, rows, step), reporter.say)
    return Session(run, sinks, Evaluator(config.train, prepared, run.network, reporter), step)


def size_line(network: torch.nn.Module, device: torch.device) -> str:
    """What is known of a run as soon as it has a network."""
    made = provenance.hardware(device)
    place = f"GPU {made['gpu']}" if made["gpu"] else f"CPU {made['cpu']}, threads: {made['threads']}"
    return f"{count_parameters(network):,} parameters, on {place}"


def record_result(session: Session, **more: Any) -> dict[str, Any]:
    """Test the trained network and write result.json; `more` is recorded in it too."""
    run, config = session.run, session.run.config
    max_steps = config.train.max_steps
    saved = read_checkpoint(run.folder.checkpoint)
    found, selected = final_test(session.evaluator, run.folder.path, saved)
    # One point each: in wandb they stand in the summary, not as seventy charts of one dot.
    session.sinks.file.log(max_steps, found.metrics)
    seconds = saved["callbacks"][Clock.__qualname__]["seconds"]
    status, spec = run.folder.status(), run.prepared.spec
    commits = status["commits"]
    result = {
        "metrics": found.metrics,
        "counts": {"train": len(run.prepared.subsets["train"])} | found.counts,
        "selection": selected,
        "seconds": seconds,
        "steps_per_second": max_steps / seconds,
        "padding_share": train_padding(config, run.prepared),
        "peak_memory_bytes": memory_use.peak_memory_bytes(run.device),
        "parameters": count_parameters(run.network),
        "state_size": run.network.state_size(spec.max_output_length or spec.max_input_length),
        "data": status["data"] | {"about": run.prepared.about},
        **session.evaluator.debug(),
        **({"from_run": status["from_run"]} if "from_run" in status else {}),
        **more,
        **provenance.origin(run.device),
        "git": commits[-1] | {"earlier": commits[:-1]},
    }
    session.sinks.mirrored(lambda mirror: mirror.summarise(result))
    run.folder.write_result(result)
    return result


def _open_mirror(run: RunContext, rows: list[tuple[int, str, float]], step: int) -> WandbMirror | None:
    """The wandb run; None, with one line, where wandb cannot start: metrics.csv has everything."""
    if run.config.logger.name == "csv":
        return None
    try:
        drawn = drawn_figures(run.folder.path, step)
        return WandbMirror(run.folder.path, run.job, rows, drawn)
    except Exception as error:
        run.reporter.say(f"wandb did not start ({error}); metrics go to {run.folder.metrics_file} only")
        return None
