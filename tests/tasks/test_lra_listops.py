"""LRA ListOps: values of expressions, generator against the official files, damaged files."""

import gzip
import shutil
import tarfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from support.official_layout_converters.lra_listops import write_layout
from support.real_data import real_data

from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks.lra import listops
from attnlab.tasks.lra.listops import HEADER, LENGTH_BINS, LraListops, parse, parse_line
from attnlab.tasks.lra.listops_generator import CLOSE_ID, DEEPEST, MIN, TOKENS, ZERO, Shape, evaluate, expressions

PUBLISHED = Shape(min_length=500, max_length=2000, max_depth=10, max_args=10)
LINES = {  # a file in the official format for each subset
    "train": ["( ( ( [MAX 2 ) 9 ) ] )\t9", "( ( ( ( [SM 7 ) ( ( ( [MIN 4 ) 3 ) ] ) ) 5 ) ] )\t5", "7\t7"],
    "val": ["( ( ( ( ( [MED 1 ) 4 ) 3 ) 9 ) ] )\t3"],
    "test": ["( ( ( [MIN 2 ) 1 ) ] )\t1", "( ( ( [MED 8 ) 9 ) ] )\t8"],
}
SMALL = {"min_length": 5, "max_length": 30, "train_size": 60, "val_size": 10, "test_size": 20}


def ids(expression: str) -> bytes:
    return bytes(TOKENS.encode(expression.split()))


def words(tokens: bytes) -> list[str]:
    return TOKENS.decode(tokens)


def value_of(result: list[str]) -> int:
    """An independent evaluator: by recursion over words, from the left."""
    left = list(reversed(result))

    def read() -> int:
        word = left.pop()
        if word.isdigit():
            return int(word)
        values = []
        while left[-1] != "]":
            values.append(read())
        left.pop()
        return {
            "[MIN": min,
            "[MAX": max,
            "[MED": lambda numbers: int(np.median(numbers)),
            "[SM": lambda numbers: sum(numbers) % 10,
        }[word](values)

    value = read()
    assert not left
    return value


def depth_of(result: list[str]) -> int:
    return 1 + int(np.cumsum([word.startswith("[") - (word == "]") for word in result]).max(initial=0))


def arguments_of(result: list[str]) -> list[int]:
    """How many arguments each operation has."""
    open_ones, counts = [0], []
    for word in result:
        if word == "]":
            counts.append(open_ones.pop())
        else:
            open_ones[-1] += 1
            if word.startswith("["):
                open_ones.append(0)
    return counts


@pytest.fixture(scope="module")
def drawn() -> list[bytes]:
    return list(islice(expressions(PUBLISHED, 0, 0, set()), 2000))


@pytest.fixture(scope="module")
def official() -> list[tuple[bytes, int]]:
    file = real_data("lra_listops/basic_val.tsv.gz")
    with gzip.open(file) as opened:
        return [(tokens, value) for (tokens,), value in parse(opened, str(file), 10**6)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7", 7),
        ("[MIN 7 3 ]", 3),
        ("[MAX 7 3 9 0 ]", 9),
        ("[MED 7 3 9 ]", 7),
        ("[MED 2 9 ]", 5),
        ("[SM 7 8 9 ]", 4),
        ("[SM [MAX 4 8 ] [MED 1 2 [MIN 9 6 ] 3 ] ]", 0),
    ],
)
def test_what_expressions_mean(expression: str, value: int) -> None:
    assert evaluate(ids(expression)) == value == value_of(expression.split())


NO_EXPRESSIONS = (
    "",
    "]",
    "[MIN",
    "1 2",
    "[MIN ]",
    "[MIN 1",
    "[MIN 1 ] ]",
    "1 [SM 2 3 ]",
    "[SM [SM ] ]",
    "[MAX <pad> 3 ]",
)


@pytest.mark.parametrize("expression", NO_EXPRESSIONS)
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="no expression"):
        evaluate(ids(expression))


def test_time_grows_with_the_number_of_tokens_only() -> None:
    deepest = DEEPEST * "[SM 1 " + DEEPEST * "] "
    assert evaluate(ids(deepest)) == DEEPEST % 10
    wide = ids("[MAX " + 3000 * "[MIN 7 [MED 3 9 ] ] " + "]")
    assert evaluate(wide) == 6
    start = time.process_time()
    with pytest.raises(ValueError, match=r"more than 1000 operations inside one another"):
        evaluate(bytes([MIN, ZERO]) * 10**6 + bytes([CLOSE_ID]) * 10**6)
    # a pass over the tokens for every level took hours
    assert time.process_time() - start < 1


