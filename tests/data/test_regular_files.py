"""Pipes, folders and huge files in the place of a file are refused in a sentence, and nobody waits for them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.small_runs import BRIEF_SCAN, config_of, run_job

from attnlab.config.run_identity import run_folder
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import DataError, sha256_of
from attnlab.data.files.regular_file import LARGEST, read_regular
from attnlab.data.vocabulary import BytePair
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.report.page.sections import PictureError, read_pixels
from attnlab.report.report_record import ReportError, read_report

FAULTS: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
}
SMALL = (*BRIEF_SCAN, "model=linear", "train.max_steps=1")


@pytest.mark.parametrize("fault", FAULTS)
def test_readers_refuse_what_is_no_plain_file(fault: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    FAULTS[fault](file)
    what = "is a folder" if fault == "folder" else "is no plain file"
    with pytest.raises(OSError, match=what):
        read_regular(file)
    with pytest.raises(ReportError, match=what):
        read_report(file)
    with pytest.raises(PictureError):
        read_pixels(file, tmp_path)
    with pytest.raises(DataError, match=what):
        sha256_of(file)
    with pytest.raises(DataError, match=what):
        BytePair.load(file)
    save_arrays(tmp_path, good=np.zeros(3))
    file.rename(tmp_path / "bad.npy")
    with pytest.raises(DataError, match=r"bad.npy is no array"):
        load_arrays(tmp_path)


def test_huge_files_are_refused_unread(tmp_path: Path) -> None:
    """Without a block on the disk."""
    file = tmp_path / "file.png"
    with file.open("wb") as sparse:
        sparse.truncate(2**42)
    for action, kind in ((lambda: read_pixels(file, tmp_path), PictureError), (lambda: read_report(file), ReportError)):
        with pytest.raises(kind, match=f"has {2**42:,} bytes, far more than a run writes"):
            action()
    with pytest.raises(OSError, match="far more"):
        read_regular(file, LARGEST)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    assert run_job(config_of(folder, *SMALL), quiet=True) == 0
    return folder


@pytest.mark.parametrize("fault", FAULTS)
def test_a_checkpoint_that_is_no_file(
    fault: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    raw = config_of(tmp_path / "copy", *SMALL)
    last = run_folder(raw) / "last.ckpt"
    last.unlink()
    FAULTS[fault](last)
    (run_folder(raw) / "result.json").unlink()
    for action in (lambda: evaluate_main([f"run={run_folder(raw)}"]), lambda: run_job(raw, quiet=True)):
        assert action() == 1
        printed = capsys.readouterr().err
        assert "Traceback" not in printed and "last.ckpt is " in printed and "restore it from a copy" in printed
