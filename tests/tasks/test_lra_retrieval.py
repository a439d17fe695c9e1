"""LRA retrieval on generated files in the official layout; the real files are not available."""

import gzip
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from support.official_layout_converters.aan_stand_in import write_layout

from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks.lra import retrieval
from attnlab.tasks.lra.retrieval import LraRetrieval

LINES = {
    "train": [b"1.0\tA\tB\tone text\tthe other", b"0.0\tA\tC\tx\ty\xff", b"1\tB\tC\tlong enough to be cut\tz"],
    "eval": [b"0\tA\tB\ta\tb"],
    "test": [b"0\tC\tD\tc\td", b"1\tD\tE\te\tf"],
}


@pytest.fixture
def small(tmp_path: Path) -> Folders:
    """A few pairs as in the unpacked release."""
    folder = tmp_path / "data/lra_release/lra_release/tsv_data"
    folder.mkdir(parents=True)
    for part, lines in LINES.items():
        (folder / f"new_aan_pairs.{part}.tsv").write_bytes(b"\n".join(lines) + b"\n")
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


def read_back(folders: Folders, subset: str, **options: int) -> list[tuple[bytes, bytes, int]]:
    part = LraRetrieval(**options).prepare(folders).subsets[subset]
    return [(part.inputs[i].tobytes(), part.others[i].tobytes(), int(part.answers[i])) for i in range(len(part))]


def test_both_texts_are_read_byte_by_byte(small: Folders) -> None:
    assert read_back(small, "train", max_length=10) == [
        (b"one text", b"the other", 1),
        (b"x", b"y\xff", 0),
        (b"long enoug", b"z", 1),
    ]
    assert read_back(small, "val") == [(b"a", b"b", 0)]
    assert [answer for _, _, answer in read_back(small, "test")] == [0, 1]


def test_batches_and_spec(small: Folders) -> None:
    prepared = LraRetrieval(max_length=10).prepare(small)
    batch = prepared.subsets["train"].batch(np.array([0, 1]))
    assert batch.inputs.tolist() == [[*b"one text"], [*b"x", *[0] * 7]]
    assert batch.others.tolist() == [[*b"the other"], [*b"y\xff", *[0] * 7]]
    assert batch.other_mask.sum(1).tolist() == batch.other_lengths.tolist() == [9, 2]
    assert batch.answers.tolist() == [1, 0]
    assert prepared.subsets["train"].lengths.tolist() == [9, 2, 10]
    spec = prepared.spec
    assert (spec.kind, spec.modality, spec.n_classes) == ("classification", "token_pairs", 2)
    assert (spec.input_vocabulary, spec.pad_id, spec.max_input_length) == (256, 0, 10)
    assert "not the official files: train 3 (official: 147,086)" in prepared.about


@pytest.mark.parametrize("where", ["lra_release.gz", "tsv_data", "gzipped", "aan"])
def test_files_are_read_where_they_lie(small: Folders, where: str) -> None:
    expected = read_back(small, "train")
    files = small.data.rename(small.data.with_name("away")) / "lra_release/lra_release/tsv_data"
    small.data.mkdir()
    if where == "lra_release.gz":
        with tarfile.open(small.data / where, "w:gz") as tar:
            tar.add(files, arcname="lra_release/lra_release/tsv_data")
    elif where == "gzipped":
        (small.data / "tsv_data").mkdir()
        for file in files.iterdir():
            (small.data / "tsv_data" / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    else:
        shutil.copytree(files, small.data / where)
    assert read_back(small, "train") == expected


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"1\tA\tB\tone text", "found 4 of these 5 fields"),
        (b"1\tA\tB\tone\ttwo\tthree", "found 6 of these 5 fields"),
        (b"", "found 1 of these 5 fields"),
        (b"yes\tA\tB\tone\ttwo", "label 0 or 1 expected, found 'yes'"),
        (b"2.0\tA\tB\tone\ttwo", "label 0 or 1 expected, found '2.0'"),
        (b"1\tA\tB\t\ttwo", "an empty text"),
    ],
)
def test_a_bad_line_is_named(small: Folders, line: bytes, complaint: str) -> None:
    file = small.data / "lra_release/lra_release/tsv_data/new_aan_pairs.train.tsv"
    file.write_bytes(b"\n".join([LINES["train"][0], line, LINES["train"][2]]) + b"\n")
    with pytest.raises(DataError) as error:
        LraRetrieval().prepare(small)
    assert str(error.value).startswith(f"{file}, line 2: ")
    assert complaint in str(error.value)
    assert not [path for path in small.cache.iterdir() if path.is_dir()]


def test_files_that_are_missing_or_empty(small: Folders) -> None:
    file = small.data / "lra_release/lra_release/tsv_data/new_aan_pairs.eval.tsv"
    file.write_bytes(b"")
    with pytest.raises(DataError, match="val is empty"):
        LraRetrieval().prepare(small)
    file.unlink()
    with pytest.raises(DataError, match=r"lacks new_aan_pairs\.eval\.tsv"):
        LraRetrieval().prepare(small)
    shutil.rmtree(small.data / "lra_release")
    with pytest.raises(DataError) as error:
        LraRetrieval().prepare(small)
    for part in ("retrieval pairs", "7.7 GB", "tsv_data", "lra_release.gz", str(small.data)):
        assert part in str(error.value)


def test_a_cut_file_is_refused(small: Folders) -> None:
    file = small.data / "lra_release/lra_release/tsv_data/new_aan_pairs.test.tsv"
    whole = gzip.compress(file.read_bytes())
    file.unlink()
    file.with_name(file.name + ".gz").write_bytes(whole[:-12])
    with pytest.raises(DataError, match=r"new_aan_pairs\.test\.tsv\.gz.* is cut short"):
        LraRetrieval().prepare(small)


def test_the_stand_in_is_read_in_the_official_layout(tmp_path: Path) -> None:
    write_layout(None, tmp_path / "data")
    prepared = LraRetrieval().prepare(Folders(data=tmp_path / "data", cache=tmp_path / "cache"))
    assert {name: len(part) for name, part in prepared.subsets.items()} == {"train": 400, "val": 60, "test": 60}
    train = prepared.subsets["train"]
    assert train.answers.mean() == 0.5
    first, second = (side[1].tobytes().decode() for side in (train.inputs, train.others))
    assert first[:2] == second[:2] == "b'"
    assert LraRetrieval().example(prepared, "train", 1) == f"{first}\n{second}\n->  does not cite"


def test_the_docstring_shows_a_line_of_the_stand_in(tmp_path: Path) -> None:
    write_layout(None, tmp_path)
    line = (tmp_path / "lra_release/tsv_data/new_aan_pairs.train.tsv").read_text().splitlines()[380]
    shown = next(line.strip() for line in retrieval.__doc__.splitlines() if "<TAB>" in line)
    assert shown.replace("<TAB>", "\t") == line
