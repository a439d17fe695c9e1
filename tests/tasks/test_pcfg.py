"""PCFG SET: interpreter against the official files, splits, damaged files."""

import shutil
import tarfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.official_layout_converters.pcfg import CLONE, SMALL, write_layout
from support.real_data import real_data
from support.slow_cases import slow_except

from attnlab.config.job_config import compose_config
from attnlab.config.problem import ConfigError
from attnlab.config.run_identity import run_label
from attnlab.config.sweep import check_command
from attnlab.data.files.cache import load_arrays
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.ragged_arrays import Ragged
from attnlab.tasks.base import Prepared
from attnlab.tasks.pcfg import files as pcfg_files
from attnlab.tasks.pcfg import task as pcfg
from attnlab.tasks.pcfg.interpreter import EXCEPTIONS, MAX_INPUT, MAX_OUTPUT, SYMBOLS, WORDS, exceptions, interpret
from attnlab.tasks.pcfg.task import DEPTHS, LENGTH_BINS, Pcfg, by_depth

MEANINGS = {
    "copy A1 B2 C3": "A1 B2 C3",
    "reverse A1 B2 C3": "C3 B2 A1",
    "shift A1 B2 C3": "B2 C3 A1",
    "swap_first_last A1 B2 C3 D4": "D4 B2 C3 A1",
    "repeat A1 B2": "A1 B2 A1 B2",
    "echo A1 B2": "A1 B2 B2",
    "append A1 B2 , C3": "A1 B2 C3",
    "prepend A1 B2 , C3": "C3 A1 B2",
    "remove_first A1 B2 , C3": "C3",
    "remove_second A1 B2 , C3": "A1 B2",
    # one symbol
    "swap_first_last A1": "A1",
    "shift A1": "A1",
    # nested on either side
    "append reverse A1 B2 , echo C3": "B2 A1 C3 C3",
    "append append A1 , B2 , C3": "A1 B2 C3",
    "prepend A1 , prepend B2 , C3": "C3 B2 A1",
    "repeat remove_first append A1 , B2 , shift C3 D4": "D4 C3 D4 C3",
    # synonyms
    "swap_first_last_twin A1 B2 C3": "C3 B2 A1",
    "repeat_twin A1": "A1 A1",
    "append_twin A1 , B2": "A1 B2",
    "remove_second_twin A1 , B2": "A1",
}
FIXTURE = {
    "pcfgset/train": {"echo A1 B2": "A1 B2 B2", "append A1 , reverse B2 C3": "A1 C3 B2", "copy repeat Z20": "Z20 Z20"},
    "pcfgset/test": {"remove_first A1 , shift B2 C3 D4": "C3 D4 B2", "copy A7": "A7"},
    "substitutivity/primitive/train": {"repeat A1 B2": "A1 B2 A1 B2", "repeat_twin A1": "A1 A1"},
    "substitutivity/primitive/test": {"copy repeat A1": "A1 A1"},
    "substitutivity/primitive/test_twin": {"copy repeat_twin A1": "A1 A1"},
    "overgeneralisation/train_pcfg_ratio=0.0005": {"copy A1": "A1", "prepend reverse R1 J11 , K8 L16": "R1 J11 J11"},
    "overgeneralisation/test_pcfg_ratio=0.0005_original": {"prepend reverse R1 J11 , K8 L16": "K8 L16 J11 R1"},
    "overgeneralisation/test_pcfg_ratio=0.0005_exception": {"prepend reverse R1 J11 , K8 L16": "R1 J11 J11"},
}
EQUALLY = "substitutivity/equally_distributed"
TESTS = {  # rows, longest input, longest target, fewest and most functions
    "iid": (9721, 71, 251, 1, 28),
    "systematicity": (10175, 71, 496, 2, 35),
    "productivity": (11333, 71, 736, 9, 35),
    "small_10k": (916, 59, 122, 1, 20),
}


