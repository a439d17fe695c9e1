"""`task.validation_share`, at random or by length: which examples become `val`, and what selects by them."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.small_runs import SMALL_SCAN, config_of, run_job

from attnlab.config.job_config import check_config
from attnlab.config.run_identity import run_folder
from attnlab.config.validation.data_rules import declared_subsets
from attnlab.data.examples import SequencePairs
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.validation_slice import longest_aside, repeated, set_aside
from attnlab.run.read_run_files import read_rows
from attnlab.tasks.mathematics.task import Mathematics
from attnlab.tasks.scan.splits import few_examples
from attnlab.tasks.scan.task import Scan
from attnlab.tasks.word_tasks import SequenceTask

PAIRS = SequencePairs.of([[2, 5 + i % 8, 1] for i in range(10)], [[5 + i, 1] for i in range(8)] + [[5, 1], [6, 1]], 0)
"""ten pairs, of which the first two occur twice"""


def small_mathematics(**options: float) -> Mathematics:
    return Mathematics(questions_per_difficulty=50, test_questions=5, **options)


@pytest.mark.parametrize("make", [Scan, small_mathematics])
def test_val_is_a_part_of_train_and_the_tests_stay(make: type[SequenceTask], tmp_path: Path) -> None:
    def identities(**options: float) -> dict[str, list[bytes]]:
        prepared = make(**options).prepare(Folders(data=tmp_path, cache=tmp_path))
        assert ("val" in prepared.decode_limits) == ("val" in prepared.subsets) == ("set aside" in prepared.about)
        return {name: part.identities() for name, part in prepared.subsets.items()}

    whole, parts = identities(), identities(validation_share=0.1)
    val = set(parts["val"])
    assert list(parts) == ["train", "val", *list(whole)[1:]]
    # both in their former order
    assert [item for item in whole["train"] if item not in val] == parts["train"]
    assert [item for item in whole["train"] if item in val] == parts["val"]
    assert len(val) == round(0.1 * len(whole["train"]))
    assert {name: parts[name] for name in list(whole)[1:]} == {name: whole[name] for name in list(whole)[1:]}


def test_repeated_examples_stay_in_training() -> None:
    stay = repeated(PAIRS)
    assert np.flatnonzero(stay).tolist() == [0, 1, 8, 9]
    train, val = set_aside(PAIRS, 0.6, 0, stay)
    assert train.targets[2].tolist() == PAIRS.targets[8].tolist() and len(train) == 4
    assert sorted(val.targets.values.tolist()) == sorted(PAIRS.targets[2:8].values.tolist())
    assert val.lengths.tolist() == [1] * 6


def test_only_the_data_seed_draws() -> None:
    np.random.seed(3)
    drawn = [set_aside(PAIRS, 0.3, data_seed)[1].targets.values.tolist() for data_seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(("share", "said"), [(0.01, "sets 0 of 10 .* expected at least 0.1"), (0.9, "6 may be")])
def test_a_share_that_cannot_be_drawn_is_named(share: float, said: str) -> None:
    with pytest.raises(DataError, match=f"task.validation_share={share}: {said}" if share < 0.5 else said):
        set_aside(PAIRS, share, 0, repeated(PAIRS))


def test_the_few_examples_of_a_split_stay_in_training() -> None:
    added = {"jump twice and walk"}
    assert few_examples("addprim_complex_jump_num1_rep1", {"jump", "walk", *added}) == added
    assert not few_examples("simple_p8", added) and not few_examples("simple", added)


def test_the_declared_subsets_have_val() -> None:
    task = {"_target_": "attnlab.tasks.scan.task.Scan", "split": "simple", "validation_share": 0.2}
    assert declared_subsets(task) == ("train", "val", "test")
    assert declared_subsets(task | {"validation_share": 0}) == ("train", "test")


def test_a_run_that_tests_its_last_step_keeps_its_last_validation(tmp_path: Path) -> None:
    words = ("task.validation_share=0.005", "train.validate_every=1", "train.max_steps=2", "train.eval_batches=1")
    raw = config_of(tmp_path, *SMALL_SCAN, *words, "train.eval_batch_size=64")
    assert run_job(raw, quiet=True) == 0
    selection = json.loads((run_folder(raw) / "result.json").read_text())["selection"]
    validated = [row for row in read_rows(run_folder(raw) / "metrics.csv")[0] if row[1] == "val/sequence_accuracy"]
    assert [step for step, *_ in validated] == [1, 2]
    assert selection == {"rule": "last_step", "step": 2, "val/sequence_accuracy": validated[-1][2]}


def test_the_longest_examples_validate_and_the_tests_stay(tmp_path: Path) -> None:
    folders = Folders(data=tmp_path, cache=tmp_path)
    whole = Scan().prepare(folders).subsets
    prepared = Scan(validation_share=0.1, validation_by="length").prepare(folders)
    train, val = prepared.subsets["train"], prepared.subsets["val"]
    # training to 22 actions, validation on 23 to 26 (no command means 23), tests above 26
    assert (train.lengths.max(), val.lengths.min(), val.lengths.max()) == (22, 24, 26)
    assert whole["test/ood"].lengths.min() == 27
    former = whole["train"].identities()
    assert train.identities() == [
        item for item, long in zip(former, whole["train"].lengths > 22, strict=True) if not long
    ]
    assert sorted(train.identities() + val.identities()) == sorted(former)
    for name in ("test/iid", "test/ood"):
        assert prepared.subsets[name].identities() == whole[name].identities()
    assert "1,151 of 16,458 training examples, all with more than 22 output tokens" in prepared.about
    seeded = Scan(validation_share=0.1, validation_by="length", data_seed=0).prepare(folders)
    assert seeded.data_hash() == prepared.data_hash()


@pytest.mark.parametrize("module", ["arithmetic__add_or_sub", "numbers__place_value"])
def test_questions_with_most_digits_validate(module: str, tmp_path: Path) -> None:
    task = Mathematics(
        module, questions_per_difficulty=3000, test_questions=300, validation_share=0.15, validation_by="length"
    )
    subsets = task.prepare(Folders(data=tmp_path, cache=tmp_path)).subsets
    train, val, ood = (task.sizes(subsets[name]) for name in ("train", "val", "test/ood"))
    assert train.max() < val.min() and np.median(ood) > np.median(val)
    assert 0 < len(val) <= 0.15 * (len(train) + len(val))


def test_other_modules_have_no_size() -> None:
    with pytest.raises(DataError, match="digits are the size of arithmetic__add_or_sub, numbers__place_value alone"):
        Mathematics("algebra__linear_1d", validation_share=0.1, validation_by="length").sizes(PAIRS)


sizes_of_pairs = np.array([1, 1, 2, 2, 2, 2, 3, 3, 3, 4])


@pytest.mark.parametrize(("share", "cut"), [(0.1, 3), (0.39, 3), (0.4, 2), (0.8, 1), (0.99, 1)])
def test_whole_sizes_are_set_aside_as_far_as_the_share_holds_them(share: float, cut: int) -> None:
    train, val, result = longest_aside(PAIRS, share, sizes_of_pairs)
    assert result == cut
    assert [len(train), len(val)] == [np.sum(sizes_of_pairs <= cut), np.sum(sizes_of_pairs > cut)]


def test_examples_that_stay_are_not_among_the_longest() -> None:
    train, val, cut = longest_aside(PAIRS, 0.4, sizes_of_pairs, np.arange(10) == 9)
    assert (cut, len(train), len(val)) == (2, 7, 3)
    assert train.targets[6].tolist() == PAIRS.targets[9].tolist()


def test_a_share_below_the_largest_size_is_named() -> None:
    with pytest.raises(DataError, match=r"largest size, 4, are 10.0% of all; expected at least 0.1$"):
        longest_aside(PAIRS, 0.09, sizes_of_pairs)
    with pytest.raises(DataError, match="all have one size"):
        longest_aside(PAIRS, 0.5, np.ones(10, dtype=int))


def test_a_length_without_a_share_is_refused_and_the_name_of_a_run_stays(tmp_path: Path) -> None:
    assert run_folder(config_of(tmp_path, "task=scan")).parent.name == "default"
    long = config_of(tmp_path, "task=scan", "task.validation_by=length")
    assert check_config(long) == [
        "task.validation_by=length with task.validation_share=0: read only with task.validation_share above 0; leave "
        "it at random"
    ]
    words = ("task.validation_share=0.1", "task.validation_by=length", "train.validate_every=5")
    shown = check_config(config_of(tmp_path, "task=pcfg", *words, "task.data_seed=1"))
    assert shown == [
        "task.data_seed=1 with task.split=productivity: read only with task.validation_share above 0 and "
        "task.validation_by=random; leave it at 0"
    ]


def test_a_run_is_validated_on_longer_outputs(tmp_path: Path) -> None:
    words = ("task.validation_share=0.1", "task.validation_by=length", "train.validate_every=1", "train.max_steps=1")
    raw = config_of(tmp_path, *SMALL_SCAN, *words, "task.length_cutoff=26", "train.eval_batches=1")
    assert run_job(raw, quiet=True) == 0
    names = {name for _, name, _ in read_rows(run_folder(raw) / "metrics.csv")[0]}
    validated = {name.split("/")[1] for name in names if name.startswith("val/length_")}
    assert validated == {"length_24", "length_25", "length_26"}
