"""LRA text: reviews from folder and archive, validation split, damaged files."""

import gzip
import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from support.official_layout_converters.imdb import write_layout
from support.real_data import real_data
from support.unreachable_addresses import unreachable

from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks.base import Prepared
from attnlab.tasks.lra import text as lra_text
from attnlab.tasks.lra.text import LraText, held_out

REVIEWS = {  # in the order in which they are read: by number, then label
    "train/neg/0_3.txt": b"Dull.",
    "train/pos/0_9.txt": b"Bright.",
    "train/pos/2_10.txt": "Très bien.".encode(),
    "train/neg/10_1.txt": b"Never\0again.",
    "test/pos/1_7.txt": b"Not bad at all, this one.",
    "test/neg/2_4.txt": b"Bad.",
}
LABELS = {"neg": 0, "pos": 1}
OTHERS = {
    "README": b"about the data",
    "imdb.vocab": b"the\nand\n",
    "train/urls_pos.txt": b"http://",
    "train/unsup/0_0.txt": b"no label",
    "train/pos/._0_9.txt": b"left by a Mac",
}


@pytest.fixture
def small(tmp_path: Path) -> Folders:
    """A few reviews as in the official archive, unpacked."""
    for name, text in (REVIEWS | OTHERS).items():
        file = tmp_path / "data/aclImdb" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


def pack(data: Path) -> Path:
    """The folder as the official archive, in another order."""
    archive = data / "aclImdb_v1.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for file in sorted((data / "aclImdb").rglob("*"), reverse=True):
            tar.add(file, arcname=file.relative_to(data), recursive=False)
    shutil.rmtree(data / "aclImdb")
    return archive


def read_back(prepared: Prepared, subset: str) -> list[tuple[bytes, int]]:
    part = prepared.subsets[subset]
    return [(part.inputs[i].tobytes(), int(part.answers[i])) for i in range(len(part))]


def expected(subset: str) -> list[tuple[bytes, int]]:
    rows = [(name.split("/"), text) for name, text in REVIEWS.items()]
    return [(text.replace(b"\0", b" "), LABELS[label]) for (part, label, _), text in rows if part == subset]


@pytest.mark.parametrize("packed", [False, True])
def test_reviews_are_read_in_the_same_order_from_everywhere(small: Folders, packed: bool) -> None:
    if packed:
        pack(small.data)
    prepared = LraText(validation="test").prepare(small)
    assert list(prepared.subsets) == ["train", "val", "test"]
    assert read_back(prepared, "train") == expected("train")
    assert read_back(prepared, "val") == read_back(prepared, "test") == expected("test")
    assert "val is the test set, as published" in prepared.about
    assert "partial: train 4 (official: 25,000), test 2 (official: 25,000)" in prepared.about


def test_what_is_held_out_is_not_trained_on(small: Folders) -> None:
    prepared = LraText().prepare(small)
    train, val = read_back(prepared, "train"), read_back(prepared, "val")
    assert len(val) == 1
    assert sorted(train + val) == sorted(expected("train"))
    assert read_back(prepared, "test") == expected("test")
    assert "val is 1 of the training reviews, held out with data_seed 0" in prepared.about
    assert prepared.data_hash() == LraText().prepare(small).data_hash()
    drawn = {read_back(LraText(data_seed=seed).prepare(small), "val")[0] for seed in range(8)}
    assert len(drawn) > 1


def test_a_text_that_is_repeated_stays_on_one_side() -> None:
    reviews = [(b"the same" if number % 2 else b"number %d" % number, 1) for number in range(60)]
    for seed in range(30):
        validates = held_out(reviews, seed)
        sides = [{text for (text, _), val in zip(reviews, validates, strict=True) if val == side} for side in (0, 1)]
        assert not sides[0] & sides[1]
        # of 31 different texts
        assert len(sides[1]) == 3


def test_bytes_are_tokens_and_what_is_too_long_is_cut(small: Folders) -> None:
    prepared = LraText(validation="test", max_length=8).prepare(small)
    batch = prepared.subsets["train"].batch(np.array([2, 0]))
    assert batch.inputs.tolist() == [[*"Très bi".encode()], [*b"Dull.", 0, 0, 0]]
    assert (batch.input_lengths.tolist(), batch.answers.tolist()) == ([8, 5], [1, 0])
    spec = prepared.spec
    assert (spec.kind, spec.modality, spec.n_classes) == ("classification", "tokens", 2)
    assert (spec.input_vocabulary, spec.pad_id, spec.max_input_length) == (256, 0, 8)
    assert prepared.subsets["train"].lengths.tolist() == [5, 7, 8, 8]


