"""A sweep continues after a failed job, ends with a table, and repeats only missing runs."""

import json
import re
import shlex
from pathlib import Path

import pytest
from support.small_runs import BRIEF_SCAN, checked, config_of, folder_of, run_command, run_job, settings
from support.written_runs import a_run

from attnlab.config.job_config import job_config
from attnlab.config.sweep import check_command
from attnlab.launch.console_summary import print_sweep
from attnlab.launch.train_cli import train_main
from attnlab.learn.stop_signals import StopRequest
from attnlab.report.cli import report_main
from attnlab.run.build_runtime import prepare, prepared_task
from attnlab.run.train_run import train_run

SWEEP = (*BRIEF_SCAN, "train.max_steps=2", "train.checkpoint_every=1")
BASIC = "hydra/launcher=basic"
AXES = ("model=linear,vanilla", "seed=1", "model.ortho.weight=0")


@pytest.mark.slow
def test_a_failed_job_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    failing = folder_of(tmp_path, *SWEEP, "model=linear", "seed=1")
    failing.parent.mkdir(parents=True)
    failing.write_text("in the way of a run folder")
    first = run_command("train.py", "-m", *AXES, *settings(tmp_path, *SWEEP))
    assert first.returncode == 1, first.stderr
    assert "cannot create the run folder" in first.stderr
    assert "1 finished, 1 not" in first.stdout
    finished = folder_of(tmp_path, *SWEEP, "model=vanilla", "seed=1")
    written = (finished / "result.json").stat().st_mtime_ns
    files = {".lock", "config.yaml", "metrics.csv", "status.json", "result.json", "last.ckpt"}
    assert {path.name for path in finished.iterdir()} == files, "Hydra writes nothing into run folders"

    failing.unlink()
    assert train_main(["-m", *AXES, BASIC, *settings(tmp_path, *SWEEP)]) == 0
    printed = capsys.readouterr().out
    assert "2 runs" in printed and "finished" in printed
    assert json.loads((failing / "status.json").read_text())["state"] == "finished"
    assert written == (finished / "result.json").stat().st_mtime_ns


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (("experiment=park2024/table4_scan_small", "model=linear,vanilla", "seed=0,1"), ["linear", "vanilla"]),
        (
            ("experiment=park2024/table4_scan_small", "model=linear,vanilla", "optim.lr=1e-3,3e-4", "seed=0"),
            ["linear, lr=0.001", "linear, lr=0.0003", "vanilla, lr=0.001", "vanilla, lr=0.0003"],
        ),
        (("task=scan", "model=linear", "optim.lr=1e-3,3e-3", "seed=0,1"), ["lr=0.001", "lr=0.003"]),
    ],
)
def test_a_sweep_ends_with_its_folders_and_the_report_that_takes_its_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    words: tuple[str, ...],
    rows: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command = check_command(["-m", *words, "paths.runs=runs", "hydra/launcher=basic", "trainer=cpu", "logger=csv"])
    for job in command.jobs:
        a_run(job.folder, job.raw)
    print_sweep(command.jobs, command.names, words=command.run_words)
    printed = capsys.readouterr().out
    assert all(f"\n  {folder}\n" in printed for folder in {job.folder.parent for job in command.jobs})
    (line,) = re.findall("^report: python report.py (.*)$", printed, flags=re.MULTILINE)
    for flag in ([], ["-m"]):
        assert report_main([*flag, *shlex.split(line), "figures=bars", "out=report"]) == 0
        report = json.loads(Path("report/report.json").read_text())
        assert [row["name"] for row in report["rows"]] == rows
        assert {len(cell["seeds"]) for row in report["rows"] for cell in row["cells"]} == {
            len(command.jobs) // len(rows)
        }


def test_a_report_without_runs_or_words_names_what_it_takes(capsys: pytest.CaptureFixture) -> None:
    for words in (["rnus=x"], ["-m"]):
        assert report_main(words) == 2
        assert "expected one of experiment=..., runs=..., words of train.py" in capsys.readouterr().err


def test_a_refused_job_is_not_called_finished(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert run_job(config_of(tmp_path, *SWEEP, "model=linear"), quiet=True) == 0
    config = folder_of(tmp_path, *SWEEP, "model=linear") / "config.yaml"
    config.write_text(config.read_text().replace("clip_norm: 5.0", "clip_norm: 4.0"))
    assert train_main(["-m", "seed=0,1", BASIC, *settings(tmp_path, *SWEEP, "model=linear")]) == 1
    printed = capsys.readouterr().out
    assert "refused" in printed and "1 finished, 1 not" in printed


def test_jobs_on_the_same_data_share_it_and_leave_it_as_it_was(tmp_path: Path) -> None:
    raw = config_of(tmp_path, *BRIEF_SCAN, "train.max_steps=2")
    shared = prepared_task(checked(raw))
    result, _ = train_run(job_config(raw), StopRequest())
    assert prepared_task(checked(config_of(tmp_path, *BRIEF_SCAN, "model=linear", "seed=1"))) is shared
    anew = prepare(shared[0], checked(raw).paths)
    assert shared[1].data_hash() == anew.data_hash() == result["data"]["hash"]
    shorter = [word for word in BRIEF_SCAN if "length_cutoff" not in word] + ["task.length_cutoff=36"]
    other = prepared_task(checked(config_of(tmp_path, *shorter)))
    assert other[1].data_hash() != anew.data_hash()
    assert prepared_task(checked(raw)) is not shared
