"""Resumed runs equal uninterrupted runs bit for bit, after a kill and after a signal."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from support.small_runs import (
    BRIEF_SCAN,
    SMALL_CLEVR,
    assert_same_run,
    command,
    config_of,
    environment,
    folder_of,
    run_job,
    settings,
    start_command,
    wait_for_step,
)

pytestmark = pytest.mark.usefixtures("default_signals")
MANY = ("train.max_steps=100000", "train.checkpoint_every=100000")
STEPS = "train.max_steps=40"
# Dropout on, a schedule, mid-epoch, gradients summed over two batches, checkpoints off the beat of the metrics.
SCAN = (
    *BRIEF_SCAN,
    STEPS,
    "model=vanilla",
    "backbone.dropout=0.2",
    "optim.schedule=one_cycle",
    "train.accumulate=2",
    "train.checkpoint_every=7",
    "train.test_curve_every=20",
)
CASES = {
    "scan": SCAN,
    # dropout draws from the generator that a checkpoint restores, in compiled steps too
    "scan_compiled": (*SCAN, "trainer.compile=true"),
    # Validation that selects weights, an epoch of 21 steps, and groups in turn.
    "sort_of_clevr": (
        *SMALL_CLEVR,
        STEPS,
        "model=linear_l2_ortho",
        "train.checkpoint_every=9",
        "train.diagnose_every=6",
    ),
}


def train(folder: Path, case: str) -> None:
    """In this process, whose shape checks the compiler cannot trace; beside other work it takes a minute a step."""
    if case == "scan_compiled":
        subprocess.run(
            command("train.py", *settings(folder, *CASES[case])), env=environment(), check=True, timeout=1200
        )
    else:
        assert run_job(config_of(folder, *CASES[case]), quiet=True) == 0


@pytest.mark.parametrize("case", ["scan", *(pytest.param(name, marks=pytest.mark.slow) for name in [*CASES][1:])])
def test_killed_and_resumed_equals_uninterrupted(case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(whole, case)
    folder = folder_of(cut, *CASES[case])
    for step in (23,) if case == "scan" else (3, 23):
        process = start_command("train.py", *settings(cut, *CASES[case]))
        wait_for_step(folder / "metrics.csv", step, process, seconds=600)
        process.kill()
        process.communicate()
    capfd.readouterr()
    train(cut, case)
    assert "resuming" in capfd.readouterr().err
    assert_same_run(folder_of(whole, *CASES[case]), folder)


@pytest.mark.parametrize(
    ("signum", "code", "workers"),
    [
        (signal.SIGINT, 130, 2),
        pytest.param(signal.SIGTERM, 143, 2, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, 2, marks=pytest.mark.slow),
    ],
)
def test_signals_save_record_and_exit(signum: int, code: int, workers: int, tmp_path: Path) -> None:
    overrides = (*BRIEF_SCAN, *MANY, "model=linear", f"trainer.workers={workers}")
    folder = folder_of(tmp_path, *overrides)
    process = start_command("train.py", *settings(tmp_path, *overrides))
    wait_for_step(folder / "metrics.csv", 5, process)
    # A terminal's Ctrl-C reaches the whole process group, workers that load data too.
    os.killpg(process.pid, signum)
    if signum == signal.SIGHUP:
        # A lost terminal sends it, and its shell once more.
        os.killpg(process.pid, signum)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert_stopped(folder, errors, signum)


def assert_stopped(folder: Path, errors: str, signum: int) -> None:
    """The run is saved and can go on."""
    assert "repeat the command to go on" in errors
    status = json.loads((folder / "status.json").read_text())
    assert status["state"] == "stopped" and status["reason"] == f"stopped by {signal.Signals(signum).name}"
    saved = torch.load(folder / "last.ckpt", weights_only=True)
    assert saved["global_step"] == status["step"] >= 5
    assert not (folder / "result.json").exists()


@pytest.mark.slow
def test_a_stopped_sweep_starts_no_further_job(tmp_path: Path) -> None:
    """The run that gets the signal, without workers, is saved as one run alone is."""
    overrides = (*BRIEF_SCAN, *MANY, "model=linear", "trainer.workers=0")
    process = start_command("train.py", "-m", "hydra/launcher=basic", "seed=0,1", *settings(tmp_path, *overrides))
    folder = folder_of(tmp_path, *overrides, "seed=0")
    wait_for_step(folder / "metrics.csv", 5, process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert_stopped(folder, errors, signal.SIGTERM)
    assert not folder_of(tmp_path, *overrides, "seed=1").exists()
