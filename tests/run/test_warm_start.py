"""Warm start: runs that begin with the weights and tokens of another run."""

import json
from pathlib import Path
from shlex import quote

import pytest
import torch
from support.small_runs import jobs_of, run_job, settings
from support.tiny_data import TINY, raw_of, trained

from attnlab.config.run_identity import run_folder
from attnlab.config.sweep import check_command
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.launch.train_cli import train_main
from attnlab.run.warm_start import fit_problem, from_run_problems

SAME = ("model=linear_l2", "backbone.norm_placement=pre", "backbone.dropout=0")


@pytest.fixture
def masked(tiny_data: Path, tmp_path: Path) -> Path:
    """A masked run that has learned a little; with the settings that `glue` shares with it."""
    folder, _ = trained(tiny_data, tmp_path, "wikitext103_masked", *SAME)
    assert (folder / "tokenizer.json").exists()
    return folder


def test_fine_tuning_begins_with_the_weights_and_the_tokens(masked: Path, tiny_data: Path, tmp_path: Path) -> None:
    # dropout, a model's own too, does not decide what weights mean
    more = (*SAME, "model.embedding_dropout=0.1", f"from_run='{masked}'", "train.max_steps=1", "optim.lr=1e-12")
    folder, result = trained(tiny_data, tmp_path, "glue", *more)
    before = torch.load(masked / "best_step2.pt", weights_only=True)
    after = torch.load(folder / "last.ckpt", weights_only=True)["state_dict"]
    names = [name for name in before["network"] if name.startswith(("embedding", "encoder"))]
    assert names
    for name in names:
        torch.testing.assert_close(after[f"network.sequence.{name}"], before["network"][name], rtol=0, atol=1e-9)
    assert (folder / "tokenizer.json").read_bytes() == (masked / "tokenizer.json").read_bytes()
    begun = result["from_run"]
    assert begun["run"] == str(masked) and begun["step"] == before["step"] and 0.5 < begun["share"] < 1


