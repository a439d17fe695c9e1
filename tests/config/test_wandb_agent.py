"""Agents of `wandb sweep`: the very command that an agent starts, against a server on this machine."""

import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import wandb
import yaml
from support.small_runs import ROOT, SMALL_CLEVR, config_of, jobs_of, run_command, run_job, settings
from support.wandb_server import Arrived, server, wandb_command
from wandb.apis.public import sweeps
from wandb.wandb_agent import Agent

from attnlab.config.command_line.wandb_agent import agent_run_id
from attnlab.config.command_line.words import without_dashes
from attnlab.config.run_identity import run_folder
from attnlab.launch.train_cli import train_main
from attnlab.run.run_folder import MetricsFile, RunFolder

SMALL = (*SMALL_CLEVR, "train.max_steps=2", "train.validate_every=1")


def test_keys_with_dashes_are_keys() -> None:
    line = [
        "--task=scan",
        "--model=linear",
        "--optim.lr=0.003",
        "--optim.clip_norm=None",
        "--model.ortho.where=['cross']",
    ]
    job = jobs_of(line)[0]
    assert (job["model"]["name"], job["optim"]["lr"], job["optim"]["clip_norm"]) == ("linear", 0.003, None)
    assert job["model"]["ortho"]["where"] == ["cross"]
    for word in ("--cfg=job", "--multirun", "--package=optim", "--help", "--learning_rate=1", "optim.lr=None"):
        assert without_dashes(word) == word


def test_a_plan_reads_experiments_with_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_main(["--experiment=bucketing/*", "--plan"]) == 0
    assert "bucketing/scan" in capsys.readouterr().out


def agent(folder: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], *words: str) -> Arrived:
    """Let wandb's own agent start one run; what its server got."""
    sweep = yaml.safe_load((ROOT / "examples" / "wandb_sweep.yaml").read_text())
    command = [sys.executable if word == "python" else word for word in sweep["command"]]
    sweep |= {"command": [*command, *words], "program": str(ROOT / sweep["program"])}
    args = {key: {"value": value} for key, value in values.items()}
    commands = [[{"type": "run", "run_id": "abc1234z", "program": sweep["program"], "args": args}]]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sweeps, "_sweep_with_runs", lambda *_: {"config": yaml.safe_dump(sweep)})
    monkeypatch.setattr(sweeps, "_register_agent", lambda *_, **__: {"id": "agent"})
    monkeypatch.setattr(sweeps, "_agent_heartbeat", lambda *_: commands.pop() if commands else [])
    monkeypatch.setattr(wandb, "Api", lambda: None)
    with server() as arrived, monkeypatch.context() as around:
        there = {"WANDB_BASE_URL": arrived.url, "WANDB_API_KEY": "a" * 40, "WANDB_SWEEP_ID": "sweep123"}
        # set by the agent, and taken back here
        emptied = dict.fromkeys(("WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_DIR"), "")
        for name, value in (there | emptied).items():
            around.setenv(name, value)
        for name in emptied:
            del os.environ[name]
        item = Agent(None, multiprocessing.Queue(), sweep_id="sweep123", count=1)
        item._report_interval = 0
        item.run()
    return arrived


@pytest.mark.slow
def test_a_run_of_an_agent_is_in_its_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained by the agent, and shown when another sweep asks for a run that is finished."""
    values = {"model": "linear", "optim.lr": 0.003, "train.max_epochs": None}
    requested = "experiment=quickstart", "task.validation_share=0.1", "train.validate_every=200"
    words = [word for word in settings(tmp_path, "debug=smoke") if not word.startswith("logger=")]
    raw = config_of(tmp_path, *requested, "debug=smoke", "model=linear", "optim.lr=0.003")
    folder = RunFolder(run_folder(raw))
    arrived = agent(tmp_path, monkeypatch, values, *words)
    sent = arrived.runs["abc1234z"]
    assert sent["sweep"] == "sweep123" and sent["displayName"].startswith("linear ")
    shown = json.loads(sent["config"])
    assert shown["model"]["value"] == "linear" and shown["model.name"]["value"] == "linear"
    assert shown["optim.lr"]["value"] == 0.003
    losses = [value for _, name, value in MetricsFile(folder.metrics_file).rows() if name == "train/loss"]
    assert [line["train/loss"] for _, line in sorted(arrived.history["abc1234z"].items())] == losses
    assert (folder.path / "wandb_id.txt").read_text() == "abc1234z"

    monkeypatch.setenv("WANDB_SWEEP_ID", "other123")
    monkeypatch.setenv("WANDB_RUN_ID", "xyz1234z")
    # in a process of its own, since wandb keeps the id of its first run
    line = [f"--{key}={value}" for key, value in values.items()]
    done = run_command("train.py", *line, *requested, "logger=wandb_offline", *words)
    assert done.returncode == 0 and "finished before" in done.stdout, done.stderr
    [run] = (tmp_path / "runs" / "wandb").glob("offline-run-*-xyz1234z")
    summary = wandb_command("leet", "inspect", "--summary", "--json", str(next(run.glob("*.wandb"))))
    assert json.loads(summary)["summary"]["objective"] == folder.result()["selection"]["val/sequence_accuracy"]


def test_an_agent_without_a_server_is_told_what_its_sweep_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"WANDB_SWEEP_ID": "sweep123", "WANDB_RUN_ID": "abc1234z"}.items():
        monkeypatch.setenv(name, value)
    assert run_job(config_of(tmp_path, *SMALL, "model=linear"), quiet=True) == 0
    assert "the wandb sweep sweep123 sees nothing of a run with logger=csv" in capsys.readouterr().err
    assert train_main(["-m", *settings(tmp_path, *SMALL), "seed=0,1"]) == 2
    assert "an agent of wandb sweep starts one run at a time" in capsys.readouterr().err
    monkeypatch.delenv("WANDB_SWEEP_ID")
    assert agent_run_id() is None, "left over from another program"
