"""Sweeps on Slurm without a Slurm: its answers, arrays, records of queued runs, locks, errors in a sentence."""

import errno
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.small_runs import BRIEF_SCAN, config_of, folder_of, run_job, settings

from attnlab.config.problem import ConfigError
from attnlab.config.sweep import Command, check_command
from attnlab.data.files.fetch import exclusive
from attnlab.data.files.file_lock import NoLocks
from attnlab.launch.cluster import run_on_cluster as cluster_module
from attnlab.launch.cluster import slurm_commands, wait_for_jobs, worker_task
from attnlab.launch.cluster.run_on_cluster import CORES_BESIDE_GPU, RECORD, Array, SlurmSubmission, queued_runs
from attnlab.launch.cluster.slurm_commands import SlurmError, SlurmJob, chosen_partitions, held_jobs, minutes_of
from attnlab.launch.cluster.worker_task import WorkerTask
from attnlab.launch.launcher import make_launcher
from attnlab.launch.run_job import JobTask, job_tasks
from attnlab.launch.train_cli import train_main
from attnlab.learn.stop_signals import Stopped, StopRequest, heard, unheard
from attnlab.run.run_folder import RunFolder
from attnlab.run.run_lock import acquired_lock, is_alive, is_locked, private_locks

SINFO = (
    "cpu|2-00:00:00|(null)\ngpu*|12:00:00|(null)\ngpu*|12:00:00|gpu:a100:4\nshort|30:00|gpu:2\nfree|infinite|(null)\n"
)
CONFIG = "ClusterName             = here\nMaxArraySize            = 4\n"
THREAD = "trainer.threads=1"
SWEEP = ("-m", "hydra/launcher=submitit_slurm", "model=linear,vanilla", "seed=range(0,6)")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answers of a Slurm; the lines of squeue are added by tests."""
    queue: list[str] = []

    def answer(*command: str) -> str:
        return {"sinfo": SINFO, "scontrol": CONFIG, "squeue": "\n".join(queue)}[command[0]]

    monkeypatch.setattr(slurm_commands, "answer", answer)
    return queue


def in_queue(job: str, state: str, restarts: int = 0, reason: str = "None", folder: str | Path = "/logs") -> str:
    """A line of squeue."""
    return f"{job:<40}{state:<24}{restarts:<12}{reason:<90}{'node1':<60}{f'{folder}/%A_%a_0_log.out':<4096}"


def submission_of(command: Command, folder: Path = Path(), **options: Any) -> SlurmSubmission:
    """The submission of a command, with other options of the launcher."""
    launcher = make_launcher(command.launcher | options)
    assert isinstance(launcher, cluster_module.SlurmLauncher)
    return SlurmSubmission(launcher.conf, folder)


def test_partitions_with_their_limits_and_gpus(slurm: list[str]) -> None:
    assert chosen_partitions(None) == {"gpu": (720, True)}
    assert chosen_partitions("cpu,short,free") == {"cpu": (2880, False), "short": (30, True), "free": (None, False)}
    assert minutes_of("1:30") == 1 and minutes_of("01:30:00") == 90
    with pytest.raises(SlurmError, match="=gpus: there is no partition gpus; nearest: gpu; here are cpu, gpu, "):
        chosen_partitions("gpus")


def test_tasks_of_arrays_have_the_resources_that_the_partition_offers(slurm: list[str], tmp_path: Path) -> None:
    words = settings(tmp_path, *SWEEP, *BRIEF_SCAN)
    command = check_command([word for word in words if word != "trainer=cpu"])
    tasks = job_tasks(command)
    wanted = submission_of(command)
    arrays = wanted.arrays(tasks)
    assert [len(array.tasks) for array in arrays] == [4, 2, 4, 2], "an array for each model, of four tasks at most"
    result = arrays[0].options
    assert result["job_name"] == "attnlab-scan-linear"
    assert (result["time"], result["gpus_per_node"]) == (720, 1)
    assert "name" not in result and "_target_" not in result
    for options, minutes, gpus in (
        ({"partition": "cpu,free"}, 1440, None),
        ({"partition": "short", "gres": "gpu:1"}, 30, None),
        ({"timeout_min": 7, "gpus_per_node": 2}, 7, 2),
    ):
        result = submission_of(command, **options).options(tasks[0])
        assert (result["time"], result.get("gpus_per_node")) == (minutes, gpus)
    assert "gpus_per_node" not in wanted.options(job_tasks(check_command(words))[0])
    every = job_tasks(check_command([*words, "trainer.device=auto", "trainer.devices=auto"]))[0]
    for gres, number in (("gpu:a100:4", 4), ("gpu:2,shard:8", 2), ("gpu", 1), ("shard:8", 1)):
        asked = submission_of(command, gres=gres).options(every)
        assert (asked["nodes"], asked["ntasks_per_node"], asked["cpus_per_task"]) == (1, number, 1)
        assert "gpus_per_node" not in asked
    mixed = submission_of(command, partition="cpu,gpu")
    assert "gpus_per_node" not in mixed.options(every) and "gpu alone has GPUs" in mixed.notes[0]
    assert not wanted.notes
    with pytest.raises(SlurmError, match="signal_delay_s=1800: jobs of 30 min may be stopped when they start"):
        submission_of(command, partition="short", signal_delay_s=1800)


@pytest.mark.slow
def test_jobs_ask_for_cores_and_memory_of_their_own(
    slurm: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm's defaults are one core, whatever the threads of a run, and often all memory of a node."""

    def asked(*words: str) -> dict[str, Any]:
        plain = [word for word in settings(tmp_path, *SWEEP, *BRIEF_SCAN) if word not in ("trainer=cpu", THREAD)]
        checked_command = check_command([*plain, *words])
        return submission_of(checked_command).options(job_tasks(checked_command)[0])

    assert asked()["cpus_per_task"] == CORES_BESIDE_GPU and asked("trainer.device=cpu")["cpus_per_task"] == 1
    assert asked("trainer.threads=3", "trainer.workers=2")["cpus_per_task"] == 5
    assert asked("hydra.launcher.cpus_per_task=9", "trainer.threads=3")["cpus_per_task"] == 9
    assert "mem" not in asked(), "a cluster that does not divide it"
    cluster = f"{CONFIG}\nSelectTypeParameters    = CR_CORE_MEMORY\n"
    monkeypatch.setattr(slurm_commands, "answer", lambda *command: {"sinfo": SINFO, "scontrol": cluster}[command[0]])
    assert asked()["mem"] == "8GB" and asked("trainer.devices=2")["mem"] == "16GB"
    assert asked("hydra.launcher.mem_gb=3")["mem"] == "3GB"
    assert "mem" not in asked("hydra.launcher.mem_per_cpu=2G")
    together = asked("hydra.launcher.runs_per_task=4", "trainer.workers=1")
    assert (together["ntasks_per_node"], together["gpus_per_node"]) == (1, 4), "whole nodes: a GPU for each run"
    assert (together["cpus_per_task"], together["mem"]) == (4 * (CORES_BESIDE_GPU + 1), "32GB")
    node = asked("hydra.launcher.runs_per_task=4", "hydra.launcher.cpus_per_task=9", "hydra.launcher.mem_gb=3")
    assert (node["cpus_per_task"], node["mem"]) == (9, "3GB"), "options are of the whole task, as in sbatch"


