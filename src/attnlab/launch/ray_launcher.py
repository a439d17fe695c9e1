"""Runs the jobs of a sweep on Ray (`hydra/launcher=ray`): a task for each run, on all machines of a cluster.

A run whose process, raylet or machine is lost is begun again and goes on from its last checkpoint; so is a run that a
signal stopped on its machine, which has saved its state. Signals that this command gets are sent to every run, which
saves its state, and no other begins. If this command is killed, a cluster of its own ends with it, and another cluster
ends the processes of its runs: within seconds in both cases, without a new checkpoint. A repeated command goes on.

Machines of a cluster need the same packages and the same project (or `runtime_env`), and `paths.*` on a file system
that they share.
"""

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import counted, first_line, hint, short_path
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import Problem, UserError
from attnlab.config.schema import Config
from attnlab.launch.launcher import Launcher
from attnlab.launch.run_job import JobTask, exit_code, say
from attnlab.launch.worker_process import Worker
from attnlab.learn.devices.usable_cores import threads_of_environment, usable_cores
from attnlab.learn.stop_signals import NOTICES, Stopped, StopRequest, unheard
from attnlab.run.run_folder import RunFolder, is_finished
from attnlab.run.run_lock import is_locked

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_COLOR_PREFIX": "0",
    "RAY_DISABLE_WORKER_LOG_PREFIX": "1",
}
"""environment of Ray: no messages to its makers, and lines of runs as they are"""
OBJECT_STORE_BYTES = 100 * 2**20
"""of a local cluster; tasks and exit codes are small"""
CONNECT_SECONDS, LINES_SECONDS, SHARED_SECONDS, LOCK_SECONDS = 10.0, 1.0, 20.0, 90.0
"""until an address counts as dead; until the last lines of runs are here; until files of another machine are seen;
until the lock of a machine that is lost ends on a file system of a network"""
PLACED_BY = ("RANK", "SLURM_PROCID")
"""variables of a process of torchrun or srun, such as one that started a node of Ray"""


