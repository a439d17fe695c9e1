"""Launchers: their options, sweeps with a stand-in for the training, and sweeps in real processes."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.small_runs import (
    BRIEF_SCAN,
    ROOT,
    config_of,
    folder_of,
    run_command,
    run_job,
    settings,
    start_command,
    wait_for_step,
)

from attnlab.config.job_config import JobConfig
from attnlab.config.problem import ConfigError
from attnlab.config.sweep import check_command
from attnlab.config.validation import launcher_validation
from attnlab.launch import console_summary
from attnlab.launch import run_job as job_module
from attnlab.launch import run_jobs as jobs_module
from attnlab.launch.train_cli import train_main
from attnlab.launch.worker_process import Worker
from attnlab.learn.devices.usable_cores import usable_cores
from attnlab.learn.reporter import Reporter
from attnlab.learn.stop_signals import Stopped, StopRequest, unheard
from attnlab.run.run_folder import RunFolder

Calls = list[tuple[str, int]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Records the runs, as (model, seed), without training them."""
    collected: Calls = []

    def run_job(job: JobConfig, quiet: bool, label: str = "", name: str = "") -> int:
        assert quiet and not label
        collected.append((job.typed.model.name, job.typed.seed))
        return {"vanilla": 143, "linear_l2": 1}.get(job.typed.model.name, 0)

    monkeypatch.setattr(job_module, "run_job", run_job)
    monkeypatch.setattr(console_summary, "print_sweep", lambda *_, **__: 0)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    return collected


def sweep(folder: Path, models: str) -> int:
    return train_main(["-m", "hydra/launcher=basic", *settings(folder, "task=scan", f"model={models}")])


