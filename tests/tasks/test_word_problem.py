"""Word problems: the groups, the running products, lengths of the tests."""

import re
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks import word_problem
from attnlab.tasks.base import Prepared
from attnlab.tasks.word_problem import WordProblem, multiplication_table, running_products

TINY = {"length": 5, "train_examples": 20, "val_examples": 2, "test_examples": 3}


def prepare(folder: Path, **options: object) -> Prepared:
    return WordProblem(**(TINY | options)).prepare(Folders(data=folder / "none", cache=folder / "cache"))


@pytest.mark.parametrize(("group", "size"), [("Z60", 60), ("A5", 60), ("S5", 120)])
def test_the_tables_are_groups(group: str, size: int) -> None:
    names, products = multiplication_table(group)
    elements = np.arange(size)
    assert len(set(names)) == size and products.shape == (size, size)
    assert (products[0] == elements).all() and (products[:, 0] == elements).all()
    assert (np.sort(products, axis=1) == elements).all() and (elements == np.sort(products, axis=0).T).all()
    a, b, c = np.random.default_rng(0).integers(0, size, (3, 5000))
    assert (products[products[a, b], c] == products[a, products[b, c]]).all()
    assert (products == products.T).all() == (group == "Z60")


def test_products_are_compositions_and_even_permutations_are_closed() -> None:
    names, products = multiplication_table("S5")
    first, second = names.index("10234"), names.index("12340")
    assert names[products[first, second]] == "02341"
    even, _ = multiplication_table("A5")
    signs = {name: np.linalg.det(np.eye(5)[list(map(int, name))]) for name in names}
    assert {name for name, sign in signs.items() if sign > 0} == set(even)


def test_targets_are_products_up_to_each_position(tmp_path: Path) -> None:
    _, products = multiplication_table("S5")
    inputs = np.random.default_rng(0).integers(0, 120, (50, 9), dtype=np.int32)
    results = running_products(inputs, products)
    for row, result in zip(inputs.tolist(), results.tolist(), strict=True):
        assert result == [reduce(lambda a, b: products[a, b], row[: end + 1]) for end in range(9)]
    part = prepare(tmp_path, test_lengths=[8, 12]).subsets["test/ood"]
    assert part.lengths.tolist() == [8] * 3 + [12] * 3
    batch = part.batch(np.arange(6))
    assert batch.scored.sum(1).tolist() == part.lengths.tolist()


def test_the_product_of_the_last_two_elements_is_a_shortcut(tmp_path: Path) -> None:
    task, prepared = WordProblem(), prepare(tmp_path, elements="transpositions", length=9, train_examples=200)
    part = prepared.subsets["test/ood"]
    right = task.shortcuts(prepared)["product of the last two elements"](part)["right"]
    for number, answered in enumerate(right):
        elements, targets = part.inputs[number].astype(int) - 2, part.targets[number].astype(int) - 1
        pairs = [
            reduce(lambda a, b: task.products[a, b], elements[max(0, end - 1) : end + 1]) for end in range(len(targets))
        ]
        assert answered == (pairs == targets).sum() >= 2


def test_transpositions_of_s5_alone(tmp_path: Path) -> None:
    task, prepared = WordProblem(), prepare(tmp_path, elements="transpositions", train_examples=200, length=40)
    part = prepared.subsets["train"]
    inputs = {task.inputs.words[number] for number in np.unique(part.inputs.values)}
    assert len(inputs) == 10 and all(sum(name[i] == str(i) for i in range(5)) == 3 for name in inputs)
    assert len(np.unique(part.targets.values)) == 120
    with pytest.raises(DataError, match=r"task\.elements=transpositions: A5 has none; task\.group=S5 has ten"):
        prepare(tmp_path, elements="transpositions", group="A5")


def test_longer_sequences_are_longer(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"task\.test_lengths=\[9,5\]: expected more than task\.length=5 each, or null"):
        prepare(tmp_path, test_lengths=[9, 5])
    with pytest.raises(DataError, match=r"task\.test_lengths=\[\]: expected more than"):
        prepare(tmp_path, test_lengths=[])


def test_the_docstring_shows_a_real_example(tmp_path: Path) -> None:
    shown = re.findall(r"^    (?:input|target) .*", word_problem.__doc__, re.MULTILINE)
    example = WordProblem().example(prepare(tmp_path), "train", 0)
    assert [line.strip() for line in shown] == example.splitlines()
