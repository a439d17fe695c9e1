"""Bookkeeping changes no number and no name of a run."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import SMALL_CLEVR, SMALL_SCAN, config_of, run_job, stop_after

from attnlab.config.run_identity import comparable, identity, run_folder, run_tag
from attnlab.report.runs.read_runs import look
from attnlab.run.run_folder import MetricsFile

SMALL = {
    "scan": (*SMALL_SCAN, "train.max_steps=6", "model=linear_l2_ortho"),
    "sort_of_clevr": (*SMALL_CLEVR, "train.max_steps=6", "train.validate_every=2", "model=performer"),
}
BOOKKEEPING = {"train.log_every=2", "train.checkpoint_every=1", "train.eval_batch_size=7"}
EVERY = "train.checkpoint_every=3"


def config(folder: Path, task: str, *words: str) -> dict[str, Any]:
    """A small run; of two words with the same key the later one counts."""
    chosen = {word.partition("=")[0]: word for word in (*SMALL[task], EVERY, *words)}
    return config_of(folder, *chosen.values())


def test_bookkeeping_is_no_part_of_a_run(tmp_path: Path) -> None:
    plain, other = config(tmp_path, "scan"), config(tmp_path, "scan", *BOOKKEEPING)
    assert plain != other
    assert run_tag(plain) == run_tag(other) and identity(plain) == identity(other)
    assert comparable(plain) == comparable(other)


def test_the_batch_size_of_evaluation_counts_where_it_says_how_many_examples_are_evaluated(tmp_path: Path) -> None:
    two, other = (config(tmp_path, "scan", "train.eval_batches=2", f"train.eval_batch_size={n}") for n in (4, 8))
    assert run_tag(two).replace("eval_batch_size=4", "eval_batch_size=8") == run_tag(other) != run_tag(two)
    assert identity(two) != identity(other)


@pytest.mark.parametrize("task", [pytest.param("scan", marks=pytest.mark.slow), "sort_of_clevr"])
def test_a_run_goes_on_with_other_bookkeeping_to_the_same_numbers(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validation, selected weights, decoding, checkpoints, and the losses of the steps that are logged."""
    whole, raw = config(tmp_path / "whole", task), config(tmp_path / "cut", task)
    assert run_job(whole, quiet=True) == 0
    with monkeypatch.context() as stopped:
        stop_after(3, stopped)
        assert run_job(raw, quiet=True) == 130
    folder = run_folder(raw)
    assert look(folder, raw).state == "stopped"
    capsys.readouterr()
    resumed = json.loads(json.dumps(raw))
    resumed["train"] |= {"log_every": 2, "checkpoint_every": 1, "eval_batch_size": 7}
    assert run_job(resumed, quiet=False) == 0
    printed = capsys.readouterr().err
    assert "resuming from step 3" in printed
    assert "train.log_every is 2 from step 3 on, and was 1 before" in printed and "gap" not in printed

    folders = run_folder(whole), folder
    results = [json.loads((folder / "result.json").read_text()) for folder in folders]
    assert results[0]["metrics"] == results[1]["metrics"] and results[0]["selection"] == results[1]["selection"]
    rows = [MetricsFile(folder / "metrics.csv").rows() for folder in folders]
    maxima = [[row for row in each if row[1].endswith("_max")] for each in rows]
    rows = [[row for row in each if not row[1].endswith("_max")] for each in rows]
    assert set(rows[1]) < set(rows[0])
    # each since the row before: that of the whole run is the same
    for name in {name for _, name, _ in maxima[0]}:
        assert len({max(value for _, other, value in each if other == name) for each in maxima}) == 1
    assert [step for step, name, _ in rows[1] if name == "train/loss"] == [1, 2, 3, 4, 6]
    assert [row for row in rows[0] if "train/" not in row[1]] == [row for row in rows[1] if "train/" not in row[1]]
    weights = [torch.load(folder / "last.ckpt", weights_only=True)["state_dict"] for folder in folders]
    assert all(torch.equal(value, weights[1][key]) for key, value in weights[0].items())
    assert look(folder, raw).state == "finished"
