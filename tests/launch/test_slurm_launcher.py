"""Sweeps on Slurm without a Slurm: its answers, arrays, records of queued runs, locks, errors in a sentence."""

import errno
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.small_runs import BRIEF_SCAN, config_of, folder_of, run_job, settings

from attnlab.config.problem import ConfigError
from attnlab.config.sweep import check_command
from attnlab.data.files.fetch import exclusive
from attnlab.data.files.file_lock import NoLocks
from attnlab.launch.cluster import run_on_cluster as cluster_module
from attnlab.launch.cluster import slurm_commands, submission, wait_for_jobs
from attnlab.launch.cluster.queued_runs import FILE, Queued, queued_job, record_queued
from attnlab.launch.cluster.slurm_commands import SlurmError, SlurmJob, chosen_partitions, held_jobs, minutes_of
from attnlab.launch.cluster.submission import CORES_BESIDE_GPU, SlurmSubmission
from attnlab.launch.cluster.worker_task import WorkerTask, cores_of_task
from attnlab.launch.run_job import job_tasks
from attnlab.launch.train_cli import train_main
from attnlab.learn.stop_signals import Stopped
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


def in_queue(job: str, state: str, restarts: int = 0, reason: str = "None") -> str:
    """A line of squeue."""
    return f"{job:<40}{state:<24}{restarts:<12}{reason:<90}{'node1':<60}{'attnlab':<200}{'attnlab-4f':<60}"


def queued(job: str = "", name: str = "attnlab", task: int = 0) -> Queued:
    """A record of a job."""
    return Queued(job, name, "attnlab-4f", task, "here", "/logs", "", "{}")


def test_partitions_with_their_limits_and_gpus(slurm: list[str]) -> None:
    assert [
        (chosen_partition.name, chosen_partition.minutes, chosen_partition.gpus)
        for chosen_partition in chosen_partitions(None)
    ] == [("gpu", 720, True)]
    assert [chosen_partition.minutes for chosen_partition in chosen_partitions("cpu,short,free")] == [2880, 30, None]
    assert minutes_of("1:30") == 1 and minutes_of("01:30:00") == 90
    with pytest.raises(SlurmError, match="=gpus: there is no partition gpus; nearest: gpu; here are cpu, gpu, "):
        chosen_partitions("gpus")


def test_tasks_of_arrays_have_the_resources_that_the_partition_offers(slurm: list[str], tmp_path: Path) -> None:
    words = settings(tmp_path, *SWEEP, *BRIEF_SCAN)
    command = check_command([word for word in words if word != "trainer=cpu"])
    tasks = job_tasks(command)
    wanted = SlurmSubmission(command.launcher, tmp_path)
    arrays = wanted.arrays(tasks)
    assert [len(array) for array in arrays] == [4, 2, 4, 2], "an array for each model, of four tasks at most"
    result = wanted.parameters(tasks[0])
    assert result["job_name"] == "attnlab-scan-linear"
    assert (result["time"], result["gpus_per_node"]) == (720, 1)
    assert "name" not in result
    for options, time, gpus in (
        ({"partition": "cpu,free"}, 1440, None),
        ({"partition": "short", "gres": "gpu:1"}, 30, None),
        ({"timeout_min": 7, "gpus_per_node": 2}, 7, 2),
    ):
        result = SlurmSubmission(command.launcher | options, tmp_path).parameters(tasks[0])
        assert (result["time"], result.get("gpus_per_node")) == (time, gpus)
    on_cpu = check_command(words)
    assert "gpus_per_node" not in wanted.resources(on_cpu.jobs[0].typed)
    every = check_command([*words, "trainer.device=auto", "trainer.devices=auto"]).jobs[0].typed
    for gres, number in (("gpu:a100:4", 4), ("gpu:2,shard:8", 2), ("gpu", 1), ("shard:8", 1)):
        asking = SlurmSubmission(command.launcher | {"gres": gres}, tmp_path)
        assert asking.resources(every) == {"nodes": 1, "ntasks_per_node": number, "cpus_per_task": 1}
    mixed = SlurmSubmission(command.launcher | {"partition": "cpu,gpu"}, tmp_path)
    assert "gpus_per_node" not in mixed.resources(every) and "gpu alone has GPUs" in mixed.gpu_note()
    assert not wanted.gpu_note()
    with pytest.raises(SlurmError, match="signal_delay_s=1800: jobs of 30 min may be stopped when they start"):
        SlurmSubmission(command.launcher | {"partition": "short", "signal_delay_s": 1800}, tmp_path)


