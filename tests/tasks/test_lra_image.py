"""LRA image: batches of CIFAR-10 in every official layout, grey values, division, damaged files."""

import hashlib
import pickle
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.official_layout_converters import python2
from support.official_layout_converters.cifar10 import write_layout
from support.real_data import real_data
from support.unreachable_addresses import unreachable

from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks.base import Prepared
from attnlab.tasks.lra import image as lra_image
from attnlab.tasks.lra.image import (
    BATCHES,
    CLASSES,
    OFFICIAL,
    LraImage,
    parse_batch,
    to_grey,
)


def pictures(seed: int, n: int) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 3072), dtype=np.uint8), rng.integers(0, 10, n).tolist()


def write_batches(folder: Path, n: int = 6) -> Path:
    """CIFAR-10 in small, as Python 2 pickled it."""
    folder.mkdir(parents=True)
    for seed, name in enumerate(BATCHES):
        pixels, labels = pictures(seed, n)
        (folder / name).write_bytes(python2.batch(pixels, labels, [f"{k}.png" for k in range(n)]))
    (folder / "readme.html").write_text("not read")
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Folders:
    write_batches(tmp_path / "data/cifar-10-batches-py")
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("cifar10")
    write_layout(real_data("cifar10/cifar-10-python-subset.tar.gz"), folder / "data")
    return LraImage().prepare(Folders(data=folder / "data", cache=folder / "cache"))


def grey_in_floats(red: float, green: float, blue: float) -> float:
    return (0.2989 * red + 0.5870 * green + 0.1140 * blue) / 255 * 255.5


def test_grey_is_the_weighted_sum_rounded_down() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (4, 3, 1024), dtype=np.uint8)
    pixels[0, :, :3] = [[0, 255, 255], [0, 255, 0], [0, 255, 0]]
    actual = to_grey(pixels.reshape(4, 3072))
    assert (actual.dtype, actual.shape) == (np.uint8, (4, 32, 32))
    expected = grey_in_floats(*np.moveaxis(pixels.astype(float), 1, 0))
    # where the sum is no whole number there is no doubt
    clear = np.abs(expected - expected.round()) > 1e-6
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(actual.reshape(4, 1024)[clear], np.floor(expected[clear]))
    assert actual[0, 0, :3].tolist() == [0, 255, 76]


def test_pixels_are_read_row_by_row_and_channel_by_channel() -> None:
    pixels = np.zeros((1, 3, 32, 32), dtype=np.uint8)
    pixels[0, 1, 2, 5] = 255
    grey = to_grey(pixels.reshape(1, 3072))[0]
    assert np.argwhere(grey).tolist() == [[2, 5]]
    assert grey[2, 5] == int(grey_in_floats(0, 255, 0))


def test_subsets_follow_the_batches(small: Folders) -> None:
    prepared = LraImage().prepare(small)
    assert {name: len(subset) for name, subset in prepared.subsets.items()} == {"train": 27, "val": 3, "test": 6}
    batches = [pictures(seed, 6) for seed in range(6)]
    images = to_grey(np.concatenate([pixels for pixels, _ in batches]))
    labels = [label for _, of_batch in batches for label in of_batch]
    for name, rows in (("train", slice(0, 27)), ("val", slice(27, 30)), ("test", slice(30, 36))):
        batch = prepared.subsets[name].batch(np.arange(len(prepared.subsets[name])))
        np.testing.assert_array_equal(batch.inputs.numpy(), images[rows].reshape(-1, 1024))
        assert batch.answers.tolist() == labels[rows]
        assert batch.input_mask.all()


