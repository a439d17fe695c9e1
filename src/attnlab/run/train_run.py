"""One run from its configuration to its result: train it, resume it, or return the result of a finished one.

Runs that are trained together (`launch.pack`) use the same steps.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attnlab.config.job_config import JobConfig
from attnlab.config.report_block import ANALYSIS
from attnlab.config.schema import Config
from attnlab.config.training_steps import steps_of
from attnlab.learn import memory_use
from attnlab.learn.callbacks import Clock
from attnlab.learn.evaluator import Evaluator
from attnlab.learn.lightning_trainer import quiet_lightning
from attnlab.learn.speed_notes import speed_notes
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.learn.training_progress import Reporter
from attnlab.nn.build_network import count_parameters
from attnlab.run import provenance
from attnlab.run.build_runtime import choose_device, make_network, place_data, prepared_task, require_compilation
from attnlab.run.earlier_jobs import free_earlier_jobs
from attnlab.run.figure_callback import drawn_figures
from attnlab.run.final_test import final_test
from attnlab.run.finished_run import finished_result
from attnlab.run.fit import fit, train_padding, with_steps
from attnlab.run.read_checkpoints import reached_step, read_checkpoint
from attnlab.run.resume_checks import check_history, note_hardware, require_same_data
from attnlab.run.run_context import RunContext, Runtime, Sinks
from attnlab.run.run_folder import MetricsFile, RunError, RunFolder
from attnlab.run.wandb_mirror import WandbMirror
from attnlab.run.warm_start import load_warm_start


def train_run(job: JobConfig, stop: StopRequest, label: str = "") -> tuple[dict[str, Any], bool]:
    """Train or resume a run, or read the result of a finished one.

    Args:
        stop: receives the signals.
        label: printed before every line of progress.

    Returns:
        the result, and whether the run was finished before.

    Raises:
        RunError, DataError, NonFiniteLoss, Stopped: recorded in status.json first.
    """
    quiet_lightning()
    folder = RunFolder(job.folder)
    folder.create()
    with folder.locked():
        if (result := finished_result(folder, job)) is not None:
            return result, True
        reporter = Reporter(job.typed.trainer.progress, label)
        try:
            record_start(folder, reporter, job.report)
            result = _train(job, folder, reporter, stop)
        except BaseException as error:
            record_end(folder, error)
            raise
        record_end(folder, None)
        return result, False


def _train(job: JobConfig, folder: RunFolder, reporter: Reporter, stop: StopRequest) -> dict[str, Any]:
    free_earlier_jobs()
    run = open_run(job, folder, open_runtime(job.typed), reporter, stop)
    size = len(run.prepared.subsets["train"])
    for line in (size_line(run.network, run.device), *speed_notes(run.config, size, run.device)):
        reporter.say(line)
    failed = True
    try:
        if run.step < steps_of(run.config.train):
            run.evaluator.try_longest()
            fit(run)
            # Lightning moves the network back to the CPU when it is done.
            run.network.to(run.device)
        result = record_result(run)
        failed = False
    finally:
        run.close(failed)
    return result


def record_start(folder: RunFolder, reporter: Reporter, report: Mapping[str, Any] | None) -> None:
    """Record the start, every commit and declared analysis that the run is trained under; report another commit.

    Args:
        report: the `report:` block of the experiment; the analysis it declares is recorded with the step that was
            reached, so that a report can tell which hypotheses were declared before the run, and what changed since.
    """
    status, now = folder.status(), provenance.git_state()
    commits = status.get("commits", [])
    if folder.checkpoint.exists():
        reporter.say(f"resuming from step {status.get('step', 0):,}")
        if commits and commits[-1] != now:
            before, here = (provenance.commit_text(commit) for commit in (commits[-1], now))
            reporter.say(f"note: last trained under commit {before}, now under {here}; both are recorded")
    if not commits or commits[-1] != now:
        commits = [*commits, now]
    started = status.get("started", time.strftime("%Y-%m-%dT%H:%M:%S%z"))
    analysis = {key: value for key, value in (report or {}).items() if key in ANALYSIS}
    declared = status.get("declared", [])
    is_new = all(one.get("analysis") != analysis for one in declared)
    if is_new and (analysis.get("hypotheses") or analysis.get("success")):
        declared = [*declared, {"analysis": analysis, "step": status.get("step", 0), "git": now}]
    folder.set_status("running", started=started, commits=commits, declared=declared)


def record_end(folder: RunFolder, error: BaseException | None) -> None:
    """Record in status.json how the run ended."""
    match error:
        case None:
            folder.set_status("finished")
        case Stopped():
            folder.set_status("stopped", str(error))
        case _:
            # cut: a compiler's message may have 200,000 characters
            folder.set_status("failed", f"{type(error).__name__}: {error}"[:2000])


def device_of(config: Config) -> torch.device:
    """Returns the device that a run is trained on, and sets it up.

    Raises:
        RunError: the device is not available, or does not support the precision or `trainer.compile`.
    """
    trainer = config.trainer
    device = choose_device(trainer.device, trainer.threads, config.train.tf32, trainer.deterministic)
    if device.type == "cpu" and config.train.precision == "16-mixed":
        raise RunError("train.precision=16-mixed needs a GPU: on a CPU use 32-true or bf16-mixed")
    if config.trainer.compile:
        require_compilation(device)
    memory_use.reset_peak_memory(device)
    return device


def open_runtime(config: Config) -> Runtime:
    """Returns the device of a job, and its task with prepared data.

    Raises:
        RunError, DataError: there is no such device, or the data is not available.
    """
    device = device_of(config)
    task, prepared = prepared_task(config)
    return Runtime(device, task, place_data(prepared, device, config.trainer.data_on_device))


def open_run(job: JobConfig, folder: RunFolder, runtime: Runtime, reporter: Reporter, stop: StopRequest) -> RunContext:
    """Opens network, metrics and wandb run; with a checkpoint, metrics are cut back to its step.

    Args:
        folder: the run folder, locked.

    Raises:
        RunError: the data or the weights are not the ones that the run started with.
    """
    device, prepared = runtime.device, runtime.prepared
    config = with_steps(job.typed, prepared)
    note_hardware(folder, device, reporter)
    require_same_data(folder, runtime.task, prepared)
    folder.keep(prepared.keep)
    step = reached_step(folder)
    network = make_network(config, prepared.spec)
    if config.from_run is not None and not step:
        folder.set_status("running", from_run=load_warm_start(network, Path(config.from_run), job.raw))
    network = network.to(device)
    file = MetricsFile(folder.metrics_file)
    check_history(folder, file, step, config.train.log_every, reporter)
    rows = file.keep_until(step if step else -1)
    return RunContext(
        **vars(runtime),
        job=replace(job, typed=config),
        folder=folder,
        reporter=reporter,
        stop=stop,
        network=network,
        sinks=Sinks(file, _open_mirror(job, file, rows, step, reporter), reporter.say),
        evaluator=Evaluator(config.train, prepared, network, reporter),
        step=step,
    )


def size_line(network: torch.nn.Module, device: torch.device) -> str:
    """Number of parameters and hardware, as one line of progress."""
    made = provenance.hardware(device)
    hardware = f"GPU {made['gpu']}" if made["gpu"] else f"CPU {made['cpu']}, threads: {made['threads']}"
    return f"{count_parameters(network):,} parameters, on {hardware}"


def record_result(run: RunContext, **more: Any) -> dict[str, Any]:
    """Test the trained network and write result.json, with the entries of `more`."""
    config = run.config
    max_steps = steps_of(config.train)
    saved = read_checkpoint(run.folder.checkpoint)
    found, selected = final_test(run.evaluator, run.folder.path, saved)
    # One value each: in wandb they are part of the summary, instead of seventy charts with one point.
    run.sinks.file.log(max_steps, found.metrics)
    seconds = saved["callbacks"][Clock.__qualname__]["seconds"]
    status, spec = run.folder.status(), run.prepared.spec
    commits = status["commits"]
    selected |= _last_validation(run, selected)
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
        **run.evaluator.debug(),
        **({"from_run": status["from_run"]} if "from_run" in status else {}),
        **more,
        **provenance.origin(run.device),
        "git": commits[-1] | {"earlier": commits[:-1]},
    }
    run.sinks.mirrored(lambda mirror: mirror.summarise(result))
    run.folder.write_result(result)
    return result


def _last_validation(run: RunContext, selected: Mapping[str, Any]) -> dict[str, float]:
    """The main validation metric of the last step, if its weights are tested and the run has validations."""
    if selected["rule"] != "last_step" or run.config.train.validate_every is None:
        return {}
    place = steps_of(run.config.train), f"val/{run.evaluator.metric}"
    return {name: value for step, name, value in run.sinks.file.rows() if (step, name) == place}


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
