"""Small runs in several processes, and the comparison of their numbers with those of one process."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.run.run_folder import MetricsFile
from support.small_runs import config_of

PLACES = ("dropout", "attention_dropout", "attention_output_dropout", "embedding_dropout")
EXACT = ("train.precision=64-true", *(f"backbone.{place}=0" for place in PLACES))


def raw_of(folder: Path, *overrides: str, **trainer: Any) -> dict[str, Any]:
    """The configuration of a run in `folder`, with these options of the trainer."""
    raw = config_of(folder, *overrides)
    return raw | {"trainer": raw["trainer"] | trainer, "paths": raw["paths"] | {"cache": str(folder.parent / "cache")}}


def assert_equal_numbers(alone: Path, several: Path) -> None:
    """Losses, metrics and weights of two run folders are equal up to rounding in float64."""
    folders = alone, several
    rows, others = (MetricsFile(folder / "metrics.csv").rows() for folder in folders)
    assert [row[:2] for row in rows] == [row[:2] for row in others]
    assert {name for _, name, _ in rows} >= {"train/loss", "train/gradient_norm"}
    for (step, name, value), (*_, there) in zip(rows, others, strict=True):
        assert there == pytest.approx(value, rel=1e-12, abs=1e-12), (step, name)
    results = [json.loads((folder / "result.json").read_text()) for folder in folders]
    for key in ("metrics", "counts"):
        assert results[1][key] == pytest.approx(results[0][key], rel=1e-12), key
    assert results[0]["selection"]["step"] == results[1]["selection"]["step"]
    saved = [torch.load(folder / "last.ckpt", weights_only=True) for folder in folders]
    assert saved[0].keys() == saved[1].keys()
    for name, weight in saved[0]["state_dict"].items():
        torch.testing.assert_close(saved[1]["state_dict"][name], weight, rtol=1e-10, atol=1e-12)
    states = [checkpoint["callbacks"]["RandomState"] for checkpoint in saved]
    assert states[1].keys() - states[0].keys() == {"other_ranks"}
