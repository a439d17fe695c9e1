"""One run from its configuration to its result: train, resume, or show what is finished."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from attnlab.config.check import checked
from attnlab.config.naming import run_folder
from attnlab.config.schema import Config
from attnlab.learn.callbacks import Clock, Stopped
from attnlab.learn.progress import Reporter
from attnlab.nn.build import count_parameters
from attnlab.run import machine
from attnlab.run.figures import drawn_figures
from attnlab.run.fit import fit, quiet_lightning, with_steps
from attnlab.run.git import git_state
from attnlab.run.record import MetricsFile, RunError, RunFolder
from attnlab.run.resume import read_checkpoint
from attnlab.run.run import Run
from attnlab.run.setup import choose_device, make_network, prepare
from attnlab.run.signals import StopRequest
from attnlab.run.testing import Tester
from attnlab.run.wandb_mirror import WandbMirror
from attnlab.run.weights import begin_with
from attnlab.tasks.base import Prepared, Task, make_task


class Sinks:
    """metrics.csv, and a wandb run where asked for; what wandb cannot do never stops a run.

    Args:
        file: the truth.
        mirror: the wandb run, or None.
        say: told once when wandb fails.
    """

    def __init__(self, file: MetricsFile, mirror: WandbMirror | None, say: Callable[[str], None]) -> None:
        self.file, self.mirror, self.say = file, mirror, say

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self.file.log(step, metrics)
        self.mirrored(lambda mirror: mirror.log(step, metrics))

    def pictures(self, step: int, files: Sequence[Path]) -> None:
        """Figures that lie in the run folder, for the wandb run."""
        self.mirrored(lambda mirror: mirror.pictures(step, files))

    def mirrored(self, action: Callable[[WandbMirror], None]) -> None:
        """Do something with the wandb run, if there is one that works."""
        if self.mirror is None:
            return
        try:
            action(self.mirror)
        except Exception as error:
            self.mirror = None
            self.say(f"wandb stopped working ({error}); metrics go on into {self.file.path}")


def train_run(raw: dict[str, Any], stop: StopRequest) -> tuple[dict[str, Any], bool]:
    """Train, resume or show the run of a resolved configuration.

    Args:
        raw: the resolved configuration as plain types.
        stop: listens for signals.

    Returns:
        the result, and whether it was there already.

    Raises:
        RunError, DataError, NonFiniteLoss, Stopped: recorded in status.json before they leave here.
    """
    config = checked(raw)
    quiet_lightning()
    folder = RunFolder(run_folder(raw))
    folder.create()
    with folder.locked():
        folder.open_config(raw)
        result = folder.result()
        if result is not None:
            # A kill between the result and the status must not leave a finished run looking unfinished.
            if folder.status().get("state") != "finished":
                folder.set_status("finished")
            return result, True
        folder.require_version()
        reporter = Reporter(config.trainer.progress)
        with _status_of(folder):
            _begin(folder, reporter)
            result = _train(raw, config, folder, reporter, stop)
        return result, False


def _begin(folder: RunFolder, reporter: Reporter) -> None:
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


@contextmanager
def _status_of(folder: RunFolder) -> Iterator[None]:
    """How the run ended, in status.json."""
    try:
        yield
    except Stopped as stopped:
        folder.set_status("stopped", str(stopped))
        raise
    except BaseException as error:
        folder.set_status("failed", f"{type(error).__name__}: {error}")
        raise
    folder.set_status("finished")


def _train(
    raw: dict[str, Any], config: Config, folder: RunFolder, reporter: Reporter, stop: StopRequest
) -> dict[str, Any]:
    device = choose_device(config.trainer.device, config.trainer.threads)
    if device.type == "cpu" and config.train.precision == "16-mixed":
        raise RunError("train.precision=16-mixed needs a GPU: on a CPU use 32-true or bf16-mixed")
    machine.reset_peak_memory(device)
    _same_machine(folder, device, reporter)
    task = make_task(config.task)
    prepared = prepare(task, config.paths)
    config = with_steps(config, prepared)
    _same_data(folder, task, prepared)
    folder.keep(prepared.keep)
    step = read_checkpoint(folder.checkpoint)["global_step"] if folder.checkpoint.exists() else 0
    network = make_network(config, prepared.spec)
    if config.from_run is not None and not step:
        folder.set_status("running", from_run=begin_with(network, Path(config.from_run), raw))
    run = Run(
        raw=raw,
        config=config,
        folder=folder,
        reporter=reporter,
        stop=stop,
        device=device,
        task=task,
        prepared=prepared,
        network=network.to(device),
    )
    file = MetricsFile(folder.metrics_file)
    _check_history(folder, file, step, config.train.log_every, reporter)
    rows = file.keep_until(step if step else -1)
    sinks = Sinks(file, _open_mirror(run, rows, step), reporter.say)
    exit_code = 1
    try:
        result = _fit_and_test(run, sinks, step)
        sinks.mirrored(lambda mirror: mirror.summarise(result))
        folder.write_result(result)
        exit_code = 0
    finally:
        sinks.mirrored(lambda mirror: mirror.finish(exit_code))
    return result


def _check_history(folder: RunFolder, file: MetricsFile, step: int, every: int, reporter: Reporter) -> None:
    """Say when files of an earlier part are gone: a run that starts over, or a curve with a gap."""
    reached = folder.status().get("step", 0)
    if not step and reached:
        reporter.say(f"note: this run had reached step {reached}, but {folder.checkpoint} is gone; it starts over")
        if file.path.exists():
            file.path.replace(file.path.with_name("metrics.csv.old"))
            reporter.say(f"its metrics are kept in {file.path}.old")
    logged = max((at for at, name, _ in file.rows() if name == "train/loss" and at <= step), default=0)
    if logged < step // every * every:
        reporter.say(f"note: {file.path} ends at step {logged} and the checkpoint is at {step}: its curves have a gap")


def _open_mirror(run: Run, rows: list[tuple[int, str, float]], step: int) -> WandbMirror | None:
    """The wandb run; None, with one line, where wandb cannot start: metrics.csv has everything."""
    if run.config.logger.name == "csv":
        return None
    try:
        drawn = drawn_figures(run.folder.path, step)
        return WandbMirror(run.folder.path, run.raw, run.config.logger, rows, drawn)
    except Exception as error:
        run.reporter.say(f"wandb did not start ({error}); metrics go to {run.folder.metrics_file} only")
        return None


def _same_machine(folder: RunFolder, device: torch.device, reporter: Reporter) -> None:
    """Record the hardware; on a resume elsewhere say that the last bits will not be those of an uninterrupted run."""
    now = machine.hardware(device)
    before = folder.status().get("hardware", now)
    changed = [f"{key} {before[key]} -> {now[key]}" for key in now if before.get(key) != now[key]]
    if changed and folder.checkpoint.exists():
        reporter.say(f"note: resumed on other hardware ({', '.join(changed)}): equal up to rounding only")
    folder.set_status("running", hardware=now)


def _same_data(folder: RunFolder, task: Task, prepared: Prepared) -> None:
    """Record the data's version and hash at the first start; refuse to resume on other data."""
    now = {"version": task.version, "hash": prepared.data_hash()}
    before = folder.status().get("data", now)
    if before != now:
        raise RunError(
            f"{folder.path} was begun on data {before} and the data here is {now}; restore that data, or move the "
            "folder away to begin again"
        )
    folder.set_status("running", data=now)


