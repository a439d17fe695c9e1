"""Shortcuts: scored as a network is, for every task; no shipped threshold of success is reached by one."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.official_layout_converters import mathematics, pcfg, wikitext
from support.preset_files import presets_with_reports, text_of
from support.real_data import real_data
from support.slow_cases import slow_except
from support.tiny_data import TINY, raw_of

from attnlab.config.job_config import compose_config
from attnlab.config.report_block import Success
from attnlab.config.validation.type_check import build
from attnlab.data.examples import LabelledSequences, SequencePairs
from attnlab.data.files.fetch import Folders
from attnlab.data.ragged_arrays import Ragged
from attnlab.data.task_spec import ORACLE_END, TaskSpec
from attnlab.data.text_blocks import TextBlocks
from attnlab.data.vocabulary import Vocabulary
from attnlab.learn.metric_units import headlines, scaled, shortcut_lines, whole
from attnlab.learn.metrics import Scores, shortcut_scores, subset_scores
from attnlab.report.failures.failure_statistics import reaches
from attnlab.tasks.base import Prepared, Task, make_task
from attnlab.tasks.cogs.task import Cogs
from attnlab.tasks.flip_flop.task import FlipFlop
from attnlab.tasks.formal_language.task import FormalLanguage
from attnlab.tasks.kinds.classification import ClassificationKind
from attnlab.tasks.lra.listops import LraListops
from attnlab.tasks.mathematics.task import Mathematics
from attnlab.tasks.mqar import Mqar
from attnlab.tasks.pcfg.task import Pcfg
from attnlab.tasks.scan.task import Scan
from attnlab.tasks.shortcuts import general_shortcuts, most_frequent, sequence_scores
from attnlab.tasks.sort_of_clevr.task import SortOfClevr
from attnlab.tasks.wikitext.wikitext103_masked import Wikitext103Masked
from attnlab.tasks.word_problem import WordProblem
from attnlab.tasks.word_tasks import SequenceTask

ACCURACY = "sequence_accuracy"


def scores_of(task: Task, folders: Folders) -> Scores:
    return shortcut_scores(task, task.prepare(folders))


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Folders with the official Mathematics, PCFG, SCAN, COGS and WikiText files that this machine has."""
    folder = tmp_path_factory.mktemp("official")
    mathematics.write_layout(real_data("mathematics/mathematics_dataset-subset-seed1.tar.gz"), folder / "data")
    pcfg.write_layout(real_data("pcfg_set/pcfg_set.tar.gz"), folder / "data")
    wikitext.write_layout(real_data("wikitext-2").parent, folder / "data")
    (folder / "data/scan").symlink_to(real_data("scan/SCAN.tar.gz").parent)
    (folder / "data/COGS").symlink_to(real_data("COGS"))
    return Folders(data=folder / "data", cache=folder / "cache")


def test_the_most_frequent_digit_of_a_number_gets_a_third_of_place_value(official: Folders) -> None:
    task = Mathematics(module="numbers__place_value", source="official", questions_per_difficulty=3000)
    scores, digit = scores_of(task, official), "most frequent digit of the number"
    assert round(100 * scores[f"test/iid/{ACCURACY}"][digit], 1) == 30.7
    assert round(100 * scores[f"test/ood/{ACCURACY}"][digit], 2) == 25.05
    assert 0.08 < scores[f"test/iid/{ACCURACY}"]["most frequent answer"] < 0.12


