"""Runs the jobs of a sweep on Slurm: submits what is neither finished nor in the queue, and waits for all of it.

Every array has a folder with its logs and `runs.json`, the run folders of each of its tasks, written before sbatch is
called. A repeated command knows the folder by the path of a job's output, which Slurm tells of every job that it holds.
So no run is started twice, also if the first command was killed while it submitted.
"""

import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, suppress
from dataclasses import asdict, replace
from functools import cache
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError, JobPaths

from attnlab.config.command_line.command_frame import FAILED
from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import counted, listed, short_path
from attnlab.config.problem import Problem, UserError
from attnlab.config.user_path import user_path
from attnlab.config.validation.launcher_options import LONGEST_MINUTES, SlurmConf
from attnlab.config.validation.launcher_validation import delay_problem
from attnlab.data.files.regular_file import LARGEST, read_regular
from attnlab.launch.cluster import slurm_commands as slurm
from attnlab.launch.cluster.wait_for_jobs import Awaited, wait_for_jobs
from attnlab.launch.cluster.worker_task import WorkerTask
from attnlab.launch.launcher import Launcher
from attnlab.launch.local_processes import has_several_devices
from attnlab.launch.run_job import JobTask, exit_code, say
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.run.run_folder import RunError, RunFolder, is_finished, require_writable, write_text
from attnlab.run.run_lock import acquired_lock, is_locked, private_locks

CORES_BESIDE_GPU = 4
"""of a process: the loop that starts kernels, wandb's process, and threads that compile and load"""
MEMORY_GB = 8
"""for a process: runs of all tasks on a CPU took 0.4 to 1.8 GB (experiments/measured/tasks), CUDA takes a few more"""
RECORD = "runs.json"
_NOT_OF_SBATCH = ("timeout_min", "mem_gb", "runs_per_task", "submitit_folder", "max_num_timeout", "_target_")
_NO_RESOURCES = "job_name signal_delay_s array_parallelism additional_parameters comment mail_user mail_type setup"


class Array(NamedTuple):
    """Tasks of equal names and resources: options of sbatch as submitit names them, and the runs of each task."""

    options: dict[str, Any]
    tasks: Sequence[Sequence[JobTask]]

    def resources(self) -> str:
        """What a task asks for."""
        return ", ".join(f"{key}={value}" for key, value in self.options.items() if key not in _NO_RESOURCES.split())


def queued_runs(tasks: Sequence[JobTask]) -> Mapping[Path, Awaited]:
    """The runs of jobs that Slurm holds, by their folders; damaged records are ignored."""
    queued: dict[Path, Awaited] = {}
    by_folder = {str(task.folder.resolve()): task for task in reversed(tasks)}
    read = cache(lambda folder: json.loads(read_regular(folder / RECORD, LARGEST)))
    for job, slurm_job in slurm.held_jobs().items():
        with suppress(OSError, ValueError, TypeError, LookupError):
            record = read(slurm_job.folder)
            for run in by_folder.keys() & record["runs"][int(job.partition("_")[2] or 0)]:
                log, task = JobPaths(slurm_job.folder, job).stdout, by_folder[run]
                queued[task.folder] = Awaited(task, job, log, dict(record["options"]))
    return queued


