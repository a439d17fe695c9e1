"""Formal languages: outputs of the published code, the laws of inputs, what is scored, lengths, outputs in Python."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support.golden_outputs import golden

from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks.base import Prepared
from attnlab.tasks.formal_language import task as formal_language
from attnlab.tasks.formal_language.expressions import MODULUS, draw_expressions
from attnlab.tasks.formal_language.languages import BRACKETS, END, LANGUAGES
from attnlab.tasks.formal_language.task import EMPTY, FormalLanguage

TINY = {"length": 6, "test_length": 9, "train_examples": 20, "val_examples": 2, "test_examples": 3}
SAMPLES = {key: value.numpy() for key, value in golden("tasks/chomsky").items()}


def prepare(folder: Path, dataset: str, **options: int) -> Prepared:
    return FormalLanguage(dataset, **(TINY | options)).prepare(Folders(data=folder / "none", cache=folder / "cache"))


def drawn(name: str, number: int, length: int) -> tuple[list[str], np.ndarray]:
    """Inputs as texts, and their outputs [number, outputs]."""
    language = LANGUAGES[name]
    inputs = language.draw(np.random.default_rng(length), number, length)
    texts = ["".join(language.inputs[symbol] for symbol in row) for row in inputs.tolist()]
    return texts, language.answer(inputs).reshape(number, -1)


@pytest.mark.parametrize("name", LANGUAGES)
def test_outputs_are_the_published_ones(name: str) -> None:
    language = LANGUAGES[name]
    assert SAMPLES[f"{name}.sizes"].tolist() == [len(language.inputs), len(language.outputs), language.size(12)]
    for length in (5, 12, 41):
        inputs, targets, scored = (SAMPLES[f"{name}.{length}.{part}"] for part in ("inputs", "targets", "scored"))
        outputs = language.answer(inputs.astype(np.int32))
        assert (outputs == targets).all()
        if language.ends:
            assert (scored == (np.arange(outputs.shape[1]) <= (outputs == END).argmax(1)[:, None])).all()
        else:
            assert scored.all()


@pytest.mark.parametrize("name", LANGUAGES)
def test_inputs_of_every_length_have_as_many_outputs_as_declared(name: str) -> None:
    language = LANGUAGES[name]
    for length in (1, 2, 3, 4, 5, 6, 7, 30):
        inputs = language.draw(np.random.default_rng(length), 50, length)
        outputs = language.answer(inputs).reshape(50, -1)
        assert inputs.shape == (50, length - (name == "modular_arithmetic" and length % 2 == 0 and length > 0))
        assert outputs.shape[1] == language.size(inputs.shape[1])
        assert 0 <= inputs.min() <= inputs.max() < len(language.inputs)
        assert 0 <= outputs.min() <= outputs.max() < len(language.outputs)
        assert not language.ends or ((outputs == END).sum(1) == 1).all()


def test_values_of_expressions_are_those_of_python() -> None:
    for length in (1, 2, 3, 4, 5, 6, 9, 20, 33):
        for text, (value,) in zip(*drawn("modular_arithmetic_brackets", 40, length), strict=True):
            assert len(text) == length and eval(text) % MODULUS == value, text
        for text, (value,) in zip(*drawn("modular_arithmetic", 40, length), strict=True):
            assert eval(text) % MODULUS == value, text
        for text, (value,) in zip(*drawn("solve_equation", 40, length), strict=True):
            left, _, right = text.partition("=")
            assert length < 3 or eval(left, {"x": int(value)}) % MODULUS == int(right), text


def test_all_expressions_of_a_length_are_drawn_as_the_grammar_says() -> None:
    """Of 6 symbols: (A+B) with A of length 1 or 2 and B of the rest, all digits and signs equally likely."""
    table = draw_expressions(np.random.default_rng(0), 30_000, 6, BRACKETS)
    symbols = "01234+-*()x"
    forms = {"".join("d" if symbols[s].isdigit() else symbols[s] for s in row) for row in table.tolist()}
    assert forms == {f"({a}{op}{b})" for (a, b), op in product((("d", "-d"), ("-d", "d")), "+-*")}
    assert abs((table[:, 1] < MODULUS).mean() - 0.5) < 0.01
    assert np.abs(np.bincount(table[:, 2][table[:, 1] < MODULUS], minlength=8)[5:] / 15_000 - 1 / 3).max() < 0.02


def test_numbers_in_pairs_are_above_0_and_as_long_as_drawn() -> None:
    texts, _ = drawn("binary_addition", 3000, 5)
    sides = [text.split("+") for text in texts]
    assert all("1" in first and "1" in second for first, second in sides)
    shares = np.bincount([len(first) for first, _ in sides], minlength=4)[1:] / 3000
    assert np.abs(shares - 1 / 3).max() < 0.03
    numbers = {"".join(bits) for bits in product("01", repeat=3)} - {"000"}
    assert {second for _, second in sides if len(second) == 3} == numbers


def test_what_follows_the_end_counts_in_training_alone(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, "stack_manipulation")
    train, test = prepared.subsets["train"], prepared.subsets["test/ood"]
    batch = test.batch(np.arange(len(test)))
    for row in range(len(batch)):
        outputs = batch.targets[row][batch.scored[row]].tolist()
        assert outputs.count(END) == 1 and outputs[-1] == END
    assert train.batch(np.arange(len(train))).scored.sum(1).tolist() == (train.lengths + 1).tolist()


def test_lengths_are_those_of_the_inputs(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, "duplicate_string", test_step=2)
    lengths = {name: np.unique(part.lengths, return_counts=True) for name, part in prepared.subsets.items()}
    assert lengths["train"][0].tolist() == [1, 2, 3, 4, 5, 6]
    assert sorted(lengths["train"][1].tolist()) == [
        3,
        3,
        3,
        3,
        4,
        4,
    ]
    assert lengths["test/iid"][1].tolist() == [3] * 6 and lengths["test/ood"][0].tolist() == [7, 9]
    assert prepared.spec.max_input_length == 27 and prepared.spec.metrics[1] == "mean_accuracy_over_lengths"
    assert re.search(r"also in train: \d+ of 12 in val", prepared.about)


@pytest.mark.parametrize(
    ("dataset", "text", "tags", "answer"),
    [
        ("reverse_string", "0 1 1", [0, 0, 0, 1, 1, 0], "1 1 0"),
        ("parity_check", "0 1 1", [1, 1, 1, 0], "0"),
        ("binary_addition", "1 + 0 1", [0, 0, 0, 0, 1, 1, 2, 0, 0], "1 1"),
        ("compute_sqrt", "1 0 1", [1, 1, 1, 1, 0], "1 0"),
    ],
)
def test_inputs_and_outputs_in_python(tmp_path: Path, dataset: str, text: str, tags: list[int], answer: str) -> None:
    task, prepared = FormalLanguage(dataset, **TINY), prepare(tmp_path, dataset)
    batch = task.encode_inputs(prepared, [text])
    assert batch.lengths.tolist() == [len(tags)]
    assert task.decode_outputs(prepared, [tags]) == [answer]
    with pytest.raises(DataError, match="stands for an output"):
        task.encode_inputs(prepared, [f"{text} {EMPTY}"])


def test_odd_sums_are_longer_than_in_training(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, "modular_arithmetic", length=7, test_length=12)
    assert set(prepared.subsets["test/ood"].lengths.tolist()) == {9, 11}


def test_a_test_without_longer_inputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"task.test_length=6: .* expected 7 or more"):
        prepare(tmp_path, "even_pairs", test_length=6)


def test_the_docstring_shows_a_real_example(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, "bucket_sort", length=9, test_length=10)
    shown = re.findall(r"^    (?:input|output) .*", formal_language.__doc__, re.MULTILINE)
    example = FormalLanguage("bucket_sort").example(prepared, "test/ood", 0)
    assert [line.strip() for line in shown] == example.splitlines()


def test_the_tag_at_its_place_is_a_shortcut_where_places_tell_much(tmp_path: Path) -> None:
    """The digit of a sorted sequence at half of its length is about half of the largest, whatever the input."""
    data = prepare(tmp_path, "bucket_sort", length=20, test_length=97, train_examples=2000, test_examples=20)
    scores = {
        name: shortcut(data.subsets["test/ood"])["right"].sum() / data.subsets["test/ood"].lengths.sum()
        for name, shortcut in FormalLanguage("bucket_sort").shortcuts(data).items()
    }
    assert scores["most frequent tag at its place"] > 0.75 and scores["most frequent tag"] < 0.25
