"""Tagging: a task of a user's own in a package and a conf folder of their own; its loss, scores and predictions."""

from pathlib import Path

import numpy as np
import pytest
import torch
from support import parity_task
from support.model_cases import backbone_of, config_of
from support.parity_task import Parity
from support.slow_cases import slow_except
from torch.nn import functional as F

from attnlab import load_run
from attnlab.data.files.fetch import DataError, Folders
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.launch.train_cli import train_main
from attnlab.tasks.base import Prepared
from attnlab.tasks.kinds.base import build_network, kind_of

YAML = """\
# @package _global_
defaults: [_base, _self_]
task: {_target_: support.parity_task.Parity, name: parity, label: [causal], causal: true, length: 6}
backbone:
  {d_model: 32, n_heads: 4, n_layers: 2, d_feed_forward: 64, dropout: 0.0, norm_placement: pre, positions: sinusoidal}
optim: {lr: 3e-3}
train:
  {max_steps: 150, batch_size: 64, eval_batch_size: 64, validate_every: 75, selection: best_validation}
"""
WORDS = ("task=parity", "logger=csv", "trainer=cpu", "trainer.threads=1")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a user with the task's yaml; the task is in a package that they allow."""
    (tmp_path / "conf/task").mkdir(parents=True)
    (tmp_path / "conf/task/parity.yaml").write_text(YAML)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNLAB_PLUGINS", "support")
    return tmp_path


def prepared(tmp_path: Path, **options: bool) -> Prepared:
    return Parity(**options).prepare(Folders(data=tmp_path, cache=tmp_path))


def network_of(spec: object, task: str) -> torch.nn.Module:
    """In float64, of the sizes of another task with the same kind of stack."""
    torch.manual_seed(0)
    return build_network(backbone_of("vanilla", task), config_of("vanilla", task).model, spec).double().eval()


@pytest.mark.parametrize("model", slow_except(["vanilla", "linear_l2_ortho"], ["linear_l2_ortho"]))
def test_it_trains_evaluates_and_predicts(own: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert train_main([*WORDS, f"model={model}"]) == 0
    (folder,) = {file.parent for file in own.rglob("result.json")}
    run = load_run(folder)
    assert run.result["metrics"]["test/iid/accuracy"] > 0.8
    assert run.result["counts"]["test/iid"] == 100 and run.result["counts"]["test/iid/tokens"] > 100
    assert {len(tags) for tags in run.predict(["1", "110"])} == {1, 3}
    assert set(run.predict(["1111"])[0]) <= {"even", "odd"}
    assert evaluate_main([f"run={folder}", "task.length=9"]) == 0
    assert "test/ood/sequence_accuracy" in capsys.readouterr().out


def test_a_causal_attention_cannot_see_both_sides(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "model=threshold_relative", "train.max_steps=2"]
    assert train_main([*words, "task.causal=false"]) == 2
    assert "has no bidirectional form, which a task of kind tagging needs there" in capsys.readouterr().err
    assert train_main(words) == 0


def test_other_models_learn_it_from_both_sides(own: Path) -> None:
    assert train_main([*WORDS, "model=linformer", "task.causal=false", "train.max_steps=2"]) == 0


@pytest.mark.parametrize("causal", [True, False])
def test_loss_and_scores_are_over_positions_with_a_target(tmp_path: Path, causal: bool) -> None:
    data = prepared(tmp_path, causal=causal)
    part, kind = data.subsets["train"], kind_of(data.spec)
    network, batch = network_of(data.spec, "flip_flop" if causal else "wikitext103_masked"), part.batch(np.arange(5))
    logits = network.output(network(batch.inputs, batch.mask)[0])
    losses, right = [], []
    for number in range(5):
        targets = torch.from_numpy(part.targets[number].astype(np.int64)) - 1
        kept = targets >= 0
        assert not kept[0] and kept[1:].all()
        of_example = logits[number, : len(targets)][kept]
        losses.append(F.cross_entropy(of_example, targets[kept], reduction="none"))
        right.append(of_example.argmax(-1) == targets[kept])
    loss, penalty = kind.loss(network, batch)
    torch.testing.assert_close(loss, torch.cat(losses).mean(), rtol=1e-6, atol=1e-6)
    assert penalty == 0 and batch.counts.tolist() == list(map(len, losses))
    scores = kind.scores(network, batch, 0)
    assert scores["right"].tolist() == [each.sum() for each in right]
    assert scores["sequence_accuracy"].tolist() == [bool(each.all()) for each in right]
    # the future of a position changes its logits only where the task says so
    changed = batch.inputs.clone()
    changed[:, 1] = 7 - changed[:, 1]
    other = network.output(network(changed, batch.mask)[0])
    assert torch.equal(other[:, 0], logits[:, 0]) == causal


def test_the_most_frequent_tag_is_a_shortcut(tmp_path: Path) -> None:
    data = prepared(tmp_path)
    shortcut = Parity().shortcuts(data)["most frequent tag"]
    part, records = data.subsets["val"], shortcut(data.subsets["val"])
    assert records["tokens"].tolist() == [len(part.targets[number]) - 1 for number in range(len(part))]
    assert (records["sequence_accuracy"] == (records["right"] == records["tokens"])).all()


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        (("01", ["odd"]), "2 words with 1 tags; expected a tag or None for each"),
        (("01", [None, None]), "not all None"),
        (("01", [None, "odds"]), r"no tag 'odds'; tags: even, odd"),
    ],
)
def test_a_wrong_example_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, example: tuple, problem: str
) -> None:
    monkeypatch.setattr(Parity, "examples", lambda self: {name: [example] for name in Parity.subsets})
    with pytest.raises(DataError, match=problem):
        prepared(tmp_path)


def test_the_example_of_the_module(tmp_path: Path) -> None:
    shown = Parity().example(prepared(tmp_path), "train", 0)
    assert [f"    {line}" for line in shown.splitlines()] == parity_task.__doc__.splitlines()[4:6]
