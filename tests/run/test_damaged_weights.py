"""Every reader refuses weights that were changed on the disk, and files of another kind."""

import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import SMALL_CLEVR, config_of, run_job

from attnlab.config.run_identity import run_folder
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.report.cli import report_main

SMALL = (*SMALL_CLEVR, "model=linear", "train.max_steps=4", "train.validate_every=2", "train.checkpoint_every=2")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    assert run_job(config_of(folder, *SMALL), quiet=True) == 0
    return folder


@pytest.fixture
def raw(finished: Path, tmp_path: Path) -> dict[str, Any]:
    """The configuration of a copy, to be spoilt."""
    shutil.copytree(finished, tmp_path / "copy")
    return config_of(tmp_path / "copy", *SMALL)


def said_by(raw: dict[str, Any], capsys: pytest.CaptureFixture[str], *, readers: str) -> list[str]:
    """What each command says that reads the weights; each fails."""
    folder = run_folder(raw)
    begun = config_of(Path(raw["paths"]["runs"]).parent, *SMALL, f"from_run='{folder}'", "seed=9")
    actions = {
        "evaluate": lambda: evaluate_main([f"run={folder}"]),
        "evaluate last": lambda: evaluate_main([f"run={folder}", "checkpoint=last"]),
        "diagnose": lambda: report_main([f"diagnose={folder}", "quantities=norms"]),
        "begin": lambda: run_job(begun, quiet=True),
        "resume": lambda: run_job(raw, quiet=True),
    }
    (folder / "result.json").unlink()
    messages = []
    for name in readers.split(", "):
        capsys.readouterr()
        assert actions[name]() > 0, name
        messages.append(capsys.readouterr().err)
        assert "Traceback" not in messages[-1], name
    return messages


def flip(path: Path) -> None:
    """Change one byte of the largest array in a file, as a bad disk does."""
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.file_size)
        with archive.open(largest) as content:
            part = content.read()
    whole = bytearray(path.read_bytes())
    offset = whole.index(part)
    whole[offset + len(part) // 2] ^= 64
    path.write_bytes(whole)


def best_of(raw: dict[str, Any]) -> Path:
    """The file of the best weights by the validation of all questions."""
    (best,) = run_folder(raw).glob("best_step*.pt")
    return best


ALL = "evaluate, evaluate last, diagnose, begin, resume"


def test_a_changed_byte_of_the_checkpoint_is_noticed(raw: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    flip(run_folder(raw) / "last.ckpt")
    for printed in said_by(raw, capsys, readers=ALL):
        assert "last.ckpt is cut short or damaged" in printed and "restore it from a copy" in printed


def test_a_changed_byte_of_the_best_weights_is_noticed(raw: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    best = best_of(raw)
    flip(best)
    for printed in said_by(raw, capsys, readers="evaluate, diagnose, begin, resume"):
        assert f"{best.name} is cut short or damaged" in printed


def test_best_weights_in_the_place_of_the_checkpoint(raw: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copyfile(best_of(raw), run_folder(raw) / "last.ckpt")
    for printed in said_by(raw, capsys, readers=ALL):
        assert "last.ckpt is another kind of file than its name says (global_step: missing)" in printed


def test_the_checkpoint_in_the_place_of_best_weights(raw: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    best = best_of(raw)
    shutil.copyfile(run_folder(raw) / "last.ckpt", best)
    for printed in said_by(raw, capsys, readers="evaluate, diagnose, begin, resume"):
        assert f"{best.name} is another kind of file than its name says (step: missing)" in printed