@pytest.mark.parametrize("task", TINY)
def test_every_task_has_shortcuts_in_every_metric_of_its_runs(task: str, tiny_data: Path, tmp_path: Path) -> None:
    """Also in its validation, and without drawing from a random state that training uses."""
    raw = raw_of(tiny_data, tmp_path, task)
    folders = Folders(data=Path(raw["paths"]["data"]), cache=Path(raw["paths"]["cache"]))
    made = make_task(raw["task"])
    prepared = made.prepare(folders)
    states = str(np.random.get_state()), torch.get_rng_state()
    scores = shortcut_scores(made, prepared)
    assert states[0] == str(np.random.get_state()) and states[1].equal(torch.get_rng_state())
    for subset, examples in prepared.subsets.items():
        parts = [subset, *(f"{subset}/{group}" for group, numbers in examples.groups.items() if len(numbers))]
        wanted = {f"{part}/{metric}" for part in parts for metric in prepared.spec.metrics}
        assert subset == "train" or wanted <= scores.keys()
    assert whole(scores) == scores and 0 < len(shortcut_lines(scores, headlines(scores))) <= len(headlines(scores))


def test_metrics_with_one_shortcut_and_number_share_a_line() -> None:
    names = [f"test/{part}/accuracy" for part in "abcdef"]
    scores = {name: {"copy": 0.0, "first": 0.0} for name in names} | {"test/a/accuracy": {"copy": 0.1, "first": 0.25}}
    assert shortcut_lines(scores, [*names, "test/g/accuracy"]) == [
        "shortcut in test/a/accuracy: 25.0 % (first)",
        "shortcut in test/b/accuracy, test/c/accuracy, test/d/accuracy, test/e/accuracy, ... (5 in all): 0.0 % (copy)",
    ]


def test_the_most_frequent_answer_alone_and_by_key() -> None:
    train = LabelledSequences(Ragged.of([[4], [4], [4], [5], [5]]), np.array([1, 1, 0, 2, 2]), 0)
    test = LabelledSequences(Ragged.of([[4], [5], [6]]), np.array([1, 0, 1]), 0)

    def first(part: LabelledSequences) -> list[int]:
        return part.inputs.values.tolist()

    # equally frequent answers of all examples: the first
    assert most_frequent(train)(test)["predicted"].tolist() == [1, 1, 1]
    assert most_frequent(train, first)(test)["predicted"].tolist() == [1, 2, 1]
    groups = {"a": np.array([0, 2]), "b": np.array([1])}
    train.groups, test.groups = {"a": np.arange(3), "b": np.arange(3, 5)}, groups
    spec = TaskSpec(kind="classification", modality="tokens", n_classes=3)
    scores = subset_scores(general_shortcuts(spec, train), spec, "test", test)
    assert scores["test/a/accuracy"] == {"most frequent answer": 1, "most frequent answer by kind": 1}
    assert scores["test/b/accuracy"] == {"most frequent answer": 0, "most frequent answer by kind": 0}
    some = subset_scores(general_shortcuts(spec, train), spec, "test", test, np.array([1]))
    assert some["test/accuracy"]["most frequent answer"] == 0 and "test/a/accuracy" not in some


def test_a_shortcut_without_a_score_has_no_number_in_the_metric_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    part = LabelledSequences(Ragged.of([[4]] * 2), np.array([0, 1]), 0)
    metrics = {"distance_error": lambda records: float(records["distance"].mean())}
    monkeypatch.setattr(ClassificationKind, "metrics", metrics)
    spec = TaskSpec(kind="classification", modality="tokens", n_classes=2, metrics=("accuracy", "distance_error"))
    assert [*subset_scores(general_shortcuts(spec, part), spec, "test", part)] == ["test/accuracy"]


def test_a_regression_and_f1_have_shortcuts_of_their_own() -> None:
    part = LabelledSequences(Ragged.of([[4]] * 4), np.array([1.0, 2.0, 3.0, 6.0], dtype=np.float32), 0)
    spec = TaskSpec(kind="classification", modality="tokens", n_classes=1, metrics=("pearson", "spearman"))
    assert subset_scores(general_shortcuts(spec, part), spec, "test", part) == {
        "test/pearson": {"mean answer": 0},
        "test/spearman": {"mean answer": 0},
    }
    part.answers = np.array([0, 0, 0, 1])
    spec = TaskSpec(kind="classification", modality="tokens", n_classes=2, metrics=("f1",))
    result = subset_scores(general_shortcuts(spec, part), spec, "test", part)["test/f1"]
    assert result == pytest.approx({"most frequent answer": 0, "positive class": 0.4})


