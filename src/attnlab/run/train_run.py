"""One run from its configuration to its result: train it, resume it, or return the result of a finished one."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attnlab.config.classes.recorded_code import Code, changed_words
from attnlab.config.classes.source_hash import code_of
from attnlab.config.job_config import JobConfig
from attnlab.config.report_block import ANALYSIS
from attnlab.config.run_identity import identity
from attnlab.config.schema import steps_of
from attnlab.data.examples import Examples
from attnlab.learn.devices.device_choice import device_of, require_distinct_devices, speed_notes
from attnlab.learn.devices.memory_use import free_earlier_jobs
from attnlab.learn.devices.process_group import ALONE, Ranks, require_same_job, require_same_start
from attnlab.learn.evaluator import Evaluator
from attnlab.learn.lightning_trainer import quiet_lightning
from attnlab.learn.optimizers import warmup_notes
from attnlab.learn.reporter import Reporter
from attnlab.learn.stop_signals import StopRequest
from attnlab.nn.network_parts import count_parameters
from attnlab.run import provenance
from attnlab.run.build_runtime import make_network, place_data, position_notes, prepared_task
from attnlab.run.figure_callback import drawn_figures
from attnlab.run.final_test import record_result
from attnlab.run.fit import fit, with_steps
from attnlab.run.read_checkpoints import reached
from attnlab.run.read_run_files import stored_config
from attnlab.run.run_context import NoSinks, RunContext, Sinks
from attnlab.run.run_folder import MetricsFile, RunError, RunFolder, finished_result
from attnlab.run.wandb_mirror import WandbMirror
from attnlab.run.warm_start import load_warm_start
from attnlab.tasks.base import Prepared, Task


def train_run(
    job: JobConfig, stop: StopRequest, label: str = "", ranks: Ranks = ALONE
) -> tuple[dict[str, Any] | None, bool]:
    """Train or resume a run, or read the result of a finished one.

    Args:
        ranks: the processes of the run; rank 0 alone prints, and locks and writes the run folder.

    Returns:
        the result (None on other ranks), and whether the run was finished before.

    Raises:
        RunError, DataError, NonFiniteLoss, Stopped: recorded in status.json first.
        EndedElsewhere: on other ranks, what rank 0 reports.
    """
    quiet_lightning()
    folder = RunFolder(job.folder, writes=ranks.is_first)
    require_same_job(ranks, job)
    with ExitStack() as lock:
        result = ranks.together(lambda: _claimed(folder, job, lock) if ranks.is_first else None, stop)
        stop.deferred = False
        if ranks.from_first(lambda: result is not None):
            return result, True
        reporter = Reporter(job.typed.trainer.progress if ranks.is_first else "none", label)
        try:
            record_start(folder, reporter, job.report)
            result = _train(job, folder, reporter, stop, ranks)
            if not ranks.is_first:
                # until rank 0 has recorded the end: a sweep reads it on every process
                ranks.wait()
                return None, False
        except BaseException as error:
            cause = ranks.cause(error)
            folder.record_end(cause)
            if cause is not error:
                raise cause from error
            raise
        folder.record_end(None)
        ranks.wait()
        return result, False


def _claimed(folder: RunFolder, job: JobConfig, lock: ExitStack) -> dict[str, Any] | None:
    folder.create()
    lock.enter_context(folder.locked())
    return finished_result(folder, job)


def _train(
    job: JobConfig, folder: RunFolder, reporter: Reporter, stop: StopRequest, ranks: Ranks
) -> dict[str, Any] | None:
    free_earlier_jobs()
    run = ranks.together(lambda: open_run(job, folder, reporter, stop, ranks), stop)
    notes = [*speed_notes(run.config, run.device), *position_notes(run.config, run.prepared.spec)]
    notes += warmup_notes(run.config.optim, steps_of(run.config.train))
    for line in (size_line(run.network, run.device, ranks), *notes):
        reporter.say(line)
    failed = True
    try:
        require_distinct_devices(ranks, run.device)
        require_same_start(ranks, run.step, run.prepared.data_hash, folder.path)
        ranks.limit_waiting()
        if run.step < steps_of(run.config.train):
            ranks.together(run.evaluator.try_longest, stop)
            fit(run)
            # Lightning moves the network back to the CPU when it is done.
            run.network.to(run.device)
        stop.deferred = False
        result = record_result(run)
        failed = False
    finally:
        run.close(failed)
    return result


def record_start(folder: RunFolder, reporter: Reporter, report: Mapping[str, Any] | None) -> None:
    """Record the start, every commit and declared analysis that the run is trained under; report another commit.

    An analysis is recorded with the step that was reached, so that a report can tell which hypotheses were declared
    before the run, and what changed since.
    """
    status, now = folder.status(), provenance.git_state()
    commits = status.get("commits", [])
    if problem := now.get("problem"):
        reporter.say(f"note: the commit is not recorded, since git does not tell it: {problem}")
    if folder.checkpoint.exists() and commits and commits[-1] != now:
        before, here = (provenance.commit_text(commit) for commit in (commits[-1], now))
        reporter.say(f"note: last trained under commit {before}, now under {here}; both are recorded")
    if not commits or commits[-1] != now:
        commits = [*commits, now]
    started = status.get("started", time.strftime("%Y-%m-%dT%H:%M:%S%z"))
    analysis = {key: value for key, value in (report or {}).items() if key in ANALYSIS}
    declared = status.get("declared", [])
    is_new = all(entry.get("analysis") != analysis for entry in declared)
    if is_new and (analysis.get("hypotheses") or analysis.get("success")):
        declared = [*declared, {"analysis": analysis, "step": status.get("step", 0), "git": now}]
    itself = identity(stored_config(folder.config_file))
    folder.set_status("running", started=started, commits=commits, declared=declared, identity=itself)


def open_run(job: JobConfig, folder: RunFolder, reporter: Reporter, stop: StopRequest, ranks: Ranks) -> RunContext:
    """Opens device, data, network, metrics and wandb run; with a checkpoint, metrics are cut back to its step.

    Raises:
        DataError, DeviceError: there is no such data or device.
        RunError: the data or the weights are not the ones that the run started with, or the code is not.
    """
    device = device_of(job.typed, ranks)
    step, former_code = reached(folder)
    code = record_code(folder, job, step, former_code, reporter)
    if step:
        reporter.say(f"resuming from step {step:,}")
    task, prepared = prepared_task(job.typed)
    prepared = place_data(prepared, device, job.typed.trainer.data_on_device)
    config = with_steps(job.typed, prepared)
    note_hardware(folder, device, ranks.world, reporter)
    _require_same_data(folder, task, prepared)
    folder.keep(prepared.keep)
    network = make_network(config, prepared.spec)
    if config.from_run is not None and not step:
        folder.set_status("running", from_run=load_warm_start(network, Path(config.from_run), job.raw))
    network = network.to(device)
    job = replace(job, typed=config)
    return RunContext(
        device=device,
        task=task,
        prepared=prepared,
        ranks=ranks,
        job=job,
        folder=folder,
        reporter=reporter,
        stop=stop,
        network=network,
        sinks=_open_sinks(job, folder, step, reporter) if ranks.is_first else NoSinks(),
        evaluator=Evaluator(config.train, prepared, network, reporter, ranks),
        step=step,
        code=code,
    )


def record_code(folder: RunFolder, job: JobConfig, step: int, former: Sequence[Code], reporter: Reporter) -> list[Code]:
    """Record the code of every part of a run, the present one last; of several processes rank 0 decides.

    Args:
        step, former: of the checkpoint; a run without one starts over with any code.

    Raises:
        RunError: the checkpoint was made with other code, and `trainer.resume_with_new_code` is not set.
    """
    now = code_of(job.raw)
    before = former[-1] if former else {}
    if step and not before:
        reporter.say(f"note: the code of the steps up to {step:,} was not recorded; from there on it is")
        former = [*former, {}]
    elif folder.writes and (changed := changed_words(before, now)):
        if not job.typed.trainer.resume_with_new_code:
            raise RunError(
                f"{folder.path} was trained until step {step:,} with other code of {changed} than is here now (a "
                "comment counts); restore it, or write trainer.resume_with_new_code=true to go on with the new one"
            )
        reporter.say(f"note: from step {step:,} on with other code of {changed}; both are recorded")
    codes = [*former] if before == now else [*former, now]
    folder.set_status("running", code=codes)
    return codes


def _open_sinks(job: JobConfig, folder: RunFolder, step: int, reporter: Reporter) -> Sinks:
    file = MetricsFile(folder.metrics_file)
    _check_history(folder, file, step, job.typed.train.log_every, reporter)
    rows = file.keep_until(step if step else -1, folder.bind_metrics)
    return Sinks(file, _open_mirror(job, file, rows, step, reporter), reporter.say)


def _check_history(folder: RunFolder, file: MetricsFile, step: int, every: int, reporter: Reporter) -> None:
    """Report missing files of an earlier part, and another `train.log_every`: its rows keep their interval."""
    status = folder.status()
    reached, before = status.get("step", 0), status.get("log_every", every) if step else every
    if not step and reached:
        reporter.say(f"note: this run had reached step {reached:,}, but {folder.checkpoint} is gone; it starts over")
        if file.path.exists():
            file.path.replace(file.path.with_name("metrics.csv.old"))
            reporter.say(f"its metrics are kept in {file.path}.old")
    if not file.path.exists():
        if step:
            reporter.say(f"note: {file.path} is gone: its curves begin at step {step:,}")
        folder.bind_metrics(None)
    if before != every:
        reporter.say(f"note: train.log_every is {every} from step {step:,} on, and was {before} before")
    folder.set_status("running", log_every=every)


def note_hardware(folder: RunFolder, device: torch.device, processes: int, reporter: Reporter) -> None:
    """Report a resume on other hardware or in another number of processes, which draw anew what is random."""
    now = provenance.hardware(device) | {"processes": processes}
    before = {"processes": 1} | folder.status().get("hardware", now)
    changed = [f"{key} {before.get(key)} -> {now[key]}" for key in now if before.get(key) != now[key]]
    if changed and folder.checkpoint.exists():
        anew = ", and dropout and hidden words are drawn anew" if before["processes"] != processes else ""
        reporter.say(f"note: resumed on other hardware ({', '.join(changed)}): equal up to rounding only{anew}")


def _require_same_data(folder: RunFolder, task: Task, prepared: Prepared[Examples]) -> None:
    """Record version and hash of the data at the first start; refuse to resume on other data."""
    now = {"version": task.version, "hash": prepared.data_hash()}
    before = folder.status().get("data", now)
    if before != now:
        begun = f"{folder.path} was begun on data {before} and the data here is {now}"
        raise RunError(f"{begun}; restore that data, or move the folder away to begin again")
    folder.set_status("running", data=now)


def size_line(network: torch.nn.Module, device: torch.device, ranks: Ranks = ALONE) -> str:
    """Number of parameters, hardware and number of processes, as one line of progress."""
    parts = provenance.hardware(device)
    hardware = f"GPU {parts['gpu']}" if parts["gpu"] else f"CPU {parts['cpu']}, threads: {parts['threads']}"
    machines = f" on {ranks.layout.nodes} machines" if ranks.layout.nodes > 1 else ""
    several = f", in {ranks.world} processes{machines}" if ranks.world > 1 else ""
    return f"{count_parameters(network):,} parameters, on {hardware}{several}"


def _open_mirror(
    job: JobConfig, file: MetricsFile, rows: Sequence[tuple[int, str, float]], step: int, reporter: Reporter
) -> WandbMirror | None:
    """The wandb run; None, with one line, if wandb cannot start: metrics.csv has everything."""
    if job.typed.logger.name == "csv":
        return None
    try:
        return WandbMirror(job.folder, job, rows, drawn_figures(job.folder, step))
    except Exception as error:
        reporter.say(f"wandb did not start ({error}); metrics go to {file.path} only")
        return None
