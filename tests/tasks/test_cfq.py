"""CFQ: official layout and hub, words of questions and queries, splits, damaged files; on files of a few lines."""

import json
import shutil
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from support.unreachable_addresses import unreachable

from attnlab.data.files import hugging_face
from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks.base import Prepared
from attnlab.tasks.cfq import files as cfq_files
from attnlab.tasks.cfq import task as cfq
from attnlab.tasks.cfq.files import PARTS, QUERY, QUESTION, SPLITS, read_examples, words_of_example
from attnlab.tasks.cfq.task import Cfq

FIXTURE = Path(__file__).parents[1] / "fixtures" / "cfq" / "cfq"
EXAMPLES = json.loads((FIXTURE / "dataset.json").read_text())


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """The unpacked archive with ten examples and two splits; no network."""
    shutil.copytree(FIXTURE, tmp_path / "data" / "cfq")
    for module in (cfq, cfq_files):
        monkeypatch.setattr(module, "SOURCE", unreachable(cfq_files.SOURCE))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


def read_back(task: Cfq, prepared: Prepared, subset: str) -> list[str]:
    return [task.example(prepared, subset, number) for number in range(len(prepared.subsets[subset]))]


def expected(split: str, part: str) -> list[str]:
    """The examples of a subset of the fixture, as text."""
    numbers = json.loads((FIXTURE / f"splits/{SPLITS[split]}.json").read_text())[PARTS[part]]
    pairs = [words_of_example(EXAMPLES[number][QUESTION], EXAMPLES[number][QUERY]) for number in numbers]
    return [f"input   {' '.join(question)}\noutput  {' '.join(query)}" for question, query in pairs]


def test_words_are_made_as_published() -> None:
    """By hand, of the rules in cfq/preprocess.py of google-research/google-research."""
    query = "SELECT count(*) WHERE {\n?x0 ns:a.b/ns:c.d|ns:e.f M0 .\n?x0 ns:people.person.gender ns:m.02zsn\n}"
    question, words = words_of_example("Did M0's writer, star edit M1 ?", query)
    assert " ".join(question) == "Did M0 ' s writer , star edit M1 ?"
    assert " ".join(words) == "SELECT count ( * ) WHERE { ?x0 a.b/ns:c.d|ns:e.f M0 . ?x0 people.person.gender m_02zsn }"


def test_questions_in_python_are_written_as_users_write(small: Folders) -> None:
    task = Cfq()
    prepared = task.prepare(small)
    read = task.encode_inputs(prepared, ["Was M0's female writer M1's spouse"]).inputs[0].tolist()
    assert read == prepared.subsets["test"].inputs[0].tolist()


@pytest.mark.parametrize("split", ["mcd1", "random"])
def test_a_split_is_its_lists_of_numbers(split: str, small: Folders) -> None:
    task = Cfq(split=split)
    prepared = task.prepare(small)
    assert list(prepared.subsets) == ["train", "test"]
    for part in PARTS:
        assert read_back(task, prepared, part) == expected(split, part)


def test_all_splits_have_one_vocabulary_and_one_cache(small: Folders) -> None:
    """So that a model can be evaluated on any other split, and the large file is read once."""
    specs = [Cfq(split=split).prepare(small).spec for split in ("mcd1", "random")]
    assert specs[0] == specs[1]
    assert specs[0].max_output_length == max(len(words_of_example("", row[QUERY])[1]) for row in EXAMPLES) + 1
    assert len(list(small.cache.glob("cfq_files-*/"))) == 1


def test_results_say_sizes_and_what_train_and_test_share(small: Folders) -> None:
    other = "not the official ones: train 95,743, test 11,968"
    assert (
        Cfq().prepare(small).about == f"CFQ mcd1 from cfq: train 5, test 3 ({other}); no test example is also in train"
    )
    # examples 0 and 7 are equal
    assert "also in train: 1 of 3 in test (33.3%)" in Cfq(split="random").prepare(small).about


def test_validation_is_of_training_examples(small: Folders) -> None:
    task = Cfq(validation_share=0.2, validation_by="length")
    prepared = task.prepare(small)
    assert len(prepared.subsets["val"]) == 1 and len(prepared.subsets["train"]) == 4
    assert {*read_back(task, prepared, "val"), *read_back(task, prepared, "train")} == {*expected("mcd1", "train")}
    assert read_back(task, prepared, "test") == expected("mcd1", "test")