def test_sequences_are_scored_with_and_without_the_end() -> None:
    result = sequence_scores(["ab", "abc", "a", "", "b"], ["ab", "ab", "ab", "a", "a"])
    assert result["sequence_accuracy"].tolist() == [True, False, False, False, False]
    assert result["sequence_accuracy_oracle_end"].tolist() == [True, True, False, False, False]
    assert result["sequence_accuracy_end_ignored"].tolist() == [True, True, False, False, False]


def test_the_most_frequent_sequence_is_found_where_a_test_has_larger_ids() -> None:
    """Ids are stored in the smallest type that holds them, which differs between subsets."""
    train = SequencePairs.of([[2, 1]] * 3, [[5, 6, 1], [7, 1], [5, 6, 1]], 0)
    test = SequencePairs.of([[2, 1]] * 2, [[5, 6, 1], [500, 1]], 0)
    spec = TaskSpec(kind="encoder_decoder", modality="tokens", metrics=(ACCURACY,))
    scores = subset_scores(general_shortcuts(spec, train), spec, "test", test)
    assert scores == {f"test/{ACCURACY}": {"most frequent answer": 0.5}}


def test_outputs_without_end_tokens_are_compared_whole() -> None:
    train, test = (SequencePairs.of([[2, 1]] * 2, rows, 0) for rows in ([[5, 6], [5, 6]], [[5, 6], [5, 7]]))
    spec = TaskSpec(kind="encoder_decoder", modality="tokens", end_token=False, metrics=(ORACLE_END,))
    scores = subset_scores(general_shortcuts(spec, train), spec, "test", test)
    assert scores == {f"test/{ORACLE_END}": {"most frequent answer": 0.5}}


def test_token_frequencies_have_the_perplexity_of_a_unigram_model() -> None:
    parts = {"output_vocabulary": 6, "never_targets": (0, 2), "metrics": ("token_perplexity",)}
    spec = TaskSpec(kind="language_model", modality="tokens", **parts)
    train = TextBlocks(np.array([3, 3, 3, 4, 1], dtype=np.uint16), 2, spec)
    test = TextBlocks(np.array([3, 4, 5], dtype=np.uint16), 2, spec)
    # 1, 3, 4 and 5 are possible: counts 1, 3, 1, 0, each plus one
    share = np.array([4, 2, 1]) / (2 + 4 + 2 + 1)
    result = subset_scores(general_shortcuts(spec, train), spec, "test", test)["test/token_perplexity"]
    assert result == pytest.approx({"token frequencies": float(np.exp(-np.log(share).mean()))})


def test_bits_of_flip_flop_are_the_scored_tokens(tmp_path: Path) -> None:
    """Shortcuts on stored codes score what a network is scored on, by its batches."""
    task = FlipFlop(length=16, train_sequences=500, test_sequences=300)
    prepared = task.prepare(Folders(data=tmp_path, cache=tmp_path))
    scores = shortcut_scores(task, prepared)
    for name in ("test/iid", "test/sparse", "test/dense"):
        batch = prepared.subsets[name].batch(np.arange(len(prepared.subsets[name])))
        right = (batch.inputs.roll(1, 1) == batch.targets) & batch.scored
        assert scores[f"{name}/accuracy"]["bit before"] == pytest.approx(float(right.sum() / batch.scored.sum()))
        every = (right == batch.scored).all(1)
        assert scores[f"{name}/{ACCURACY}"]["bit before"] == pytest.approx(float(every.float().mean()))
    # nearly all instructions write or read: the bit before is the bit
    assert scores["test/dense/accuracy"]["bit before"] > 0.9


def test_the_outermost_operator_says_a_third_of_listops(tmp_path: Path) -> None:
    task = LraListops(min_length=20, max_length=100, train_size=2000, val_size=200, test_size=500)
    result = scores_of(task, Folders(data=tmp_path, cache=tmp_path))["test/accuracy"]
    assert result["most frequent answer by outermost operator"] > result["most frequent answer"] + 0.1


