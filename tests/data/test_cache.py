"""Cached data is built once: with several processes, after a kill, after damage, on a full disk."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from support.dev_full import needs_dev_full

from attnlab.data.files import cache
from attnlab.data.files.cache import MANIFEST, build_once, cache_key, load_arrays, save_arrays
from attnlab.data.files.fetch import DataError

BUILDER = """
import sys, time
from pathlib import Path
import numpy as np
from attnlab.data.files.cache import build_once
from attnlab.data.files.cache import save_arrays

def build(folder):
    save_arrays(folder, first=np.arange(5))
    print("building", flush=True)
    time.sleep(float(sys.argv[2]))
    save_arrays(folder, second=np.ones(3))

print(np.load(build_once(Path(sys.argv[1]), build, "numbers") / "first.npy").tolist())
"""


def start(folder: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILDER, str(folder), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def build(folder: Path) -> None:
    save_arrays(folder, first=np.arange(5), second=np.ones(3))


def never(folder: Path) -> None:
    raise AssertionError(f"{folder} was built again")


def test_builds_once_and_maps(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "numbers-v1"
    for make in (build, never):
        arrays = load_arrays(build_once(folder, make, "numbers"))
    assert isinstance(arrays["first"], np.memmap)
    assert arrays["first"].tolist() == [0, 1, 2, 3, 4]
    assert sorted(arrays) == ["first", "second"]


def test_processes_that_build_together_build_once(tmp_path: Path) -> None:
    processes = [start(tmp_path / "numbers", 1.5) for _ in range(2)]
    replies = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert "".join(out for out, _ in replies).count("building") == 1
    assert "".join(err for _, err in replies).count("waiting for another process that prepares numbers") == 1


def test_a_killed_build_leaves_nothing_that_counts(tmp_path: Path) -> None:
    folder = tmp_path / "numbers"
    with start(folder, 60) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "building\n"
        process.send_signal(signal.SIGKILL)
    assert not folder.exists()
    assert list(tmp_path.glob(".numbers.*"))
    build_once(folder, build, "numbers")
    assert sorted(load_arrays(folder)) == ["first", "second"]
    assert not list(tmp_path.glob(".numbers.*"))


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        build_once(tmp_path / "numbers", fail, "numbers")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    build_once(tmp_path / "numbers", build, "numbers")


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest"])
def test_damage_is_made_good_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    folder = build_once(tmp_path / "numbers", build, "numbers")
    mapped = load_arrays(folder)["second"]
    file = folder / ("manifest.json" if damage == "manifest" else "first.npy")
    file.unlink() if damage == "gone" else file.write_bytes(file.read_bytes()[:-8])
    build_once(folder, build, "numbers")
    assert load_arrays(folder)["first"].tolist() == [0, 1, 2, 3, 4]
    assert mapped.tolist() == [1, 1, 1]
    assert capsys.readouterr().err == f"{folder} was cut short or changed: numbers is made anew\n"
    assert not list(tmp_path.glob(".numbers.*"))


def flip(file: Path, offset: int = 130) -> None:
    """Other bytes of the same size in the middle of a file, with the times it had."""
    content, status = bytearray(file.read_bytes()), file.stat()
    for at in range(offset, min(offset + 100, len(content))):
        content[at] ^= 0xFF
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets the comparisons that this process has made."""
    monkeypatch.setattr(cache, "_checked", {})