@pytest.mark.parametrize("location", ["cfq1.1.tar.gz", "cfq/cfq.tar.gz"])
def test_an_archive_is_read_where_it_lies(small: Folders, location: str) -> None:
    hashed = Cfq().prepare(small).data_hash()
    folder = (small.data / "cfq").rename(small.data.parent / "unpacked")
    (small.data / location).parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(small.data / location, "w:gz") as tar:
        tar.add(folder, arcname="cfq")
    assert Cfq().prepare(small).data_hash() == hashed


class HubTable:
    """A split of the package `datasets`."""

    def __init__(self, numbers: list[int]) -> None:
        self.rows = [EXAMPLES[number] for number in numbers]

    def iter(self, batch_size: int) -> Iterator[dict[str, list[str]]]:
        yield {"question": [row[QUESTION] for row in self.rows], "query": [row[QUERY] for row in self.rows]}


def test_the_hub_has_the_same_splits(small: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, configuration: str, revision: str) -> dict[str, Any]:
        assert name == "google-research-datasets/cfq" and len(revision) == 40
        source = configuration if configuration in ("mcd1", "random_split") else "mcd1"
        numbers = json.loads((FIXTURE / f"splits/{source}.json").read_text())
        return {part: HubTable(numbers[key]) for part, key in PARTS.items()}

    monkeypatch.setattr(hugging_face, "load_from_hub", load)
    for split in ("mcd1", "random"):
        task = Cfq(split=split, source="hub")
        prepared = task.prepare(small)
        assert {part: read_back(task, prepared, part) for part in PARTS} == {
            part: expected(split, part) for part in PARTS
        }
    assert "from Hugging Face google-research-datasets/cfq at 6627f9390245" in prepared.about


def test_examples_longer_than_a_piece_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    content = (FIXTURE / "dataset.json").read_bytes()
    whole = list(read_examples(BytesIO(content), "dataset.json"))
    assert len(whole) == len(EXAMPLES)
    monkeypatch.setattr(cfq_files, "CHUNK", 700)
    assert list(read_examples(BytesIO(content), "dataset.json")) == whole


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "dataset.json: a list of examples expected"),
        (b"{}", "dataset.json: a list of examples expected"),
        (b"[]", "dataset.json: a list without examples"),
        (b'[{"question": "a"}]', f"example 0: texts '{QUESTION}' and '{QUERY}' expected, found "),
        (f'[{{"{QUESTION}": "a", "{QUERY}": 3}}]'.encode(), "example 0: texts"),
        (b"\xff", "dataset.json: not utf-8"),
        (json.dumps(EXAMPLES).encode()[:-40], "example 9: the file ends in it. It is not the official file"),
        (json.dumps(EXAMPLES[:3]).encode()[:-1] + b", nothing]", "example 3: .*"),
    ],
)
def test_a_wrong_file_of_examples_is_refused(small: Folders, content: bytes, complaint: str) -> None:
    (small.data / "cfq" / "dataset.json").write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        Cfq().prepare(small)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", "mcd1.json: lists trainIdxs, testIdxs of numbers expected"),
        ('{"trainIdxs": [1]}', "mcd1.json: lists .* expected \\(no 'testIdxs'\\)"),
        ('{"trainIdxs": [1], "testIdxs": ["a"]}', "mcd1.json: testIdxs is no list of example numbers"),
        ('{"trainIdxs": [1], "testIdxs": [10]}', "split mcd1 has example 10, and dataset.json has 10 examples"),
    ],
)
def test_a_wrong_split_is_refused(small: Folders, text: str, complaint: str) -> None:
    (small.data / "cfq/splits/mcd1.json").write_text(text)
    with pytest.raises(DataError, match=complaint):
        Cfq().prepare(small)


def test_missing_files_say_where_they_belong(small: Folders) -> None:
    with pytest.raises(DataError, match=r"cfq: no splits/mcd2.json in it; its splits: mcd1, random_split"):
        Cfq(split="mcd2").prepare(small)
    (small.data / "cfq/dataset.json").unlink()
    with pytest.raises(DataError, match=r"no dataset.json in it"):
        Cfq(split="random").prepare(small)
    shutil.rmtree(small.data / "cfq")
    with pytest.raises(DataError, match=r"cfq.tar.gz is missing and could not be downloaded .*267.6 MB"):
        Cfq().prepare(small)
