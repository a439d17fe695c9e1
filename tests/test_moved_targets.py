"""Run folders written before classes moved: read with the present classes, resumed, shown."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.small_runs import SMALL_SCAN, config_of, run_job, stop_after
from support.written_runs import forget_identity

from attnlab.config.allowed_targets import TargetError
from attnlab.config.moved_targets import MOVED, with_present_targets
from attnlab.config.run_identity import identity, run_folder
from attnlab.config.signatures import read_signature
from attnlab.learn.atomic_write import IDENTITY
from attnlab.learn.weights_checksum import with_checksum
from attnlab.run.read_run_files import read_config, stored_config
from attnlab.run.run_folder import RunFolder

FORMER = {present: former for former, present in MOVED.items()}


def with_former_targets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_former_targets(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_former_targets(item) for item in value]
    return FORMER.get(value, value) if isinstance(value, str) else value


def as_written_before(folder: Path) -> None:
    """Rewrite a run folder as it was before: former paths in config.yaml, their hash in the checkpoint."""
    file, checkpoint = folder / "config.yaml", folder / "last.ckpt"
    file.write_text(yaml.safe_dump(with_former_targets(stored_config(file)), sort_keys=False))
    saved = torch.load(checkpoint, weights_only=True)
    torch.save(with_checksum(saved | {IDENTITY: identity(stored_config(file))}), checkpoint)
    forget_identity(folder)


@pytest.mark.parametrize("present", FORMER)
def test_every_present_path_is_a_class(present: str) -> None:
    assert read_signature(present).path == present


@pytest.mark.parametrize("former", MOVED)
def test_a_former_path_on_a_command_line_is_named_with_the_present_one(former: str) -> None:
    with pytest.raises(TargetError, match=f"the class is {MOVED[former]} now"):
        read_signature(former)


def test_a_run_of_earlier_days_is_resumed_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*SMALL_SCAN, "model=linear", "train.max_steps=4")
    whole, cut = config_of(tmp_path / "whole", *words), config_of(tmp_path / "cut", *words)
    assert run_job(whole, quiet=True) == 0
    with monkeypatch.context() as stopped:
        stop_after(2, stopped)
        assert run_job(cut, quiet=True) == 130
    folder = run_folder(cut)
    as_written_before(folder)
    assert "_target_: attnlab.tasks.scan.Scan" in (folder / "config.yaml").read_text()
    assert read_config(folder / "config.yaml")["task"]["_target_"] == "attnlab.tasks.scan.task.Scan"
    for _ in range(2):
        assert run_job(cut, quiet=True) == 0
    assert (folder / "metrics.csv").read_bytes() == (run_folder(whole) / "metrics.csv").read_bytes()
    assert RunFolder(folder).result()["metrics"] == RunFolder(run_folder(whole)).result()["metrics"]


def test_other_texts_stay_as_they_are() -> None:
    config = {
        "task": {"_target_": "attnlab.tasks.scan.Scan", "name": "attnlab.tasks.scan.Scan"},
        "x": [{"_target_": "tasks.scan.Scan"}],
    }
    changed = with_present_targets(config)
    assert changed["task"] == {"_target_": "attnlab.tasks.scan.task.Scan", "name": "attnlab.tasks.scan.Scan"}
    assert changed["x"] == [{"_target_": "tasks.scan.Scan"}]
