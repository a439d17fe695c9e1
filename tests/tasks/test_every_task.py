"""Every task trains and is evaluated with two models, and every model on each kind of network."""

import json
import math
from pathlib import Path
from typing import get_args

import pytest
import torch
from support.model_cases import causal_models, distinct_for, models_for, one_of_each_mechanism
from support.slow_cases import slow_except
from support.small_runs import checked, run_command, run_job, settings, stop_after
from support.tiny_data import TINY, raw_of, trained
from support.user_inputs import require_true_predictions

from attnlab import load_run
from attnlab.config.run_identity import run_folder
from attnlab.config.targets import read_signature
from attnlab.config.validation.data_rules import declared_subsets
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.run.build_runtime import prepare
from attnlab.run.run_folder import MetricsFile
from attnlab.tasks.base import make_task
from attnlab.tasks.glue.data_sets import DATA_SETS
from attnlab.tasks.pcfg.task import Pcfg

MODELS = ("vanilla", "linear_l2_ortho")
TESTED = {
    "encoder_decoder": "sequence_accuracy",
    "classification": "accuracy",
    "language_model": "token_perplexity",
    "masked_language_model": "masked_token_perplexity",
}
ELSEWHERE = ("scan", "sort_of_clevr")
"""tasks of test_training.py, which trains every model on them"""
EACH_KIND = {
    "lra_listops": "test/accuracy",
    "flip_flop": "test/iid/accuracy",
    "wikitext103_masked": "test/masked_token_perplexity",
    "mad": "test/accuracy",
}
"""other kinds of network, each with a metric; test_training.py has the kinds of ELSEWHERE. Fast is
every other mechanism that these kinds cannot have: as causal language models"""
FAST = {"lra_listops": (), "flip_flop": causal_models()[::2], "wikitext103_masked": ("linear_l2_ortho",), "mad": ()}
PRODUCT = [
    pytest.param(task, model, marks=[] if model in FAST[task] else [pytest.mark.slow])
    for task in EACH_KIND
    for model in dict.fromkeys((*FAST[task], *one_of_each_mechanism(task), *distinct_for(task)))
    if model in models_for(task)
]


@pytest.mark.parametrize(
    ("task", "model"),
    [
        pytest.param(task, model, marks=[pytest.mark.slow] if model == "vanilla" else [])
        for task in TINY
        for model in MODELS
        # PCFG SET has the network of SCAN, and its long outputs are decoded slowly
        if task not in ELSEWHERE and (task, model) != ("pcfg", "vanilla")
    ],
)
def test_every_task_trains_and_is_evaluated(task: str, model: str, tiny_data: Path, tmp_path: Path) -> None:
    folder, result = trained(tiny_data, tmp_path, task, f"model={model}")
    metrics = {name: value for name, value in result["metrics"].items() if name.startswith("test/")}
    names = {name.rpartition("/")[2] for name in metrics}
    assert names & {"sequence_accuracy", "accuracy", "matthews_correlation", *TESTED.values()}
    assert all(-1 <= value < math.inf for value in metrics.values())
    assert result["data"]["about"]
    losses = [value for _, name, value in MetricsFile(folder / "metrics.csv").rows() if name == "train/loss"]
    assert len(losses) == 2 and all(0 < loss < 50 for loss in losses)
    run = load_run(folder)
    require_true_predictions(run, next(name for name in run.data.subsets if name.startswith("test")))


@pytest.mark.parametrize("task", TINY)
def test_subsets_are_those_declared(task: str, tiny_data: Path, tmp_path: Path) -> None:
    """A wrong `subset=` is refused by the class of the task, before its data is prepared."""
    config = checked(raw_of(tiny_data, tmp_path, task))
    assert set(prepare(make_task(config.task), config.paths).subsets) == set(declared_subsets(config.task))


def test_subsets_follow_the_split() -> None:
    glue, pcfg = ({"_target_": f"attnlab.tasks.{name}"} for name in ("glue.task.Glue", "pcfg.task.Pcfg"))
    for name, data_set in DATA_SETS.items():
        assert set(declared_subsets(glue | {"dataset": name})) == set(data_set.sizes)
    for split in get_args(read_signature(pcfg["_target_"]).arguments["split"].annotation):
        assert set(declared_subsets(pcfg | {"split": split})) == set(Pcfg(split)._stems())


@pytest.mark.parametrize(("task", "model"), PRODUCT)
def test_every_model_meets_every_kind(task: str, model: str, tiny_data: Path, tmp_path: Path) -> None:
    _, result = trained(tiny_data, tmp_path, task, f"model={model}")
    assert EACH_KIND[task] in result["metrics"]


