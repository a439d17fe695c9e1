"""Bookkeeping changes no number and no name of a run; runs with a former name are found and go on."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import SMALL_CLEVR, SMALL_SCAN, config_of, run_job, stop_after

from attnlab.config.find_run_folder import find_run_folder
from attnlab.config.job_config import job_config
from attnlab.config.run_identity import (
    comparable,
    cut_tag,
    digest,
    folder_with,
    former_identity,
    identity,
    run_folder,
    run_tag,
    tag_parts,
)
from attnlab.learn.atomic_write import IDENTITY
from attnlab.learn.weights_checksum import with_checksum
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


def former_run_folder(raw: dict[str, Any]) -> Path:
    """The run folder by the name with all differences in the order of the alphabet."""
    return folder_with(cut_tag(sorted(tag_parts(raw).values())), raw)


def test_bookkeeping_is_no_part_of_a_run(tmp_path: Path) -> None:
    plain, other = config(tmp_path, "scan"), config(tmp_path, "scan", *BOOKKEEPING)
    assert plain != other
    assert run_tag(plain) == run_tag(other) and identity(plain) == identity(other)
    assert comparable(plain) == comparable(other) and former_identity(plain) != former_identity(other)


def test_the_batch_size_of_evaluation_counts_where_it_says_how_many_examples_are_evaluated(tmp_path: Path) -> None:
    two, other = (config(tmp_path, "scan", "train.eval_batches=2", f"train.eval_batch_size={n}") for n in (4, 8))
    assert run_tag(two).replace("eval_batch_size=4", "eval_batch_size=8") == run_tag(other) != run_tag(two)
    assert identity(two) != identity(other)


@pytest.mark.parametrize("task", [pytest.param("scan", marks=pytest.mark.slow), "sort_of_clevr"])
def test_a_run_with_a_former_name_goes_on_with_other_bookkeeping_to_the_same_numbers(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validation, selected weights, decoding, checkpoints, and the losses of the steps that are logged."""
    whole, raw = config(tmp_path / "whole", task), config(tmp_path / "cut", task)
    assert run_job(whole, quiet=True) == 0
    with monkeypatch.context() as stopped:
        stop_after(3, stopped)
        assert run_job(raw, quiet=True) == 130
    former = former_run_folder(raw)
    assert former != run_folder(raw)
    former.parent.mkdir(parents=True)
    run_folder(raw).rename(former)
    checkpoint = former / "last.ckpt"
    saved = torch.load(checkpoint, weights_only=True)
    torch.save(with_checksum(saved | {IDENTITY: former_identity(raw)}), checkpoint)
    # the former name is known by the former bookkeeping; that of the present command may differ then
    assert job_config(raw).folder == former and look(former, raw).state == "stopped"
    capsys.readouterr()
    resumed = json.loads(json.dumps(raw))
    resumed["train"] |= {"log_every": 2, "checkpoint_every": 1, "eval_batch_size": 7}
    monkeypatch.setattr("attnlab.config.job_config.find_run_folder", lambda *_: former)
    assert run_job(resumed, quiet=False) == 0
    said = capsys.readouterr().err
    assert "this setting has a folder under another name" in said and "resuming from step 3" in said
    assert "train.log_every is 2 from step 3 on, and was 1 before" in said and "gap" not in said

    folders = run_folder(whole), former
    results = [json.loads((folder / "result.json").read_text()) for folder in folders]
    assert results[0]["metrics"] == results[1]["metrics"] and results[0]["selection"] == results[1]["selection"]
    rows = [MetricsFile(folder / "metrics.csv").rows() for folder in folders]
    assert set(rows[1]) < set(rows[0])
    assert [step for step, name, _ in rows[1] if name == "train/loss"] == [1, 2, 3, 4, 6]
    assert [row for row in rows[0] if "train/" not in row[1]] == [row for row in rows[1] if "train/" not in row[1]]
    weights = [torch.load(folder / "last.ckpt", weights_only=True)["state_dict"] for folder in folders]
    assert all(torch.equal(value, weights[1][key]) for key, value in weights[0].items())
    assert look(former, raw).state == "finished"


def test_a_run_that_has_its_name_is_taken_before_a_former_one(tmp_path: Path) -> None:
    raw = config(tmp_path, "scan")
    names = former_run_folder(raw), run_folder(raw)
    assert find_run_folder(raw) == names[1] and not job_config(raw).has_other_name
    for folder in names:
        folder.mkdir(parents=True)
        (folder / "config.yaml").touch()
        assert find_run_folder(raw) == folder


def test_a_former_name_that_was_cut_at_80_characters_is_found(tmp_path: Path) -> None:
    raw = config(tmp_path, "scan")
    parts = sorted(tag_parts(raw).values())
    former = folder_with(f"{','.join(parts)[:80].rpartition(',')[0]},{digest(parts)}", raw)
    assert former != former_run_folder(raw)
    former.mkdir(parents=True)
    (former / "config.yaml").touch()
    assert find_run_folder(raw) == former