def test_the_spec_and_the_batches(small: Folders) -> None:
    prepared = LraImage().prepare(small)
    spec, train = prepared.spec, prepared.subsets["train"]
    assert (spec.kind, spec.modality, spec.n_classes) == ("classification", "tokens", 10)
    assert (spec.input_vocabulary, spec.pad_id, spec.max_input_length) == (257, 256, 1024)
    assert spec.metrics == ("accuracy",)
    batch = train.batch(np.array([4, 0, 4]))
    assert batch.index.tolist() == [4, 0, 4]
    assert {str(tensor.dtype) for tensor in batch.tensors().values()} == {"torch.int64"}
    np.testing.assert_array_equal(batch.inputs[1].numpy().reshape(32, 32), train.pictures(np.array([0]))[0])
    assert 0 <= int(batch.inputs.min()) <= int(batch.inputs.max()) < spec.pad_id
    assert len(set(train.identities())) == len(train) == 27
    assert train.lengths is None
    assert prepared.data_hash() == LraImage().prepare(small).data_hash()


@pytest.mark.parametrize("location", OFFICIAL.paths)
def test_official_files_are_read_where_they_lie(small: Folders, location: str) -> None:
    expected = LraImage().prepare(small).data_hash()
    aside = small.data.rename(small.data.with_name("aside")) / "cifar-10-batches-py"
    (small.data / location).parent.mkdir(parents=True)
    if location.endswith(".gz"):
        with tarfile.open(small.data / location, "w:gz") as tar:
            tar.add(aside, arcname="cifar-10-batches-py")
    else:
        shutil.copytree(aside, small.data / location)
    assert LraImage().prepare(small).data_hash() == expected


def test_a_replaced_file_is_read_anew(small: Folders) -> None:
    before = LraImage().prepare(small).data_hash()
    pixels, labels = pictures(99, 6)
    (small.data / "cifar-10-batches-py/data_batch_3").write_bytes(python2.batch(pixels, labels, list("abcdef")))
    assert LraImage().prepare(small).data_hash() != before


