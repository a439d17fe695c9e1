"""Validations whose value is NaN or infinite: which weights are tested, and what is said and written."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import SMALL_CLEVR, config_of, run_job

from attnlab import load_run
from attnlab.config.run_identity import run_folder
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.learn.evaluator import Evaluator
from attnlab.report.cli import report_main
from attnlab.report.runs.read_runs import look
from attnlab.run.read_checkpoints import run_weights

RUN = (*SMALL_CLEVR, "model=linear", "train.max_steps=3", "train.validate_every=1", "train.paper_rule=null")


def trained(folder: Path, monkeypatch: pytest.MonkeyPatch, values: list[float]) -> Path:
    """The folder of a run whose validations have these accuracies; the tests have the last one."""
    in_turn, measured = iter(values), Evaluator.subset

    def subset(self: Evaluator, name: str, *arguments: Any, **more: Any) -> tuple[dict[str, float], dict[str, int]]:
        found, counts = measured(self, name, *arguments, **more)
        return found | {"accuracy": next(in_turn) if name == "val" else values[-1]}, counts

    monkeypatch.setattr(Evaluator, "subset", subset)
    raw = config_of(folder, *RUN)
    assert run_job(raw, quiet=False) == 0
    return run_folder(raw)


def strict(file: Path) -> dict[str, Any]:
    """A file as any reader of JSON takes it, which knows no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{file.name} holds {word}")

    content: dict[str, Any] = json.loads(file.read_text(), parse_constant=refuse)
    return content


def test_a_first_validation_of_nan_is_beaten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trained(tmp_path, monkeypatch, [math.nan, 0.25, math.inf])
    result = strict(folder / "result.json")
    assert result["selection"] == {"rule": "best_validation", "step": 2, "val/accuracy": 0.25}
    assert run_weights(folder, "best", "best_validation")[1]["step"] == 2
    said = capsys.readouterr().err
    assert "val/accuracy is nan at step 1" in said and "val/accuracy is inf at step 3" in said
    assert "no validation had a finite" not in said


def test_without_a_finite_validation_the_last_weights_are_tested_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trained(tmp_path, monkeypatch, [math.nan] * 3)
    result = strict(folder / "result.json")
    assert result["selection"] == {"rule": "best_validation", "step": 3, "val/accuracy": None}
    assert result["metrics"]["test/accuracy"] is None
    assert result["not_finite"]["selection"] == {"val/accuracy": "nan"}
    assert result["not_finite"]["metrics"]["test/accuracy"] == "nan"
    assert "no validation had a finite val/accuracy: the weights of the last one, step 3" in capsys.readouterr().err
    best, last = (run_weights(folder, which, "best_validation")[0] for which in ("best", "last"))
    assert all(torch.equal(best[name], last[name]) for name in last)
    # every reader sees the number that it was
    assert math.isnan(load_run(folder).result["selection"]["val/accuracy"])
    assert "test/accuracy is nan, not finite" in look(folder).lacking("test/accuracy")
    assert report_main([f"runs={folder}", "columns=test/accuracy", f"out={tmp_path / 'report'}"]) == 0
    assert "nan, not finite" in capsys.readouterr().out
    strict(tmp_path / "report" / "report.json")
    assert evaluate_main([f"run={folder}"]) == 0
    [file] = (folder / "evaluations").iterdir()
    assert strict(file)["not_finite"]["metrics"]["test/accuracy"] == "nan"