class SlurmSubmission:
    """Submission to Slurm; a SlurmError if there is none, or no such partition, or it ends jobs too soon to save a run.

    folder: in which every array has its own.
    most:   tasks that an array may have.
    limit:  minutes of a job.
    divides_memory: whether the cluster shares a node's memory among jobs; one that asks for none may get all of it.
    gpus:   GPUs on each node that the options ask for; None: a GPU for each process.
    """

    def __init__(self, conf: SlurmConf, folder: Path) -> None:
        self.conf, self.folder = conf, folder
        partitions, cluster = slurm.chosen_partitions(conf.partition), slurm.configuration()
        self.most = max(1, int(cluster.get("MaxArraySize", 1001)))
        self.divides_memory = "memory" in cluster.get("SelectTypeParameters", "").lower()
        self.limit = conf.timeout_min or min([LONGEST_MINUTES, *(limit for limit, _ in partitions.values() if limit)])
        if problem := delay_problem(self.limit, conf.signal_delay_s):
            raise slurm.SlurmError(f"hydra.launcher.signal_delay_s={conf.signal_delay_s}: {problem}")
        with_gpus = [name for name, (_, has_gpus) in partitions.items() if has_gpus]
        self.gpus = conf.gpus if conf.gpus is not None or len(with_gpus) == len(partitions) else 0
        mixed = conf.gpus is None and 0 < len(with_gpus) < len(partitions)
        alone = f"note: of the partitions, {listed(with_gpus)} alone has GPUs, so that jobs ask for none"
        self.notes = [f"{alone}; hydra.launcher.gpus_per_node=1 asks for one"] if mixed else []

    def arrays(self, runs: Sequence[JobTask]) -> list[Array]:
        """Arrays for each task and model, or of equal resources if runs share tasks; none larger than Slurm allows."""
        groups: dict[str, tuple[dict[str, Any], list[JobTask]]] = {}
        for run in runs:
            options = self.options(run)
            groups.setdefault(str(options), (options, []))[1].append(run)
        arrays, size = [], self.conf.runs_per_task
        for options, group in groups.values():
            tasks = [group[i : i + size] for i in range(0, len(group), size)]
            arrays += [Array(options, tasks[i : i + self.most]) for i in range(0, len(tasks), self.most)]
        return arrays

    def options(self, run: JobTask) -> dict[str, Any]:
        """Options of sbatch for the task of a run: resources by the partition and the run, unless they are chosen."""
        conf, config, times = self.conf, run.job.typed, self.conf.runs_per_task
        devices, nodes, gpus = config.trainer.devices, config.trainer.nodes, self.gpus
        processes = (conf.gpus or 1) if devices == "auto" else devices
        name = f"{config.task['name']}-{config.model.name}".replace("/", "-")
        wanted = {
            "job_name": f"attnlab-{name}" if times == 1 else "attnlab",
            "time": self.limit,
            "nodes": 1 if nodes == "auto" else nodes,
            "ntasks_per_node": processes,
        }
        if gpus is None and config.trainer.device != "cpu":
            gpus = wanted["gpus_per_node"] = processes * times
        threads = config.trainer.threads or (CORES_BESIDE_GPU if gpus else 1)
        wanted["cpus_per_task"] = (threads + config.trainer.workers) * times
        # a number without a unit would be megabytes
        if conf.mem_gb:
            wanted["mem"] = f"{conf.mem_gb}GB"
        elif self.divides_memory and not (conf.mem_per_cpu or conf.mem_per_gpu):
            wanted["mem"] = f"{MEMORY_GB * processes * times}GB"
        chosen = {key: value for key, value in asdict(conf).items() if value is not None}
        return wanted | {key: value for key, value in chosen.items() if key not in _NOT_OF_SBATCH}

    def submit(self, array: Array) -> list[Awaited]:
        """Submit an array; a SlurmError if Slurm refuses it, a RunError if a file cannot be written before."""
        options, conf = array.options, self.conf
        folder = next(folder for number in count() if not (folder := self.folder / str(number)).exists())
        require_writable(folder, "set another hydra.launcher.submitit_folder")
        folders = [[str(run.folder.resolve()) for run in task] for task in array.tasks]
        write_text(folder / RECORD, json.dumps({"options": asdict(conf), "runs": folders}, allow_nan=False))
        threads = max(1, options["cpus_per_task"] // conf.runs_per_task)
        placed = {"needs_gpu": bool(options.get("gpus_per_node") or self.gpus), "threads": threads}
        runs = [[replace(run, shares_terminal=len(task) > 1, **placed) for run in task] for task in array.tasks]
        # Other processes of a run must not wait for one that has failed; since Slurm 22.05, srun does not take the
        # number of cores from sbatch.
        srun = ["--kill-on-bad-exit=1", f"--cpus-per-task={options['cpus_per_task']}"]
        more = {"requeue": True} | conf.additional_parameters
        executor = submitit.SlurmExecutor(folder, max_num_timeout=conf.max_num_timeout)
        executor.update_parameters(**options | {"additional_parameters": more}, stderr_to_stdout=True, srun_args=srun)
        try:
            with ExitStack() as submitting:
                # Ctrl-C of the terminal does not reach sbatch: an interrupted one may have submitted its job or not.
                former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
                submitting.callback(signal.pthread_sigmask, signal.SIG_SETMASK, former)
                # submitit prints what sbatch says, and raises an error that says it again
                submitting.enter_context(redirect_stderr(StringIO()))
                jobs = executor.submit_array([WorkerTask(task, sys.argv) for task in runs])
        except (FailedJobError, FailedSubmissionError) as error:
            text = f"Slurm refused the jobs ({slurm.complaint(str(error))}), which ask for {array.resources()}"
            raise slurm.SlurmError(text) from None
        pairs = zip(jobs, array.tasks, strict=True)
        return [Awaited(run, job.job_id, job.paths.stdout, asdict(conf)) for job, task in pairs for run in task]


class SlurmLauncher(Launcher):
    """Jobs in the queue of Slurm; options: `launcher_options.SlurmConf`. After a signal, submitted jobs go on."""

    def __init__(self, **options: Any) -> None:
        self.conf = SlurmConf(**options)

    def run(self, tasks: Sequence[JobTask]) -> list[int]:
        runs = Path(tasks[0].job.typed.paths.runs)
        folder = self.conf.submitit_folder or runs / ".sweeps" / time.strftime("%Y-%m-%d_%H-%M-%S")
        submission = SlurmSubmission(self.conf, user_path("hydra.launcher.submitit_folder", folder))
        if mount := private_locks(runs.absolute()):
            why = f"start no run of {short_path(runs)} by hand while its job is in the queue"
            say("note:", f"{mount} does not show locks to other machines: {why}")
        awaited, stop = list[Awaited](), StopRequest()
        try:
            with stop.listening():
                with ExitStack() as locked:
                    # Of two commands that begin at once, the second finds the jobs of the first.
                    require_writable(runs / ".sweeps", "set another paths.runs")
                    locked.callback(acquired_lock(runs / ".sweeps", seconds=-1.0).release)
                    for note in submission.notes:
                        say("", note)
                    _submit(submission.arrays(self._sorted_out(tasks, awaited)), submission, awaited, stop)
                wait_for_jobs(awaited)
        except Stopped as stopped:
            jobs = [run.job for run in awaited if run.job]
            ends = f" Repeat the command to wait again; to end them: {slurm.cancel_command(jobs)}"
            left = f"no longer waiting; the jobs go on.{ends}" if jobs else "stopped; no job is known to be submitted"
            print(f"\n{left}", file=sys.stderr)
            raise SystemExit(128 + stopped.signum) from None
        return [0 if is_finished(task.job) else FAILED for task in tasks]

    def problems(self, jobs: Sequence[JobConfig]) -> list[Problem]:
        """Runs that share a task of an array have a device each."""
        if self.conf.runs_per_task == 1 or not any(map(has_several_devices, jobs)):
            return []
        text = ": runs with trainer.devices or trainer.nodes other than 1 have a task of their own; leave it out"
        return [Problem(f"hydra.launcher.runs_per_task={self.conf.runs_per_task}", text)]

    def plan(self, tasks: Sequence[JobTask]) -> list[str]:
        """Arrays and resources of the jobs."""
        try:
            submission, queued = SlurmSubmission(self.conf, Path()), queued_runs(tasks)
        except slurm.SlurmError as error:
            return [f"note: partitions and limits are not known here: {error}"]
        missing = [task for task in tasks if task.folder not in queued]
        n_queued, arrays, size = len(tasks) - len(missing), submission.arrays(missing), self.conf.runs_per_task
        lines = [f"{counted(n_queued, 'run')} in the queue already"] if n_queued else []
        if arrays:
            parts = counted(sum(len(array.tasks) for array in arrays), "task"), counted(len(arrays), "array")
            names = listed(dict.fromkeys(array.options["job_name"] for array in arrays), most=3)
            runs = f" of at most {size} runs" if size > 1 else ""
            lines += submission.notes
            lines.append(f"on Slurm: {parts[0]}{runs} in {parts[1]} of at most {submission.most:,} tasks, {names}")
        asked = dict.fromkeys(array.resources() for array in arrays)
        return lines + [f"each task asks for {text}; Slurm checks that when it is submitted" for text in asked]

    def _sorted_out(self, tasks: Sequence[JobTask], awaited: list[Awaited]) -> list[JobTask]:
        """Returns runs to submit, and adds runs in progress to `awaited`; finished runs are left out with a line."""
        queued, options = queued_runs(tasks), json.loads(json.dumps(asdict(self.conf)))
        missing, first = list[JobTask](), {task.folder: task for task in reversed(tasks)}
        for task in tasks:
            if task is not first[task.folder]:
                # as with two values of a key that mean the same
                say(task.label, f"{task.name}, an earlier job is the same run")
            elif is_finished(task.job):
                say(task.label, f"{task.name}, finished before")
            elif run := queued.get(task.folder):
                other = f", with other options of the launcher; for the new ones: {slurm.cancel_command([run.job])}"
                advice = "" if run.options == options else f"{other}, then repeat the command"
                say(task.label, f"{task.name}, in the queue already (job {run.job}{advice})")
                awaited.append(run)
            elif is_locked(task.folder):
                say(task.label, f"{task.name}, another process is training it; waiting for that process")
                awaited.append(Awaited(task))
            else:
                try:
                    RunFolder(task.folder).create()
                    missing.append(task)
                except RunError as error:
                    exit_code(error, f"{task.label} {task.name}")
        return missing


def _submit(arrays: Sequence[Array], submission: SlurmSubmission, awaited: list[Awaited], stop: StopRequest) -> None:
    """Submit arrays; signals wait for the end of one."""
    for array in arrays:
        with stop.after_block():
            try:
                submitted = submission.submit(array)
            except UserError as error:
                if not any(run.job for run in awaited):
                    raise
                # such as a limit on the jobs of an account
                say("note:", f"{error}; waiting for those in the queue, then repeat the command")
                break
            awaited += submitted
            number, _, last = submitted[-1].job.partition("_")
            where = f"job {number}, tasks 0-{last}" if last else f"job {number}"
            say("submitted:", f"{counted(len(submitted), 'run')} as {array.options['job_name']}, {where}")
    if arrays:
        say("logs:", short_path(submission.folder))
