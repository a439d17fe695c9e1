"""Flip-flop language modelling: the law of its sequences, scored positions, streams, other lengths."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attnlab.config.job_config import check_config, compose_config
from attnlab.config.targets import TASK_KEYS, read_signature
from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks.base import Prepared
from attnlab.tasks.flip_flop import task as flip_flop
from attnlab.tasks.flip_flop.sequences import CHUNK, STREAMS, WORDS, FlipFlopSequences, generate
from attnlab.tasks.flip_flop.task import FlipFlop

TINY = {"length": 16, "train_sequences": 30, "test_sequences": 8}


def drawn(subset: str, sequences: int, length: int, probability: float, data_seed: int = 0) -> FlipFlopSequences:
    return FlipFlopSequences(np.concatenate(list(generate(subset, sequences, length, probability, data_seed))))


def texts(examples: FlipFlopSequences) -> list[str]:
    """Every sequence as in the published data: w0i1r0."""
    tokens = examples.tokens(np.arange(len(examples)))
    return ["".join(WORDS[token] for token in row) for row in tokens.tolist()]


def prepare(folder: Path, **options: float) -> Prepared:
    return FlipFlop(**(TINY | options)).prepare(Folders(data=folder / "none", cache=folder / "cache"))


@pytest.fixture(scope="module", params=[0.8, 0.98, 0.1])
def many(request: pytest.FixtureRequest) -> tuple[float, np.ndarray, np.ndarray]:
    """An ignore-probability, and the instructions ("w") and bits (0, 1) [n, 256] of sequences drawn with it."""
    letters = np.array([list(text) for text in texts(drawn("train", 2000, 512, request.param))])
    return request.param, letters[:, ::2], letters[:, 1::2].astype(int)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.8, 0.98, 1.0])
@pytest.mark.parametrize("length", [4, 6, 50])
def test_every_read_gives_the_bit_written_last(probability: float, length: int) -> None:
    for text in texts(drawn("test/iid", 100, length, probability)):
        assert re.fullmatch(r"w[01]([wri][01])*r[01]", text) and len(text) == length
        memory = None
        for instruction, bit in zip(text[::2], text[1::2], strict=True):
            memory = bit if instruction == "w" else memory
            assert instruction != "r" or bit == memory


def test_instructions_are_drawn_with_their_probabilities(many: tuple[float, np.ndarray, np.ndarray]) -> None:
    ignored, instructions, _ = many
    inner = instructions[:, 1:-1]
    for letter, expected in {"i": ignored, "w": (1 - ignored) / 2, "r": (1 - ignored) / 2}.items():
        spread = np.sqrt(expected * (1 - expected) / inner.size)
        assert abs((inner == letter).mean() - expected) < 4 * spread
        # with the same share at every position
        by_place = (inner == letter).mean(axis=0)
        assert abs(by_place - expected).max() < 6 * np.sqrt(expected * (1 - expected) / len(inner)) + 1e-9


def test_instructions_are_independent_of_the_one_before(many: tuple[float, np.ndarray, np.ndarray]) -> None:
    _, instructions, _ = many
    before, after = instructions[:, 1:-2].ravel(), instructions[:, 2:-1].ravel()
    assert chi_square(before, after) < 25, "4 degrees of freedom"


def test_bits_are_fair_and_independent(many: tuple[float, np.ndarray, np.ndarray]) -> None:
    _, instructions, bits = many
    for letter in "wi":
        chosen = bits[instructions == letter]
        assert abs(chosen.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(chosen))
    drawn_bits = np.where(instructions == "r", -1, bits)
    before, after = drawn_bits[:, :-1].ravel(), drawn_bits[:, 1:].ravel()
    both = (before >= 0) & (after >= 0)
    assert chi_square(before[both], after[both]) < 20, "1 degree of freedom"
    # what is ignored says nothing of what is read next
    reads = (instructions[:, 1:] == "r") & (instructions[:, :-1] == "i")
    assert chi_square(bits[:, :-1][reads], bits[:, 1:][reads]) < 20, "1 degree of freedom"


def chi_square(a: np.ndarray, b: np.ndarray) -> float:
    """Of independence of two lists of symbols."""
    table = np.array([[((a == x) & (b == y)).sum() for y in np.unique(b)] for x in np.unique(a)], dtype=float)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return float(((table - expected) ** 2 / expected).sum())


def test_the_docstring_shows_a_real_example() -> None:
    shown = re.search(r"( +)sequence .*\n +read .*", flip_flop.__doc__)
    number, length = map(int, re.search(r"number (\d+) of\s+`train` at length (\d+)", flip_flop.__doc__).groups())
    prepared = SimpleNamespace(subsets={"train": drawn("train", number + 1, length, 0.8)})
    expected = FlipFlop().example(prepared, "train", number)
    assert [line.strip() for line in shown[0].splitlines()] == expected.splitlines()


def test_what_is_read_and_scored() -> None:
    # w1 i0 r1 w0 r0 and r0 follows from what was written, whatever is ignored
    examples = FlipFlopSequences(np.array([[1, 4, 3, 0, 2], [0, 5, 5, 2, 2]], dtype=np.uint8))
    assert texts(examples) == ["w1i0r1w0r0", "w0i1i1r0r0"]
    batch = examples.batch(np.array([1, 0, 1]))
    w, r, i, zero, item = (WORDS.index(word) for word in "wri01")
    assert batch.index.tolist() == [1, 0, 1]
    assert batch.inputs[1].tolist() == [w, item, i, zero, r, item, w, zero, r]
    assert batch.targets[1].tolist() == [item, i, zero, r, item, w, zero, r, zero]
    assert batch.scored[0].tolist() == [False] * 6 + [True, False, True]
    assert batch.scored[1].tolist() == [False] * 4 + [True] + [False] * 3 + [True]
    assert batch.targets[batch.scored].tolist() == [zero, zero, item, zero, zero, zero]
    assert batch.lengths.tolist() == [9, 9, 9] and batch.mask.all()
    assert batch.words.tolist() == [0, 0, 0]
    assert examples.lengths.tolist() == [10, 10]


def test_the_prepared_task_has_its_subsets_and_spec(tmp_path: Path) -> None:
    prepared = prepare(tmp_path)
    sizes = {name: len(subset) for name, subset in prepared.subsets.items()}
    assert sizes == {"train": 30, "test/iid": 8, "test/sparse": 80, "test/dense": 2}
    spec = prepared.spec
    assert (spec.input_vocabulary, spec.output_vocabulary, spec.pad_id, spec.end_id) == (7, 7, 0, 1)
    assert (spec.max_input_length, spec.max_output_length) == (15, 15)
    assert spec.metrics == ("accuracy", "sequence_accuracy")
    assert all(WORDS[token] in "wri01" for token in np.unique(prepared.subsets["train"].tokens(np.arange(30))))
    assert len(prepared.train_groups) == 1 and prepared.decode_limits == {}
    assert "generated by attnlab with data_seed 0, not the published ones" in prepared.about
    codes = prepared.subsets["train"].codes
    assert isinstance(codes, np.memmap) and (codes.dtype, codes.shape) == (np.uint8, (30, 8))
    assert len(prepare(tmp_path, test_sequences=1).subsets["test/dense"]) == 1


def test_longer_tests_add_subsets_and_change_no_other(tmp_path: Path) -> None:
    plain, longer = prepare(tmp_path), prepare(tmp_path, longer_tests=True)
    added = {"test/twice": (8, 32), "test/four_times": (8, 64)}
    assert {name: longer.subsets[name].codes.shape for name in added} == {k: (n, m // 2) for k, (n, m) in added.items()}
    assert tuple(longer.subsets) == FlipFlop.subsets_with["longer_tests"][True]
    for name, subset in plain.subsets.items():
        assert np.array_equal(subset.codes, longer.subsets[name].codes)
    assert longer.spec.max_input_length == 63, "positions and cosFormer's M reach the longest test"
    assert "test/twice" not in longer.about, "no sequence of twice the length is in training"


def test_each_subset_has_its_probability(tmp_path: Path) -> None:
    subsets = prepare(tmp_path, length=256, test_sequences=40).subsets
    ignored = {name: np.mean([text.count("i") / 128 for text in texts(subset)]) for name, subset in subsets.items()}
    assert ignored == pytest.approx({"train": 0.8, "test/iid": 0.8, "test/sparse": 0.97, "test/dense": 0.1}, abs=0.04)
    other = prepare(tmp_path, length=256, ignore_probability=0.5, sparse_probability=0.0).subsets
    assert np.mean([text.count("i") / 128 for text in texts(other["test/iid"])]) == pytest.approx(0.5, abs=0.05)
    assert not any("i" in text for text in texts(other["test/sparse"]))


def test_data_follows_from_the_seed_alone(tmp_path: Path) -> None:
    assert prepare(tmp_path / "a").data_hash() == prepare(tmp_path / "b").data_hash()
    assert prepare(tmp_path / "a").data_hash() != prepare(tmp_path / "a", data_seed=1).data_hash()


def test_more_sequences_leave_the_first_ones_as_they_are(tmp_path: Path) -> None:
    few, more = (drawn("train", n, 8, 0.8).codes for n in (CHUNK - 5, 2 * CHUNK + 7))
    assert (len(few), len(more)) == (CHUNK - 5, 2 * CHUNK + 7)
    np.testing.assert_array_equal(few, more[: len(few)])
    assert (more[:CHUNK] != more[CHUNK : 2 * CHUNK]).any()
    small, large = prepare(tmp_path).subsets, prepare(tmp_path, train_sequences=50).subsets
    np.testing.assert_array_equal(small["train"].codes, large["train"].codes[:30])
    np.testing.assert_array_equal(small["test/sparse"].codes, large["test/sparse"].codes)


def test_subsets_have_streams_of_their_own() -> None:
    collected = {name: set(drawn(name, 300, 64, 0.8).identities()) for name in STREAMS}
    assert len(set.union(*collected.values())) == len(STREAMS) * 300


def test_identities_are_those_of_the_sequences() -> None:
    examples = drawn("train", 200, 6, 0.8)
    last_with = [dict(zip(names, range(200), strict=True)) for names in (texts(examples), examples.identities())]
    assert len(last_with[0]) < 200
    assert list(last_with[0].values()) == list(last_with[1].values())


def test_tests_at_another_length_than_training(tmp_path: Path) -> None:
    trained, longer = prepare(tmp_path), prepare(tmp_path, eval_length=40)
    assert {name: subset.lengths.max() for name, subset in longer.subsets.items()} == {
        "train": 16,
        "test/iid": 40,
        "test/sparse": 40,
        "test/dense": 40,
    }
    assert longer.spec == trained.spec, "the network that was trained is the one that is evaluated"
    assert longer.subsets["train"].codes.filename == trained.subsets["train"].codes.filename
    assert "40 tokens (trained at 16)" in longer.about
    assert prepare(tmp_path, eval_length=16).data_hash() == trained.data_hash()


@pytest.mark.parametrize(("length", "train", "tests"), [(4, 50, 8), (16, 3000, 400), (64, 500, 20)])
def test_about_says_what_the_tests_share_with_training(tmp_path: Path, length: int, train: int, tests: int) -> None:
    sizes = {"length": length, "train_sequences": train, "test_sequences": tests}
    prepared = prepare(tmp_path, **sizes)
    trained, actual = set(prepared.subsets["train"].identities()), []
    for name in ("test/iid", "test/sparse", "test/dense"):
        seen = [identity in trained for identity in prepared.subsets[name].identities()]
        actual.append(f"{sum(seen):,} of {len(seen):,} in {name} ({np.mean(seen):.1%})")
    none = all(text.startswith("0 of ") for text in actual)
    assert none == (length == 64)
    expected = "no test example is also in train" if none else "also in train: " + ", ".join(actual)
    assert prepared.about.endswith(f"; {expected}")
    assert prepare(tmp_path, **sizes).about == prepared.about
    assert "in train" not in prepare(tmp_path, **sizes, eval_length=length + 2).about


def test_short_tests_are_nearly_all_trained_on(tmp_path: Path) -> None:
    about = prepare(tmp_path, length=16, train_sequences=100_000, test_sequences=2000).about
    assert float(re.search(r"in test/iid \((.*?)%", about)[1]) == pytest.approx(95, abs=1)


@pytest.mark.parametrize(("option", "length"), [("length", 15), ("eval_length", 41)])
def test_odd_lengths_are_refused(tmp_path: Path, option: str, length: int) -> None:
    with pytest.raises(DataError) as error:
        prepare(tmp_path, **{option: length})
    assert str(error.value).startswith(f"task.{option}={length}: ")
    assert str(error.value).endswith(f"expected an even number; nearest: {length - 1} or {length + 1}")
    assert not (tmp_path / "cache").exists()


def test_the_defaults_are_the_published_ones() -> None:
    config = compose_config(["task=flip_flop", "model=vanilla"])
    assert check_config(config) == []
    task = {key: value for key, value in config["task"].items() if key not in TASK_KEYS}
    arguments = read_signature(config["task"]["_target_"]).arguments
    assert task == {name: argument.default for name, argument in arguments.items()}
    assert config["train"]["max_steps"] * config["train"]["batch_size"] == task["train_sequences"]
    sizes = ", ".join(f"{name} {n:,}" for name, n in FlipFlop().sequences.items())
    assert FlipFlop.published == f"sequences of {task['length']} tokens: {sizes}"
