"""Runs of debug=...: marked in config.yaml, in the usual run folder, and only in tables that ask for them."""

import json
from pathlib import Path

import pytest
import yaml
from support.small_runs import ROOT, SMALL_SCAN, jobs_of
from support.written_runs import OOD, a_run

from attnlab.config.job_config import compose_config
from attnlab.config.run_identity import comparable, run_folder, run_tag
from attnlab.report.cli import report_main
from attnlab.report.runs.select_runs import select_jobs

CHOICES = sorted((ROOT / "conf" / "debug").glob("*.yaml"))


@pytest.mark.parametrize("file", CHOICES, ids=lambda file: file.stem)
def test_every_debug_choice_leaves_its_mark(file: Path) -> None:
    assert yaml.safe_load(file.read_text())["debug"] == file.stem
    for words in (["task=scan"], ["experiment=quickstart"], ["experiment=park2024/table4_scan", "model=linear"]):
        job = jobs_of([*words, f"debug={file.stem}"])[0]
        assert job["debug"] == file.stem
        without = {key: value for key, value in job.items() if key != "debug"}
        assert comparable(job) == comparable(without) and f",{file.stem}," in f",{run_tag(job)},"
    assert jobs_of(["task=scan"])[0].get("debug") is None


def write(base: Path, *words: str, ood: float = 0.5) -> Path:
    config = compose_config([*words, f"paths.runs={base / 'runs'}"])
    config.pop("report", None)
    return a_run(run_folder(config), config, ood)


def test_a_report_of_runs_leaves_them_out_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    real = write(tmp_path, *SMALL_SCAN, "model=linear", ood=0.8)
    write(tmp_path, "task=scan", "model=linear", "debug=smoke", ood=0.1)
    write(tmp_path, "experiment=park2024/table4_scan", "model=linear", "debug=smoke", "seed=1", ood=0.2)
    words = [f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]
    assert report_main(words) == 0
    printed = capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    seeds = [seed for row in report["rows"] for cell in row["cells"] for seed in cell["seeds"]]
    assert {seed["folder"] for seed in seeds} == {"/".join(real.parts[-4:])}
    expected = "2 runs of debug=smoke left out; include=debug adds them"
    assert expected in printed and expected in report["notes"]
    assert report_main([*words, "include=debug"]) == 0
    assert "left out" not in (printed := capsys.readouterr().out) and "10.0" in printed and "20.0" in printed


def test_debug_runs_alone_are_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    write(tmp_path, "task=scan", "model=linear", "debug=smoke")
    words = [f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]
    assert report_main(words) == 1
    assert "1 run of debug=smoke left out; include=debug adds them" in capsys.readouterr().err
    assert report_main([*words, "include=debug"]) == 0
    for wrong in (["include=all", words[0]], ["include=debug", "experiment=quickstart"]):
        assert report_main(wrong) == 2
        assert "expected include=debug, beside runs=" in capsys.readouterr().err


def test_debug_on_a_preset_is_no_cell_of_it(tmp_path: Path) -> None:
    """Cells of the preset stay missing; a report with debug= has no published numbers."""
    experiment, words = "park2024/table4_scan", [f"paths.runs={tmp_path / 'runs'}", "model=linear", "seed=0"]
    folder = write(tmp_path, f"experiment={experiment}", "model=linear", "seed=0", "debug=smoke")
    assert [run.state for run in select_jobs(experiment, words).runs] == ["missing"]
    source = select_jobs(experiment, [*words, "debug=smoke"])
    assert [run.folder for run in source.runs] == [folder] and source.runs[0].value(OOD) == 50.0
    assert source.report.published is None and "debug=smoke" in source.report.protocol