class Doubled(SequenceTask):
    """A task without a line about shortcuts."""

    subsets = ("train", "test")
    inputs = Vocabulary(["say", "a", "b", "c"])
    outputs = Vocabulary(["a", "b", "!"])

    def pairs(self) -> Mapping[str, Any]:
        return {"train": [(["say", "a"], ["a"]), (["say", "b"], ["b", "!"])], "test": [(["say", "b"], ["b"])]}


class WithGuess(Doubled):
    """A shortcut in three lines."""

    def shortcuts(self, prepared: Prepared) -> Mapping[str, Any]:
        last = self.answered(lambda words: words[-1:])
        return super().shortcuts(prepared) | {"last word": last}


def test_a_task_of_a_user_has_the_general_shortcuts_and_its_own(tmp_path: Path) -> None:
    folders = Folders(data=tmp_path, cache=tmp_path)
    # say and c are no outputs
    assert scores_of(Doubled(), folders)[f"test/{ACCURACY}"] == {"most frequent answer": 0, "copying the input": 1}
    result = scores_of(WithGuess(), folders)[f"test/{ACCURACY}"]
    assert result == {"most frequent answer": 0, "copying the input": 1, "last word": 1}
    # SCAN's commands share no word with its actions
    assert [*scores_of(Scan(), folders)[f"test/ood/{ACCURACY}"]] == ["most frequent answer"]


SMALLER: Mapping[type[Task], Mapping[str, Any]] = {
    SortOfClevr: {"train_images": 400, "val_images": 100, "test_images": 100},
    FlipFlop: {"length": 64, "train_sequences": 2000, "test_sequences": 400},
    Mathematics: {"questions_per_difficulty": 20000},
    Pcfg: {},
    Cogs: {},
    Scan: {},
    Mqar: {"train_examples": 5000},
    FormalLanguage: {"train_examples": 20000},
    WordProblem: {"train_examples": 20000},
    Wikitext103Masked: {},
}


@cache
def scores_at(options: str, folders: Folders) -> Scores:
    """The shortcuts of a task, whose options many presets share."""
    return scores_of(make_task(json.loads(options)), folders)


def with_success() -> list[str]:
    return [name for name in presets_with_reports() if text_of(name)["report"].get("success")]


@pytest.mark.xdist_group("shortcuts")
@pytest.mark.parametrize(
    "name", slow_except(with_success(), [name for name in with_success() if "/table4" in name or "/table2" in name])
)
def test_no_shipped_threshold_is_reached_by_a_shortcut(name: str, official: Folders) -> None:
    report = text_of(name)["report"]
    success, column = build(Success, report["success"]), report["columns"][report["success"]["column"]]
    parts = {"metric": column} if isinstance(column, str) else column
    where = [f"{key}={value}" for key, value in parts.get("where", {}).items()]
    options = compose_config([f"experiment={name}", *where])["task"]
    kind = next(kind for kind in SMALLER if options["_target_"].endswith(f".{kind.__name__}"))
    scores = scores_at(json.dumps(options | SMALLER[kind]), official)
    for metric in filter(None, (parts["metric"].replace("test_paper_rule/", "test/"), success.validation)):
        if metric.startswith("train/"):
            continue
        best = {shortcut: scaled(metric, value) for shortcut, value in scores[metric].items()}
        assert best and not any(reaches(success, value) for value in best.values()), f"{metric}: {best}"


@pytest.mark.parametrize("task", ["scan", "mathematics", "pcfg", "cogs"])
def test_every_preset_of_a_sequence_task_says_what_success_is(task: str) -> None:
    presets = [name for name in presets_with_reports() if {"override /task": task} in text_of(name)["defaults"]]
    assert presets and not [name for name in presets if not text_of(name)["report"].get("success")]