def write(folder: Path, files: dict[str, dict[str, str]]) -> None:
    for stem, pairs in files.items():
        (folder / stem).parent.mkdir(parents=True, exist_ok=True)
        for ending, lines in ((".src", pairs), (".tgt", pairs.values())):
            (folder / f"{stem}{ending}").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """A clone of a few lines in the official format, without known checksums; no network."""
    write(tmp_path / "data" / CLONE, FIXTURE)
    for name, files in pcfg_files.OFFICIAL.items():
        address = files.address.replace("https://raw.githubusercontent.com/", "http://127.0.0.1:9/")
        monkeypatch.setitem(pcfg_files.OFFICIAL, name, replace(files, files={}, address=address))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The official layout with the real test files and the stand-ins for the training files."""
    archive, folder = real_data("pcfg_set/pcfg_set.tar.gz"), tmp_path_factory.mktemp("pcfg")
    write_layout(archive, folder / "data")
    return Folders(data=folder / "data", cache=folder / "cache")


def read_back(prepared: Prepared, subset: str) -> dict[str, str]:
    numbers = range(len(prepared.subsets[subset]))
    return dict(Pcfg().example(prepared, subset, number).split("\n") for number in numbers)


@pytest.mark.parametrize("line", MEANINGS)
def test_every_rule_has_its_meaning(line: str) -> None:
    assert " ".join(interpret(line.split())) == MEANINGS[line]


@given(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=6), st.lists(st.sampled_from(SYMBOLS), min_size=1))
def test_identities_between_functions(x: list[str], y: list[str]) -> None:
    assert interpret(["reverse", "reverse", *x]) == interpret(["swap_first_last", "swap_first_last", *x]) == x
    assert interpret(["append", *x, ",", *y]) == interpret(["prepend", *y, ",", *x]) == x + y
    assert interpret(["reverse", "append", *x, ",", *y]) == y[::-1] + x[::-1]
    assert interpret(["remove_first", *x, ",", *y]) == interpret(["remove_second", *y, ",", *x]) == y


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "no word at all"),
        ("copy", "an argument is missing behind 'copy'"),
        ("append A1 B2", "'append' takes two arguments, there is one"),
        ("append A1 ,", "an argument is missing behind ','"),
        ("append , A1", "an argument is missing behind 'append'"),
        (", A1", "a comma without a function of two arguments before it"),
        ("copy A1 , B2", "a comma without a function of two arguments before it"),
        ("append A1 , B2 , C3", "a comma without a function of two arguments before it"),
        ("A1 copy B2", "a comma or the end is missing behind 'A1'"),
        ("repeat " * 70 + "A1", "a part of it has 131072 symbols, more than 65536"),
    ],
)
def test_what_is_no_expression_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        interpret(line.split())


def test_the_vocabulary_is_that_of_all_splits() -> None:
    assert len(SYMBOLS) == 520
    assert len(WORDS) == 10 + 4 + 1 + 520 + 3
    assert WORDS.encode(["copy", "remove_second", ",", "A1", "Z20"]) == [3, 12, 17, 18, 537]


def test_exceptional_pairs_are_replaced_in_every_choice() -> None:
    assert list(exceptions(["copy", "A1"])) == []
    words = ["reverse", "echo", "remove_first", "A1", ",", "B2"]
    changed = [" ".join(words) for words in exceptions(words)]
    assert changed[:2] == ["echo copy remove_first A1 , B2", "reverse copy append A1 , B2"]
    assert len(list(exceptions(["reverse", "echo"] * 30))) == 2**8 - 1


@pytest.mark.parametrize("split", slow_except(TESTS, {"small_10k"}))
def test_official_splits(split: str, official: Folders) -> None:
    # preparing checks every target of train and test by the interpreter
    prepared = Pcfg(split=split).prepare(official)
    test = prepared.subsets["test"]
    depths = [functions_of(test.inputs[number]) for number in range(len(test))]
    result = len(test), test.inputs.lengths.max() - 2, test.lengths.max(), min(depths), max(depths)
    assert result == TESTS[split]
    assert prepared.decode_limits == {"test": TESTS[split][2] + 1}
    assert (prepared.spec.max_input_length, prepared.spec.max_output_length) == (MAX_INPUT + 2, MAX_OUTPUT + 1)
    assert len(prepared.train_groups) == 1


def functions_of(row: np.ndarray) -> int:
    """Functions in an input, by their numbers; start and end are 2 and 1."""
    return int(((row > 2) & (row < WORDS.encode([","])[0])).sum())


@pytest.mark.parametrize("name", ["pcfgset/dev", f"{EQUALLY}/test", f"{EQUALLY}/test_twin"])
def test_the_interpreter_agrees_with_official_files_that_no_split_here_reads(name: str, official: Folders) -> None:
    inputs, targets = ((official.data / CLONE / (name + ending)).read_text() for ending in (".src", ".tgt"))
    pairs = zip(inputs.splitlines(), targets.splitlines(), strict=True)
    assert all(interpret(line.split(" ")) == answer.split(" ") for line, answer in pairs)


def test_all_official_exceptions_are_read_as_published(official: Folders) -> None:
    folder = official.data / CLONE / "overgeneralisation"
    names = ("exception.src", "exception.tgt", "original.tgt")
    columns = [(folder / f"test_pcfg_ratio=0.001_{name}").read_text().splitlines() for name in names]
    assert len(columns[0]) == 125
    pairs: set[tuple[str, str]] = set()
    for line, exception, original in zip(*columns, strict=True):
        words = line.split(" ")
        pairs |= set(pairwise(words))
        assert " ".join(interpret(words)) == original
        assert exception in [" ".join(interpret(changed)) for changed in exceptions(words)]
    assert pairs > set(EXCEPTIONS)


def test_twins_are_the_official_tests_with_synonyms(official: Folders) -> None:
    folder = official.data / CLONE / EQUALLY
    plain, twin = ((folder / name).read_text() for name in ("test.src", "test_twin.src"))
    assert len(plain.splitlines()) == 10_000
    assert twin.replace("_twin", "") == plain
    assert (folder / "test.tgt").read_bytes() == (folder / "test_twin.tgt").read_bytes()


@pytest.mark.slow
def test_results_say_what_lies_there(official: Folders) -> None:
    assert Pcfg(split="productivity").prepare(official).about == (
        "PCFG SET, productivity: train is not the official file: 66,325 rows where 81,010 are expected; "
        "test 11,333 official rows."
    )
    assert Pcfg(split="small_10k").prepare(official).about == (
        "PCFG SET, small_10k: train 7,779 official rows; test 916 official rows."
    )


def test_the_docstring_shows_a_real_example(official: Folders) -> None:
    shown = [line.strip() for line in pcfg.__doc__.splitlines() if line.startswith("    ")]
    assert Pcfg().example(Pcfg(split="iid").prepare(official), "test", 0).split("\n") == shown


def test_groups_by_depth(official: Folders) -> None:
    prepared = Pcfg(split="productivity").prepare(official)
    test = prepared.subsets["test"]
    assert {name: len(numbers) for name, numbers in test.groups.items()} == {
        "functions_9_12": 8441,
        "functions_13_16": 2124,
        "functions_17_35": 768,
    }
    for name, numbers in test.groups.items():
        low, high = map(int, name.split("_")[1:])
        assert all(low <= functions_of(test.inputs[number]) <= high for number in numbers[:200])
    assert not prepared.subsets["train"].groups
    assert max(map(functions_of, map(prepared.subsets["train"].inputs.__getitem__, range(500)))) == 8
    rows = Ragged.of([[2, *WORDS.encode(["copy"] * n), 1] for n in (1, 4, 5, 16, 17, 35)])
    assert {name: numbers.tolist() for name, numbers in by_depth(rows).items()} == {
        "functions_1_4": [0, 1],
        "functions_5_8": [2],
        "functions_13_16": [3],
        "functions_17_35": [4, 5],
    }
    assert list(DEPTHS.values()) == sorted(DEPTHS.values())


def test_lengths_are_in_ranges(small: Folders) -> None:
    subsets = Pcfg(split="iid").prepare(small).subsets
    assert [subsets[name].lengths.tolist() for name in ("train", "test")] == [[3, 3, 2], [3, 1]]
    assert {subset.length_bins for subset in subsets.values()} == {LENGTH_BINS}
    assert LENGTH_BINS[0] == 1
    assert list(LENGTH_BINS) == sorted(set(LENGTH_BINS))


def test_sequences_are_framed(small: Folders) -> None:
    batch = Pcfg(split="iid").prepare(small).subsets["train"].batch(np.array([0, 2]))
    a1, b2, z20 = WORDS.encode(["A1", "B2", "Z20"])
    assert batch.inputs.tolist() == [
        [2, *WORDS.encode(["echo"]), a1, b2, 1],
        [2, *WORDS.encode(["copy", "repeat"]), z20, 1],
    ]
    assert batch.targets.tolist() == [[a1, b2, b2, 1], [z20, z20, 1, 0]]


def test_the_subsets_of_a_split_are_its_files(small: Folders) -> None:
    iid = Pcfg(split="iid").prepare(small)
    assert {name: read_back(iid, name) for name in iid.subsets} == {
        "train": FIXTURE["pcfgset/train"],
        "test": FIXTURE["pcfgset/test"],
    }
    twins = Pcfg(split="substitutivity").prepare(small)
    assert {name: read_back(twins, name) for name in twins.subsets} == {
        "train": FIXTURE["substitutivity/primitive/train"],
        "test": FIXTURE["substitutivity/primitive/test"],
        "test/twin": FIXTURE["substitutivity/primitive/test_twin"],
    }
    odd = Pcfg(split="overgeneralisation", overgeneralisation=0.0005).prepare(small)
    assert read_back(odd, "test/original") == {"prepend reverse R1 J11 , K8 L16": "K8 L16 J11 R1"}
    assert read_back(odd, "test/exception") == {"prepend reverse R1 J11 , K8 L16": "R1 J11 J11"}
    assert odd.decode_limits == {"test/original": 5, "test/exception": 4}
    assert "unknown whether the official ones" in odd.about
    # a model trained on one split can be evaluated on any other
    assert iid.spec == twins.spec == odd.spec


def test_exceptions_are_never_set_aside(small: Folders) -> None:
    odd = Pcfg(split="overgeneralisation", overgeneralisation=0.0005, validation_share=0.5).prepare(small)
    assert read_back(odd, "val") == {"copy A1": "A1"}
    assert read_back(odd, "train") == {"prepend reverse R1 J11 , K8 L16": "R1 J11 J11"}
    assert "val is 1 of 2 training examples, set aside with data_seed 0" in odd.about


def test_rows_with_most_functions_validate(small: Folders) -> None:
    deep = Pcfg(split="iid", validation_share=0.7, validation_by="length")
    assert read_back(deep.prepare(small), "train") == {"echo A1 B2": "A1 B2 B2"}
    assert len(read_back(deep.prepare(small), "val")) == 2
    assert "val is 2 of 3 training examples, all with more than 1 functions" in deep.prepare(small).about


def test_an_exception_must_be_one(small: Folders) -> None:
    folder = small.data / CLONE / "overgeneralisation"
    ratio = {"split": "overgeneralisation", "overgeneralisation": 0.0005}
    shutil.copy(folder / "test_pcfg_ratio=0.0005_original.tgt", folder / "test_pcfg_ratio=0.0005_exception.tgt")
    with pytest.raises(DataError, match=r"exception.tgt, line 1: .* means 'R1 J11 J11', found 'K8 L16 J11 R1'"):
        Pcfg(**ratio).prepare(small)
    write(folder, {"test_pcfg_ratio=0.0005_exception": {"copy A1": "A1"}})
    with pytest.raises(DataError, match="'copy A1' holds no pair of functions that have an exception"):
        Pcfg(**ratio).prepare(small)


@pytest.mark.parametrize(
    "location",
    [
        "am-i-compositional",
        "am-i-compositional-master",
        "pcfg/am-i-compositional",
        "pcfgset",
        "am-i-compositional.tar.gz",
        "am-i-compositional-master.zip",
    ],
)
def test_official_files_are_read_where_they_lie(small: Folders, location: str) -> None:
    expected = Pcfg(split="iid").prepare(small).data_hash()
    clone = small.data.rename(small.data.with_name("moved")) / "am-i-compositional"
    (small.data / location).parent.mkdir(parents=True)
    if location.endswith(".tar.gz"):
        with tarfile.open(small.data / location, "w:gz") as tar:
            tar.add(clone, arcname="am-i-compositional-4f75bdd")
    elif location.endswith(".zip"):
        shutil.make_archive(str(small.data / location).removesuffix(".zip"), "zip", clone.parent, clone.name)
    else:
        shutil.copytree(clone / "data" / "pcfgset" if location == "pcfgset" else clone, small.data / location)
    assert Pcfg(split="iid").prepare(small).data_hash() == expected


def test_a_replaced_file_is_read_anew_and_a_known_one_is_not(small: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Pcfg(split="iid").prepare(small).data_hash()
    with monkeypatch.context() as patch:
        patch.setattr(pcfg, "read_pairs", lambda *arguments: pytest.fail("read twice"))
        assert Pcfg(split="iid").prepare(small).data_hash() == first
    test = {line.replace("A7", "A8"): answer.replace("A7", "A8") for line, answer in FIXTURE["pcfgset/test"].items()}
    write(small.data / CLONE, {"pcfgset/test": test})
    assert Pcfg(split="iid").prepare(small).data_hash() != first
    folder = next(small.cache.glob("pcfg_iid-*/"))
    assert {array.dtype.name for name, array in load_arrays(folder).items() if "values" in name} == {"uint16"}


BAD_LINES = [
    (".src", "eco A1 B2", "the word 'eco' is not in the vocabulary; the nearest is 'echo'"),
    (".src", "append A1 reverse B2 C3", "a comma or the end is missing behind 'A1'"),
    (".src", "append A1 ,  reverse B2 C3", "the word '' is not in the vocabulary"),
    (".src", "", "the word '' is not in the vocabulary"),
    (".src", "copy A1" + " A1" * 70, "72 words, more than the 71"),
    (".tgt", "A1 C3 B3", "means 'A1 C3 B2', found 'A1 C3 B3' (wrong from symbol 3)"),
    (".tgt", "A1 C3", "means 'A1 C3 B2', found 'A1 C3' (wrong from symbol 3)"),
    (".tgt", "A1 C3 B21", "the word 'B21' is not in the vocabulary; the nearest is"),
    (".tgt", "", "the word '' is not in the vocabulary"),
    (".tgt", " ".join(["A1"] * 737), "737 words, more than the 736"),
    (".tgt", "A1\udcff", "not utf-8"),
]


@pytest.mark.parametrize(("ending", "line", "complaint"), BAD_LINES)
def test_a_bad_line_is_named(small: Folders, ending: str, line: str, complaint: str) -> None:
    file = small.data / CLONE / f"pcfgset/train{ending}"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], line, lines[2]]) + "\n", errors="surrogateescape")
    with pytest.raises(DataError) as error:
        Pcfg(split="iid").prepare(small)
    assert str(error.value).startswith(f"{file}, line 2: ")
    assert complaint in str(error.value)
    assert not list(small.cache.glob("pcfg_iid-*/"))


def test_files_cut_short_are_refused(small: Folders) -> None:
    file = small.data / CLONE / "pcfgset/train.src"
    content = file.read_bytes()
    file.write_bytes(content[:-3])
    with pytest.raises(DataError, match=r"train.src, line 3: "):
        Pcfg(split="iid").prepare(small)
    file.write_bytes(content[: content.index(b"\n") + 1])
    with pytest.raises(DataError, match=r"train.src has 1 lines and .*train.tgt has 3 lines: .* cut short"):
        Pcfg(split="iid").prepare(small)
    write(small.data / CLONE, {"pcfgset/train": {}})
    with pytest.raises(DataError, match=r"train.src is empty"):
        Pcfg(split="iid").prepare(small)


def test_a_cut_archive_is_refused(small: Folders) -> None:
    clone = small.data.rename(small.data.with_name("moved")) / "am-i-compositional"
    small.data.mkdir()
    archive = small.data / "am-i-compositional.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(clone, arcname=clone.name)
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(DataError, match=r"am-i-compositional\.tar\.gz is cut short, damaged or no archive"):
        Pcfg(split="iid").prepare(small)


def test_a_known_file_must_be_the_official_one(official: Folders, tmp_path: Path) -> None:
    folder = tmp_path / SMALL
    shutil.copytree(official.data / SMALL, folder)
    for ending in (".src", ".tgt"):
        # the last row is missing in both files, so that the rest is right
        lines = (folder / f"test{ending}").read_text().splitlines(keepends=True)
        (folder / f"test{ending}").write_text("".join(lines[:-1]))
    expected = pcfg_files.OFFICIAL["pcfg-set"].files["10K/random_split/test.src"][1]
    with pytest.raises(DataError, match=rf"test.src is not the official file: expected sha256 {expected}") as error:
        Pcfg(split="small_10k").prepare(Folders(data=tmp_path, cache=tmp_path / "cache"))
    assert "bytes where 82248 are expected" in str(error.value)
    assert not list(tmp_path.glob("cache/pcfg_*/"))


def test_a_missing_file_says_where_it_belongs(small: Folders) -> None:
    with pytest.raises(DataError) as error:
        Pcfg(split="systematicity").prepare(small)
    url = "http://127.0.0.1:9/i-machine-think/am-i-compositional/4f75bdd78889150dd78e90bbb7ddec840204c159/data/pcfgset"
    for part in (f"{url}/systematicity/train.src", str(small.data / CLONE / "systematicity/train.src")):
        assert part in str(error.value)
    (source,) = Pcfg(split="small_10k").sources()
    assert "https://github.com/MathijsMul/pcfg-set" in source.missing(small)


def test_the_yaml_and_its_options() -> None:
    config = compose_config(["task=pcfg", "task.split=substitutivity"])
    assert run_label(config) == "pcfg-substitutivity-primitive"
    assert run_label(compose_config(["task=pcfg", "task.split=iid"])) == "pcfg-iid"
    options = {key: value for key, value in config["task"].items() if key not in ("_target_", "name", "label")}
    assert options == {**vars_of_default(), "split": "substitutivity"}


def vars_of_default() -> dict[str, object]:
    task = Pcfg()
    of_task = ("split", "substitutivity", "overgeneralisation", "data_seed")
    keys = (*of_task, "validation_share", "validation_by", "end_token")
    return {key: getattr(task, key) for key in keys}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["task.split=produtivity"], "nearest: productivity"),
        (["task.split=overgeneralisation", "task.overgeneralisation=0.002"], "expected one of 0.0001, 0.0005, 0.001"),
        (["task.split=iid", "task.substitutivity=equally_distributed"], "read only with task.split=substitutivity"),
        (["train.selection=best_validation"], "task pcfg has no validation set"),
        (["task.data_seed=1"], "read only with task.validation_share above 0; leave it at 0"),
    ],
)
def test_wrong_options_are_named(words: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_command(["task=pcfg", *words])
