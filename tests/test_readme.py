"""Every command of the README runs: those of Python for real, shrunk to a few steps; those of make are targets."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from real_data import real_data
from runs import ROOT, environment, run_command, settings

from attnlab.config.compose import CONF, group_choices
from attnlab.config.shipped import models_that_can
from attnlab.config.view import can

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
LINES = [line.split(" #")[0].strip() for block in BLOCKS for line in block.splitlines()]
COMMANDS = [line for line in LINES if re.match(r"(python|make|wandb) ", line)]
TRAIN = [line for line in COMMANDS if line.startswith("python train.py") and "--help" not in line]
EVALUATE = [line for line in COMMANDS if line.startswith("python evaluate.py")]
SMALL_CLEVR = ["task.train_images=12", "task.val_images=4", "task.test_images=4"]


def smoke(line: str, folder: Path) -> list[str]:
    """The command's arguments with everything made small."""
    arguments = shlex.split(line)[2:]
    small = SMALL_CLEVR if "task=sort_of_clevr" in arguments else ["train.eval_batch_size=4096"]
    extra = [*settings(folder), "debug=smoke", "train.max_steps=2", *small]
    if "task.split=simple" in arguments:
        extra.append(f"paths.data={real_data('scan/SCAN.tar.gz').parent.parent}")
    return [*arguments, *extra]


def test_the_readme_shows_commands() -> None:
    assert len(TRAIN) >= 6 and len(EVALUATE) >= 2
    assert {"make train", "make test"} <= set(COMMANDS)


@pytest.mark.parametrize("line", TRAIN)
def test_train_commands_run(line: str, tmp_path: Path) -> None:
    done = run_command("train.py", *smoke(line, tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]


def test_help_runs() -> None:
    assert run_command("train.py", "--help").returncode == 0


def test_evaluate_commands_run(tmp_path: Path) -> None:
    assert run_command("train.py", *smoke("python train.py task=scan model=linear", tmp_path)).returncode == 0
    run = next((tmp_path / "runs").glob("*/*/*/seed0"))
    for line in EVALUATE:
        arguments = shlex.split(line.replace("<run folder>", str(run)))[2:]
        if any(argument.startswith("task.split=") for argument in arguments):
            arguments.append(f"paths.data={real_data('scan/SCAN.tar.gz').parent.parent}")
        done = run_command("evaluate.py", *arguments)
        assert done.returncode == 0, done.stderr[-3000:]


def test_benchmarks_run() -> None:
    """What `make bench` calls, the quickest of them for real."""
    attention = [
        "--seconds",
        "0",
        "--models",
        "linear,vanilla",
        "--threads",
        "1",
        "--lengths",
        "64,128",
        "--batch",
        "1",
    ]
    for arguments in (["all", "--help"], ["startup", "--seconds", "1"], ["attention", *attention]):
        line = [sys.executable, "-m", f"benchmarks.{arguments[0]}", *arguments[1:]]
        done = subprocess.run(
            line, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_make_bench_runs_to_its_end() -> None:
    line = ["make", "bench"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr


def test_make_targets_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = set(re.findall(r"`?make ([a-z-]+)", README))
    assert named <= set(targets), named - set(targets)


def test_the_table_of_models_is_right() -> None:
    """Every model once, and a yes for each form that all its attentions have."""
    rows = [line.strip("| ").split(" | ") for line in README.splitlines() if line.startswith("| `")]
    said = {name: row[2:] for row in rows if len(row) == 6 for name in re.findall(r"`([a-z0-9_]+)`", row[0])}
    assert sorted(said) == group_choices()["model"]
    places = (("bidirectional", "encoder"), ("causal", "decoder"), ("cross", "cross"), ("step", "decoder"))
    for column, (form, place) in enumerate(places):
        able = models_that_can(CONF, lambda found, p=place, f=f"supports_{form}": all(can(one, f) for one in found[p]))
        names = able.partition(": ")[2].split(", ")
        assert {name for name, cells in said.items() if cells[column] != "no"} == set(names), form
    assert {name for name, cells in said.items() if "cross only" in cells} == {"linformer"}