@pytest.fixture
def sbatch(slurm: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that takes jobs instead of sbatch; the file holds the script that it got last."""
    programs, script = tmp_path / "bin", tmp_path / "script.sh"
    programs.mkdir()
    (programs / "srun").write_text("#!/bin/sh\n")
    (programs / "sbatch").write_text(f"#!/bin/sh\ncp $1 {script}\necho Submitted batch job 17\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return script


def test_the_script_of_an_array_has_the_options_and_a_record_names_the_runs_of_its_tasks(
    sbatch: Path, slurm: list[str], tmp_path: Path
) -> None:
    words = settings(tmp_path, *SWEEP, *BRIEF_SCAN, "hydra.launcher.mem_gb=16", "hydra.launcher.comment=mine")
    command = check_command([*words, "hydra.launcher.partition=cpu", "hydra.launcher.mail_user=me@example.org"])
    wanted = submission_of(command, tmp_path / "logs")
    tasks = job_tasks(command)[:3]
    (array,) = wanted.arrays(tasks)
    result = wanted.submit(array)
    assert [item.job for item in result] == ["17_0", "17_1", "17_2"]
    assert [item.log for item in result] == [tmp_path / f"logs/0/17_{number}_0_log.out" for number in range(3)]
    text = sbatch.read_text()
    lines = ("mem=16GB", "array=0-2%3", "partition=cpu", "time=1440", "requeue", "job-name=attnlab-scan-linear")
    assert not [line for line in (*lines, "comment=mine") if f"#SBATCH --{line}\n" not in text]
    assert "%A_%a_%t_log.out" in text and "gpus" not in text
    record = json.loads((tmp_path / "logs" / "0" / RECORD).read_text())
    assert record["runs"] == [[str(task.folder)] for task in tasks] and record["options"]["mem_gb"] == 16
    assert wanted.submit(array)[0].log == tmp_path / "logs" / "1" / "17_0_0_log.out", "every array has its folder"


def test_a_job_is_found_if_the_command_was_killed_while_it_submitted(
    sbatch: Path, slurm: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = check_command(settings(tmp_path, *SWEEP, *BRIEF_SCAN))
    tasks = job_tasks(command)[:2]
    wanted = submission_of(command, tmp_path / "logs")

    def killed(*command: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("submitit.core.utils.JobPaths.move_temporary_file", killed)
    with pytest.raises(KeyboardInterrupt):
        wanted.submit(wanted.arrays(tasks)[0])
    slurm += [in_queue("18", "RUNNING"), in_queue("17_1", "PENDING", folder=tmp_path / "logs" / "0")]
    (result,) = queued_runs(tasks).values()
    assert (result.task, result.job) == (tasks[1], "17_1")
    assert result.log == tmp_path / "logs" / "0" / "17_1_0_log.out"
    assert result.options == json.loads(json.dumps(asdict(wanted.conf))), "with the same options"


def test_options_of_sbatch_that_have_an_option_here_are_refused(tmp_path: Path) -> None:
    for option, message in (
        ("{job-name: x}", "additional_parameters.job-name: write hydra.launcher.job_name=..."),
        ("{mem: 4G}", "additional_parameters.mem: write hydra.launcher.mem_gb=..."),
        ("{array: 0-3}", "additional_parameters.array: attnlab sets it"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            check_command(settings(tmp_path, *SWEEP, *BRIEF_SCAN, f"+hydra.launcher.additional_parameters={option}"))
    check_command(settings(tmp_path, *SWEEP, *BRIEF_SCAN, "+hydra.launcher.additional_parameters={reservation: x}"))


def test_questions_to_slurm_are_not_filtered_by_variables_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "squeue").write_text("#!/bin/sh\nenv\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SQUEUE_STATES", "R")
    text = slurm_commands.answer("squeue")
    assert "PATH=" in text and "SQUEUE_STATES" not in text


def test_the_command_that_cancels_names_the_tasks_alone() -> None:
    assert slurm_commands.cancel_command(["17_3", "9", "17_0", "17_1", "17_1"]) == "scancel '17_[0-1,3]' 9"


def test_what_is_wrong_of_all_that_sbatch_writes() -> None:
    unknown = "sbatch: unrecognized option '--nonsens=4G'\nTry \"sbatch --help\" for more information\n"
    refused = "sbatch: error: Batch job submission failed: Invalid qos specification\n"
    collected = [slurm_commands.complaint(text) for text in (unknown, refused, "")]
    assert collected == ["unrecognized option '--nonsens=4G'", "Invalid qos specification", "it gives no reason"]


def test_a_queued_run_is_one_that_slurm_holds(slurm: list[str], tmp_path: Path) -> None:
    slurm += [in_queue("17_1", "PENDING", 2, "QOSMaxJobsPerUserLimit", tmp_path), in_queue("18", "RUNNING")]
    assert held_jobs()["17_1"] == SlurmJob("PENDING", 2, "QOSMaxJobsPerUserLimit", "node1", tmp_path)
    tasks = job_tasks(check_command(settings(tmp_path, *SWEEP, *BRIEF_SCAN)))[:4]
    assert not queued_runs(tasks)
    names = [str(task.folder) for task in tasks]
    text = json.dumps({"options": {}, "runs": [names[:1], [*names[1:3], "/elsewhere"]]})
    (tmp_path / RECORD).write_text(text)
    assert {run.task.label: run.job for run in queued_runs(tasks).values()} == {"[2/12]": "17_1", "[3/12]": "17_1"}
    slurm[0] = in_queue("19_0", "PENDING", folder=tmp_path / "another")
    assert not queued_runs(tasks), "the number has been given to another job"
    slurm[0] = in_queue("17_1", "PENDING", folder=tmp_path)
    for damaged in ("", "[1]", '{"runs": 1}', '{"runs": [[], 3]}', '{"runs": [[]]}', '{"runs": [[], [{}]]}'):
        (tmp_path / RECORD).write_text(damaged)
        assert not queued_runs(tasks)


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, slurm: list[str]) -> list[Any]:
    """Jobs that were submitted; they run in this process when they are waited for."""
    collected: list[Any] = []

    def submit(self: SlurmSubmission, array: Array) -> list[wait_for_jobs.Awaited]:
        tasks = [run for task in array.tasks for run in task]
        collected.extend(tasks)
        return [wait_for_jobs.Awaited(task, str(len(collected)), self.folder / "log") for task in tasks]

    def wait(awaited: Any) -> None:
        for item in awaited:
            item.task.run()

    monkeypatch.setattr(SlurmSubmission, "submit", submit)
    monkeypatch.setattr(cluster_module, "wait_for_jobs", wait)
    return collected


def test_what_is_finished_or_in_the_queue_is_not_submitted(
    submitted: list[Any], slurm: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = (*BRIEF_SCAN, "train.max_steps=2", "model=linear")
    words = settings(tmp_path, *small)
    assert run_job(config_of(tmp_path, *small, "seed=0"), quiet=True) == 0
    waiting = folder_of(tmp_path, *small, "seed=1")
    (tmp_path / RECORD).write_text(json.dumps({"options": {"partition": "cpu"}, "runs": [[str(waiting)]]}))
    slurm.append(in_queue("9", "PENDING", folder=tmp_path))
    assert train_main(["-m", *words, "seed=0,1,2", "hydra/launcher=submitit_slurm"]) == 0
    printed = capsys.readouterr().err
    assert [task.name for task in submitted] == ["seed=2"]
    assert (
        "[1/3] seed=0, finished before" in printed
        and "[2/3] seed=1, in the queue already (job 9, with other options" in printed
    )
    assert "for the new ones: scancel 9, then repeat the command)" in printed
    assert "submitted: 1 run as attnlab-scan-linear, job 1" in printed


def test_what_slurm_refuses_in_the_middle_leaves_the_rest_in_the_queue(
    submitted: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    submit = SlurmSubmission.submit

    def limited(self: SlurmSubmission, array: Array) -> list[wait_for_jobs.Awaited]:
        if submitted:
            raise SlurmError("Slurm refused the jobs: QOSMaxSubmitJobPerUserLimit")
        return submit(self, array)

    monkeypatch.setattr(SlurmSubmission, "submit", limited)
    words = settings(tmp_path, *BRIEF_SCAN, "train.max_steps=2", "model=linear,vanilla")
    assert train_main(["-m", *words, "hydra/launcher=submitit_slurm"]) == 1
    printed = capsys.readouterr()
    assert "note: Slurm refused the jobs: QOSMaxSubmitJobPerUserLimit; waiting for those in the queue" in printed.err
    assert "model=vanilla: not started" in printed.out and "1 finished, 1 not" in printed.out


def test_news_of_jobs_are_told_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = check_command(settings(tmp_path, *BRIEF_SCAN, "model=linear")).jobs[0]
    folder = RunFolder(job.folder)
    folder.create()
    folder.set_status("running", step=70)
    task = job_tasks(SimpleNamespace(jobs=[job], names=["seed=0"]))[0]
    reported = [SlurmJob("PENDING", 0, "QOSLimit", ""), SlurmJob("RUNNING", 0, "None", "node1")]
    reported += [SlurmJob("PENDING", 1, "BeginTime", ""), SlurmJob("RUNNING", 1, "None", "node2")]
    seen: list[Any] = [reported[0], reported[0], reported[1], SlurmError("no answer"), *reported[2:]]
    answers = iter(seen)

    def held() -> Mapping[str, SlurmJob]:
        answer = next(answers, None)
        if isinstance(answer, SlurmError):
            raise answer
        return {} if answer is None else {"17": answer}

    monkeypatch.setattr(wait_for_jobs, "held_jobs", held)
    monkeypatch.setattr(wait_for_jobs, "final_state", lambda job: "CANCELLED")
    (tmp_path / "log.out").touch()
    monkeypatch.setattr(wait_for_jobs.time, "sleep", lambda seconds: None)
    # else the time for late files passes in a loop without pauses
    monkeypatch.setattr(wait_for_jobs, "LATE_FILES", 0.0)
    awaited = wait_for_jobs.Awaited(task, "17", tmp_path / "log.out")
    folder.record_end(Stopped(signal.SIGUSR2))
    since = folder.status()["updated"]
    wait_for_jobs.wait_for_jobs([awaited])
    assert capsys.readouterr().err.splitlines() == [
        "note: 1 job waiting (17): QOSLimit, which man squeue explains; for other options: scancel 17, then repeat",
        "[1/1] seed=0: job 17 runs on node1",
        "note: no answer; still waiting",
        "[1/1] job 17 is back in the queue (stopped by SIGUSR2, step 70); it goes on later",
        "[1/1] seed=0: job 17 runs on node2",
        f"[1/1] seed=0: job 17 is CANCELLED; stopped: stopped by SIGUSR2, since {since}; log: {tmp_path / 'log.out'}",
    ]


def test_jobs_that_were_cancelled_before_they_began_are_told_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = check_command(settings(tmp_path, *SWEEP, *BRIEF_SCAN))
    tasks = job_tasks(command)
    now = [0.0]
    monkeypatch.setattr(wait_for_jobs.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(wait_for_jobs.time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    monkeypatch.setattr(wait_for_jobs, "held_jobs", dict)
    monkeypatch.setattr(wait_for_jobs, "final_state", lambda job: "CANCELLED")
    for task in tasks:
        RunFolder(task.folder).create()
    wait_for_jobs.wait_for_jobs([wait_for_jobs.Awaited(task, "17_0", tmp_path / "none") for task in tasks])
    assert capsys.readouterr().err.count("job 17_0 is CANCELLED") == 12
    assert now[0] <= wait_for_jobs.LATE_FILES + 1


def test_a_run_that_fails_beside_others_of_its_job_is_told_at_once_and_watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its job may be put back for the others, and then begins it again."""
    tasks = job_tasks(check_command(settings(tmp_path, *SWEEP, *BRIEF_SCAN)))[:2]
    folders = [RunFolder(task.folder) for task in tasks]
    for folder in folders:
        folder.create()
        folder.record_end(ValueError("of an earlier job"))
    awaited = [wait_for_jobs.Awaited(task, "17_0", None, {"runs_per_task": 2}) for task in tasks]

    def held() -> Iterator[Mapping[str, SlurmJob]]:
        yield {"17_0": SlurmJob("RUNNING", 0, "None", "node1")}
        folders[1].set_status("failed", "killed by SIGKILL")
        yield from [{"17_0": SlurmJob("RUNNING", 0, "None", "node1")}] * 2
        yield {"17_0": SlurmJob("RUNNING", 1, "None", "node1")}
        assert awaited[1] in waiting
        folders[1].record_end(Stopped(signal.SIGTERM))
        yield {}

    answers, waiting = held(), list(awaited)
    monkeypatch.setattr(wait_for_jobs, "held_jobs", lambda: next(answers))
    monkeypatch.setattr(wait_for_jobs, "final_state", lambda job: "FAILED")
    monkeypatch.setattr(wait_for_jobs.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(wait_for_jobs, "LATE_FILES", 0.0)
    wait_for_jobs.wait_for_jobs(waiting)
    first, second = (f"[{task.label[1]}/12] {task.name}:" for task in tasks)
    printed = capsys.readouterr().err.splitlines()
    assert printed[:3] == [
        f"{first} job 17_0 runs on node1",
        f"{second} job 17_0 runs on node1",
        f"{second} failed: killed by SIGKILL; other runs of job 17_0 go on",
    ]
    since = RunFolder(tasks[0].folder).status()["updated"]
    assert printed[-2:] == [
        f"{first} job 17_0 is FAILED; failed: ValueError: of an earlier job, since {since}",
        f"{second} job 17_0 is FAILED; stopped: stopped by SIGTERM",
    ]


def test_a_dependency_that_never_comes_is_told() -> None:
    expected = map(wait_for_jobs.EXPECTED.fullmatch, ("Dependency", "", "Nodes required for job are DOWN"))
    assert all(expected) and not wait_for_jobs.EXPECTED.fullmatch("DependencyNeverSatisfied")


@dataclass(frozen=True)
class Run:
    """A stand-in for a run of a task, with its exit code."""

    code: int
    number: int = 0
    main: int = field(default_factory=os.getpid)
    threads: int | None = None
    job: None = None

    label = name = property(lambda self: f"[{self.number}]")
    folder = property(lambda self: Path(str(self.number)))

    def run(self) -> int:
        if self.code == 128 + signal.SIGKILL:
            os.kill(os.getpid(), signal.SIGKILL)
        stop = StopRequest()
        try:
            with stop.listening():
                if self.code > 128:
                    os.kill(self.main, self.code - 128)
                    time.sleep(5)
        except Stopped:
            stop.pass_on()
        return self.code


@pytest.fixture
def put_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Signals with which jobs were put back into the queue; they are handled as in a job of submitit."""
    back: list[int] = []
    environment = SimpleNamespace(USR_SIG="USR2", job_id="17_0", hostname="node1")
    monkeypatch.setattr(worker_task, "JobEnvironment", lambda: environment)
    monkeypatch.setattr(worker_task, "PUT_BACK_SECONDS", 0.0)
    monkeypatch.setattr(worker_task, "is_finished", lambda job: False)
    monkeypatch.setattr("sys.argv", ["_submit.py"])
    former = {signum: signal.getsignal(signum) for signum in heard()}
    yield back
    for signum, handler in former.items():
        signal.signal(signum, handler)


def ends_with(put_back: list[int], *codes: int) -> int | str | None:
    """Exit code of a task whose runs end with these codes."""
    signal.signal(signal.SIGUSR2, lambda signum, frame: put_back.append(signum))
    runs: Any = [Run(code, number) for number, code in enumerate(codes)]
    try:
        return WorkerTask(runs, ["train.py"])()
    except SystemExit as ended:
        return ended.code
    finally:
        unheard.clear()


@pytest.mark.usefixtures("default_signals")
def test_a_job_goes_back_into_the_queue_after_notices_of_a_time_limit_only(put_back: list[int]) -> None:
    codes = (0, 1, 128 + signal.SIGUSR1, 128 + signal.SIGUSR2, 128 + signal.SIGTERM)
    assert [ends_with(put_back, code) for code in codes] == list(codes)
    assert put_back == [signal.SIGUSR1, signal.SIGUSR2]


@pytest.mark.usefixtures("default_signals")
def test_runs_of_one_task_are_processes_whose_signals_put_the_job_back(
    put_back: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert ends_with(put_back, 0, 0) == 0 and ends_with(put_back, 0, 1, 0) == 1
    assert ends_with(put_back, 137, 0) == 1, "a run that is killed fails its job, and the others go on"
    assert "killed by SIGKILL" in (printed := capfd.readouterr().err) and "hydra.launcher.mem_gb" in printed
    for signum in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        assert ends_with(put_back, 128 + signum, 0) == 128 + signum
    assert put_back == [signal.SIGUSR1, signal.SIGUSR2]


def test_a_run_has_as_many_threads_as_its_share_of_the_cores(
    put_back: list[int], sbatch: Path, slurm: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pickled: list[WorkerTask] = []

    def taken(self: Any, tasks: list[WorkerTask]) -> list[SimpleNamespace]:
        pickled[:] = tasks
        return [SimpleNamespace(job_id="17", paths=SimpleNamespace(stdout=None))] * len(tasks)

    monkeypatch.setattr("submitit.SlurmExecutor.submit_array", taken)
    words = [word for word in settings(tmp_path, *SWEEP, *BRIEF_SCAN) if word not in ("trainer=cpu", THREAD)]
    command = check_command([*words, "hydra.launcher.partition=gpu"])
    runs = job_tasks(command)
    for options, threads, sizes, beside in (
        ({}, CORES_BESIDE_GPU, [1, 1, 1, 1], False),
        ({"cpus_per_task": 9}, 9, [1, 1, 1, 1], False),
        ({"runs_per_task": 5}, CORES_BESIDE_GPU, [5, 5, 2], True),
        ({"runs_per_task": 5, "cpus_per_task": 11}, 2, [5, 5, 2], True),
        ({"runs_per_task": 5, "cpus_per_task": 2}, 1, [5, 5, 2], True),
    ):
        wanted = submission_of(command, tmp_path / "logs", **options)
        assert len(wanted.submit(wanted.arrays(runs)[0])) == sum(sizes)
        assert [len(task.runs) for task in pickled] == sizes
        placed = {(run.threads, run.needs_gpu, run.shares_terminal) for task in pickled for run in task.runs}
        assert placed == {(threads, True, beside)}
    seen: list[int | None] = []
    monkeypatch.setattr(JobTask, "run", lambda run: seen.append(run.threads) or 0)
    for number in ("", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", number)
        assert WorkerTask([replace(runs[0], threads=5)], [])() == 0
    assert seen == [5, None], "OMP_NUM_THREADS of the job decides"


def test_runs_on_several_devices_do_not_share_a_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = settings(tmp_path, *SWEEP, *BRIEF_SCAN, "hydra.launcher.runs_per_task=2", "trainer.devices=2")
    assert train_main(words) == 2
    assert "hydra.launcher.runs_per_task=2: runs with trainer.devices or trainer.nodes" in capsys.readouterr().err


def test_a_lock_that_another_machine_holds(tmp_path: Path) -> None:
    """A lock file over NFS: another process holds it, and status.json names another host."""
    job = check_command(settings(tmp_path, *BRIEF_SCAN, "model=linear")).jobs[0]
    folder = RunFolder(job.folder)
    folder.create()
    assert not is_locked(folder.path)
    folder.set_status("running")
    status = json.loads(folder.status_file.read_text()) | {"host": "node17", "pid": 4711}
    folder.status_file.write_text(json.dumps(status))
    reading, writing = os.pipe()
    if not (child := os.fork()):
        lock = acquired_lock(folder.path)
        os.write(writing, b"held")
        signal.pause()
        lock.release()
    try:
        os.read(reading, 4)
        assert is_locked(folder.path) and is_alive(status, folder.path)
        assert run_job(job.raw, quiet=True) == 1
        assert json.loads(folder.status_file.read_text()) == status, "nothing is recorded in a run of another process"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not is_locked(folder.path) and not is_alive(status, folder.path)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def flock(*inputs: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", flock)
    assert run_job(config_of(tmp_path, *BRIEF_SCAN, "model=linear"), quiet=True) == 1
    printed = capsys.readouterr().err
    assert "has no locks (flock)" in printed and "set paths.runs to another file system" in printed
    with pytest.raises(NoLocks, match="set ATTNLAB_DATA and ATTNLAB_CACHE"), exclusive(tmp_path / "data.lock", "data"):
        pass


@pytest.mark.parametrize(
    ("mount", "private"),
    [
        ("server:/shared /shared nfs4 rw,relatime,vers=4.2 0 0", ""),
        ("server:/shared /shared nfs rw,vers=3,nolock 0 0", "/shared (nfs, nolock)"),
        ("server:/shared /shared nfs rw,vers=3,local_lock=flock 0 0", "/shared (nfs, local_lock=flock)"),
        ("server:/shared /shared nfs rw,nolock 0 0\nserver:/runs /shared/me/runs nfs4 rw 0 0", ""),
        ("mds@tcp:/l /shared lustre rw,flock,lazystatfs 0 0", ""),
        ("mds@tcp:/l /shared lustre rw,localflock 0 0", "/shared (lustre, localflock)"),
        ("mds@tcp:/l /shared lustre rw 0 0", "/shared (lustre, no flock)"),
    ],
)
def test_mounts_that_keep_locks_to_a_machine(mount: str, private: str, tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sda1 / ext4 rw 0 0\n{mount}\n")
    assert private_locks(Path("/shared/me/runs"), table) == private


def test_without_slurm_a_sentence_says_what_else_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    words = settings(tmp_path, *SWEEP, *BRIEF_SCAN)
    assert train_main(words) == 1
    assert capsys.readouterr().err == (
        "failed: there is no Slurm on this machine (sinfo was not found); start the command on a login node of the "
        "cluster, or use hydra/launcher=joblib, which needs no Slurm\n"
    )
    assert train_main([*words, "--plan"]) == 0
    printed = capsys.readouterr().out
    assert "12 runs, 0 finished; 12 to train" in printed
    assert "note: partitions and limits are not known here: there is no Slurm" in printed
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def plan(*words: str) -> str:
        capsys.readouterr()
        assert train_main(["-m", *settings(tmp_path, *BRIEF_SCAN, "train.max_steps=24", *words), "--plan"]) == 0
        return capsys.readouterr().out

    return plan


def test_a_plan_knows_the_steps_that_were_measured(tmp_path: Path, planned: Callable[..., str]) -> None:
    assert "no hours for linear: no run of this task and these sizes" in planned("model=linear", "seed=1,2")
    raw = config_of(tmp_path, *BRIEF_SCAN, "train.max_steps=24", "model=linear", "seed=1")
    assert run_job(raw, quiet=True) == 0
    text = planned("model=linear,vanilla", "seed=1,2")
    assert "4 runs, 1 finished; 3 to train" in text and "\nhours: 0.00 on" in text
    assert text.count("(model=linear, of the same sizes)") == 1, "for vanilla"
    assert "no hours for linear" in planned("model=linear", "seed=2,3", "train.accumulate=2"), "another size"
