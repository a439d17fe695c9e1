"""The code of a run: a hash of its sources, which a resume with other code is refused by."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from support.own_classes import Decay, Halved, HalvedParity
from support.small_runs import BRIEF_SCAN, assert_same_run, config_of, run_job, stop_after
from support.written_runs import forget_identity

import attnlab
from attnlab.config.classes import source_hash
from attnlab.config.classes.recorded_code import recorded_code
from attnlab.config.classes.source_hash import WITHOUT_NUMBERS, code_of, package_hash
from attnlab.config.job_config import compose_config, job_config
from attnlab.config.run_identity import run_folder
from attnlab.config.targets import find_module
from attnlab.launch.console_summary import print_sweep
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.learn.weight_files import with_checksum
from attnlab.report.cli import report_main
from attnlab.run.loaded_run import load_run
from attnlab.run.provenance import git_state
from attnlab.run.read_checkpoints import read_checkpoint

PACKAGE = "users_package"
MINE = """
from attnlab.attention.linear import LinearAttention


class Mine(LinearAttention):
    pass
"""
TARGET = f"[{{share: 1.0, attention: {{_target_: {PACKAGE}.mine.Mine}}}}]"
WORDS = (
    *(*BRIEF_SCAN, "model=linear", f"model.encoder={TARGET}", f"model.decoder={TARGET}"),
    *("train.max_steps=4", "train.checkpoint_every=1", "backbone.dropout=0.1"),
)
GO_ON = "trainer.resume_with_new_code=true"
Edit = Callable[[str], None]


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    """Hashes are taken once in a process."""
    package_hash.cache_clear()
    yield
    package_hash.cache_clear()


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edit]:
    """A package of a user's and a copy of attnlab's sources as two places; edits one of them and starts a process."""
    sources = tmp_path / "sources"
    shutil.copytree(Path(attnlab.__file__).parent, sources / "attnlab", ignore=shutil.ignore_patterns("__pycache__"))
    (sources / PACKAGE).mkdir()
    (sources / PACKAGE / "mine.py").write_text(MINE)
    files = {"attnlab": sources / "attnlab/attention/linear.py", PACKAGE: sources / PACKAGE / "mine.py"}

    def find(name: str) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(sources)]) if name == "attnlab" else find_module(name)

    monkeypatch.setattr(source_hash, "find_module", find)
    monkeypatch.setenv("ATTNLAB_PLUGINS", f"{PACKAGE},support")
    monkeypatch.syspath_prepend(sources)

    def change(package: str) -> None:
        with files[package].open("a") as file:
            file.write("# another thought\n")
        package_hash.cache_clear()

    yield change
    for name in (PACKAGE, f"{PACKAGE}.mine"):
        sys.modules.pop(name, None)


def a_stopped_run(folder: Path) -> dict[str, Any]:
    """The configuration of a run that was stopped after step 2."""
    raw = config_of(folder, *WORDS)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(2, patch)
        assert run_job(raw, quiet=True) == 130
    return raw


def codes(raw: dict[str, Any], file: str = "result.json") -> list[dict[str, str]]:
    return recorded_code(json.loads((run_folder(raw) / file).read_text()))


@pytest.mark.parametrize("package", ["attnlab", PACKAGE])
def test_other_code_is_refused_and_goes_on_with_the_word(
    package: str, edit: Edit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The edit is a comment, so that the numbers are the ones of the uninterrupted run, bit for bit."""
    whole = config_of(tmp_path / "whole", *WORDS)
    assert run_job(whole, quiet=True) == 0
    raw = a_stopped_run(tmp_path / "resumed")
    (before,) = codes(raw, "status.json")
    assert set(before) == {"attnlab", PACKAGE}
    edit(package)
    capsys.readouterr()
    assert run_job(raw, quiet=True) == 1
    message = capsys.readouterr().err
    other = {"attnlab", PACKAGE} - {package}
    assert f"code of {package}" in message and GO_ON in message and "step 2" in message
    assert not any(f"code of {name}" in message for name in other)
    assert codes(raw, "status.json") == [before]
    assert run_job(config_of(tmp_path / "resumed", *WORDS, GO_ON), quiet=True) == 0
    assert f"code of {package}" in capsys.readouterr().err
    assert_same_run(run_folder(whole), run_folder(raw), steps=4)
    now = code_of(raw)
    assert now[package] != before[package] and all(now[name] == before[name] for name in other)
    checkpoint = recorded_code(read_checkpoint(run_folder(raw) / "last.ckpt"))
    assert codes(raw) == codes(raw, "status.json") == checkpoint == [before, now]