def test_a_tree_of_absurd_depth_is_named(small: Folders) -> None:
    file = small.data / "lra_release/listops-1000/basic_train.tsv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, "[MAX 1 " * 50_000 + "] " * 50_000 + "\t1"]) + "\n")
    with pytest.raises(DataError, match="more than 1000 operations inside one another") as error:
        read_back(small)
    assert str(error.value).startswith(f"{file}, line {len(lines) + 1}: ")


def test_a_depth_that_no_tree_reaches_costs_nothing(tmp_path: Path) -> None:
    folders = Folders(data=tmp_path, cache=tmp_path)
    deep, deeper = (LraListops(**SMALL | {"max_depth": depth}).prepare(folders) for depth in (100, 1000))
    assert deep.data_hash() == deeper.data_hash()


def test_the_docstring_shows_a_real_example(tmp_path: Path) -> None:
    task = LraListops(**SMALL)
    prepared = task.prepare(Folders(data=tmp_path, cache=tmp_path))
    shown = next(line.strip() for line in listops.__doc__.splitlines() if "->" in line)
    assert task.example(prepared, "train", 26) == shown


def test_drawn_expressions_are_what_they_should_be(drawn: list[bytes]) -> None:
    assert all(evaluate(tokens) == value_of(words(tokens)) for tokens in drawn[:200])
    assert all(500 < len(tokens) < 2000 for tokens in drawn)
    assert max(depth_of(words(tokens)) for tokens in drawn) == 10
    assert set(arguments_of(words(drawn[0]))) <= set(range(2, 11))
    assert len(set(drawn)) == len(drawn)


def test_drawn_expressions_are_distributed_as_those_of_the_published_generator(
    drawn: list[bytes], official: list[tuple[bytes, int]]
) -> None:
    theirs = [tokens for tokens, _ in official]
    lengths = [np.sort([len(tokens) for tokens in sample]) for sample in (drawn, theirs)]
    at = np.arange(500, 2000)
    shares = [np.searchsorted(sample, at) / len(sample) for sample in lengths]
    # Kolmogorov-Smirnov: 1.95 is passed by chance once in a thousand
    assert np.abs(shares[0] - shares[1]).max() < 1.95 * np.sqrt(1 / len(drawn) + 1 / len(theirs))
    counts = [np.bincount(np.frombuffer(b"".join(sample), dtype=np.uint8), minlength=18) for sample in (drawn, theirs)]
    np.testing.assert_allclose(counts[0] / counts[0].sum(), counts[1] / counts[1].sum(), atol=1e-3)
    answers = [np.bincount([evaluate(tokens) for tokens in drawn]), np.bincount([value for _, value in official])]
    assert chi_square(*answers) < 27.9
    arguments = [np.bincount([n for t in sample[:300] for n in arguments_of(words(t))]) for sample in (drawn, theirs)]
    assert chi_square(*(result[2:] for result in arguments)) < 26.1
    depths = [np.bincount([depth_of(words(t)) for t in sample[:600]], minlength=11) for sample in (drawn, theirs)]
    # nearly all reach depth 10
    assert abs(depths[0][10] - depths[1][10]) < 30


def chi_square(first: np.ndarray, second: np.ndarray) -> float:
    """Of two rows of counts with as many entries: 27.9 and 26.1 are passed once in a thousand for 10 and 9 of them."""
    table = np.stack([first, second]).astype(float)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return float(((table - expected) ** 2 / expected).sum())


def prepare(cache: Path, **options: int) -> dict[str, list[bytes]]:
    """The sequences of each subset."""
    subsets = LraListops(**(SMALL | options)).prepare(Folders(data=cache / "none", cache=cache)).subsets
    return {name: [part.inputs[i].tobytes() for i in range(len(part))] for name, part in subsets.items()}


def test_generated_subsets_share_nothing_and_sizes_change_no_others(tmp_path: Path) -> None:
    few, more = prepare(tmp_path), prepare(tmp_path, train_size=80)
    assert {name: len(part) for name, part in few.items()} == {"train": 60, "val": 10, "test": 20}
    assert len({*few["train"], *few["val"], *few["test"]}) == 90
    assert more["train"][:60] == few["train"]
    assert (more["val"], more["test"]) == (few["val"], few["test"])
    assert prepare(tmp_path, data_seed=1)["test"] != few["test"]
    shutil.rmtree(tmp_path)
    assert prepare(tmp_path) == few


