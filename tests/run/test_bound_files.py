"""result.json and metrics.csv are bound to their run: another run's, edited and removed files are noticed; a kill
between two writes loses nothing."""

import os
import re
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import SMALL_CLEVR, config_of, run_job, two_finished_runs
from support.written_runs import forget_identity

from attnlab.config.run_identity import run_folder
from attnlab.report.cli import report_main
from attnlab.report.runs.read_runs import look
from attnlab.run.loaded_run import load_run
from attnlab.run.read_run_files import RunError, read_result, read_rows, read_status
from attnlab.run.run_folder import MetricsFile, RunFolder

SMALL = (*SMALL_CLEVR, "model=linear", "train.max_steps=4", "train.validate_every=2", "train.checkpoint_every=2")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_finished_runs(tmp_path_factory.mktemp("finished"), *SMALL)


@pytest.fixture
def raws(finished: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """The configurations of copies of two runs, to be spoilt."""
    shutil.copytree(finished, tmp_path / "copy")
    return [config_of(tmp_path / "copy", *SMALL, f"seed={seed}") for seed in (0, 1)]


def edit(file: Path) -> None:
    """Changes a digit, as a hand does."""
    text = file.read_text()
    at = re.search(r"0\.\d*?(\d)(?=[\n,])", text)
    assert at is not None
    file.write_text(text[: at.start(1)] + str((int(at[1]) + 1) % 10) + text[at.end(1) :])


CHANGES: dict[str, Callable[[Path, Path], Any]] = {
    "another run's": lambda file, other: shutil.copyfile(other, file),
    "edited": lambda file, other: edit(file),
    "cut": lambda file, other: file.write_bytes(file.read_bytes()[:-20] + b"\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_result_that_the_run_has_not_written(
    change: str, raws: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, other = map(run_folder, raws)
    CHANGES[change](folder / "result.json", other / "result.json")
    assert run_job(raws[0], quiet=True) == 1
    printed = capsys.readouterr().err
    assert "Traceback" not in printed and "result.json is " in printed and "remove that file and repeat" in printed
    assert look(folder).state == "unreadable" and "result.json is " in look(folder).reason
    with pytest.raises(RunError, match=r"result\.json is "):
        load_run(folder).result  # noqa: B018
    words = [f"runs={Path(raws[0]['paths']['runs'])}", f"out={tmp_path / 'out'}", "columns=test/accuracy"]
    assert report_main(words) == 0 and "unreadable, seed 0 (result.json is " in capsys.readouterr().out
    # what the sentence advises
    (folder / "result.json").unlink()
    assert run_job(raws[0], quiet=True) == 0 and look(folder).state == "finished"


@pytest.mark.parametrize("change", CHANGES)
def test_metrics_that_the_run_has_not_written(
    change: str, raws: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, other = map(run_folder, raws)
    file = folder / "metrics.csv"
    CHANGES[change](file, other / "metrics.csv")
    (folder / "result.json").unlink()
    assert run_job(raws[0], quiet=True) == 1
    printed = capsys.readouterr().err
    assert "metrics.csv is not as the run has written it" in printed and "move it away" in printed
    with pytest.raises(RunError, match="not as the run has written it"):
        load_run(folder).metrics  # noqa: B018
    run = look(folder)
    assert run.logged() == [] and "not as the run has written it" in run.damaged
    file.unlink()
    assert run_job(raws[0], quiet=True) == 0
    assert "metrics.csv is gone: its curves begin at step 4" in capsys.readouterr().err
    assert {step for step, *_ in read_rows(file)[0]} == {4}


def test_a_row_added_to_a_finished_run_is_noticed(raws: list[dict[str, Any]]) -> None:
    file = run_folder(raws[0]) / "metrics.csv"
    with file.open("a") as whole:
        whole.write("4,val/accuracy,1.0\n")
    with pytest.raises(RunError, match="not as the run has written it"):
        read_rows(file)
    file.unlink()
    with pytest.raises(RunError, match=r"is missing, and status\.json says"):
        read_rows(file)


def test_all_files_of_another_run_are_refused(raws: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    """The checksums fit then, and the identity does not."""
    folder, other = map(run_folder, raws)
    for name in ("status.json", "result.json", "metrics.csv"):
        shutil.copyfile(other / name, folder / name)
    assert run_job(raws[0], quiet=True) == 1
    assert "status.json is of another run (seed 1 instead of 0) than config.yaml; restore" in capsys.readouterr().err
    assert look(folder).state == "unreadable"
    shutil.copyfile(other / "config.yaml", folder / "config.yaml")
    assert run_job(raws[0], quiet=True) == 1
    assert "seed: 1 -> 0" in capsys.readouterr().err
    # nor is a result read whose checksum was removed
    (other / "status.json").unlink()
    with pytest.raises(RunError, match=r"has no checksum in status\.json"):
        read_result(other / "result.json")


def test_a_run_without_checksums_is_read_as_before(raws: list[dict[str, Any]]) -> None:
    """As an earlier version has written it."""
    folder = run_folder(raws[0])
    forget_identity(folder)
    edit(folder / "metrics.csv")
    assert run_job(raws[0], quiet=True) == 0
    assert look(folder).state == "finished" and len(load_run(folder).metrics)
    (folder / "result.json").unlink()
    assert run_job(raws[0], quiet=True) == 0
    assert {"identity", "metrics_file", "result_file"} <= read_status(folder / "status.json").keys()


@pytest.mark.parametrize("how", ["removed", "changed"])
def test_metrics_removed_while_running_are_noticed(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, log = config_of(tmp_path, *SMALL), MetricsFile.log

    def spoilt(self: MetricsFile, step: int, metrics: dict[str, float]) -> None:
        if step == 3:
            self.path.unlink() if how == "removed" else self.path.write_text(self.path.read_text() + "3,a,1\n")
            (self.path.parent / "status.json").unlink()
        log(self, step, metrics)

    with monkeypatch.context() as during:
        during.setattr(MetricsFile, "log", spoilt)
        assert run_job(raw, quiet=True) == 1
    folder = run_folder(raw)
    assert f"metrics.csv was {how} while the run wrote it; restore it" in capsys.readouterr().err
    status = read_status(folder / "status.json")
    assert status["state"] == "failed" and status["step"] == 2 and status["identity"]["seed"] == 0
    assert run_job(raw, quiet=True) == 0


class Killed(BaseException):
    """In the place of a kill: nothing is written after it."""


def test_killed_between_any_two_writes_it_ends_as_uninterrupted(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt is killed at its first write, the second at its second, and so on."""
    raw, writes = config_of(tmp_path, *SMALL), []
    replace, append = Path.replace, MetricsFile._append

    def alive(limit: int) -> None:
        writes.append(limit)
        if len(writes) > limit:
            raise Killed

    for limit in count(1):
        writes.clear()
        with monkeypatch.context() as during:
            during.setattr(Path, "replace", lambda *inputs, k=limit: (alive(k), replace(*inputs)))
            during.setattr(MetricsFile, "_append", lambda *inputs, k=limit, **more: (alive(k), append(*inputs, **more)))
            try:
                code = run_job(raw, quiet=True)
                break
            except Killed:
                pass
    assert code == 0 and limit > 12
    whole, cut = run_folder(config_of(finished, *SMALL)), run_folder(raw)
    assert (whole / "metrics.csv").read_bytes() == (cut / "metrics.csv").read_bytes()
    results = [read_result(folder / "result.json") or {} for folder in (whole, cut)]
    assert results[0]["metrics"] == results[1]["metrics"] and results[0]["selection"] == results[1]["selection"]
    weights = [torch.load(folder / "last.ckpt", weights_only=True)["state_dict"] for folder in (whole, cut)]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    assert {file.name for file in cut.iterdir()} == {file.name for file in whole.iterdir()}


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    """Those that a run writes; another tool's file stays, and what a link names."""
    outside = tmp_path / "outside"
    outside.write_text("")
    folder = RunFolder(tmp_path / "run")
    folder.create()
    for name in ("status.json.123.part", "result.json.5.part", "best_unary_step7.pt.part", "tokenizer.json.7.part"):
        (folder.path / name).write_text("")
    (folder.path / "last.ckpt.part").symlink_to(outside)
    (folder.path / "film.part").write_text("")
    with folder.locked():
        assert {file.name for file in folder.path.iterdir()} == {".lock", "film.part"}
    assert outside.exists()


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_a_lock_that_is_no_file_is_one_sentence(
    kind: str, raws: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(raws[0])
    (folder / "result.json").unlink()
    (folder / ".lock").unlink()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    {
        "folder": (folder / ".lock").mkdir,
        "link": lambda: (folder / ".lock").symlink_to(victim),
        "pipe": lambda: os.mkfifo(folder / ".lock"),
    }[kind]()
    assert run_job(raws[0], quiet=True) == 1
    printed = capsys.readouterr().err
    assert (
        "Traceback" not in printed
        and ".lock is " in printed
        and "remove it" in printed
        and victim.read_text() == "mine"
    )
