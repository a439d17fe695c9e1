"""Sweeps on Ray without a Ray: options, resources, problems, what a task does in a worker, runs that are lost."""

import os
import re
import sys
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.small_runs import BRIEF_SCAN, settings

from attnlab.config.problem import ConfigError, UserError
from attnlab.config.sweep import Command, check_command
from attnlab.config.validation import launcher_validation
from attnlab.launch import ray_launcher
from attnlab.launch.launcher import make_launcher
from attnlab.launch.ray_launcher import RayLauncher
from attnlab.launch.run_job import JobTask, job_tasks
from attnlab.launch.train_cli import train_main
from attnlab.learn.stop_signals import Stopped, StopRequest

SWEEP = ("-m", "hydra/launcher=ray", "model=linear", "seed=0,1")


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher_validation, "find_spec", lambda name: name)


def sweep(folder: Path, *words: str) -> Command:
    plain = [word for word in settings(folder, *SWEEP, *BRIEF_SCAN) if word not in ("trainer=cpu", "trainer.threads=1")]
    return check_command([*plain, *words])


def demand(folder: Path, *words: str, gpus_there: bool = False) -> dict[str, float]:
    command = sweep(folder, *words)
    return RayLauncher(**command.launcher).demand(command.jobs[0].typed, gpus_there)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launcher_validation, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=re.escape("ray is not installed; pip install -e '.[ray]' brings it")):
        sweep(tmp_path)


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("hydra.launcher.num_cpu=2", "nearest: hydra.launcher.num_cpus"),
        ("hydra.launcher.num_cpus=0", "num_cpus=0: expected a whole number >= 1"),
        ("hydra.launcher.num_gpus=1.5", "num_gpus=1.5: expected a whole number, or a part of one GPU, such as 0.25"),
        (
            "hydra.launcher.runtime_env={env_vars:{A:b}}",
            "these keys are added with a plus: +hydra.launcher.runtime_env",
        ),
        ("hydra.launcher.partition=gpu", "an option of hydra/launcher=submitit_slurm, and ray was chosen"),
    ],
)
def test_wrong_options(word: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        sweep(tmp_path, word)


def test_a_run_on_several_machines_is_refused(tmp_path: Path) -> None:
    command = sweep(tmp_path, "trainer.nodes=2")
    problems = make_launcher(command.launcher).problems(command.jobs)
    assert [problem.key for problem in problems] == ["trainer.nodes=2"]


def test_runs_ask_for_cores_and_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert demand(tmp_path) == {"CPU": 1}
    assert demand(tmp_path, "trainer.threads=3", "trainer.workers=2") == {"CPU": 5}
    assert demand(tmp_path, "trainer.threads=3", "hydra.launcher.num_cpus=4", "trainer.devices=2") == {"CPU": 8}
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert demand(tmp_path) == {"CPU": 2}
    assert demand(tmp_path, gpus_there=True) == {"CPU": 2, "GPU": 1}
    assert demand(tmp_path, "trainer.devices=2", gpus_there=True) == {"CPU": 4, "GPU": 2}
    assert demand(tmp_path, "trainer.device=cpu", gpus_there=True) == {"CPU": 2}
    assert demand(tmp_path, "hydra.launcher.num_gpus=0", gpus_there=True) == {"CPU": 2}
    assert demand(tmp_path, "hydra.launcher.num_gpus=0.25") == {"CPU": 2, "GPU": 0.25}
    assert demand(tmp_path, "hydra.launcher.num_gpus=4", "trainer.devices=auto") == {"CPU": 8, "GPU": 4}


def test_a_plan_names_the_resources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = settings(tmp_path, *SWEEP, *BRIEF_SCAN, "hydra.launcher.num_cpus=2")
    assert train_main([*words, "--plan"]) == 0
    printed = capsys.readouterr().out
    assert "on Ray: a run asks for 2 CPU\n" in printed and "has GPUs" not in printed


def test_an_address_without_a_cluster_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a port that no program may listen on
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    command = sweep(tmp_path)
    with pytest.raises(UserError, match=r"no cluster of Ray answers at 127\.0\.0\.1:1: "):
        make_launcher(command.launcher).run(job_tasks(command))


def test_a_task_has_the_folder_the_words_and_the_gpus_of_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of Ray that srun has started has variables of srun, which make no rank of a run."""
    seen: dict[str, Any] = {}

    def run(self: JobTask) -> int:
        seen.update(argv=sys.argv, folder=Path.cwd(), name=self.name, environment=dict(os.environ))
        return 0

    monkeypatch.setattr(JobTask, "run", run)
    monkeypatch.setattr(ray_launcher, "Worker", lambda: SimpleNamespace(run=lambda job: job()))
    monkeypatch.setattr(sys, "argv", ["default_worker.py"])
    monkeypatch.chdir("/")
    for name in ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "1")
    task = job_tasks(sweep(tmp_path))[0]
    assert ray_launcher._run_on_worker(task, ["train.py", "-m"], str(tmp_path)) == 0
    assert seen["argv"] == ["train.py", "-m"] and seen["folder"] == tmp_path
    assert seen["name"].startswith("seed=0, on ") and seen["environment"]["CUDA_VISIBLE_DEVICES"] == ""
    assert "SLURM_PROCID" not in seen["environment"]


class Died(Exception):
    """Stands for an error of Ray."""


class Gone(Died):
    """Stands for the end of Ray on the machine of the command."""


class FakeRay:
    """Runs a task when it is sent; `fates` says how: a code, or the error that Ray reports."""

    def __init__(self, *fates: int | BaseException) -> None:
        self.fates, self.cancelled = list(fates), list[Any]()
        nothing = type("Nothing", (Exception,), {})
        self.exceptions = SimpleNamespace(
            RayError=Died,
            LocalRayletDiedError=Gone,
            RayTaskError=nothing,
            RuntimeEnvSetupError=nothing,
            TaskUnschedulableError=nothing,
        )

    def remote(self, **options: Any) -> Any:
        return lambda function: SimpleNamespace(options=lambda **more: SimpleNamespace(remote=self.sent))

    def sent(self, task: JobTask, *arguments: Any) -> Any:
        future: Future[int] = Future()
        fate = self.fates.pop(0)
        if isinstance(fate, int):
            future.set_result(fate)
        else:
            future.set_exception(fate)
        return SimpleNamespace(future=lambda: future)

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": self.cluster_resources()}, {"Alive": False, "Resources": {"CPU": 9.0}}]

    def cancel(self, reference: Any) -> None:
        self.cancelled.append(reference)


def run_on(fake: FakeRay, folder: Path, monkeypatch: pytest.MonkeyPatch, stop: StopRequest, *words: str) -> list[int]:
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(ray_launcher, "SHARED_SECONDS", 0.0)
    command = sweep(folder, *words)
    codes = ray_launcher._Sweep(RayLauncher(**command.launcher), stop, job_tasks(command)).run()
    return [codes[label] for label in sorted(codes)]


def test_a_lost_run_is_begun_again_until_it_makes_no_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeRay(Died("The node died. More."), 143, 1, Died("The node died."), Died("The node died."))
    codes = run_on(fake, tmp_path, monkeypatch, StopRequest(), "hydra.launcher.max_retries=2")
    printed = capsys.readouterr().err
    assert codes == [1, 1] and not fake.fates
    assert "[1/2] seed=0: its process was lost (Died: The node died); it is begun again" in printed
    assert "[2/2] seed=1: stopped on its machine by SIGTERM; it is begun again" in printed
    assert printed.count("3 times without a new checkpoint") == 1


def test_the_end_of_ray_here_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="the Ray of this machine has ended"):
        run_on(FakeRay(Gone(), Gone()), tmp_path, monkeypatch, StopRequest())


def test_a_run_that_is_finished_elsewhere_needs_a_shared_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_on(FakeRay(0, 1), tmp_path, monkeypatch, StopRequest()) == [1, 1]
    assert capsys.readouterr().err.count("set paths.runs to a file system that all machines share") == 1


def test_no_machine_has_what_a_run_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    words = ("hydra.launcher.num_cpus=3", "hydra.launcher.num_gpus=1")
    message = "a run asks for 3 CPU, 1 GPU, and no machine of Ray has that (at most 2 CPU, 0 GPU)"
    with pytest.raises(UserError, match=re.escape(message)):
        run_on(FakeRay(1, 1), tmp_path, monkeypatch, StopRequest(), *words)
    run_on(FakeRay(1, 1), tmp_path, monkeypatch, StopRequest(), *words, "hydra.launcher.address=10.0.0.1:6379")
    assert f"note: {message}; it waits until there is one" in capsys.readouterr().err


def test_a_signal_cancels_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake, stop = FakeRay(130, 130), StopRequest()
    stop.came.append(15)
    with pytest.raises(Stopped, match="SIGTERM"):
        run_on(fake, tmp_path, monkeypatch, stop)
    assert len(fake.cancelled) == 2
