"""Multi-query associative recall: targets of the published code, the law of its sequences, several lengths."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.golden_outputs import golden
from support.tiny_data import trained

from attnlab.config.job_config import compose_config
from attnlab.config.targets import TASK_KEYS, read_signature
from attnlab.data.files.fetch import DataError, Folders
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.tasks import mqar
from attnlab.tasks.base import Prepared
from attnlab.tasks.drawn_tagging import CHUNK, UNSCORED, Table
from attnlab.tasks.kinds.tagging import NONE
from attnlab.tasks.mqar import Mqar, distinct, distinct_with, draw

TINY = {"vocabulary": 40, "length": 16, "pairs": 3, "train_examples": 30, "val_examples": 5, "test_examples": 7}


def prepare(folder: Path, **options: object) -> Prepared:
    return Mqar(**(TINY | options)).prepare(Folders(data=folder / "none", cache=folder / "cache"))


def recalled(inputs: Table, pairs: int) -> Table:
    """The value of the key at every even place behind the pairs; `UNSCORED` where there is none."""
    keys, values = inputs[:, 0 : 2 * pairs : 2], inputs[:, 1 : 2 * pairs : 2]
    targets = np.full_like(inputs, UNSCORED)
    rows, places, pair = np.nonzero(inputs[:, 2 * pairs :: 2, None] == keys[:, None])
    targets[rows, 2 * pairs + 2 * places] = values[rows, pair]
    return targets


@pytest.mark.parametrize(("name", "pairs"), [("small", 4), ("n64", 4), ("n256", 16)])
def test_targets_are_the_published_ones(name: str, pairs: int) -> None:
    samples = {key: value.numpy() for key, value in golden("tasks/mqar").items()}
    inputs, targets = samples[f"{name}.inputs"], samples[f"{name}.targets"]
    assert (np.where(targets == -100, UNSCORED, targets) == recalled(inputs, pairs)).all()
    # a random number may be a key, which is not scored in the published code
    inputs, targets = samples[f"{name}_random.inputs"], samples[f"{name}_random.targets"]
    scored = targets != -100
    assert (recalled(inputs, pairs)[scored] == targets[scored]).all() and (scored.sum(1) == pairs).all()


@pytest.mark.parametrize("random", [False, True])
def test_every_key_comes_again_once_and_asks_for_its_value(random: bool) -> None:
    inputs, targets = draw(np.random.default_rng(0), 500, 64, 32, 4, 0.01, random)
    keys, values, scored = inputs[:, 0:8:2], inputs[:, 1:8:2], targets != UNSCORED
    assert ((keys > 0) & (keys < 32)).all() and ((values >= 32) & (values < 64)).all()
    assert all(len(set(row)) == 4 for row in [*keys.tolist(), *values.tolist()])
    assert (np.sort(inputs[scored].reshape(500, 4)) == np.sort(keys)).all()
    assert (
        not scored[:, :8].any() and not scored[:, 1::2].any() and (recalled(inputs, 4)[scored] == targets[scored]).all()
    )
    filled = inputs[:, 8:][~scored[:, 8:]]
    assert (filled.max() > 40) == random and (random or not filled.any())


def test_gaps_follow_the_power_law() -> None:
    """The first of them, drawn with the published probabilities; the second among the ones that are left."""
    weights = np.arange(1, 7) ** (0.01 - 1.0)
    gaps = distinct_with(np.random.default_rng(0), 60_000, weights, 2)
    shares = weights / weights.sum()
    assert np.abs(np.bincount(gaps[:, 0], minlength=6) / 60_000 - shares).max() < 0.008
    second = shares @ np.where(np.eye(6), 0, shares / (1 - shares[:, None]))
    assert np.abs(np.bincount(gaps[:, 1], minlength=6) / 60_000 - second).max() < 0.008
    assert (gaps[:, 0] != gaps[:, 1]).all()


def test_all_orders_of_different_numbers_are_equally_likely() -> None:
    orders = Counter(map(tuple, distinct(np.random.default_rng(0), 24_000, 4, 3).tolist()))
    assert len(orders) == 24 and all(abs(number - 1000) < 150 for number in orders.values())


def test_one_test_has_several_lengths_and_numbers_of_pairs(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, test_lengths=[32, 64], test_pairs=[2, 8])
    part = prepared.subsets["test"]
    assert Counter(part.lengths.tolist()) == {32: 14, 64: 14}
    assert {name: len(numbers) for name, numbers in part.groups.items()} == {"pairs_2": 14, "pairs_8": 14}
    batch = part.batch(np.arange(len(part)))
    assert (batch.scored.sum(1).numpy()[part.groups["pairs_8"]] == 8).all()
    assert prepared.spec.max_input_length == 64 and prepared.spec.kind == "language_model"
    assert not prepared.subsets["train"].groups and "no test example is also in train" in prepared.about


def test_more_sequences_and_other_tests_change_no_other_sequence(tmp_path: Path) -> None:
    """Apart from the last chunk, which is not full."""
    few = prepare(tmp_path, train_examples=CHUNK)
    many = prepare(tmp_path, train_examples=CHUNK + 5, test_lengths=[16, 20], test_pairs=[3])
    rows = many.subsets["train"].inputs
    assert (few.subsets["train"].inputs.values == rows[:CHUNK].values).all()
    assert (few.subsets["test"].inputs.values == many.subsets["test"].inputs[:7].values).all()
    # every chunk, subset and seed has its own stream
    assert (rows[0] != rows[CHUNK]).any() and (rows[0] != few.subsets["val"].inputs[0]).any()
    assert (prepare(tmp_path, data_seed=1, train_examples=CHUNK).subsets["train"].inputs[0] != rows[0]).any()


def test_values_are_shortcuts_that_read_no_key(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, test_lengths=[32], test_pairs=[2, 8], test_examples=200)
    part = prepared.subsets["test"]
    shortcuts = Mqar(**TINY).shortcuts(prepared)
    right = shortcuts["values in the order of the pairs"](part)["right"]
    for number in range(len(part)):
        ids, targets = part.inputs[number], part.targets[number]
        answers = targets[targets != NONE].astype(int) - 1
        assert right[number] == (answers == ids[1 : 2 * len(answers) : 2]).sum()
    # more than one value of each sequence, as any one of them would get
    assert right.mean() > 1.05


def test_options_that_change_no_test_are_named(
    tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = "task.test_lengths=[16]", "task.test_pairs=[3]"
    folder, _ = trained(tiny_data, tmp_path, "mqar", "model=linear", *tests)
    same, other = "note: test has the same examples as without these options", "note: the task is not as in training"
    for words, notes in (
        (["task.pairs=2"], (True, True)),
        (["task.test_pairs=[2]"], (False, True)),
        ([], (False, False)),
        (["trainer.data_on_device=true"], (False, False)),
    ):
        assert evaluate_main([f"run={folder}", *words]) == 0
        said = capsys.readouterr().err
        assert (same in said, other in said) == notes


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"length": 17}, "task.length: 17 is odd; expected even numbers, such as 18"),
        (
            {"pairs": 5},
            "task.pairs: 5 pairs and their queries take 20 places, and task.length has 16; at most 4 pairs",
        ),
        ({"vocabulary": 6}, "task.pairs: 3 pairs need as many keys, and task.vocabulary=6 has 2; expected at least 8"),
        ({"test_lengths": [8], "test_pairs": [3]}, "task.test_pairs: 3 pairs .* task.test_lengths has 8; at most 2"),
        (
            {"test_lengths": [32, 64], "test_pairs": [2, 9]},
            "task.test_pairs: 9 pairs .* task.test_lengths has 32; at most 8",
        ),
        ({"test_lengths": [33]}, "task.test_lengths: 33 is odd"),
        ({"test_pairs": []}, "a list is empty; expected at least one number, or null"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, options: dict, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        prepare(tmp_path, **options)


def test_the_docstring_shows_a_real_example(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, vocabulary=12, pairs=2, train_examples=CHUNK)
    shown = re.findall(r"^    (?:input|target) .*", mqar.__doc__, re.MULTILINE)
    assert [line.strip() for line in shown] == Mqar(vocabulary=12).example(prepared, "train", 0).splitlines()


def test_the_yaml_has_the_defaults_of_the_class() -> None:
    task = compose_config(["task=mqar"])["task"]
    arguments = read_signature(task["_target_"]).arguments
    assert {key: value for key, value in task.items() if key not in TASK_KEYS} == {
        name: argument.default for name, argument in arguments.items()
    }