def test_a_failed_job_fails_the_sweep_and_stops_no_other(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(tmp_path, "linear_l2,linear") == 1
    assert calls == [("linear_l2", 0), ("linear", 0)]
    assert "[2/2] model=linear\n" in capsys.readouterr().err


def test_a_signal_stops_the_rest_of_the_sweep(calls: Calls, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        sweep(tmp_path, "vanilla,linear")
    assert stopped.value.code == 143
    assert calls == [("vanilla", 0)]


def test_globs_run_what_was_checked(calls: Calls, tmp_path: Path) -> None:
    words = ["model=glob(*then*)", "task=glob(s*)"]
    assert train_main(["-m", "hydra/launcher=basic", *settings(tmp_path, *words)]) == 0
    models = ["linear_then_vanilla", "linear_then_vanilla", "vanilla_then_linear", "vanilla_then_linear"]
    assert calls == [(model, 0) for model in models]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("-m hydra/launcher=joblip", "hydra/launcher=joblip: no such choice; nearest: joblib"),
        ("-m hydra/launcher=joblib hydra.launcher.n_job=4", "unknown key; nearest: hydra.launcher.n_jobs"),
        (
            "-m hydra/launcher=submitit_slurm hydra.launcher.timeout_min=0",
            "timeout_min=0: expected a whole number >= 1",
        ),
        ("-m hydra.launcher.partition=gpu", "=submitit_slurm, which was not chosen"),
        ("-m hydra/launcher=basic hydra.launcher.n_jobs=4", "=auto or joblib, and basic was chosen"),
        ("-m hydra/launcher=joblib hydra.launcher.timeout=5", "timeout=5: unknown key; allowed here: n_jobs"),
        ("-m hydra.launcher.n_jobs=0", "n_jobs=0: expected the number of processes, or -1 for one on each core"),
        ("-m hydra/launcher=slurm", "hydra/launcher=slurm: no such choice; nearest: submitit_slurm"),
        ("-m hydra/launcher=submitit_slurm hydra.launcher.timeout=5", "nearest: hydra.launcher.timeout_min"),
        ("-m hydra/launcher=basic hydra.launcher.processes=4", "hydra/launcher=basic has no options"),
    ],
)
def test_wrong_words_about_launchers(words: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_command(["task=scan", *words.split()])
    assert problem in str(error.value)


def test_a_launcher_of_a_users_own_is_a_class_and_a_yaml(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one of examples/package."""
    monkeypatch.syspath_prepend(ROOT / "examples/package")
    monkeypatch.chdir(ROOT / "examples/package")
    words = settings(tmp_path, "task=scan", "model=linear", "seed=0,1", "hydra/launcher=reversed")
    assert train_main(["-m", *words]) == 2
    assert "reversed.Reversed: my_package is outside attnlab" in capsys.readouterr().err
    monkeypatch.setenv("ATTNLAB_PLUGINS", "my_package")
    for word, problem in (
        ("anounce=true", "anounce=true: unknown key; nearest: hydra.launcher.announce"),
        ("announce=3", "announce=3: expected true or false"),
        ("announce='???'", "announce has no value"),
    ):
        assert train_main(["-m", *words, f"hydra.launcher.{word}"]) == 2
        assert f"hydra.launcher.{problem}" in capsys.readouterr().err
    assert train_main(["-m", *words, "hydra.launcher.announce=true"]) == 0
    assert calls == [("linear", 1), ("linear", 0)] and "2 jobs\n" in capsys.readouterr().out


def test_one_run_needs_no_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs_module, "run_job", lambda job, quiet: 0)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert train_main(["hydra/launcher=joblib", *settings(tmp_path, "task=scan")]) == 0
    assert "note: the launcher joblib has nothing to do: this is one run" in capsys.readouterr().err


def test_a_launcher_of_a_missing_package_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher_validation, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as error:
        check_command(["-m", "task=scan", "hydra/launcher=submitit_slurm"])
    assert "=submitit_slurm: submitit is not installed; pip install -e '.[sweep]' brings it" in str(error.value)


def test_a_worker_begins_nothing_after_a_signal() -> None:
    worker, began = Worker(), []
    worker.ready = True

    def job(code: int) -> Callable[[], int]:
        return lambda: began.append(code) or code

    assert [worker.run(job(code), 0, 0) for code in (0, 1, 143, 0)] == [0, 1, 143, 143]
    assert began == [0, 1, 143]


def test_a_signal_that_comes_before_a_run_listens_stops_the_run(tmp_path: Path) -> None:
    worker, stop = Worker(), StopRequest()
    worker.ready = True

    def job() -> int:
        worker._handle(signal.SIGTERM, None)
        with pytest.raises(Stopped), stop.listening():
            pytest.fail("the run began")
        assert run_job(config_of(tmp_path, *BRIEF_SCAN, "model=linear"), quiet=True) == 143
        return 128 + signal.SIGTERM

    try:
        assert worker.run(job, 0, 0) == 143
    finally:
        unheard.clear()


def test_lines_beside_other_processes_carry_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter("auto", "[2/3]")
    assert reporter.style == "lines"
    reporter.say("training 1/2")
    assert capsys.readouterr().err == "[2/3] training 1/2\n"


AT_ONCE = ("-m", "model=linear", "seed=0,1,2")


@pytest.mark.slow
def test_jobs_run_in_processes_without_being_asked(tmp_path: Path) -> None:
    small = (*BRIEF_SCAN, "train.max_steps=2", "train.checkpoint_every=1")
    failing = folder_of(tmp_path, *small, "model=linear", "seed=1")
    failing.parent.mkdir(parents=True)
    failing.write_text("in the way of a run folder")
    first = run_command("train.py", *AT_ONCE, *settings(tmp_path, *small))
    assert first.returncode == 1, first.stderr
    if usable_cores() > 1:
        assert first.stderr.startswith("no GPU here: jobs run in ")
    assert "2 finished, 1 not" in first.stdout and "[2/3] finished" not in first.stderr
    failing.unlink()
    second = run_command("train.py", *AT_ONCE, *settings(tmp_path, *small), "hydra.launcher.n_jobs=2")
    assert second.returncode == 0, second.stderr
    assert "[1/3] seed=0, finished before" in second.stderr
    files = sorted(failing.parent.glob("seed*/result.json"))
    commands = [json.loads(file.read_text())["command"] for file in files]
    assert ["n_jobs" in command for command in commands] == [False, True, False]
    assert all(" -m model=linear " in command for command in commands)

    alone = run_command("train.py", "model=linear", "seed=2", *settings(tmp_path / "alone", *small))
    assert alone.returncode == 0, alone.stderr
    other = folder_of(tmp_path / "alone", *small, "model=linear", "seed=2")
    for name in ("metrics.csv", "config.yaml"):
        in_sweep, by_itself = ((folder / name).read_text() for folder in (files[2].parent, other))
        assert in_sweep == by_itself.replace(str(tmp_path / "alone"), str(tmp_path)), name


@pytest.mark.slow
@pytest.mark.usefixtures("default_signals")
def test_processes_save_when_the_sweep_is_stopped(tmp_path: Path) -> None:
    long = (*BRIEF_SCAN, "train.max_steps=100000", "train.checkpoint_every=100000")
    process = start_command("train.py", *AT_ONCE, *settings(tmp_path, *long), "hydra.launcher.n_jobs=2")
    folders = [folder_of(tmp_path, *long, "model=linear", f"seed={seed}") for seed in range(3)]
    for folder in folders[:2]:
        wait_for_step(folder / "metrics.csv", 3, process)
    os.killpg(process.pid, signal.SIGINT)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert [(folder / "last.ckpt").exists() for folder in folders] == [True, True, False]
    for folder in folders[:2]:
        status = json.loads((folder / "status.json").read_text())
        assert status["state"] == "stopped" and status["step"] >= 3


@pytest.mark.slow
def test_processes_save_when_the_command_is_killed(tmp_path: Path) -> None:
    long = (*BRIEF_SCAN, "train.max_steps=100000", "train.checkpoint_every=100000")
    process = start_command("train.py", *AT_ONCE, *settings(tmp_path, *long), "hydra.launcher.n_jobs=2")
    folders = [RunFolder(folder_of(tmp_path, *long, "model=linear", f"seed={seed}")) for seed in range(3)]
    for folder in folders[:2]:
        wait_for_step(folder.metrics_file, 3, process)
    process.kill()
    # until no process holds its output
    process.communicate(timeout=60)
    assert [folder.status().get("state") for folder in folders] == ["stopped", "stopped", None]
    assert all(folder.checkpoint.exists() for folder in folders[:2])