@pytest.mark.parametrize("task", ["wikitext103_masked", "glue", "flip_flop"])
def test_stopped_and_resumed_equals_uninterrupted(
    task: str, tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden tokens are drawn from the generator that a checkpoint restores."""
    # a rate that does not depend on how many steps there will be
    steady = ("optim.schedule=constant", "optim.warmup_steps=0", "backbone.dropout=0.1")
    more = ("model=linear_l2_ortho", "train.max_steps=6", "train.checkpoint_every=3", *steady)
    whole, _ = trained(tiny_data, tmp_path / "whole", task, *more)
    cut = raw_of(tiny_data, tmp_path / "cut", task, *more)
    folder = run_folder(cut)
    with monkeypatch.context() as during:
        stop_after(3, during)
        assert run_job(cut, quiet=True) == 130
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 3
    assert run_job(cut, quiet=True) == 0
    first, second = (torch.load(run / "last.ckpt", weights_only=True)["state_dict"] for run in (whole, folder))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


LONGER = {
    "flip_flop": ("task.eval_length=40", "test/iid/length_40/accuracy"),
    "mathematics": ("task.ood_entropy=30", "test/ood/sequence_accuracy"),
    "lra_listops": ("task.min_length=60 task.max_length=200 task.train_size=1", "test/accuracy"),
    "lra_text": ("task.max_length=200", "test/accuracy"),
    "lra_retrieval": ("task.max_length=200", "test/accuracy"),
    "wikitext103": ("task.eval_length=64", "test/length_64/token_perplexity"),
    "mad": ("task.length=40", "test/length_40/accuracy"),
    "wikitext103_masked": ("task.eval_length=100", "test/masked_token_perplexity"),
    "mqar": ("task.test_lengths=[32] task.test_pairs=[3,8]", "test/pairs_8/accuracy"),
    "formal_language": ("task.test_length=12", "test/ood/length_12/accuracy"),
    "word_problem": ("task.test_lengths=[20]", "test/ood/length_20/accuracy"),
    "algorithmic": ("task.test_size=12", "test/ood/length_9/sequence_accuracy"),
}


@pytest.mark.parametrize("task", slow_except(LONGER, ["mathematics", "lra_listops", "wikitext103", "mqar"]))
def test_lengths_that_were_not_trained_on(task: str, tiny_data: Path, tmp_path: Path) -> None:
    """The trained network is evaluated; results have metrics by length."""
    folder, _ = trained(tiny_data, tmp_path, task, "model=linear_l2", "backbone.positions=sinusoidal")
    words, metric = LONGER[task]
    assert evaluate_main([f"run={folder}", *words.split()]) == 0
    (file,) = (folder / "evaluations").glob("*.json")
    result = json.loads(file.read_text())
    assert metric in result["metrics"]
    assert any("/length_" in name for name in result["metrics"])


@pytest.mark.parametrize(("task", "words"), [(task, LONGER[task][0]) for task in ("lra_listops", "flip_flop")])
def test_a_network_that_cannot_go_on_says_so(
    task: str, words: str, tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = trained(tiny_data, tmp_path, task, "model=linear", "backbone.positions=learned")
    assert evaluate_main([f"run={folder}", *words.split()]) == 1
    assert "backbone.positions=sinusoidal" in capsys.readouterr().err


def test_untrained_learned_positions_are_noted(
    tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["model=vanilla", "task.test_lengths=[16,24]", "backbone.positions=learned"]
    assert run_job(raw_of(tiny_data, tmp_path, "mqar", *words, "trainer.progress=lines"), quiet=True) == 0
    assert "no training sequence has positions 17 to 24" in capsys.readouterr().err


def test_too_long_a_test_is_refused_before_training(
    tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = raw_of(tiny_data, tmp_path, "flip_flop", "model=cosformer", "task.eval_length=40")
    assert run_job(raw, quiet=True) == 1
    assert "max_length" in capsys.readouterr().err
    assert not (run_folder(raw) / "last.ckpt").exists()


def test_a_large_batch_in_pieces_is_the_same_run(tiny_data: Path, tmp_path: Path) -> None:
    collected = []
    for limit in ("null", "40"):
        more = ("model=linear_l2_ortho", f"train.max_tokens={limit}", "backbone.dropout=0", "train.precision=64-true")
        folder, _ = trained(tiny_data, tmp_path, "pcfg", *more)
        rows = MetricsFile(folder / "metrics.csv").rows()
        collected.append(
            [value for _, name, value in rows if name in ("train/loss", "train/ortho", "train/gradient_norm")]
        )
    assert collected[0] == pytest.approx(collected[1], rel=1e-9)


def test_epochs_stand_for_steps(tiny_data: Path, tmp_path: Path) -> None:
    more = ("model=linear", "train.max_epochs=2", "train.max_steps=null", "train.batch_size=10")
    _, result = trained(tiny_data, tmp_path, "glue", *more)
    assert result["selection"]["step"] == 2 * (24 // 10)


@pytest.mark.slow
def test_parts_of_glue_by_the_names_users_know(tiny_data: Path, tmp_path: Path) -> None:
    words = ["task=glue", "task.name=cola", *TINY["glue"], "model=linear", "train.max_steps=1"]
    paths = [*settings(tmp_path), f"paths.data={tiny_data / 'data'}"]
    done = run_command("train.py", *words, *paths)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs/glue-cola/linear").is_dir()
    wrong = run_command("train.py", "task=glue", "task.name=coal")
    assert wrong.returncode == 2 and "cola" in wrong.stderr
