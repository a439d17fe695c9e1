"""LRA pathfinder: drawn pictures in the official layout, division, incomplete releases."""

import io
import random
import shutil
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.official_layout_converters.pathfinder_stand_in import write_layout

from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import Folder
from attnlab.tasks.base import Prepared
from attnlab.tasks.lra import pathfinder
from attnlab.tasks.lra.pathfinder import LraPathfinder, Release, parse_labels

HARD = "curv_contour_length_14"
N = 120


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pathfinder32/<HARD>` with N pictures, two lists of them and pictures that no list names."""
    top = write_layout(tmp_path_factory.mktemp("drawn"), N // 2)
    other = write_layout(tmp_path_factory.mktemp("drawn"), N // 2, seed=1)
    (other / "imgs/0").rename(top / "imgs/1")
    lines = (other / "metadata/0.npy").read_text()
    (top / "metadata/1.npy").write_text(lines.replace("imgs/0", "imgs/1"))
    (top / "imgs/1/unlisted.png").write_bytes((top / "imgs/1/sample_0.png").read_bytes())
    (top / "metadata/notes.npy").write_bytes(b"not read")
    return top


@pytest.fixture
def small(drawn: Path, tmp_path: Path) -> Folders:
    shutil.copytree(drawn, tmp_path / "data/pathfinder32" / HARD)
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


def top(folders: Folders) -> Path:
    return folders.data / "pathfinder32" / HARD


def pixels(prepared: Prepared) -> dict[bytes, int]:
    """Every picture and its label."""
    return {
        image.tobytes(): int(answer)
        for subset in prepared.subsets.values()
        for image, answer in zip(*subset.arrays(), strict=True)
    }


def test_every_listed_picture_is_read_with_its_label(small: Folders) -> None:
    prepared = LraPathfinder().prepare(small)
    assert {name: len(subset) for name, subset in prepared.subsets.items()} == {"train": 96, "val": 12, "test": 12}
    expected = {}
    for number in (0, 1):
        for line in (top(small) / f"metadata/{number}.npy").read_text().splitlines():
            folder, file, _, label, *_ = line.split()
            expected[np.array(Image.open(top(small) / folder / file)).tobytes()] = int(label)
    assert len(expected) == N
    assert pixels(prepared) == expected
    assert prepared.about == (
        f"pathfinder32/{HARD}, not the whole release (120 of 200,000 pictures): 96 train, 12 val, 12 test pictures"
    )


def test_rows_are_in_natural_order_of_names(small: Folders) -> None:
    arrays = Release(Folder(top(small)), HARD).read()
    third = np.array(Image.open(top(small) / "imgs/0/sample_2.png"))
    np.testing.assert_array_equal(arrays["images"][2], third)
    assert arrays["answers"].tolist() == [0, 1] * (N // 2)


def test_the_spec_and_the_batches(small: Folders) -> None:
    prepared = LraPathfinder().prepare(small)
    spec = prepared.spec
    assert (spec.kind, spec.modality, spec.n_classes) == ("classification", "tokens", 2)
    assert (spec.input_vocabulary, spec.pad_id, spec.max_input_length) == (257, 256, 1024)
    batch = prepared.subsets["train"].batch(np.array([3, 1]))
    assert batch.inputs.shape == (2, 1024)
    assert batch.input_mask.all()
    images, answers = prepared.subsets["train"].arrays()
    np.testing.assert_array_equal(batch.inputs.numpy(), images[[3, 1]].reshape(2, -1))
    assert batch.answers.tolist() == answers[[3, 1]].tolist()
    assert "class: 1 (joined)" in LraPathfinder().example(prepared, "train", int(answers.argmax()))


def test_the_division_is_drawn_by_data_seed(small: Folders) -> None:
    prepared = {seed: LraPathfinder(data_seed=seed).prepare(small) for seed in (0, 1)}
    assert prepared[0].data_hash() == LraPathfinder(data_seed=0).prepare(small).data_hash() != prepared[1].data_hash()
    assert pixels(prepared[0]) == pixels(prepared[1])
    for each in prepared.values():
        rows = [subset.rows for subset in each.subsets.values()]
        assert sorted(np.concatenate(rows).tolist()) == list(range(N))
    # one reading serves every division
    assert len([path for path in small.cache.iterdir() if path.is_dir()]) == 1


def test_the_whole_release_is_divided_as_published() -> None:
    parts = LraPathfinder()._divide(200_000)
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 160_000, "val": 20_000, "test": 20_000}
    assert len(np.unique(np.concatenate(list(parts.values())))) == 200_000


def test_the_pictures_can_be_learned(tmp_path: Path) -> None:
    arrays = Release(Folder(write_layout(tmp_path, 400)), HARD).read()
    lit = (arrays["images"] > 0).reshape(400, -1).sum(1)
    joined = arrays["answers"] == 1
    assert joined.mean() == 0.5
    assert ((lit > np.median(lit)) == joined).mean() > 0.9


def pack(files: Path, archive: Path, above: str, shuffled: bool) -> None:
    """A tar with the files of a folder below `above`, and files of another size and difficulty."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    paths = sorted(path for path in files.rglob("*") if path.is_file())
    if shuffled:
        random.Random(0).shuffle(paths)
    with tarfile.open(archive, "w:gz") as tar:
        for other in (f"pathfinder64/{HARD}", "pathfinder32/curv_baseline"):
            for path in paths[:5]:
                tar.add(path, arcname=f"{above}{other}/{path.relative_to(files)}")
        for path in paths:
            tar.add(path, arcname=f"{above}pathfinder32/{HARD}/{path.relative_to(files)}")


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("above", ["lra_release/", "lra_release/lra_release/", "./lra_release/"])
@pytest.mark.parametrize("archive", ["lra_release.gz", "lra_release/lra_release.gz"])
def test_archives_are_read_in_any_order(small: Folders, archive: str, above: str, shuffled: bool) -> None:
    expected = LraPathfinder().prepare(small).data_hash()
    pack(top(small), small.data / archive, above, shuffled)
    shutil.rmtree(small.data / "pathfinder32")
    assert LraPathfinder().prepare(small).data_hash() == expected


@pytest.mark.parametrize("above", ["lra_release/lra_release/lra_release", "lra_release/lra_release", "lra_release", ""])
def test_unpacked_releases_are_read_where_they_lie(small: Folders, above: str) -> None:
    expected = LraPathfinder().prepare(small).data_hash()
    aside = small.data.rename(small.data.with_name("aside"))
    (small.data / above).mkdir(parents=True)
    (aside / "pathfinder32").rename(small.data / above / "pathfinder32")
    assert LraPathfinder().prepare(small).data_hash() == expected


def test_difficulties_are_kept_apart(small: Folders) -> None:
    write_layout(small.data, 20, "curv_baseline", seed=5)
    hard, easy = LraPathfinder().prepare(small), LraPathfinder(difficulty="curv_baseline").prepare(small)
    assert {name: len(subset) for name, subset in easy.subsets.items()} == {"train": 16, "val": 2, "test": 2}
    assert not set(pixels(hard)) & set(pixels(easy))
    with pytest.raises(DataError, match=r"curv_contour_length_9 .*missing"):
        LraPathfinder(difficulty="curv_contour_length_9").prepare(small)


def test_changed_lists_are_read_anew(small: Folders) -> None:
    before = LraPathfinder().prepare(small).data_hash()
    file = top(small) / "metadata/1.npy"
    file.write_text("\n".join(file.read_text().splitlines()[:-1]))
    assert LraPathfinder().prepare(small).data_hash() != before


def test_the_docstring_shows_a_line_of_the_release() -> None:
    line = next(line.strip() for line in pathfinder.__doc__.splitlines() if line.startswith("    "))
    assert list(parse_labels(io.BytesIO(line.encode()), "docstring")) == [("imgs/0/sample_0.png", 0, 1)]


def test_empty_pictures_are_left_out_and_said(small: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    (top(small) / "imgs/0/sample_17.png").write_bytes(b"")
    prepared = LraPathfinder().prepare(small)
    assert sum(map(len, prepared.subsets.values())) == N - 1
    assert prepared.about.endswith("; 1 empty left out")
    assert "empty pictures are left out: imgs/0/sample_17.png" in capsys.readouterr().err


def test_many_empty_pictures_are_a_broken_copy(small: Folders) -> None:
    for number in range(20):
        (top(small) / f"imgs/1/sample_{number}.png").write_bytes(b"")
    with pytest.raises(DataError, match="is not whole: 20 pictures are empty files"):
        LraPathfinder().prepare(small)


def png(width: int, height: int, mode: str = "L") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (width, height)).save(file, format="PNG")
    return file.getvalue()


def jpeg() -> bytes:
    file = io.BytesIO()
    Image.new("L", (32, 32)).save(file, format="JPEG")
    return file.getvalue()


def bomb() -> bytes:
    """A PNG of some bytes that claims 2^31 - 1 by 2^31 - 1 pixels."""
    content = bytearray(png(32, 32))
    content[16:24] = b"\x7f\xff\xff\xff" * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


BROKEN = {
    "noise": (b"no picture", "is no picture, or cut short"),
    "cut": (lambda whole: whole[:-40], "is no picture, or cut short"),
    "cut in the header": (lambda whole: whole[:20], "is no picture, or cut short"),
    "damaged": (lambda whole: whole[:45] + bytes(20) + whole[65:], "is no picture, or cut short"),
    "jpeg": (jpeg(), "is no picture, or cut short"),
    "bomb": (bomb(), "2147483647 x 2147483647 pixels|is no picture"),
    "larger": (png(64, 64), "has 64 x 64 pixels where 32 x 32 are expected"),
    "endless": (b"\x89PNG\r\n\x1a\n" + bytes(10**6), "is no picture, or cut short"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_picture_that_cannot_be_read_is_named(small: Folders, case: str) -> None:
    content, complaint = BROKEN[case]
    file = top(small) / "imgs/0/sample_3.png"
    file.write_bytes(content(file.read_bytes()) if callable(content) else content)
    with pytest.raises(DataError, match=complaint) as error:
        LraPathfinder().prepare(small)
    assert str(error.value).startswith(f"{file} ")
    assert not [path for path in small.cache.glob("*") if path.is_dir()]


@pytest.mark.parametrize("mode", ["1", "RGB", "P"])
def test_other_kinds_of_png_are_taken_as_grey(small: Folders, mode: str) -> None:
    file = top(small) / "imgs/0/sample_3.png"
    Image.new("L", (32, 32), "white").convert(mode).save(file)
    images = Release(Folder(top(small)), HARD).read()["images"]
    assert (images[3] == 255).all()


LINES = {
    "": None,
    "imgs/0 sample_3.png 3": "'imgs/<n> <name>.png <n> <0 or 1> ...' expected, found 'imgs/0 sample_3.png 3'",
    "imgs/0 sample_3.png 3 2 1.0": "label '2'; expected 0 or 1",
    "imgs/0 sample_3.png 3 joined": "label 'joined'; expected 0 or 1",
    "../.. secret.png 3 1 1.0": "expected, found '../.. secret.png 3 1 1.0'",
    "imgs/0 sample_3.jpg 3 1 1.0": "expected, found",
    "imgs/0 sample_3.png 3 0 1.0": "imgs/0/sample_3.png is labelled 0 here and 1 before",
    "imgs/0 sample_3.png 3 1 1.0": None,
    "\udcff": "not utf-8",
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_does_not_parse_is_named(small: Folders, line: str) -> None:
    file = top(small) / "metadata/0.npy"
    with file.open("ab") as lines:
        lines.write(line.encode(errors="surrogateescape") + b"\n")
    if LINES[line] is None:
        assert sum(map(len, LraPathfinder().prepare(small).subsets.values())) == N
        return
    with pytest.raises(DataError) as error:
        LraPathfinder().prepare(small)
    assert str(error.value).startswith(f"{file}, line 61: ")
    assert LINES[line] in str(error.value)


def test_arrays_of_numpy_in_place_of_the_text_are_named(small: Folders) -> None:
    np.save(top(small) / "metadata/0.npy", np.array([["imgs/0", "sample_0.png", "0", "1"]]))
    with pytest.raises(DataError, match=r"metadata/0\.npy, line 1: not utf-8"):
        LraPathfinder().prepare(small)


def test_missing_pictures_are_counted(small: Folders) -> None:
    for number in (2, 10, 11):
        (top(small) / f"imgs/1/sample_{number}.png").unlink()
    with pytest.raises(DataError, match=r"not whole: 3 of 120 pictures are missing, first imgs/1/sample_2\.png"):
        LraPathfinder().prepare(small)


def test_missing_lists_are_named(small: Folders) -> None:
    shutil.rmtree(top(small) / "metadata")
    with pytest.raises(DataError, match=rf"not whole: no metadata/<n>\.npy of {HARD} .*, but 121 pictures"):
        LraPathfinder().prepare(small)


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "pathfinder32" / HARD
    folder.mkdir(parents=True)
    with pytest.raises(DataError, match="of the Long Range Arena release: missing"):
        LraPathfinder().prepare(Folders(data=tmp_path, cache=tmp_path / "cache"))
    (folder / "notes.txt").touch()
    with pytest.raises(DataError, match="no metadata/<n>"):
        LraPathfinder().prepare(Folders(data=tmp_path, cache=tmp_path / "cache"))


def test_too_few_pictures_for_three_subsets(tmp_path: Path) -> None:
    write_layout(tmp_path, 9)
    with pytest.raises(DataError, match="9 pictures; validation and test need a tenth each"):
        LraPathfinder().prepare(Folders(data=tmp_path, cache=tmp_path / "cache"))


def test_a_cut_archive_is_named(small: Folders) -> None:
    pack(top(small), small.data / "lra_release.gz", "lra_release/", shuffled=False)
    archive = small.data / "lra_release.gz"
    archive.write_bytes(archive.read_bytes()[:-8000])
    with pytest.raises(DataError, match=r"lra_release\.gz.* is cut short, damaged or no archive"):
        LraPathfinder().prepare(small)


def test_an_archive_without_these_pictures_is_named(small: Folders) -> None:
    with tarfile.open(small.data / "lra_release.gz", "w:gz") as tar:
        tar.add(top(small) / "imgs", arcname="lra_release/pathfinder64/imgs")
    with pytest.raises(DataError, match=r"lra_release\.gz is not whole: no metadata/<n>\.npy .*but 0 pictures"):
        LraPathfinder().prepare(small)


def test_a_missing_release_says_where_it_belongs(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        LraPathfinder().prepare(Folders(data=tmp_path, cache=tmp_path / "cache"))
    for part in (HARD, "https://storage.googleapis.com/long-range-arena/lra_release.gz", "7.7 GB"):
        assert part in str(error.value)
    assert f"to be put at {tmp_path / 'lra_release.gz'}" in str(error.value)
    assert not (tmp_path / "cache").exists()
