"""The wheel: built, installed into a folder of its own, used outside the repository."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.small_runs import ROOT, environment

TINY = ("debug=smoke", "trainer.device=cpu", "train.max_steps=2")
RUNNER = """
import contextlib, io, json, runpy, sys
ended = []
for line in json.loads(sys.argv[1]):
    sys.argv, code, out, err = line, 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(line[0], run_name="__main__")
        except SystemExit as error:
            code = error.code or 0
    ended.append([code, out.getvalue(), err.getvalue()])
open("ended.json", "w").write(json.dumps(ended))
"""
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


def _commands(installed: Path, folder: Path, *lines: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Runs installed commands one after the other in one process; the exit code and output of each."""
    env = environment() | {"PYTHONPATH": str(installed)}
    words = json.dumps([[str(installed / "bin" / name), *words] for name, *words in lines])
    line = [sys.executable, "-c", RUNNER, words]
    done = subprocess.run(line, capture_output=True, text=True, env=env, cwd=folder, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "ended.json").read_text())


def test_the_wheel_holds_every_file_beside_the_code(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    beside = {file.relative_to(source).as_posix() for file in source.rglob("*") if file.suffix not in ("", ".pyc")}
    beside = {name for name in beside if ".egg-info" not in name}
    assert "attnlab/py.typed" in beside and beside <= held
    for folder, inside in (("conf", "conf"), ("experiments/published", "published")):
        there = {f"attnlab/{inside}/{file.relative_to(ROOT / folder)}" for file in (ROOT / folder).rglob("*.yaml")}
        assert len(there) >= 5 and there <= held


@pytest.mark.slow
def test_the_installed_commands_work_outside_the_repository(installed: Path, tmp_path: Path) -> None:
    """They train with a model of one's own, report its run, and name themselves in messages."""
    folder = tmp_path / "conf" / "model"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(OWN_MODEL)
    trained, reported, wrong, table = _commands(
        *(installed, tmp_path),
        ("attnlab-train", "task=scan", "model=mine", *TINY),
        ("attnlab-report", "runs=experiments/runs", "include=debug"),
        ("attnlab-train", "task=scna"),
        ("attnlab-report", "experiment=park2024/table4_scan"),
    )
    code, out, err = trained
    assert code == 0, err[-3000:]
    assert "  attnlab-evaluate run=" in out and "python " not in out
    (run,) = tmp_path.glob("experiments/runs/*/mine/*/seed0")
    assert (run / "result.json").exists()
    code, out, err = reported
    assert code == 0, err[-3000:]
    assert "mine" in out
    code, _, err = wrong
    assert code == 2 and "nearest: scan" in err and "attnlab-train --help" in err
    code, _, err = table
    assert code == 1 and "45 missing); attnlab-train experiment=park2024/table4_scan" in err
