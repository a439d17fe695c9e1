"""Run folders written without training, for tests of their readers."""

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

import attnlab

OOD, IID = "test/ood/sequence_accuracy", "test/iid/sequence_accuracy"


def forget_identity(folder: Path) -> None:
    """Make a run one of an earlier version: without identity in status.json and result.json, and without checksums."""
    for file in filter(Path.exists, (folder / "status.json", folder / "result.json")):
        there = json.loads(file.read_text())
        later = ("identity", "metrics_file", "result_file", "code")
        file.write_text(json.dumps({key: value for key, value in there.items() if key not in later}))


def a_run(
    folder: Path, config: Mapping[str, Any], ood: float | None = 0.5, state: str = "finished", **more: Any
) -> Path:
    """A run folder as training leaves it, without training."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(dict(config), sort_keys=False))
    status = {"state": state, "reason": "", "attnlab": attnlab.__version__, "step": 7}
    status |= {"host": socket.gethostname(), "pid": os.getpid()}
    (folder / "status.json").write_text(json.dumps(status | more.pop("status", {})))
    if state == "finished":
        metrics = {IID: 0.99, OOD: ood, "test/ood/length_27/sequence_accuracy": ood}
        result = {
            "metrics": metrics,
            "parameters": 2_500_000,
            "seconds": 60.0,
            "selection": {"rule": "last_step", "step": 20},
            "versions": {"attnlab": attnlab.__version__, "torch": "2"},
            "git": {"commit": "a" * 40, "dirty": False},
            "hardware": {"cpu": "a processor", "threads": 1},
        }
        (folder / "result.json").write_text(json.dumps(result | more))
    return folder