def test_another_review_is_not_answered_from_the_cache(small: Folders) -> None:
    LraText(validation="test").prepare(small)
    (small.data / "aclImdb/test/neg/2_4.txt").write_bytes(b"Worse.")
    assert read_back(LraText(validation="test").prepare(small), "test")[1] == (b"Worse.", 0)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("train/pos/3_4.txt", b"Liked it.", "ratings 1 to 4 in neg and 7 to 10 in pos"),
        ("train/neg/3_0.txt", b"Hm.", "ratings 1 to 4 in neg and 7 to 10 in pos"),
        ("test/pos/notes.md", b"mine", "expected <number>_<rating>.txt"),
        ("test/pos/3_8.txt", b"", "is empty"),
    ],
)
def test_a_wrong_file_is_named(small: Folders, name: str, text: bytes, complaint: str) -> None:
    (small.data / "aclImdb" / name).write_bytes(text)
    with pytest.raises(DataError) as error:
        LraText().prepare(small)
    assert str(error.value).startswith(str(small.data / "aclImdb" / name))
    assert complaint in str(error.value)
    assert not [path for path in small.cache.iterdir() if path.is_dir()]


def test_a_folder_without_reviews_of_a_kind_is_refused(small: Folders) -> None:
    (small.data / "aclImdb/test/neg/2_4.txt").unlink()
    with pytest.raises(DataError, match=r"aclImdb has no reviews in test/neg"):
        LraText().prepare(small)


def test_a_cut_archive_is_refused(small: Folders) -> None:
    archive = pack(small.data)
    archive.write_bytes(archive.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"aclImdb_v1\.tar\.gz.* is cut short"):
        LraText().prepare(small)
    assert not [path for path in small.cache.iterdir() if path.is_dir()]


def test_a_link_in_the_archive_is_refused(small: Folders) -> None:
    with tarfile.open(small.data / "aclImdb_v1.tar.gz", "w") as tar:
        member = tarfile.TarInfo("aclImdb/train/pos/0_9.txt")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(member)
        text = tarfile.TarInfo("aclImdb/train/neg/0_3.txt")
        text.size = 1
        tar.addfile(text, io.BytesIO(b"x"))
    shutil.rmtree(small.data / "aclImdb")
    with pytest.raises(DataError, match="link"):
        LraText().prepare(small)


def test_missing_files_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lra_text, "OFFICIAL", unreachable(lra_text.OFFICIAL))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(DataError) as error:
        LraText().prepare(Folders(data=tmp_path / "data", cache=tmp_path / "cache"))
    for part in ("aclImdb_v1.tar.gz", "http://127.0.0.1:9/a", str(tmp_path / "data")):
        assert part in str(error.value)


def test_the_docstring_shows_a_real_example(tmp_path: Path) -> None:
    shown = next(line.strip() for line in lra_text.__doc__.splitlines() if "->" in line)
    assert "`train/neg/10962_3.txt`" in lra_text.__doc__
    with gzip.open(real_data("imdb/train.jsonl.gz"), "rt", encoding="utf-8") as lines:
        row = json.loads(next(line for line in lines if '"neg/10962"' in line))
    assert (row["label"], row["rating"]) == (0, 3)
    for name, text in ((f"neg/10962_{row['rating']}", row["text"]), ("pos/0_9", "x")):
        for subset in ("train", "test"):
            file = tmp_path / "aclImdb" / subset / f"{name}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    task = LraText(validation="test")
    assert task.example(task.prepare(Folders(data=tmp_path, cache=tmp_path / "cache")), "train", 1) == shown


def test_real_reviews(tmp_path: Path) -> None:
    write_layout(real_data("imdb/train.jsonl.gz").parent, tmp_path / "data", most=600)
    prepared = LraText().prepare(Folders(data=tmp_path / "data", cache=tmp_path / "cache"))
    assert {name: len(part) for name, part in prepared.subsets.items()} == {"train": 540, "val": 60, "test": 600}
    train = prepared.subsets["train"]
    assert 0.4 < train.answers.mean() < 0.6
    assert train.lengths.max() == 4000
    assert 1000 < train.lengths.mean() < 1500


@pytest.mark.slow
def test_all_real_reviews(tmp_path: Path) -> None:
    write_layout(real_data("imdb/train.jsonl.gz").parent, tmp_path / "data")
    folders = Folders(data=tmp_path / "data", cache=tmp_path / "cache")
    prepared = LraText(validation="test").prepare(folders)
    assert {name: len(part) for name, part in prepared.subsets.items()} == {"train": 25000, "val": 10000, "test": 10000}
    assert prepared.about.startswith(
        "IMDB reviews, partial: train 25,000, test 10,000 (official: 25,000); val is the test"
    )
    assert prepared.subsets["train"].answers.mean() == prepared.subsets["test"].answers.mean() == 0.5
    train = set(prepared.subsets["train"].identities())
    # 96 training reviews repeat another
    assert len(train) == 25000 - 96
    assert len(train & set(prepared.subsets["test"].identities())) == 48
