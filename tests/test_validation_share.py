"""`task.validation_share`: which examples become `val`, and what selects by them."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.small_runs import SMALL_SCAN, config_of, run_job

from attnlab.config.data_rules import declared_subsets
from attnlab.config.run_identity import run_folder
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.sequence_pairs import SequencePairs
from attnlab.data.validation_slice import repeated, set_aside
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
    assert [one for one in whole["train"] if one not in val] == parts["train"]
    assert [one for one in whole["train"] if one in val] == parts["val"]
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
