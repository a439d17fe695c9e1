"""wandb offline: one run a job, one continuous history after a resume, closed in every case."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from runs import SMALL_SCAN, config_of

from attnlab.config.naming import run_folder
from attnlab.learn.module import LabModule
from attnlab.run.job import run_job
from attnlab.run.record import MetricsFile

SMALL = (*SMALL_SCAN, "model=linear_l2_ortho", "train.checkpoint_every=2")


def offline_runs(folder: Path) -> list[Path]:
    return sorted((folder / "runs" / "wandb").glob("offline-run-*"))


def records(run: Path) -> list[dict]:
    """Everything an offline run recorded, read by wandb's own tool."""
    line = [str(Path(sys.executable).parent / "wandb"), "leet", "inspect", "--json", str(next(run.glob("*.wandb")))]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(text) for text in done.stdout.splitlines() if text.strip().startswith("{")]


def test_one_run_with_one_history_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = config_of(tmp_path, *SMALL, "train.max_steps=6", logger="wandb_offline")
    healthy = LabModule.training_step

    def broken(self: LabModule, batch: object, batch_idx: int) -> object:
        if self.global_step == 5:
            raise RuntimeError("a power cut")
        return healthy(self, batch, batch_idx)

    monkeypatch.setattr(LabModule, "training_step", broken)
    assert run_job(raw, quiet=True) == 1
    first = offline_runs(tmp_path)
    assert len(first) == 1
    monkeypatch.setattr(LabModule, "training_step", healthy)
    assert run_job(raw, quiet=True) == 0

    runs = offline_runs(tmp_path)
    assert len(runs) == 1
    run_id = (run_folder(raw) / "wandb_id.txt").read_text().strip()
    assert runs[0].name.endswith(run_id) and first[0].name.endswith(run_id)
    there = records(runs[0])
    history = {}
    for item in (record["history"]["item"] for record in there if record["type"] == "history"):
        assert item["_step"] not in history, "a step stands twice"
        history[item["_step"]] = item
    expected = [row for row in MetricsFile(run_folder(raw) / "metrics.csv").rows() if row[1].startswith("train/")]
    assert list(history) == [1, 2, 3, 4, 5, 6] == sorted({step for step, _, _ in expected})
    for step, name, value in expected:
        assert history[step][name] == pytest.approx(value, rel=1e-12)
    assert sum(record["type"] == "exit" for record in there) == 1
    about = next(record["run"] for record in there if record["type"] == "run")
    assert "scan-length_cutoff-40/linear_l2_ortho" in json.dumps(about)
    assert about["config"]["update"]["train"]["max_steps"] == 6


def test_leet_shows_the_runs_of_the_folder(tmp_path: Path) -> None:
    """The README's `wandb leet`, in a terminal of its own."""
    raw = config_of(tmp_path, *SMALL, "train.max_steps=2", logger="wandb_offline")
    assert run_job(raw, quiet=True) == 0
    terminal, inside = pty.openpty()
    termios.tcsetwinsize(inside, (40, 120))
    line = [str(Path(sys.executable).parent / "wandb"), "leet", str(tmp_path / "runs" / "wandb")]
    environment = os.environ | {"TERM": "xterm-256color"}
    viewer = subprocess.Popen(line, stdin=inside, stdout=inside, stderr=inside, env=environment, start_new_session=True)
    seen, deadline = b"", time.monotonic() + 60
    try:
        while b"offline-run-" not in seen and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.5)[0]:
                seen += os.read(terminal, 65536)
    finally:
        # `wandb` starts the viewer as a process of its own, which would outlive it.
        os.killpg(viewer.pid, signal.SIGKILL)
        viewer.wait()
        os.close(inside)
        os.close(terminal)
    assert b"offline-run-" in seen and b"Runs" in seen


def test_a_wandb_that_cannot_start_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import wandb

    def refuse(**kwargs: object) -> None:
        raise OSError("no service")

    monkeypatch.setattr(wandb, "init", refuse)
    raw = config_of(tmp_path, *SMALL, "train.max_steps=2", logger="wandb_offline")
    assert run_job(raw, quiet=True) == 0
    assert "wandb did not start (no service)" in capsys.readouterr().err
