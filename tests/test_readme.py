"""Every command of the README runs: those of Python for real, shrunk to a few steps; those of make are targets."""

import re
import shlex
from pathlib import Path

import pytest
from real_data import real_data
from runs import ROOT, run_command, settings

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


def test_make_targets_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = set(re.findall(r"`?make ([a-z-]+)", README))
    assert named <= set(targets), named - set(targets)
