"""Weights belong to one run and one step; every reader refuses others."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import SMALL_CLEVR, config_of, run_job, stop_after

from attnlab.config.fill_defaults import completed
from attnlab.config.run_identity import differences, identity, run_folder
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.learn import evaluator, validation
from attnlab.learn.weight_files import IDENTITY, SaveError, content_checksum, with_checksum
from attnlab.run.read_checkpoints import read_checkpoint, run_weights
from attnlab.run.read_run_files import config_text
from attnlab.run.run_folder import RunError, RunFolder

SMALL = (*SMALL_CLEVR, "train.max_steps=6", "train.validate_every=2", "train.checkpoint_every=4")
RULES = ("", "unary", "binary", "ternary")
"""by which validation selects weights of sort-of-CLEVR"""
OTHERS = {
    "another model": ("model=vanilla", "model vanilla"),
    "other options of it": ("model.normalization.kind=l2", "of another configuration"),
    "another seed": ("seed=5", "seed 5"),
}
"""a word that makes another run, and what is said of its weights"""


def raw_of(folder: Path, *more: str) -> dict[str, Any]:
    chosen = {word.partition("=")[0]: word for word in (*SMALL, "model=linear", *more)}
    return completed(config_of(folder, *chosen.values()))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, and one of each other kind."""
    folder = tmp_path_factory.mktemp("runs")
    for more in ((), *((word,) for word, _ in OTHERS.values())):
        assert run_job(raw_of(folder, *more), quiet=True) == 0
    return folder


@pytest.fixture
def copy(runs: Path, tmp_path: Path) -> Path:
    """A copy of them, to be spoilt."""
    shutil.copytree(runs, tmp_path / "copy")
    return tmp_path / "copy"


