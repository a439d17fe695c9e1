"""Archives of run folders: copies of a run, damage, limits, killed and simultaneous restores."""

import io
import json
import lzma
import multiprocessing
import os
import random
import shutil
import tarfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import SMALL_SCAN
from support.written_runs import a_run

from attnlab.config.job_config import compose_config
from attnlab.data.files.fetch import DataError
from attnlab.data.files.folder_or_archive import Tar
from attnlab.report.cli import report_main
from attnlab.report.runs import run_archives
from attnlab.report.runs.read_runs import run_folders
from attnlab.report.runs.run_archives import PART, unpack, unpacked_archives
from attnlab.report.runs.select_runs import select_glob
from attnlab.run.run_lock import acquired_lock

NAME = "claim/scan/linear/tag/seed0"
DIVERGED = {"state": "failed", "status": {"reason": "NonFiniteLoss: at step 7"}}
Archived = Callable[..., Path]


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_config([*SMALL_SCAN, "model=linear"])


def packed(archive: Path, files: Mapping[str, bytes], mode: str = "w:xz", **header: Any) -> Path:
    """An archive of these files; `header`: of every member."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, mode, format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for key, value in header.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content))
    return archive


@pytest.fixture
def archived(tmp_path: Path, config: dict[str, Any]) -> Archived:
    """Makes an archive below tmp_path/archives of one run that `a_run` writes."""

    def make(file: str, ood: float = 0.5, name: str = NAME, seed: int = 0, **more: Any) -> Path:
        folder = a_run(tmp_path / f"made-{file}" / name, config | {"seed": seed}, ood, **more)
        contents = {f"{name}/{each.name}": each.read_bytes() for each in sorted(folder.iterdir())}
        return packed(tmp_path / "archives" / f"{file}.tar.xz", contents)

    return make


def chosen(pattern: Path) -> dict[str, Any]:
    """State and note of the runs that a report of a glob takes, by the end of their folders."""
    with unpacked_archives(str(pattern)) as unpacked:
        selection = select_glob(str(pattern), unpacked=unpacked)
    return {
        "runs": [(run.folder.name, run.state, run.value("test/ood/sequence_accuracy")) for run in selection.runs],
        "note": selection.left_out,
    }


def seen(folder: Path) -> list[Path]:
    """What a folder holds, but for the lock of restores."""
    return [path for path in folder.glob("*") if path.name != run_archives.LOCK]


def test_equal_copies_of_a_run_are_one_and_different_ones_are_refused(
    archived: Archived, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = archived("seed0_a"), archived("seed0_b")
    assert chosen(tmp_path / "archives") == {"runs": [("seed0", "finished", 50.0)], "note": ""}
    assert unpack([first, second], tmp_path / "into") == (1, [])
    second = archived("seed0_c", 0.7)
    assert report_main([f"runs={tmp_path}/archives", f"out={tmp_path}/out"]) == 1
    message = capsys.readouterr().err
    assert all(word in message for word in (str(first), str(second), "seed0", "result.json"))
    with pytest.raises(DataError, match=r"result\.json"):
        unpack([first, second], tmp_path / "other")
    with pytest.raises(DataError, match=r"config\.yaml"):
        unpack([first, archived("seed1", seed=1)], tmp_path / "other")
    assert not seen(tmp_path / "other")


def test_a_run_at_an_earlier_time_is_no_other_run(archived: Archived, tmp_path: Path) -> None:
    archived("seed0_unfinished", state="stopped")
    archived("seed0", 0.6)
    found = chosen(tmp_path / "archives")
    assert found["runs"] == [("seed0", "finished", 60.0)]
    assert "seed0_unfinished.tar.xz has it at an earlier time" in found["note"]
    archived("seed0_later", state="stopped", status={"step": 9})
    assert chosen(tmp_path / "archives/seed0_[lu]*")["runs"] == [("seed0", "stopped", None)]
    archived("seed0_diverged", **DIVERGED)
    with pytest.raises(DataError, match="different copies"):
        chosen(tmp_path / "archives")


def test_a_folder_and_an_archive_are_compared(archived: Archived, config: dict[str, Any], tmp_path: Path) -> None:
    archive, runs = archived("seed0", 0.6), tmp_path / "runs"
    copy = a_run(runs / NAME, config | {"seed": 0}, 0.6, status={"pid": 1, "host": "another", "updated": "later"})
    both = tmp_path / "[ar]*s"
    assert len(chosen(both)["runs"]) == 1 and unpack([archive], runs) == (0, [])
    # another claim has a run of the same task, model, tag and seed
    a_run(runs / NAME.replace("claim", "another"), config | {"seed": 0, "debug": None, "tag": "x"}, 0.9)
    assert sorted(number for *_, number in chosen(both)["runs"]) == [60.0, 90.0]
    shutil.rmtree(copy)
    a_run(copy, config | {"seed": 0}, 0.7)
    for action in (lambda: chosen(both), lambda: unpack([archive], runs)):
        with pytest.raises(DataError) as error:
            action()
        assert str(copy) in str(error.value) and str(archive) in str(error.value)


def test_an_outcome_in_an_archive_takes_the_place_of_an_unfinished_folder_which_is_kept(
    archived: Archived, config: dict[str, Any], tmp_path: Path
) -> None:
    archive, runs = archived("seed0", 0.6), tmp_path / "runs"
    folder = a_run(runs / NAME, config | {"seed": 0}, state="stopped")
    (folder / "last.ckpt").touch()
    assert chosen(tmp_path / "[ar]*s")["runs"] == [("seed0", "finished", 60.0)]
    with acquired_lock(folder):
        number, said = unpack([archive], runs)
    assert number == 0 and "locked" in said[1] and (folder / "last.ckpt").exists()
    number, said = unpack([archive], runs)
    assert number == 1 and str(archive) in said[0] and not (folder / "last.ckpt").exists()
    (kept,) = runs.rglob("last.ckpt")
    assert str(kept.parent) in said[1] and run_folders(str(runs)) == [folder]
    assert unpack([archive], runs) == (0, [])
    # a folder with an outcome stays, whatever an archive has of its past
    assert unpack([archived("seed0_unfinished", state="stopped")], runs)[0] == 0
    assert json.loads((folder / "status.json").read_text())["state"] == "finished"


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({f"{NAME}/result.json": b"{}"}, f"{NAME} has no config.yaml"),
        ({f"{NAME}/config.yaml": b"", f"{NAME}/inner/config.yaml": b""}, f"{NAME}/inner lies inside"),
        ({"a/b/seed1/config.yaml": b"", "a/config.yaml": b""}, "a/b/seed1 lies inside"),
    ],
)
def test_a_run_without_a_configuration_or_inside_of_another_is_named(
    files: dict[str, bytes], named: str, tmp_path: Path
) -> None:
    archive = packed(tmp_path / "seed0.tar.xz", files)
    with pytest.raises(DataError, match=named), unpacked_archives(str(archive)):
        pass
    parts = [packed(tmp_path / f"seed{k}.tar.xz", {name: content}) for k, (name, content) in enumerate(files.items())]
    with pytest.raises(DataError, match=named):
        unpack(parts, tmp_path / "into")
    assert not seen(tmp_path / "into")


def test_a_file_twice_in_an_archive_is_refused(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.tar.xz", {f"{NAME}/config.yaml": b"", f"{NAME}/./config.yaml": b"seed: 1"})
    with pytest.raises(DataError, match="twice"):
        unpack([archive], tmp_path / "into")


def test_an_archive_that_expands_without_measure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {f"claim/seed{k}/{name}": b"" for k in range(2) for name in ("config.yaml", "metrics.csv")}
    zeros = {name: bytes(12 * 2**20) if name.endswith("csv") else b"" for name in runs}
    archive = packed(tmp_path / "seed0.tar.xz", zeros)
    limit = run_archives.FREE + run_archives.EXPANSION * archive.stat().st_size
    with pytest.raises(DataError, match=rf"seed0\.tar\.xz .* {limit:,} bytes"):
        unpack([archive], tmp_path / "into")
    monkeypatch.setattr(run_archives, "MOST_FILES", 3)
    with pytest.raises(DataError, match=r"many\.tar\.xz .* 3 files"):
        unpack([packed(tmp_path / "many.tar.xz", runs)], tmp_path / "into")
    assert not seen(tmp_path / "into")


def test_what_a_killed_restore_has_left_is_no_run_and_is_removed(
    archived: Archived, config: dict[str, Any], tmp_path: Path
) -> None:
    archive, runs = archived("seed0"), tmp_path / "runs"
    left = a_run(runs / f"{PART}killed" / NAME, config | {"seed": 0})
    a_run(runs / NAME, config | {"seed": 0})
    assert run_folders(str(runs)) == [runs / NAME] and len(chosen(runs)["runs"]) == 1
    assert unpack([archive], runs) == (0, []) and not left.exists()
    assert not list(runs.glob(f"{PART}*"))


def test_restores_at_once_unpack_every_run_once(config: dict[str, Any], archived: Archived, tmp_path: Path) -> None:
    archives = [archived(f"seed{k}", name=NAME.replace("seed0", f"seed{k}"), seed=k) for k in range(6)]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        counts = pool.starmap(unpack, [(archives, tmp_path / "runs")] * 4)
    assert sum(count for count, _ in counts) == 6 and len(run_folders(str(tmp_path / "runs"))) == 6


@pytest.mark.parametrize(
    "header",
    [
        {"pax_headers": {"GNU.sparse.map": "a,b"}},
        {"pax_headers": {"GNU.sparse.size": "many"}},
        {"pax_headers": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}},
        {"pax_headers": {"GNU.sparse.realsize": "x", "GNU.sparse.major": "0", "GNU.sparse.minor": "1"}},
        {"pax_headers": {"path": "claim/se\0ed0/config.yaml"}},
        {"pax_headers": {"path": "claim/\x1b[2J/config.yaml"}},
        {"pax_headers": {"path": f"claim/{'x' * 5000}/config.yaml"}},
        {"pax_headers": {"path": "claim/config.yaml/config.yaml"}},
    ],
)
def test_odd_headers_are_errors_that_name_the_archive(header: dict[str, Any], tmp_path: Path) -> None:
    files = {"claim/config.yaml": b"seed: 0", f"{NAME}/config.yaml": b"2\n0\n1\n"}
    for mode in ("w", "w:xz"):
        archive = packed(tmp_path / "seed0.tar.xz", files, mode, **header)
        with pytest.raises(DataError, match=str(archive)):
            unpack([archive], tmp_path / "into")
        # archives of data hold names that no run folder has
        with suppress(DataError):
            list(Tar(archive).walk(lambda name: True))
    assert not seen(tmp_path / "into")


def test_mutated_archives_are_read_or_refused_by_name(tmp_path: Path, archived: Archived) -> None:
    with lzma.open(archived("seed0")) as file:
        whole = file.read()
    random_numbers, archive, refused = random.Random(0), tmp_path / "mutated.tar.xz", 0
    heads = [at for at in range(0, len(whole), 512) if whole[at + 257 : at + 262] == b"ustar"]
    for _ in range(100):
        content, head = bytearray(whole), random_numbers.choice(heads)
        for _ in range(random_numbers.choice((1, 2, 5))):
            content[head + random_numbers.randrange(512)] = random_numbers.choice((0, 10, 48, 61, 120, 128, 255))
        content[head + 148 : head + 156] = b" " * 8
        content[head + 148 : head + 156] = b"%06o\0 " % sum(content[head : head + 512])
        archive.write_bytes(content)
        try:
            unpack([archive], tmp_path / "into")
        except DataError as error:
            refused += 1
            assert str(archive) in str(error)
        shutil.rmtree(tmp_path / "into")
    assert 10 < refused < 100
    assert os.listdir(tmp_path / "archives") == ["seed0.tar.xz"]