def test_the_official_files_are_known(small: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LraImage().prepare(small).about.startswith("not the official CIFAR-10")
    for name in BATCHES:
        content = (small.data / "cifar-10-batches-py" / name).read_bytes()
        monkeypatch.setitem(BATCHES, name, hashlib.md5(content, usedforsecurity=False).hexdigest())
    shutil.rmtree(small.cache)
    about = LraImage().prepare(small).about
    assert about.startswith("CIFAR-10's official files in grey: 27 train, 3 val, 6 test pictures")


def test_the_real_copy_is_read_and_named(real: Prepared) -> None:
    assert {name: len(subset) for name, subset in real.subsets.items()} == {"train": 9000, "val": 1000, "test": 2000}
    assert real.about == (
        "not the official CIFAR-10 (other bytes; LRA has 45,000, 5,000 and 10,000 pictures): "
        "9,000 train, 1,000 val, 2,000 test pictures"
    )
    answers = {name: subset.arrays()[1] for name, subset in real.subsets.items()}
    assert np.bincount(np.concatenate([answers["train"], answers["val"]])).tolist() == [1000] * 10
    assert np.bincount(answers["test"]).tolist() == [200] * 10
    first = real.subsets["train"].pictures(np.array([0]))[0]
    assert 80 < first.mean() < 200
    identities = {name: set(subset.identities()) for name, subset in real.subsets.items()}
    assert not identities["train"] & identities["test"]


def test_the_docstring_shows_a_real_example(real: Prepared) -> None:
    shown = [line.strip() for line in lra_image.__doc__.splitlines() if line.startswith("    ")]
    assert "\n".join(shown) == LraImage().example(real, "train", 0)


def test_example_names_the_class(small: Folders) -> None:
    text = LraImage().example(LraImage().prepare(small), "test", 5)
    label = pictures(5, 6)[1][5]
    assert f"class: {label} ({CLASSES[label]})" in text


def replaced(**changes: object) -> Callable[[Path], None]:
    pixels, labels = pictures(0, 6)
    batch = {b"data": pixels, b"labels": labels} | {key.encode(): value for key, value in changes.items()}
    content = pickle.dumps({key: value for key, value in batch.items() if value is not None}, 2)
    return lambda file: file.write_bytes(content)


WRONG = {
    "cut": (lambda file: file.write_bytes(file.read_bytes()[:9000]), "is cut short or no pickle"),
    "empty file": (lambda file: file.write_bytes(b""), "is cut short or no pickle"),
    "text": (lambda file: file.write_text("label,pixels\n"), "is cut short or no pickle"),
    "hostile": (lambda file: file.write_bytes(b"\x80\x02cos\nsystem\nU\x04true\x85R."), "asks for os.system"),
    "no pixels": (replaced(data=None), "data is missing; expected uint8 of shape n x 3072"),
    "other pixels": (replaced(data=np.zeros((6, 1024), dtype=np.uint8)), "data is uint8 of shape 6 x 1024"),
    "floats": (replaced(data=np.zeros((6, 3072))), "data is float64 of shape 6 x 3072"),
    "pixels in a list": (replaced(data=[1, 2]), "data is a list of 2"),
    "CIFAR-100": (replaced(labels=None, fine_labels=[1] * 6), "labels are missing"),
    "labels in a row": (replaced(labels=np.arange(6)), "labels are int64 of shape 6"),
    "a label too few": (replaced(labels=[1] * 5), "labels are a list of 5; expected a list of 6"),
    "a label outside": (replaced(labels=[1, 2, 10, 3, 4, 5]), "label 10 of picture 2; expected 0 to 9"),
    "a negative label": (replaced(labels=[-1, 2, 1, 3, 4, 5]), "label -1 of picture 0"),
    "a label of text": (replaced(labels=[1, "cat", 1, 3, 4, 5]), "label str of picture 1"),
    "no picture": (replaced(data=np.zeros((0, 3072), dtype=np.uint8), labels=[]), "labels are a list of 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_batch_is_named(small: Folders, case: str) -> None:
    damage, complaint = WRONG[case]
    file = small.data / "cifar-10-batches-py/data_batch_2"
    damage(file)
    with pytest.raises(DataError) as error:
        LraImage().prepare(small)
    assert str(error.value).startswith(f"{file} ")
    assert complaint in str(error.value)
    assert "Put the official file in its place" in str(error.value)
    assert not [path for path in small.cache.glob("*") if path.is_dir()]


def test_missing_batches_are_named(small: Folders) -> None:
    folder = small.data / "cifar-10-batches-py"
    (folder / "data_batch_4").unlink()
    (folder / "test_batch").unlink()
    with pytest.raises(DataError, match=r"cifar-10-batches-py: data_batch_4, test_batch missing .*data_batch_1, "):
        LraImage().prepare(small)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "readme.html").touch()
    with pytest.raises(DataError, match=r"data_batch_1, .*test_batch missing"):
        LraImage().prepare(small)


def test_too_few_pictures_for_a_validation_set(tmp_path: Path) -> None:
    write_batches(tmp_path / "cifar-10-batches-py", n=1)
    with pytest.raises(DataError, match="5 training pictures; validation needs a tenth"):
        LraImage().prepare(Folders(data=tmp_path, cache=tmp_path / "cache"))


def test_a_cut_archive_is_named(small: Folders) -> None:
    with tarfile.open(small.data / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(small.data / "cifar-10-batches-py", arcname="cifar-10-batches-py")
    archive = small.data / "cifar-10-python.tar.gz"
    archive.write_bytes(archive.read_bytes()[:60_000])
    with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz: .* is cut short, damaged"):
        LraImage().prepare(small)


def test_missing_files_say_where_they_belong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lra_image, "OFFICIAL", unreachable(OFFICIAL))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(DataError) as error:
        LraImage().prepare(Folders(data=tmp_path / "data", cache=tmp_path / "cache"))
    for part in ("http://127.0.0.1:9/", "170.5 MB", str(tmp_path / "data/cifar-10-python.tar.gz")):
        assert part in str(error.value)


def test_a_batch_of_today_is_read_too() -> None:
    pixels, labels = pictures(3, 2)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        images, answers = parse_batch(pickle.dumps({"data": pixels, "labels": labels}, protocol), "file")
        np.testing.assert_array_equal(images, to_grey(pixels))
        assert answers.tolist() == labels