class RayLauncher(Launcher):
    """Jobs as tasks of Ray; options: `launcher_options.RayConf`."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def run(self, tasks: Sequence[JobTask]) -> list[int]:
        finished = [task for task in tasks if is_finished(task.job)]
        for task in finished:
            say(task.label, f"{task.name}, finished before")
        codes = {task.label: 0 for task in finished}
        stop = StopRequest()
        try:
            if left := [task for task in tasks if task.label not in codes]:
                with stop.listening(), _cluster(self.options):
                    # Ray has set a handler of its own.
                    stop.defer()
                    codes |= _Sweep(self, stop, left).run()
        except Stopped as stopped:
            raise SystemExit(128 + stopped.signum) from None
        return [codes[task.label] for task in tasks]

    def problems(self, jobs: Sequence[JobConfig]) -> list[Problem]:
        """A run has one machine."""
        several = {job.typed.trainer.nodes for job in jobs} - {1, "auto"}
        text = ": hydra/launcher=ray trains a run on one machine; Slurm trains it on several (hydra/launcher="
        return [Problem(f"trainer.nodes={nodes}", f"{text}submitit_slurm)") for nodes in several]

    def plan(self, tasks: Sequence[JobTask]) -> list[str]:
        """Resources of the runs."""
        asked = {_text(self.demand(task.job.typed, gpus_there=False)) for task in tasks}
        is_open = self.options["num_gpus"] is None and any(task.job.typed.trainer.device != "cpu" for task in tasks)
        note = "where the cluster has GPUs, also for one for each of its processes, unless trainer.device=cpu"
        return [f"on Ray: a run asks for {text}" for text in sorted(asked)] + ([note] if is_open and asked else [])

    def threads(self) -> int:
        """Threads of a process where `trainer.threads` is null."""
        return self.options["num_cpus"] or threads_of_environment() or 1

    def demand(self, config: Config, gpus_there: bool) -> dict[str, float]:
        """CPUs and GPUs of a run.

        Args:
            gpus_there: whether the cluster has GPUs.
        """
        trainer, gpus = config.trainer, self.options["num_gpus"]
        processes = max(1, int(gpus or 1)) if trainer.devices == "auto" else trainer.devices
        if gpus is None:
            gpus = processes if gpus_there and trainer.device != "cpu" else 0
        cpus = self.options["num_cpus"] or (trainer.threads or self.threads()) + trainer.workers
        return {"CPU": cpus * processes} | ({"GPU": gpus} if gpus else {})


class _Sweep:
    """Tasks of runs on a cluster to which this process is connected."""

    def __init__(self, launcher: RayLauncher, stop: StopRequest, tasks: Sequence[JobTask]) -> None:
        import ray

        self.ray, self.launcher, self.stop, self.waiting = ray, launcher, stop, list(tasks)
        # A process for each run: a signal that it got does not stop the next one, and its memory is free again.
        self.function = ray.remote(max_calls=1, max_retries=0)(_run_on_worker)
        self.gpus_there = ray.cluster_resources().get("GPU", 0) > 0
        self.running: dict[Future[int], tuple[JobTask, Any]] = {}
        self.losses: dict[str, tuple[int, int]] = {}

    def run(self) -> dict[str, int]:
        """Run the tasks; returns their exit codes by label.

        Raises:
            UserError: this machine is too small for them.
            Stopped: a signal came; the runs are saved, unless it came twice.
        """
        self._compare_with_machines()
        codes: dict[str, int | None] = {}
        while self.waiting or self.running:
            self._begin()
            ended = wait(self.running, 1.0, FIRST_COMPLETED).done
            if self.stop.pending() is not None:
                self._save_all()
            for future in ended:
                task, _ = self.running.pop(future)
                codes[task.label] = self._end(task, future)
                if codes[task.label] is None:
                    self.waiting.append(task)
        return {label: code for label, code in codes.items() if code is not None}

    def _save_all(self) -> None:
        """Send Ctrl-C to every run, and wait for their ends."""
        for _, reference in self.running.values():
            self.ray.cancel(reference)
        wait(self.running)
        raise Stopped(self.stop.came[0])

    def _compare_with_machines(self) -> None:
        """An error for runs that this machine is too small for; a note on a cluster, which may get larger machines."""
        machines = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        demands = [self.launcher.demand(task.job.typed, self.gpus_there) for task in self.waiting]
        for text, demand in {_text(demand): demand for demand in demands}.items():
            if not any(all(node.get(key, 0) >= number for key, number in demand.items()) for node in machines):
                largest = _text({key: max(node.get(key, 0) for node in machines) for key in demand})
                problem = f"a run asks for {text}, and no machine of Ray has that (at most {largest})"
                if _address(self.launcher.options) == "local":
                    raise UserError(f"{problem}; set hydra.launcher.num_cpus and num_gpus, or trainer.threads")
                print(f"note: {problem}; it waits until there is one", file=sys.stderr, flush=True)

    def _begin(self) -> None:
        """Give tasks to Ray, but for those of a run folder that is in use."""
        folders = {task.folder for task, _ in self.running.values()}
        for task in list(self.waiting):
            if task.folder not in folders:
                folders.add(task.folder)
                self.waiting.remove(task)
                demand = self.launcher.demand(task.job.typed, self.gpus_there)
                sent = replace(task, threads=self.launcher.threads(), shares_terminal=True, needs_gpu="GPU" in demand)
                resources = {"num_cpus": demand["CPU"], "num_gpus": demand.get("GPU", 0)}
                reference = self.function.options(**resources, name=task.label).remote(sent, sys.argv, os.getcwd())
                self.running[reference.future()] = (task, reference)

    def _end(self, task: JobTask, future: "Future[int]") -> int | None:
        """The exit code of a task; None if it is to be run again."""
        errors = self.ray.exceptions
        try:
            code = future.result()
        except (errors.RayTaskError, errors.RuntimeEnvSetupError, errors.TaskUnschedulableError) as error:
            return _failed(task, f"Ray could not run it: {str(error).strip().splitlines()[-1]}")
        except errors.LocalRayletDiedError as error:
            raise UserError("the Ray of this machine has ended; repeat the command when there is a cluster") from error
        except errors.RayError as error:
            return self._lost(task, f"its process was lost ({type(error).__name__}: {str(error).partition('.')[0]})")
        if code > 128:
            return self._lost(task, f"stopped on its machine by {signal.Signals(code - 128).name}")
        if code or _within(SHARED_SECONDS, lambda: is_finished(task.job)):
            return code
        text = f"it is finished on its machine, but not in {short_path(task.folder)} here"
        return _failed(task, f"{text}: set paths.runs to a file system that all machines share")

    def _lost(self, task: JobTask, reason: str) -> int | None:
        """Exit code of a run that was lost too often without progress; None: it is to be run again."""
        checkpoint = RunFolder(task.folder).checkpoint
        saved = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        before, times = self.losses.get(task.label, (saved, 0))
        times = times + 1 if before == saved else 1
        self.losses[task.label] = (saved, times)
        if times > self.launcher.options["max_retries"]:
            return _failed(task, f"{reason}, {counted(times, 'time')} without a new checkpoint")
        say(task.label, f"{task.name}: {reason}; it is begun again and goes on from its last checkpoint")
        return None


def _failed(task: JobTask, reason: str) -> int:
    return exit_code(UserError(f"{reason}; repeat the command to go on"), f"{task.label} {task.name}")


def _text(demand: dict[str, float]) -> str:
    return ", ".join(f"{number:g} {key}" for key, number in demand.items())


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return met


def _address(options: dict[str, Any]) -> str:
    return options["address"] or os.environ.get("RAY_ADDRESS") or "local"


@contextmanager
def _cluster(options: dict[str, Any]) -> Iterator[None]:
    """Connect to a cluster, or start one, which ends with this block."""
    address, more = _address(options), dict[str, Any]()
    os.environ.update({name: value for name, value in SETTINGS.items() if name not in os.environ})
    if address == "local":
        more = {"num_cpus": usable_cores(), "object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
    elif "://" not in address and ":" in address:
        _require_answer(address)
    import ray

    environment, known = options["runtime_env"], ray.runtime_env.RuntimeEnv.known_fields
    # Ray itself warns in its log, and goes on without them
    for word in environment.keys() - known:
        raise UserError(f"hydra.launcher.runtime_env.{word}: unknown key{hint(nearest(word, known))}")
    # Processes that start here inherit what is ignored: a lost terminal reaches them before the runs are saved.
    for signum in NOTICES:
        signal.signal(signum, signal.SIG_IGN)
    try:
        ray.init(address, runtime_env=environment or None, logging_level=logging.ERROR, **more)
    except (ConnectionError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(
            f"Ray: {first_line(error)} (hydra.launcher.address={address}, runtime_env={environment})"
        ) from None
    try:
        yield
    finally:
        time.sleep(LINES_SECONDS)
        ray.shutdown()


def _require_answer(address: str) -> None:
    """An error in a sentence where Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(f"no cluster of Ray answers at {address}: {first_line(error)}") from None


def _run_on_worker(task: JobTask, argv: list[str], folder: str) -> int:
    """The task of Ray: train a run, with the arguments of the sweep, which its result records."""
    sys.argv = argv
    for name in PLACED_BY:
        os.environ.pop(name, None)
    # where relative paths of the configuration begin
    with suppress(OSError):
        os.chdir(folder)
    if not task.needs_gpu:
        # Ray hides no GPU from a task that asks for none.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""

    def job() -> int:
        _within(LOCK_SECONDS, lambda: bool(unheard) or not is_locked(task.folder))
        return task.run()

    task = replace(task, name=f"{task.name}, on {socket.gethostname()}")
    return Worker().run(job)
