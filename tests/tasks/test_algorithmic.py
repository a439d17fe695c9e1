"""Copying, reversal, addition and sorting: right outputs, sizes of every subset, the same examples at every call."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks import algorithmic
from attnlab.tasks.algorithmic import SMALLEST, Algorithmic, draw_numbers

TINY = {"train_examples": 90, "val_examples": 10, "test_examples": 30}
NOWHERE = Folders(data=Path("none"), cache=Path("none"))


def size_of(dataset: str, source: list[str]) -> int:
    """The size of an input: symbols, numbers, or digits of the longer number."""
    if dataset == "addition":
        return max(map(len, "".join(source).split("+")))
    return "".join(source).count(",") + 1 if dataset == "sort_numbers" else len(source)


@pytest.mark.parametrize("dataset", SMALLEST)
def test_outputs_are_right_and_sizes_are_even(dataset: str) -> None:
    task = Algorithmic(dataset, size=6, test_size=9, **TINY)
    pairs = task.pairs()
    assert {name: len(rows) for name, rows in pairs.items()} == {"train": 90, "val": 10, "test/iid": 30, "test/ood": 30}
    for name, rows in pairs.items():
        for source, target in rows:
            text, out = "".join(source), "".join(target)
            match dataset:
                case "copy":
                    assert target == source
                case "reverse":
                    assert target == source[::-1]
                case "sort":
                    assert list(target) == sorted(source, key=int)
                case "addition":
                    assert int(out) == sum(map(int, text.split("+"))) and str(int(out)) == out
                case "sort_numbers":
                    numbers = list(map(int, text.split(",")))
                    assert list(map(int, out.split(","))) == sorted(numbers)
                    assert 10 <= min(numbers) <= max(numbers) < 10_000
        sizes = Counter(size_of(dataset, source) for source, _ in rows)
        expected = range(7, 10) if name == "test/ood" else range(SMALLEST[dataset], 7)
        assert set(sizes) <= set(expected) and (dataset == "addition" or max(sizes.values()) - min(sizes.values()) <= 1)


def test_examples_do_not_depend_on_their_number_or_on_other_subsets() -> None:
    few, many = (Algorithmic("copy", size=5, train_examples=number).pairs() for number in (10, 20))
    assert few["test/iid"] == many["test/iid"] and few["train"][:5] == many["train"][:5]
    assert (
        few["train"][:5] != few["val"][:5] and few["train"] != Algorithmic("copy", size=5, data_seed=1).pairs()["train"]
    )


def test_numbers_have_no_leading_zeros() -> None:
    drawn = draw_numbers(np.random.default_rng(0), 5000, 2)
    assert set(drawn) == {str(number) for number in range(10, 100)}
    assert set(draw_numbers(np.random.default_rng(0), 500, 1)) == set("0123456789")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"size": 3}, "task.size=3: copy begins at 4; expected at least 4"),
        ({"size": 9, "test_size": 9}, "task.test_size=9: .* expected more than 9"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options: dict, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        Algorithmic("copy", **options).prepare(NOWHERE)


def test_shared_examples_are_said_and_the_docstring_shows_a_real_one() -> None:
    task = Algorithmic("addition", **(TINY | {"size": 2, "train_examples": 900}))
    prepared = task.prepare(NOWHERE)
    assert re.search(r"with data_seed 0; .*in val .*0 of 30 in test/ood", prepared.about)
    assert prepared.decode_limits["test/ood"] <= 6
    shown = re.findall(r"^    (?:input|output) .*", algorithmic.__doc__, re.MULTILINE)
    whole = Algorithmic("addition", train_examples=100, val_examples=100).prepare(NOWHERE)
    assert [line.strip() for line in shown] == task.example(whole, "test/ood", 0).splitlines()