@pytest.mark.parametrize("name", ["first.npy", "deep/words.txt"])
def test_bytes_that_changed_are_made_good_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def build_deep(folder: Path) -> None:
        build(folder)
        (folder / "deep").mkdir()
        (folder / "deep/words.txt").write_text("w" * 500)

    folder = build_once(tmp_path / "numbers", build_deep, "numbers")
    written = (folder / name).read_bytes()
    flip(folder / name)
    assert len((folder / name).read_bytes()) == len(written)
    new_process(monkeypatch)
    build_once(folder, build_deep, "numbers")
    assert (folder / name).read_bytes() == written
    assert capsys.readouterr().err == f"{folder} was cut short or changed: numbers is made anew\n"


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00v\x00{'descr'", b"no array at all", b"PK\x03\x04"])
def test_a_file_that_numpy_cannot_load_is_made_good(tmp_path: Path, content: bytes) -> None:
    folder = build_once(tmp_path / "numbers", build, "numbers")
    (folder / "first.npy").write_bytes(content)
    build_once(folder, build, "numbers")
    assert load_arrays(folder)["first"].tolist() == [0, 1, 2, 3, 4]


def test_a_stray_file_is_none_of_the_arrays(tmp_path: Path) -> None:
    folder = build_once(tmp_path / "numbers", build, "numbers")
    # as macOS leaves on a foreign disk
    (folder / "._first.npy").write_bytes(b"\x00\x05\x16\x07")
    assert sorted(load_arrays(build_once(folder, never, "numbers"))) == ["first", "second"]
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "first.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match=r"first\.npy is no array .* Remove .*numbers: it is then made anew"):
        load_arrays(folder)


def test_a_folder_of_an_earlier_version_is_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build_once(tmp_path / "numbers", build, "numbers")
    sizes = {file.name: file.stat().st_size for file in folder.glob("*.npy")}
    (folder / MANIFEST).write_text(json.dumps(sizes))
    build_once(folder, build, "numbers")
    assert capsys.readouterr().err == f"{folder} was cut short or changed: numbers is made anew\n"
    build_once(folder, never, "numbers")


@pytest.mark.parametrize("manifest", ["", "[]", "{}", "null", '{"first.npy": []}', '{"../x.npy": [1, "2"]}', "\x00"])
def test_any_manifest_but_the_one_written_is_a_fault(tmp_path: Path, manifest: str) -> None:
    folder = build_once(tmp_path / "numbers", build, "numbers")
    (folder / MANIFEST).write_text(manifest)
    build_once(folder, build, "numbers")
    build_once(folder, never, "numbers")


def test_an_array_that_the_manifest_does_not_name_is_a_fault(tmp_path: Path) -> None:
    folder = build_once(tmp_path / "numbers", build, "numbers")
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({name: manifest[name] for name in manifest if name != "first.npy"}))
    assert sorted(load_arrays(build_once(folder, build, "numbers"))) == ["first", "second"]


def test_a_file_in_the_place_of_the_folder_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "numbers"
    for _ in range(2):
        folder.write_text("no folder")
        assert sorted(load_arrays(build_once(folder, build, "numbers"))) == ["first", "second"]
        assert [path.name for path in tmp_path.glob(".numbers.*")] == []
        shutil.rmtree(folder)


def test_a_process_reads_a_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, entry = [], cache._entry
    monkeypatch.setattr(cache, "_entry", lambda path: read.append(path.name) or entry(path))
    folder = build_once(tmp_path / "numbers", build, "numbers")
    new_process(monkeypatch)
    read.clear()
    for _ in range(3):
        build_once(folder, never, "numbers")
    assert sorted(read) == ["first.npy", "second.npy"]
    save_arrays(folder, first=np.arange(5, 10))
    build_once(folder, build, "numbers")
    assert load_arrays(folder)["first"].tolist() == [0, 1, 2, 3, 4]


def test_processes_that_find_damage_together_build_once(tmp_path: Path) -> None:
    folder = build_once(tmp_path / "numbers", build, "numbers")
    flip(folder / "first.npy")
    processes = [start(folder, 1.5) for _ in range(2)]
    replies = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert "".join(out for out, _ in replies).count("building") == 1
    assert [out.splitlines()[-1] for out, _ in replies] == ["[0, 1, 2, 3, 4]"] * 2
    assert not list(tmp_path.glob(".numbers.*"))


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_damage_in_a_read_only_cache_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, "no")

    folder = build_once(tmp_path / "numbers", build, "numbers")
    monkeypatch.setattr(FileLock, "acquire", refuse)
    build_once(folder, never, "numbers")
    (folder / "first.npy").unlink()
    with pytest.raises(DataError) as error:
        build_once(folder, never, "numbers")
    assert str(error.value).startswith(
        f"preparing numbers anew ({folder} was cut short or changed) in {tmp_path} failed: the folder cannot be written"
    )


@needs_dev_full
def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "first.npy").symlink_to("/dev/full")
        save_arrays(folder, first=np.zeros(100_000))

    with pytest.raises(DataError, match=r"preparing numbers in .* no space left"):
        build_once(tmp_path / "numbers", fill, "numbers")


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        build_once(tmp_path / "file" / "numbers", build, "numbers")


def test_keys_depend_on_name_version_and_options_only() -> None:
    key = cache_key("task", 1, {"a": 1, "b": "x"})
    assert key == cache_key("task", 1, {"b": "x", "a": 1})
    others = {cache_key("task", 2, {"a": 1, "b": "x"}), cache_key("task", 1, {"a": 2, "b": "x"})}
    assert len({key, cache_key("other", 1, {"a": 1, "b": "x"}), *others}) == 4


@settings(max_examples=25, deadline=None)
@given(arrays_of.arrays(st.sampled_from(["u1", "i2", "f4", "?"]), arrays_of.array_shapes(min_side=0, max_dims=3)))
def test_saved_arrays_are_read_back_equal(array: np.ndarray) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save_arrays(Path(folder), array=array, turned=array.T)
        for name, expected in (("array", array), ("turned", array.T)):
            loaded = np.load(Path(folder) / f"{name}.npy")
            assert loaded.dtype == expected.dtype
            np.testing.assert_array_equal(loaded, expected)