def test_the_former_code_goes_on_after_new_code_that_saved_nothing(edit: Edit, tmp_path: Path) -> None:
    raw = a_stopped_run(tmp_path)
    file = tmp_path / "sources" / PACKAGE / "mine.py"
    before = file.read_text()
    edit(PACKAGE)
    assert run_job(raw, quiet=True) == 1
    file.write_text(before)
    package_hash.cache_clear()
    assert run_job(raw, quiet=True) == 0
    assert codes(raw) == [code_of(raw)]


def test_a_run_without_a_checkpoint_starts_over_with_any_code(edit: Edit, tmp_path: Path) -> None:
    raw = a_stopped_run(tmp_path)
    (run_folder(raw) / "last.ckpt").unlink()
    edit(PACKAGE)
    assert run_job(raw, quiet=True) == 0
    assert codes(raw) == [code_of(raw)]


def test_a_run_of_before_goes_on_with_a_note(edit: Edit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = a_stopped_run(tmp_path)
    checkpoint = run_folder(raw) / "last.ckpt"
    saved = {key: value for key, value in read_checkpoint(checkpoint).items() if key != "code"}
    torch.save(with_checksum(saved), checkpoint)
    forget_identity(run_folder(raw))
    edit(PACKAGE)
    capsys.readouterr()
    assert run_job(raw, quiet=True) == 0
    assert "not recorded" in capsys.readouterr().err
    assert codes(raw) == [{}, code_of(raw)]


def test_two_processes_are_refused_in_one_message(
    edit: Edit, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    raw = a_stopped_run(tmp_path)
    edit(PACKAGE)
    capfd.readouterr()
    raw["trainer"]["devices"] = 2
    assert run_job(raw, quiet=True) == 1
    printed = capfd.readouterr().err
    assert printed.count(f"code of {PACKAGE}") == printed.count("failed:") == 1, printed
    raw["trainer"]["resume_with_new_code"] = True
    assert run_job(raw, quiet=True) == 0
    assert len(codes(raw)) == 2


def test_a_finished_run_says_that_its_code_was_another(
    edit: Edit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shown again, in the table of a sweep, evaluated, and loaded in Python; then beside a seed with new code."""
    raw = config_of(tmp_path, *WORDS)
    assert run_job(raw, quiet=True) == 0
    package_hash.cache_clear()
    capsys.readouterr()

    def said() -> list[bool]:
        assert run_job(raw, quiet=False) == 0 == print_sweep([job_config(raw)], ["seed=0"])
        out = capsys.readouterr().out
        assert "finished before" in out and evaluate_main([f"run={run_folder(raw)}"]) == 0
        return [out.count(f"code of {PACKAGE}") == 2, f"code of {PACKAGE}" in capsys.readouterr().err]

    assert said() == [False, False]
    edit(PACKAGE)
    assert said() == [True, True]
    with pytest.warns(UserWarning, match=f"code of {PACKAGE}"):
        _ = load_run(run_folder(raw), cache=raw["paths"]["cache"]).network
    second = config_of(tmp_path, *WORDS, "seed=1")
    assert run_job(second, quiet=True) == 0
    assert report_main([f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'report'}"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "different code of" in line]
    assert len(notes) == 1 and PACKAGE in notes[0], notes
    for config in (raw, second):
        assert f"seed {config['seed']}: {codes(config)[-1][PACKAGE]}" in notes[0]
    origin = json.loads((tmp_path / "report/report.json").read_text())["origin"]["code"]
    assert set(origin[PACKAGE].split(", ")) == {codes(config)[-1][PACKAGE] for config in (raw, second)}
    assert origin["attnlab"] == codes(raw)[-1]["attnlab"]


def test_the_packages_of_a_run_are_those_of_its_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by targets at any depth, as positions, and as the kind of a task."""
    monkeypatch.setenv("ATTNLAB_PLUGINS", "support")
    config = compose_config(["task=scan", "model=vanilla"])
    assert set(code_of(config)) == {"attnlab"}
    positions = f"{Decay.__module__}.{Decay.__qualname__}"
    for section in ("backbone", "model"):
        assert set(code_of(config | {section: config[section] | {"positions": positions}})) == {"attnlab", "support"}
    target = f"{HalvedParity.__module__}.{HalvedParity.__qualname__}"
    monkeypatch.setattr(HalvedParity, "kind", f"{Halved.__module__}.{Halved.__qualname__}".replace("support", "json"))
    assert set(code_of(config | {"task": config["task"] | {"_target_": target}})) == {"attnlab", "support", "json"}
    inner = {"_target_": "json.decoder.JSONDecoder"}
    assert set(code_of(config | {"optim": {"more": [{"inner": inner}]}})) == {"attnlab", "json"}


@pytest.fixture
def hash_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str | None]:
    """The hash of a package in tmp_path, or in tmp_path/more, taken anew; nothing is imported."""
    monkeypatch.syspath_prepend(tmp_path / "more")
    monkeypatch.syspath_prepend(tmp_path)

    def taken(name: str) -> str | None:
        importlib.invalidate_caches()
        package_hash.cache_clear()
        value = package_hash(name)
        assert name not in sys.modules
        return value

    return taken


def written(file: Path, text: str = "x = 1\n") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_contents_and_names_of_sources_count(hash_of: Callable, tmp_path: Path) -> None:
    package = tmp_path / "a_package"
    deep = written(package / "inner/deep.py")
    first = hash_of("a_package")
    written(package / "__init__.py", "raise SystemExit('imported')")
    second = hash_of("a_package")
    deep.rename(package / "inner/other.py")
    third = hash_of("a_package")
    written(package / "inner/other.py", "x = 2\n")
    assert len({first, second, third, hash_of("a_package")}) == 4


def test_caches_hidden_folders_and_linked_folders_do_not_count(hash_of: Callable, tmp_path: Path) -> None:
    package = tmp_path / "a_package"
    written(package / "__init__.py")
    before = hash_of("a_package")
    for name in ("__pycache__/a.pyc", ".git/a.py", ".#a.py", "notes.txt", "runs-of-it/a.py", "data/a.npy"):
        written(package / name)
    (package / "linked").symlink_to(written(tmp_path / "elsewhere/a.py").parent)
    assert hash_of("a_package") == before
    (package / "up").symlink_to(package)
    assert hash_of("a_package") == before
    (package / "one.py").symlink_to(written(tmp_path / "elsewhere/one.py"))
    with_link = hash_of("a_package")
    written(tmp_path / "elsewhere/one.py", "x = 2\n")
    assert len({before, with_link, hash_of("a_package")}) == 3


def test_what_cannot_be_read_stops_nothing(hash_of: Callable, tmp_path: Path) -> None:
    package = tmp_path / "a_package"
    written(package / "__init__.py")
    os.mkfifo(package / "pipe.py")
    (package / "gone.py").symlink_to(tmp_path / "gone")
    (package / "folder.py").mkdir()
    with open(os.fsencode(package) + b"/\xff.py", "wb"):
        pass
    assert hash_of("a_package") == hash_of("a_package")


def test_every_form_of_a_package_has_a_hash(hash_of: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_file = written(tmp_path / "one_file.py")
    first = hash_of("one_file")
    written(one_file, "x = 2\n")
    assert None not in {first, hash_of("one_file")} and first != hash_of("one_file")
    written(tmp_path / "spread/a.py")
    first = hash_of("spread")
    written(tmp_path / "more/spread/b.py")
    assert first != hash_of("spread") is not None
    with ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("zipped/__init__.py", "x = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "packed.zip")
    assert hash_of("zipped") is not None
    assert package_hash("torch") is not None and package_hash("sys") is None and hash_of("no_such_package") is None


def test_rooms_that_make_no_number_do_not_count(edit: Edit, tmp_path: Path) -> None:
    before = package_hash("attnlab")
    for number, room in enumerate(WITHOUT_NUMBERS):
        written(tmp_path / f"sources/attnlab/{room}/another.py", f"x = {number}")
    package_hash.cache_clear()
    assert package_hash("attnlab") == before
    written(tmp_path / "sources/attnlab/attention/report/another.py")
    package_hash.cache_clear()
    assert package_hash("attnlab") != before


def test_a_checkout_that_git_refuses_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real refusal, as of a checkout of another owner in a container; outside a checkout nothing is said."""
    package = tmp_path / "repository/src/attnlab"
    written(package / "__init__.py")
    monkeypatch.setattr(attnlab, "__file__", str(package / "__init__.py"))
    assert git_state() == {"commit": None, "dirty": None}
    subprocess.run(["git", "init", "-q", tmp_path / "repository"], check=True)
    assert git_state() == {"commit": None, "dirty": None}
    for name, value in (("GLOBAL", os.devnull), ("SYSTEM", os.devnull)):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    problem = git_state()["problem"]
    assert "dubious ownership" in problem and "\n" not in problem
    raw = config_of(tmp_path, *BRIEF_SCAN, "model=linear", "train.max_steps=1")
    assert run_job(raw, quiet=True) == 0
    assert problem in capsys.readouterr().err
    assert json.loads((run_folder(raw) / "result.json").read_text())["git"]["problem"] == problem
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git" in git_state()["problem"]