def test_the_generated_task_has_its_subsets_and_spec(tmp_path: Path) -> None:
    prepared = LraListops(**SMALL).prepare(Folders(data=tmp_path / "none", cache=tmp_path))
    spec, test = prepared.spec, prepared.subsets["test"]
    assert (spec.kind, spec.modality, spec.input_vocabulary, spec.n_classes) == ("classification", "tokens", 18, 10)
    assert (spec.max_input_length, spec.pad_id) == (30, 0)
    assert all(5 < length < 30 for length in test.lengths)
    batch = test.batch(np.array([3, 0]))
    assert batch.inputs.shape == (2, max(test.lengths[[3, 0]]))
    for row, mask, answer in zip(batch.inputs, batch.input_mask, batch.answers, strict=True):
        assert value_of(words(bytes(row[mask].tolist()))) == int(answer)
        assert not row[~mask].any()
    assert "generated by attnlab with data_seed 0" in prepared.about
    assert "train 60, val 10, test 20" in prepared.about
    assert LENGTH_BINS[0] <= test.lengths.min()
    assert not (tmp_path / "none").exists()


def test_longer_expressions_than_those_trained_on(tmp_path: Path) -> None:
    sizes = {"train_size": 1, "val_size": 1, "test_size": 30}
    task = LraListops(min_length=2000, max_length=4000, **sizes)
    prepared = task.prepare(Folders(data=tmp_path, cache=tmp_path))
    lengths = prepared.subsets["test"].lengths
    assert 2000 < lengths.min() < lengths.max() < 4000
    assert prepared.spec.max_input_length == 4000


def test_lengths_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"task\.min_length=5, task\.max_length=6"):
        prepare(tmp_path, min_length=5, max_length=6)
    with pytest.raises(DataError, match=r"10 different expressions .* none among 409600 more trees"):
        prepare(tmp_path, min_length=0, max_length=2, test_size=4, val_size=3, train_size=4)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


@pytest.fixture
def small(tmp_path: Path) -> Folders:
    """A few lines in the official layout."""
    folder = tmp_path / "data/lra_release/listops-1000"
    folder.mkdir(parents=True)
    for subset, lines in LINES.items():
        (folder / f"basic_{subset}.tsv").write_bytes("".join(f"{line}\r\n" for line in [HEADER, *lines]).encode())
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


def read_back(folders: Folders, **options: int) -> dict[str, list[tuple[str, int]]]:
    subsets = LraListops(source="official", **options).prepare(folders).subsets
    return {
        name: [(" ".join(words(part.inputs[i])), int(part.answers[i])) for i in range(len(part))]
        for name, part in subsets.items()
    }


EXPECTED = {
    "train": [("[MAX 2 9 ]", 9), ("[SM 7 [MIN 4 3 ] 5 ]", 5), ("7", 7)],
    "val": [("[MED 1 4 3 9 ]", 3)],
    "test": [("[MIN 2 1 ]", 1), ("[MED 8 9 ]", 8)],
}


