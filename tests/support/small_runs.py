"""Small runs for tests: in this process, or as the real command."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.config.job_config import compose_config, job_config
from attnlab.config.run_identity import run_folder
from attnlab.config.schema import Config
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import Command, check_command
from attnlab.launch import run_job as one_job
from attnlab.learn.stop_signals import StopRequest

ROOT = CONF.parent
SMALL_SCAN = (
    "task=scan",
    "backbone.d_model=16",
    "backbone.n_heads=2",
    "backbone.n_layers=1",
    "backbone.d_feed_forward=16",
    "train.batch_size=16",
    "train.eval_batch_size=2048",
    "train.log_every=1",
    "task.length_cutoff=40",
)
BRIEF_SCAN = (
    *(word for word in SMALL_SCAN if not word.startswith("train.eval_batch_size=")),
    "train.eval_batch_size=64",
    "train.eval_batches=1",
)
"""with 64 examples of each test, which all take a second"""
SMALL_CLEVR = (
    "task=sort_of_clevr",
    "task.train_images=12",
    "task.val_images=4",
    "task.test_images=4",
    "backbone.d_model=16",
    "backbone.n_heads=2",
    "backbone.n_layers=2",
    "backbone.d_feed_forward=16",
    "train.batch_size=16",
    "train.log_every=1",
)


def settings(folder: Path, *overrides: str, logger: str = "csv") -> list[str]:
    """Overrides of a run with its folders below `folder`."""
    paths = [f"paths.runs={folder / 'runs'}", f"paths.cache={folder / 'cache'}"]
    return [*overrides, f"logger={logger}", "trainer=cpu", "trainer.threads=1", *paths]


def config_of(folder: Path, *overrides: str, logger: str = "csv") -> dict[str, Any]:
    """The resolved configuration of such a run, composed once for all folders."""
    result: dict[str, Any] = _in_folder(_composed(Path.cwd(), *settings(_SOME, *overrides, logger=logger)), folder)
    return result


_SOME = Path("/some/folder/of/a/test")


@cache
def _composed(cwd: Path, *words: str) -> dict[str, Any]:
    """A configuration, by Hydra where the check refuses it; a folder may have a conf/ of its own."""
    command = Command(words, CONF)
    return compose_config(words) if command.problems or len(command.configs) != 1 else command.configs[0]


def _in_folder(value: Any, folder: Path) -> Any:
    """A copy with the folder of a test."""
    if isinstance(value, dict):
        return {key: _in_folder(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_folder(item, folder) for item in value]
    return value.replace(str(_SOME), str(folder)) if isinstance(value, str) else value


def checked(raw: dict[str, Any]) -> Config:
    """The typed configuration."""
    return job_config(raw).typed


def jobs_of(argv: Sequence[str], conf: Path = CONF) -> list[dict[str, Any]]:
    """The configurations of the jobs of a command line."""
    return [job.raw for job in check_command(argv, conf).jobs]


def run_job(raw: dict[str, Any], quiet: bool) -> int:
    """Train, resume or show the run of a configuration; its exit code."""
    return one_job.run_job(job_config(raw), quiet)


def two_finished_runs(folder: Path, *overrides: str) -> Path:
    """Train such a run with seed 0 and with seed 1; the folder."""
    for seed in (0, 1):
        assert run_job(config_of(folder, *overrides, f"seed={seed}"), quiet=True) == 0
    return folder


def folder_of(folder: Path, *overrides: str) -> Path:
    """Returns the run folder of such a run."""
    return run_folder(config_of(folder, *overrides))


def command(script: str, *arguments: str) -> list[str]:
    """A script of the repository as a command line."""
    return [sys.executable, str(ROOT / script), *arguments]


def environment() -> dict[str, str]:
    """This process's environment with one thread, so that numbers do not depend on what else runs."""
    return os.environ | {"OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}


def run_command(script: str, *arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a script to its end."""
    line = command(script, *arguments)
    return subprocess.run(
        line, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=timeout, check=False
    )


def start_command(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a script and return at once."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(script, *arguments),
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment(),
        cwd=ROOT,
        start_new_session=True,
    )


def wait_for_step(metrics: Path, step: int, process: subprocess.Popen[str], seconds: float = 120) -> None:
    """Until metrics.csv holds a row of `step` or a later one."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the run ended before step {step}: {process.communicate()}")
        lines = metrics.read_text().splitlines()[1:-1] if metrics.exists() else []
        if lines and int(lines[-1].split(",")[0]) >= step:
            return
        time.sleep(0.02)
    raise AssertionError(f"no step {step} within {seconds} s")


def stop_after(step: int, monkeypatch: pytest.MonkeyPatch, signum: int = 2) -> None:
    """Every later run is asked to stop after this number of steps, as by Ctrl-C."""
    counted = iter([None] * (step - 1) + [signum] * 9)
    monkeypatch.setattr(StopRequest, "pending", lambda self: next(counted, None))


def assert_same_run(first_run: Path, second_run: Path, steps: int = 40) -> None:
    assert (first_run / "metrics.csv").read_text() == (second_run / "metrics.csv").read_text()
    results = [json.loads((folder / "result.json").read_text()) for folder in (first_run, second_run)]
    for key in ("metrics", "counts", "selection", "data"):
        assert results[0][key] == results[1][key], key
    first, second = (torch.load(folder / "last.ckpt", weights_only=True) for folder in (first_run, second_run))
    assert first["global_step"] == second["global_step"] == steps
    for name, weight in first["state_dict"].items():
        assert torch.equal(weight, second["state_dict"][name]), name
    moments = [checkpoint["optimizer_states"][0]["state"] for checkpoint in (first, second)]
    for number, state in moments[0].items():
        assert all(torch.equal(value, moments[1][number][name]) for name, value in state.items())