def message_of(action: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the message of an action that fails."""
    capsys.readouterr()
    assert action() == 1
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    return printed


def evaluating(raw: dict[str, Any]) -> Callable[[], int]:
    return lambda: evaluate_main([f"run={run_folder(raw)}", f"paths.cache={raw['paths']['cache']}"])


def best_of(folder: Path, rule: str = "") -> Path:
    best = read_checkpoint(folder / "last.ckpt")["callbacks"]["Validation"]["best"]
    return folder / validation.weights_name(rule, best[rule]["step"])


@pytest.mark.parametrize(("file", "other"), [("best", "another model"), *(("last.ckpt", other) for other in OTHERS)])
def test_weights_of_another_run_are_refused(
    file: str, other: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the evaluation, the resume, the test at its end and by a run that begins with it."""
    word, text = OTHERS[other]
    raw, there = raw_of(copy), run_folder(raw_of(copy, word))
    folder = run_folder(raw)
    source, target = [run / file if file == "last.ckpt" else best_of(run) for run in (there, folder)]
    shutil.copyfile(source, target)
    expected = f"{target.name} holds the weights of another run ({text}"
    assert expected in message_of(evaluating(raw), capsys)
    assert not list((folder / "evaluations").glob("*"))
    (folder / "result.json").unlink()
    assert expected in message_of(lambda: run_job(raw, quiet=True), capsys)
    assert not (folder / "result.json").exists()
    begun = raw_of(copy, f"+from_run='{folder}'", "seed=9")
    assert expected in message_of(lambda: run_job(begun, quiet=True), capsys)


def test_weights_that_name_no_run_are_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As attnlab 0.1.0 wrote them."""
    raw = raw_of(copy)
    last = run_folder(raw) / "last.ckpt"
    saved = torch.load(last, weights_only=True)
    del saved[IDENTITY]
    torch.save(saved, last)
    (run_folder(raw) / "result.json").unlink()
    for action in (evaluating(raw), lambda: run_job(raw, quiet=True)):
        assert "does not say which run it is of" in message_of(action, capsys)


def test_a_whole_folder_may_be_copied(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = raw_of(copy)
    shutil.copytree(run_folder(raw), tmp_path / "elsewhere")
    assert evaluate_main([f"run={tmp_path / 'elsewhere'}", f"paths.cache={copy / 'cache'}"]) == 0
    (report,) = (tmp_path / "elsewhere/evaluations").glob("*.json")
    result = json.loads((run_folder(raw) / "result.json").read_text())
    actual = json.loads(report.read_text())
    assert actual["weights"] == {"checkpoint": "best", "step": result["selection"]["step"]}
    assert actual["metrics"].items() <= result["metrics"].items()


def test_a_whole_folder_of_another_seed_is_no_result(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = raw_of(copy, "seed=7")
    shutil.copytree(run_folder(raw_of(copy)), run_folder(wanted))
    assert "seed: 0 -> 7" in message_of(lambda: run_job(wanted, quiet=True), capsys)


def test_the_best_weights_are_of_the_step_that_the_checkpoint_names(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = raw_of(copy)
    best = best_of(run_folder(raw))
    saved = torch.load(best, weights_only=True)
    torch.save(with_checksum(saved | {"step": saved["step"] + 1}), best)
    message = message_of(evaluating(raw), capsys)
    assert f"holds the weights of step {saved['step'] + 1}, not {saved['step']} as last.ckpt says" in message


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "global_step": lambda saved: saved.update(global_step=1),
    "no checksum": lambda saved: (saved.update(optimizer_states=[]), saved.pop("checksum")),
    "no callbacks": lambda saved: saved["callbacks"].clear(),
    "no loops": lambda saved: saved.pop("loops"),
    "no moments": lambda saved: saved.update(optimizer_states=[]),
    "a rate": lambda saved: saved["optimizer_states"][0]["param_groups"][0].update(lr=1.0),
    "a moment": lambda saved: saved["optimizer_states"][0]["state"][0]["exp_avg"].view(-1)[0].add_(1e-3),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_checkpoint_is_refused(edit: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By whoever would resume or evaluate it; its curve would change without a word."""
    raw = raw_of(copy)
    folder = run_folder(raw)
    saved = torch.load(folder / "last.ckpt", weights_only=True)
    EDITS[edit](saved)
    torch.save(saved, folder / "last.ckpt")
    (folder / "result.json").unlink()
    before = (folder / "metrics.csv").read_bytes()
    for action in (evaluating(raw), lambda: run_job(raw, quiet=True)):
        assert "last.ckpt was edited after the run had saved it; restore it" in message_of(action, capsys)
    assert (folder / "metrics.csv").read_bytes() == before


def test_a_checksum_is_of_the_content_alone(tmp_path: Path) -> None:
    """Of values in any layout, and without memory for rows that share it."""
    state = {"a": torch.eye(3).T, "b": {"c": [1, None, (0.1, "x")]}, "d": torch.zeros(1).expand(2**40)}
    state |= {"e": torch.zeros(0), "f": torch.tensor(1.5, dtype=torch.bfloat16)}
    torch.save(with_checksum(state), tmp_path / "file")
    saved = torch.load(tmp_path / "file", weights_only=True)
    assert content_checksum(saved) == saved["checksum"] == content_checksum(state)
    for change in ({"a": torch.ones(3, 3)}, {"e": torch.zeros(0, 2)}, {"b": {"c": [1, None, [0.1, "y"]]}}, {"g": 0}):
        assert content_checksum(state | change) != content_checksum(state)


@pytest.mark.parametrize("rule", ["", "binary"])
def test_missing_best_weights_are_no_reason_to_take_the_last(
    rule: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = raw_of(copy)
    best_of(run_folder(raw), rule).unlink()
    if not rule:
        assert "is missing, the weights that last.ckpt names as best" in message_of(evaluating(raw), capsys)
    (run_folder(raw) / "result.json").unlink()
    assert "is missing, the weights that last.ckpt" in message_of(lambda: run_job(raw, quiet=True), capsys)


def test_before_the_first_validation_only_the_last_step_has_weights(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = raw_of(runs, "seed=11")
    with monkeypatch.context() as during:
        stop_after(1, during)
        assert run_job(raw, quiet=True) == 130
    folder = run_folder(raw)
    with pytest.raises(RunError, match=r"no validation has selected weights yet, at step 1.*checkpoint=last"):
        run_weights(folder, "selected", "best_validation")
    assert run_weights(folder, "last", "best_validation")[1] == {"checkpoint": "last", "step": 1}


def test_a_finished_run_keeps_the_weights_it_names_and_no_others(runs: Path) -> None:
    folder = run_folder(raw_of(runs))
    named = {best_of(folder, rule).name for rule in RULES}
    assert {file.name for file in folder.glob("best*")} == named
    for file in (*folder.glob("best*"), folder / "last.ckpt"):
        assert torch.load(file, weights_only=True)[IDENTITY] == identity(raw_of(runs))


@pytest.fixture
def killed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run with a checkpoint of step 3, which names step 2 as best, killed when it had found steps 4 and 6 better."""
    raw = raw_of(runs, "seed=12", "train.checkpoint_every=3", "train.max_steps=8")
    with monkeypatch.context() as during:
        during.setattr(validation, "improves", lambda metric, value, best: True)
        stop_after(3, during)
        assert run_job(raw, quiet=True) == 130
    with monkeypatch.context() as during:
        during.setattr(validation, "improves", lambda metric, value, best: True)

        def killing(*inputs: object) -> None:
            raise SaveError("killed")

        during.setattr("attnlab.learn.callbacks.save_atomically", killing)
        assert run_job(raw, quiet=True) == 1
    folder = run_folder(raw)
    assert {file.name for file in folder.glob("best*")} == {
        validation.weights_name(rule, step) for rule in RULES for step in (2, 4, 6)
    }
    assert read_checkpoint(folder / "last.ckpt")["global_step"] == 3
    return raw


def test_killed_after_better_weights_the_test_takes_those_that_are_named(
    killed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed on other hardware, where the later validations are no better."""
    folder = run_folder(killed)
    named = torch.load(folder / "best_step2.pt", weights_only=True)["network"]
    monkeypatch.setattr(validation, "improves", lambda metric, value, best: best is None)
    tested, healthy = [], evaluator.Evaluator.test_subsets

    def seen(self: evaluator.Evaluator, show: bool = False) -> evaluator.Findings:
        tested.append({name: value.clone() for name, value in self.network.state_dict().items()})
        return healthy(self, show)

    monkeypatch.setattr(evaluator.Evaluator, "test_subsets", seen)
    assert run_job(killed, quiet=True) == 0
    assert RunFolder(folder).result()["selection"]["step"] == 2
    assert len(tested) == 1 and all(torch.equal(tested[0][name], named[name]) for name in named)
    assert {file.name for file in folder.glob("best*")} == {validation.weights_name(rule, 2) for rule in RULES}


def test_identity_is_what_configurations_mean(tmp_path: Path) -> None:
    raw = raw_of(tmp_path)
    same = raw | {"paths": {}, "logger": {}, "trainer": {}, "from_run": None}
    same["optim"] = dict(reversed((raw["optim"] | {"new_key": None}).items()))
    assert differences(raw, raw | {"new": None}) == []
    assert identity(same) == identity(raw)
    assert identity(raw | {"seed": 1}) != identity(raw)
    for part, change in (("optim", {"lr": 0.5}), ("model", {"feed_forward": "glu"}), ("train", {"batch_size": 17})):
        assert identity(raw | {part: raw[part] | change})["configuration"] != identity(raw)["configuration"]


def test_a_default_that_a_later_version_adds_makes_no_other_run(tmp_path: Path) -> None:
    """As if `train.accumulate` were new: the stored configuration lacks it, and the completed one has it."""
    stored = raw_of(tmp_path)
    del stored["train"]["accumulate"]
    (tmp_path / "config.yaml").write_text(config_text(stored))
    saved = with_checksum({IDENTITY: identity(stored), "global_step": 0, "state_dict": {}, "callbacks": {}})
    torch.save(saved, tmp_path / "last.ckpt")
    assert completed(stored)["train"]["accumulate"] == 1
    assert read_checkpoint(tmp_path / "last.ckpt") == saved
