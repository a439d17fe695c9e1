"""Jobs of a sweep in processes: how many, with how many threads, killed processes, signals."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.small_runs import config_of

from attnlab.config.job_config import JobConfig, job_config
from attnlab.launch import local_processes
from attnlab.launch import run_job as job_module
from attnlab.launch.console_summary import print_sweep
from attnlab.launch.local_processes import Processes
from attnlab.launch.worker_pool import WorkerPool
from attnlab.learn.devices.usable_cores import usable_cores
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.run.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("default_signals")


@dataclass(frozen=True)
class Job:
    """A stand-in for a job in a worker; `does` is the name of a method."""

    number: int
    does: str
    out: Path
    same: str = ""

    @property
    def folder(self) -> Path:
        return self.out / (self.same or str(self.number))

    label = property(lambda self: f"[{self.number}]")
    name = property(lambda self: f"seed={self.number}")

    def run(self) -> int:
        (self.out / f"begun{self.number}").write_text(str(os.getpid()))
        return getattr(self, self.does)()

    def succeed(self) -> int:
        return 0

    def fail(self) -> int:
        return 1

    def die(self) -> int:
        self.folder.mkdir()
        RunFolder(self.folder).set_status("running")
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def alone_in_folder(self) -> int:
        (self.out / "lock").touch(exist_ok=False)
        time.sleep(0.05)
        (self.out / "lock").unlink()
        return 0

    def stop_parent(self) -> int:
        return self.stopped(os.getppid())

    def stop_itself(self) -> int:
        return self.stopped(os.getpid())

    def stopped(self, process: int) -> int:
        """As a run that saves its state after a signal, which it gets itself or by way of the parent."""
        stop = StopRequest()
        try:
            with stop.listening():
                os.kill(process, signal.SIGUSR1)
                time.sleep(20)
        except Stopped as error:
            (self.out / f"saved{self.number}").touch()
            return 128 + error.signum
        return 0


def run(out: Path, size: int, *does: str, folder: str = "") -> tuple[int, list[int], list[str]]:
    """Exit code of a pool, sorted codes of its tasks, and the process of each task that began."""
    pool = WorkerPool([Job(number, what, out, folder) for number, what in enumerate(does)], size)
    code = pool.run()
    return code, sorted(pool.codes.values()), [file.read_text() for file in sorted(out.glob("begun*"))]


def test_few_processes_run_many_jobs(tmp_path: Path) -> None:
    code, codes, processes = run(tmp_path, 2, "succeed", "fail", "succeed", "succeed", "succeed")
    assert (code, codes, len(processes)) == (0, [0, 0, 0, 0, 1], 5)
    assert len(set(processes)) <= 2 and str(os.getpid()) not in processes


def test_two_jobs_of_one_folder_are_not_run_at_once(tmp_path: Path) -> None:
    assert run(tmp_path, 3, *["alone_in_folder"] * 3, folder="same")[:2] == (0, [0, 0, 0])


def test_a_killed_process_fails_its_job_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, codes, processes = run(tmp_path, 2, "die", "succeed", "die", "succeed")
    assert (code, codes, len(processes)) == (0, [0, 0, 1, 1], 4)
    printed = capsys.readouterr().err
    assert "failed: [0] seed=0\n  its process was killed by SIGKILL (was there too little memory?)" in printed
    assert "the other jobs go on, 1 at once; repeat the command to go on; hydra.launcher.n_jobs=..." in printed
    status = RunFolder(tmp_path / "0").status()
    assert status["state"] == "failed" and "killed by SIGKILL" in status["reason"]


def test_a_signal_reaches_every_job_and_then_the_starter(tmp_path: Path) -> None:
    seen: list[int] = []
    former = signal.signal(signal.SIGUSR1, lambda signum, frame: seen.append(signum))
    try:
        code, _, processes = run(tmp_path, 1, "stop_parent", "succeed")
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert code == 128 + signal.SIGUSR1 and seen == [signal.SIGUSR1]
    assert (tmp_path / "saved0").exists() and len(processes) == 1, "and none begins"


def test_a_signal_to_one_process_stops_its_job_only(tmp_path: Path) -> None:
    code, codes, processes = run(tmp_path, 1, "stop_itself", "succeed")
    assert (code, codes, len(set(processes))) == (0, [0, 128 + signal.SIGUSR1], 2)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Plans a sweep on a machine that has so many cores and no GPU."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(local_processes, "gpu_here", lambda: False)

    def make(cores: int, jobs: int, threads: int | None = None, n_jobs: int | None = None) -> Any:
        monkeypatch.setattr(local_processes, "usable_cores", lambda: cores)
        typed = SimpleNamespace(trainer=SimpleNamespace(threads=threads, devices=1, nodes=1))
        return Processes(n_jobs).process_plan([SimpleNamespace(typed=typed, folder=number) for number in range(jobs)])

    return make


def test_a_sweep_takes_a_process_for_each_core(plan: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    result = plan(2, 12)
    assert (result.processes, result.threads) == (2, 1)
    assert result.line(12) == (
        "no GPU here: jobs run in 2 processes on 2 cores, 1 thread each (hydra/launcher=joblib); "
        "hydra/launcher=basic runs one after the other"
    )
    assert "in 1 process on" in result.line(1)
    assert (plan(8, 3).processes, plan(8, 3).threads) == (3, 2)
    assert plan(8, 1) is None and plan(1, 12) is None and plan(2, 12, threads=2) is None
    assert (plan(8, 12, threads=2).processes, plan(8, 12, threads=2).per_job) == (4, (2, 2))
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert (plan(8, 12).processes, plan(8, 12).threads, plan(8, 12).per_job) == (2, None, (4, 4))
    monkeypatch.setattr(local_processes, "gpu_here", lambda: True)
    assert plan(8, 12) is None


def test_more_processes_than_cores_are_started_with_a_note(plan: Callable[..., Any]) -> None:
    requested = plan(2, 12, n_jobs=5)
    assert (requested.processes, requested.threads) == (5, 1)
    assert requested.line(12).startswith(
        "note: 5 processes with 1 thread each share 2 cores, which is no faster than 2"
    )
    assert requested.line(2) == "" == plan(2, 12, n_jobs=-1).line(12)
    assert plan(4, 12, n_jobs=-2).processes == 3
    assert plan(2, 12, n_jobs=1) is None


def test_limits_of_a_container_are_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert usable_cores(tmp_path) == 8
    (tmp_path / "proc/self").mkdir(parents=True)
    groups = tmp_path / "sys/fs/cgroup"
    (groups / "slice/job").mkdir(parents=True)
    (groups / "cpu/docker").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:cpu,cpuacct:/docker\n0::/slice/job\n")
    (groups / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path) == 8
    (groups / "slice/cpu.max").write_text("250000 100000\n")
    assert usable_cores(tmp_path) == 3, "of a group above its own"
    for name, value in (("quota", 100000), ("period", 100000)):
        (groups / f"cpu/docker/cpu.cfs_{name}_us").write_text(f"{value}\n")
    assert usable_cores(tmp_path) == 1, "version 1"


def test_threads_are_no_part_of_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int | None, int | None]] = []

    def run_job(job: JobConfig, **more: Any) -> int:
        seen.append((job.typed.trainer.threads, job.raw["trainer"]["threads"]))
        return 0

    monkeypatch.setattr(job_module, "run_job", run_job)
    raw = config_of(tmp_path, "model=linear")
    for inputs in (None, 3):
        job = job_config(raw | {"trainer": raw["trainer"] | {"threads": inputs}})
        assert job_module.JobTask(job, "[1/2]", "seed=0", threads=2).run() == 0
    assert seen == [(2, None), (3, 3)]


def test_a_run_whose_process_is_gone_is_called_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_config(config_of(tmp_path, "model=linear"))
    folder = RunFolder(job.folder)
    folder.create()
    folder.open_config(job.raw)
    folder.set_status("running", step=7)
    assert print_sweep([job], ["seed=0"]) == 1
    assert "seed=0: running" in capsys.readouterr().out
    status = folder.status_file
    status.write_text(status.read_text().replace(f'"pid": {os.getpid()}', '"pid": 999999999'))
    assert print_sweep([job], ["seed=0"]) == 1
    assert "seed=0: interrupted: its process is gone; step 7" in capsys.readouterr().out