@pytest.mark.parametrize(
    "where",
    [
        "lra_release/listops-1000",
        "lra_release/lra_release/listops-1000",
        "listops-1000",
        "lra_listops",
        "gzipped",
        "lra_release.gz",
        "lra_release.tar.gz",
    ],
)
def test_official_files_are_read_where_they_lie(small: Folders, where: str) -> None:
    files = small.data.rename(small.data.with_name("away")) / "lra_release/listops-1000"
    target = small.data / where
    if where == "gzipped":
        target = small.data / "listops-1000"
        target.mkdir(parents=True)
        for file in files.iterdir():
            (target / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    elif where.endswith(".gz"):
        target.parent.mkdir()
        with tarfile.open(target, "w:gz") as tar:
            tar.add(files / "basic_val.tsv", arcname="lra_release/lra_release/listops-100/basic_train.tsv")
            tar.add(files, arcname="lra_release/lra_release/listops-1000")
    else:
        shutil.copytree(files, target)
    assert read_back(small) == EXPECTED


def test_what_is_too_long_is_cut_and_keeps_its_value(small: Folders) -> None:
    result = read_back(small, max_length=3)
    assert result["train"] == [("[MAX 2 9", 9), ("[SM 7 [MIN", 5), ("7", 7)]


def test_another_file_is_not_answered_from_the_cache(small: Folders) -> None:
    assert read_back(small) == EXPECTED
    file = small.data / "lra_release/listops-1000/basic_val.tsv"
    file.write_text(f"{HEADER}\n[SM 9 9 ]\t8\n")
    assert read_back(small)["val"] == [("[SM 9 9 ]", 8)]


@pytest.mark.parametrize(
    ("number", "line", "complaint"),
    [
        (1, "source\ttarget", "the header 'Source\\tTarget' expected, found 'source\\ttarget'"),
        (3, "( ( ( [MAX 2 ) 9 ) ] )\t8", "the expression means 9, found 8"),
        (3, "( ( ( [MAX 2 ) 9 ) ] )\t12", "a digit from 0 to 9 expected, found '12'"),
        (3, "( ( ( [MAX 2 ) 9 ) ] )", "a digit from 0 to 9 expected, found ''"),
        (3, "( ( ( [MAXX 2 ) 9 ) ] )\t9", "'[MAXX' is not in the vocabulary; the nearest is '[MAX'"),
        (3, "( ( ( [MAX 2 ) 19 ) ] )\t9", "'19' is not in the vocabulary"),
        (3, "( ( [MAX 2 ) 9 )\t9", "no expression"),
        (3, "\t9", "no expression"),
        (3, "", "a digit from 0 to 9 expected"),
        (3, "[MAX 2 é ]\t9", "not ascii"),
    ],
)
def test_a_bad_line_is_named(small: Folders, number: int, line: str, complaint: str) -> None:
    file = small.data / "lra_release/listops-1000/basic_train.tsv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[: number - 1], line, *lines[number:]]) + "\n")
    with pytest.raises(DataError) as error:
        read_back(small)
    assert str(error.value).startswith(f"{file}, line {number}: ")
    assert complaint in str(error.value)
    assert not [path for path in small.cache.iterdir() if path.is_dir()]


def test_files_that_are_missing_empty_or_cut(small: Folders) -> None:
    folder = small.data / "lra_release/listops-1000"
    file = folder / "basic_test.tsv"
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(DataError, match=r"listops-1000 lacks basic_test\.tsv"):
        read_back(small)
    file.write_bytes(content[: content.index(b"\n") + 1])
    with pytest.raises(DataError, match="test is empty"):
        read_back(small)
    file.write_bytes(content[:-5])
    with pytest.raises(DataError, match=r"basic_test\.tsv, line 3: "):
        read_back(small)
    file.unlink()
    (folder / "basic_test.tsv.gz").write_bytes(gzip.compress(content)[:-12])
    with pytest.raises(DataError, match="cut short"):
        read_back(small)
    assert not [path for path in small.cache.iterdir() if path.is_dir()]


def test_a_cut_archive_is_refused(small: Folders) -> None:
    archive = small.data / "lra_release.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(small.data / "lra_release", arcname="lra_release")
    shutil.rmtree(small.data / "lra_release")
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"lra_release\.gz.* is cut short"):
        read_back(small)


def test_missing_files_say_where_they_belong(small: Folders) -> None:
    shutil.rmtree(small.data)
    with pytest.raises(DataError) as error:
        read_back(small)
    for part in ("LRA's ListOps", "7.7 GB", "listops-1000", "lra_release.gz", str(small.data)):
        assert part in str(error.value)


def test_lines_of_the_training_file(official: list[tuple[bytes, int]]) -> None:
    with gzip.open(real_data("lra_listops/basic_train.tsv.gz"), "rt") as opened:
        lines = [line.rstrip("\n") for line in islice(opened, 1, 301)]
    for line in lines:
        tokens, value = parse_line(line)
        assert value == value_of(words(tokens))
    assert len(official) == 2000
    assert max(len(tokens) for tokens, _ in official) == 1996
    values = np.bincount([value for _, value in official]) / len(official)
    assert values[[0, 9]].min() > 0.15
    assert values[1:9].max() < 0.11


@pytest.mark.slow
def test_the_files_made_by_the_published_generator(tmp_path: Path) -> None:
    write_layout(real_data("lra_listops/basic_train.tsv.gz").parent, tmp_path / "data")
    folders = Folders(data=tmp_path / "data", cache=tmp_path / "cache")
    prepared = LraListops(source="official").prepare(folders)
    assert {name: len(part) for name, part in prepared.subsets.items()} == {"train": 20000, "val": 2000, "test": 2000}
    train = prepared.subsets["train"]
    assert (train.lengths.min(), train.lengths.max(), round(train.lengths.mean())) == (501, 1999, 1035)
    assert prepared.about == (
        "LRA's ListOps, not the official files: train 20,000 (official: 96,000), val 2,000, test 2,000"
    )
    seen = set(train.identities())
    assert not seen & set(prepared.subsets["test"].identities())


def test_ids_of_the_vocabulary() -> None:
    assert TOKENS.pad_id == 0
    assert TOKENS.encode(["0", "9", "[MIN", "[MAX", "[MED", "[SM", "]"]) == [ZERO, 12, MIN, 14, 15, 16, CLOSE_ID]
    assert len(TOKENS) == 18