def _fit_and_test(run: Run, sinks: Sinks, step: int) -> dict[str, Any]:
    max_steps = run.config.train.max_steps
    tester = Tester(run.config.train, run.prepared, run.network, run.reporter)
    if step < max_steps:
        tester.try_longest()
        fit(run, sinks, tester, step)
        # Lightning moves the network back to the CPU when it is done.
        run.network.to(run.device)
    saved = read_checkpoint(run.folder.checkpoint)
    found, selected = tester.test(run.folder.path, saved)
    # One point each: in wandb they stand in the summary, not as seventy charts of one dot.
    sinks.file.log(max_steps, found.metrics)
    seconds = saved["callbacks"][Clock.__qualname__]["seconds"]
    status, spec = run.folder.status(), run.prepared.spec
    commits = status["commits"]
    return {
        "metrics": found.metrics,
        "counts": {"train": len(run.prepared.subsets["train"])} | found.counts,
        "selection": selected,
        "seconds": seconds,
        "steps_per_second": max_steps / seconds,
        "peak_memory_bytes": machine.peak_memory_bytes(run.device),
        "parameters": count_parameters(run.network),
        "state_size": run.network.state_size(spec.max_output_length or spec.max_input_length),
        "data": status["data"] | {"about": run.prepared.about},
        **({"from_run": status["from_run"]} if "from_run" in status else {}),
        **machine.origin(run.device),
        "git": commits[-1] | {"earlier": commits[:-1]},
    }