def test_jobs_ask_for_cores_and_memory_of_their_own(
    slurm: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm's defaults are one core, whatever the threads of a run, and often all memory of a node."""

    def asked(*words: str) -> dict[str, Any]:
        plain = [word for word in settings(tmp_path, *SWEEP, *BRIEF_SCAN) if word not in ("trainer=cpu", THREAD)]
        checked_command = check_command([*plain, *words])
        return SlurmSubmission(checked_command.launcher, tmp_path).parameters(job_tasks(checked_command)[0])

    assert asked()["cpus_per_task"] == CORES_BESIDE_GPU and asked("trainer.device=cpu")["cpus_per_task"] == 1
    assert asked("trainer.threads=3", "trainer.workers=2")["cpus_per_task"] == 5
    assert asked("hydra.launcher.cpus_per_task=9", "trainer.threads=3")["cpus_per_task"] == 9
    assert "mem" not in asked(), "a cluster that does not divide it"
    cluster = f"{CONFIG}\nSelectTypeParameters    = CR_CORE_MEMORY\n"
    monkeypatch.setattr(slurm_commands, "answer", lambda *command: {"sinfo": SINFO, "scontrol": cluster}[command[0]])
    assert asked()["mem"] == "8GB" and asked("trainer.devices=2")["mem"] == "16GB"
    assert asked("hydra.launcher.mem_gb=3")["mem"] == "3GB"
    assert "mem" not in asked("hydra.launcher.mem_per_cpu=2G")


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


def test_the_script_of_an_array_has_the_options_and_records_name_its_tasks(
    sbatch: Path, slurm: list[str], tmp_path: Path
) -> None:
    words = settings(tmp_path, *SWEEP, *BRIEF_SCAN, "hydra.launcher.mem_gb=16")
    command = check_command([*words, "hydra.launcher.partition=cpu", "hydra.launcher.mail_user=me@example.org"])
    tasks = job_tasks(command)[:3]
    for task in tasks:
        task.folder.mkdir(parents=True)
    result = SlurmSubmission(command.launcher, tmp_path / "logs").submit(tasks)
    assert [item.job for item in result] == ["17_0", "17_1", "17_2"]
    assert [item.log.name for item in result] == ["17_0_0_log.out", "17_1_0_log.out", "17_2_0_log.out"]
    text = sbatch.read_text()
    lines = ("mem=16GB", "array=0-2%3", "partition=cpu", "time=1440", "requeue", "job-name=attnlab-scan-linear")
    assert not [line for line in lines if f"#SBATCH --{line}\n" not in text]
    assert "%A_%a_%t_log.out" in text and "gpus" not in text
    records = [json.loads((task.folder / FILE).read_text()) for task in tasks]
    assert [record["job"] for record in records] == ["17_0", "17_1", "17_2"]
    assert {f"--comment={record['mark']}" in text for record in records} == {True}


def test_a_job_is_found_by_its_mark_if_the_command_was_killed_while_it_submitted(
    sbatch: Path, slurm: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = check_command(settings(tmp_path, *SWEEP, *BRIEF_SCAN))
    tasks = job_tasks(command)[:2]
    for task in tasks:
        task.folder.mkdir(parents=True)

    def killed(*command: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("submitit.core.utils.JobPaths.move_temporary_file", killed)
    with pytest.raises(KeyboardInterrupt):
        SlurmSubmission(command.launcher, tmp_path / "logs").submit(tasks)
    mark = json.loads((tasks[0].folder / FILE).read_text())["mark"]
    there = SlurmJob("RUNNING", 0, "None", "node1", "attnlab-scan-linear", mark)
    held = {"18": there, "17_1": there, "16_1": replace(there, comment="attnlab-00")}
    result = queued_job(tasks[1].folder, "here", held)
    assert result is not None and result.job == "17_1" and result.log.name == "17_1_0_log.out"
    assert queued_job(tasks[1].folder, "here", {"18_0": there}) is None


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


def test_a_queued_run_is_one_that_this_cluster_holds(slurm: list[str], tmp_path: Path) -> None:
    slurm += [in_queue("17_3", "PENDING", 2, "QOSMaxJobsPerUserLimit"), in_queue("18", "RUNNING")]
    held = held_jobs()
    assert held["17_3"] == SlurmJob("PENDING", 2, "QOSMaxJobsPerUserLimit", "node1", "attnlab", "attnlab-4f")
    assert queued_job(tmp_path, "here", held) is None
    record_queued(tmp_path, queued("17_3"))
    assert queued_job(tmp_path, "here", held) == replace(queued("17_3"), folder=str(tmp_path))
    assert queued_job(tmp_path, "there", held) is None and queued_job(tmp_path, "here", {}) is None
    copied = Path(shutil.copytree(tmp_path, tmp_path / "copy"))
    assert queued_job(copied, "here", held) is None, "the job trains the run of the other folder"
    record_queued(copied, queued("17_3", "another"))
    assert queued_job(copied, "here", held) is None, "the number has been given to another job"
    for damaged in ("", "[1]", '{"job": "17_3"}'):
        (tmp_path / FILE).write_text(damaged)
        assert queued_job(tmp_path, "here", held) is None


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, slurm: list[str]) -> list[Any]:
    """Jobs that were submitted; they run in this process when they are waited for."""
    collected: list[Any] = []

    def submit(self: SlurmSubmission, tasks: Any) -> list[wait_for_jobs.Awaited]:
        collected.extend(tasks)
        return [wait_for_jobs.Awaited(task, str(len(collected)), self.folder / "log") for task in tasks]

    def wait(awaited: Any) -> None:
        for item in awaited:
            item.task.run()

    monkeypatch.setattr(submission.SlurmSubmission, "submit", submit)
    monkeypatch.setattr(cluster_module, "wait_for_jobs", wait)
    return collected


def test_what_is_finished_or_in_the_queue_is_not_submitted(
    submitted: list[Any], slurm: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = (*BRIEF_SCAN, "train.max_steps=2", "model=linear")
    words = settings(tmp_path, *small)
    assert run_job(config_of(tmp_path, *small, "seed=0"), quiet=True) == 0
    waiting = folder_of(tmp_path, *small, "seed=1")
    waiting.mkdir(parents=True)
    record_queued(waiting, queued("9"))
    slurm.append(in_queue("9", "PENDING"))
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

    def limited(self: SlurmSubmission, tasks: Any) -> list[wait_for_jobs.Awaited]:
        if submitted:
            raise SlurmError("Slurm refused the jobs: QOSMaxSubmitJobPerUserLimit")
        return submit(self, tasks)

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
    awaited = wait_for_jobs.Awaited(task, "17", tmp_path / "log.out")
    folder.record_end(Stopped(signal.SIGUSR2))
    wait_for_jobs.wait_for_jobs([awaited])
    assert capsys.readouterr().err.splitlines() == [
        "note: 1 job waiting (17): QOSLimit, which man squeue explains; for other options: scancel 17, then repeat",
        "[1/1] seed=0: job 17 runs on node1",
        "note: no answer; still waiting",
        "[1/1] job 17 is back in the queue (stopped by SIGUSR2, step 70); it goes on later",
        "[1/1] seed=0: job 17 runs on node2",
        f"[1/1] seed=0: job 17 is CANCELLED; stopped: stopped by SIGUSR2; log: {tmp_path / 'log.out'}",
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
        record_queued(task.folder, queued("17_0"))
    wait_for_jobs.wait_for_jobs([wait_for_jobs.Awaited(task, "17_0", tmp_path / "none") for task in tasks])
    assert capsys.readouterr().err.count("job 17_0 is CANCELLED") == 12
    assert now[0] <= wait_for_jobs.LATE_FILES + 1
    assert (tasks[0].folder / FILE).exists(), "another command may have submitted the run again"


def test_a_dependency_that_never_comes_is_told() -> None:
    collected = [wait_for_jobs._is_expected(reason) for reason in ("Dependency", "", "Nodes required for job are DOWN")]
    assert all(collected) and not wait_for_jobs._is_expected("DependencyNeverSatisfied")


def test_a_job_goes_back_into_the_queue_after_notices_of_a_time_limit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = SimpleNamespace(USR_SIG="USR2", global_rank=1)
    monkeypatch.setattr("submitit.JobEnvironment", lambda: environment)
    back: list[int] = []
    former = signal.signal(signal.SIGUSR2, lambda signum, frame: back.append(signum))
    monkeypatch.setattr("attnlab.launch.cluster.worker_task.Worker", lambda: SimpleNamespace(run=lambda run: run()))
    monkeypatch.setattr("sys.argv", ["_submit.py"])

    def task(code: int) -> Any:
        return SimpleNamespace(run=lambda: code, label="[1/1]")

    monkeypatch.setattr("attnlab.launch.cluster.worker_task.PUT_BACK_SECONDS", 0.0)
    monkeypatch.setattr("attnlab.launch.cluster.worker_task.replace", lambda task, threads: task)
    try:
        assert WorkerTask(task(0), ["train.py"])() == 0
        for code in (1, 128 + signal.SIGUSR1, 128 + signal.SIGUSR2, 128 + signal.SIGTERM):
            with pytest.raises(SystemExit) as ended:
                WorkerTask(task(code), ["train.py"])()
            assert ended.value.code == code
    finally:
        signal.signal(signal.SIGUSR2, former)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert back == [signal.SIGUSR1, signal.SIGUSR2]


def test_a_job_has_as_many_threads_as_slurm_gave_it_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_STEP_TASKS_PER_NODE"):
        monkeypatch.delenv(name, raising=False)
    assert cores_of_task() is None
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "8")
    assert cores_of_task() == 8
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "4(x2),1")
    assert cores_of_task() == 2
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert cores_of_task() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert cores_of_task() is None


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
