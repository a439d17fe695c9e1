"""The wheel: built, installed into a folder of its own, used outside the repository."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.small_runs import ROOT, environment

TINY = ("debug=smoke", "trainer.device=cpu", "train.max_steps=2")
OWN_MODEL = """\
defaults: [linear, _self_]
name: mine
ortho: {weight: 0.1}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (file,) = folder.glob("attnlab-*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel is installed into; libraries are those of this environment."""
    target = tmp_path_factory.mktemp("installed")
    _pip("install", "--target", str(target), str(wheel))
    return target


def _pip(*words: str) -> None:
    line = [sys.executable, "-m", "pip", words[0], "--quiet", "--no-deps", "--disable-pip-version-check", *words[1:]]
    done = subprocess.run(line, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr


def _command(installed: Path, folder: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = environment() | {"PYTHONPATH": str(installed)}
    line = [sys.executable, str(installed / "bin" / name), *words]
    return subprocess.run(line, capture_output=True, text=True, env=env, cwd=folder, timeout=240, check=False)


def test_the_wheel_holds_every_file_beside_the_code(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    beside = {file.relative_to(source).as_posix() for file in source.rglob("*") if file.suffix not in ("", ".pyc")}
    beside = {name for name in beside if ".egg-info" not in name}
    assert "attnlab/py.typed" in beside and beside <= held
    for folder, inside in (("conf", "conf"), ("experiments/published", "published")):
        there = {f"attnlab/{inside}/{file.relative_to(ROOT / folder)}" for file in (ROOT / folder).rglob("*.yaml")}
        assert len(there) >= 5 and there <= held


def test_the_installed_commands_work_outside_the_repository(installed: Path, tmp_path: Path) -> None:
    own = tmp_path / "conf" / "model"
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text(OWN_MODEL)
    trained = _command(installed, tmp_path, "attnlab-train", "task=scan", "model=mine", *TINY)
    assert trained.returncode == 0, trained.stderr[-3000:]
    assert "  attnlab-evaluate run=" in trained.stdout and "python " not in trained.stdout
    (run,) = tmp_path.glob("experiments/runs/*/mine/*/seed0")
    assert (run / "result.json").exists()
    reported = _command(installed, tmp_path, "attnlab-report", "runs=experiments/runs", "include=debug")
    assert reported.returncode == 0, reported.stderr[-3000:]
    assert "mine" in reported.stdout


def test_messages_of_the_installed_commands(installed: Path, tmp_path: Path) -> None:
    wrong = _command(installed, tmp_path, "attnlab-train", "task=scna")
    assert wrong.returncode == 2 and "nearest: scan" in wrong.stderr and "attnlab-train --help" in wrong.stderr
    table = _command(installed, tmp_path, "attnlab-report", "experiment=park2024/table4_scan")
    assert table.returncode == 1 and "45 missing); attnlab-train experiment=park2024/table4_scan" in table.stderr