def test_weights_that_do_not_fit_are_refused(
    masked: Path,
    tiny_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    raw = raw_of(tiny_data, tmp_path, "glue", *SAME, f"from_run='{masked}'", "backbone.d_feed_forward=20")
    assert run_job(raw, quiet=True) == 1
    message = capsys.readouterr().err
    assert "another network" in message and "backbone.d_feed_forward: 16 -> 20" in message


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("backbone.n_heads=4",), "backbone.n_heads: 2 -> 4"),
        (("backbone.norm_placement=post",), "backbone.norm_placement: pre -> post"),
        (("model.feed_forward=glu",), "model.feed_forward: null -> glu"),
        (("model=linear",), "model.normalization.kind: l2 -> none"),
        (("task.max_length=30",), "learned positions up to another length"),
    ],
)
def test_weights_that_fit_by_shape_alone_are_refused(
    more: tuple[str, ...], said: str, masked: Path, tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = {word.partition("=")[0]: word for word in (*SAME, *more)}
    raw = raw_of(tiny_data, tmp_path, "glue", *chosen.values(), f"from_run='{masked}'")
    assert run_job(raw, quiet=True) == 1
    assert said in capsys.readouterr().err


def test_a_run_of_another_mechanism_is_refused(
    masked: Path,
    tiny_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    raw = raw_of(tiny_data, tmp_path, "glue", "model=flash_quad", *SAME[1:], f"from_run='{masked}'")
    assert run_job(raw, quiet=True) == 1
    assert "LinearAttention -> attnlab.attention.flash.FlashQuad" in capsys.readouterr().err


def test_a_folder_with_the_words_of_a_tag_is_read(masked: Path, tiny_data: Path, tmp_path: Path) -> None:
    """On a command line too, where = and comma mean something."""
    assert "=" in str(masked) and "," in str(masked)
    words = [*TINY["glue"], *SAME, "task=glue", f"from_run={masked}", "train.max_steps=1", *settings(tmp_path)]
    assert train_main([*words, f"paths.data={tiny_data / 'data'}"]) == 0
    (result,) = (tmp_path / "runs").glob("glue-cola/*/*/seed0/result.json")
    assert json.loads(result.read_text())["from_run"]["run"] == str(masked)


def test_a_folder_that_is_no_run_is_a_config_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train_main(["task=glue", f"from_run={tmp_path}"]) == 2
    assert (
        f"from_run={tmp_path}: it is no run folder (no config.yaml there, and none below); expected"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_a_preset_finds_the_runs_of_another_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every job starts from the run of its model and seed; without such a run, a message gives the command for it."""
    words = ["model=flash,transnormer_t1", "seed=0,1", f"paths.runs={tmp_path}"]
    tuned = ["experiment=qin2022/table5_glue", "task.dataset=cola", "optim.lr=1e-5,3e-5", *words]
    inputs = jobs_of(["experiment=qin2022/table5_pretraining", *words])
    masked, jobs = {str(run_folder(job)): job for job in inputs}, jobs_of(tuned)
    assert len(masked) == 4 and len(jobs) == 8
    for job in jobs:
        begun = masked[job["from_run"]]
        assert (begun["model"]["name"], begun["seed"]) == (job["model"]["name"], job["seed"])
        assert fit_problem("it", begun, job) is None
        assert job["task"]["from_run"] == job["from_run"]
    assert len(from_run_problems(check_command(tuned).jobs)) == 4
    assert train_main(tuned) == 2
    assert "train it first: python train.py experiment=qin2022/table5_pretraining" in capsys.readouterr().err


def test_any_task_may_begin_with_another_run(tiny_data: Path, tmp_path: Path) -> None:
    """Curricula: the same network on longer sequences."""
    first, _ = trained(tiny_data, tmp_path, "flip_flop", "model=linear")
    _, result = trained(tiny_data, tmp_path, "flip_flop", "model=linear", f"from_run='{first}'", "task.length=24")
    assert result["from_run"]["run"] == str(first)


@pytest.mark.parametrize("task", ["scan", "sort_of_clevr"])
def test_from_run_is_a_key_of_every_task(task: str, tiny_data: Path, tmp_path: Path) -> None:
    """Without a plus: it was listed in GLUE's yaml alone."""
    first, _ = trained(tiny_data, tmp_path, task, "model=linear")
    words = [*TINY[task], "model=linear", "train.max_steps=1", *settings(tmp_path)]
    assert train_main([*words, f"from_run={first}"]) == 0
    results = [json.loads(file.read_text()) for file in (tmp_path / "runs").rglob("result.json")]
    (begun,) = (result["from_run"] for result in results if "from_run" in result)
    assert begun["run"] == str(first) and begun["step"] == 2


def test_what_cannot_begin_is_refused_before_anything_starts(
    tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the configurations of both runs, for every job of a sweep, and without a folder for the new run."""
    first, _ = trained(tiny_data, tmp_path, "scan", "model=linear")
    capsys.readouterr()
    words = [*TINY["scan"], "train.max_steps=1", *settings(tmp_path / "new"), f"from_run={first}"]
    for more in (["model=linear_l2"], ["-m", "model=linear,linear_l2", "seed=0,1"]):
        assert train_main([*words, *more]) == 2
        printed = capsys.readouterr().err
        assert (
            printed.startswith("1 problem") and "it has another network than this run: model.normalization" in printed
        )
    assert train_main([*words[:-1], f"from_run={first.parent}"]) == 2
    assert f"holds some: seed0; write {quote(f'from_run={first}')}" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_another_set_is_read_in_the_tokens_of_the_run(masked: Path, tiny_data: Path, tmp_path: Path) -> None:
    folder, _ = trained(tiny_data, tmp_path, "glue", *SAME)
    assert evaluate_main([f"run={folder}", "task.name=cola", f"paths.data={tiny_data / 'data'}"]) == 0
    (file,) = (folder / "evaluations").glob("*.json")
    assert json.loads(file.read_text())["task"]["from_run"] == str(folder)
    assert file.stem == "glue-cola"


def test_a_fine_tuned_run_outlives_the_one_it_began_with(masked: Path, tiny_data: Path, tmp_path: Path) -> None:
    folder, _ = trained(tiny_data, tmp_path, "glue", *SAME, f"from_run='{masked}'")
    masked.rename(masked.with_name("gone"))
    assert evaluate_main([f"run={folder}", f"paths.data={tiny_data / 'data'}"]) == 0


def test_other_tokens_are_refused(tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = trained(tiny_data, tmp_path, "wikitext2", "model=linear")
    capsys.readouterr()
    assert evaluate_main([f"run={folder}", "task.vocabulary_size=280", f"paths.data={tiny_data / 'data'}"]) == 1
    assert "the run was trained with input vocabulary 296 and this data has 280" in capsys.readouterr().err


def test_resuming_does_not_begin_again(masked: Path, tiny_data: Path, tmp_path: Path) -> None:
    """The weights of the other run are read once: it may be gone when this one goes on."""
    more = (*SAME, f"from_run='{masked}'", "train.max_steps=2", "train.checkpoint_every=1")
    folder, _ = trained(tiny_data, tmp_path, "glue", *more)
    (folder / "result.json").unlink()
    (masked / "best_step2.pt").unlink()
    raw = raw_of(tiny_data, tmp_path, "glue", *more)
    assert run_folder(raw) == folder
    assert run_job(raw, quiet=True) == 0
