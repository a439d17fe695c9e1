"""Tuning budget of reports: every run that was spent on a table's tasks and models."""

from pathlib import Path

import pytest
from support.small_runs import SMALL_SCAN
from support.written_runs import a_run

from attnlab.config.job_config import compose_config
from attnlab.report.cli import report_main
from attnlab.report.runs.read_runs import look
from attnlab.report.runs.select_runs import select_glob, spent_runs
from attnlab.report.text_tables import budget_lines


def test_failed_and_abandoned_runs_are_counted_with_their_hours(tmp_path: Path) -> None:
    place = tmp_path / "scan-length26"
    spent = [("finished", {}), ("failed", {"seconds": 1800.0}), ("stopped", {"seconds": None}), ("running", {})]
    for model, rates in {"linear": (0.1, 0.2), "vanilla": (0.1,)}.items():
        config = compose_config([*SMALL_SCAN, f"model={model}"])
        for rate in rates:
            for seed, (state, status) in enumerate(spent):
                changed = config | {"optim": config["optim"] | {"lr": rate}, "seed": seed}
                a_run(place / model / f"lr{rate}" / f"seed{seed}", changed, state=state, status=status, seconds=5400.0)
    in_the_table = [look(place / model / "lr0.1" / "seed0") for model in ("linear", "vanilla")]
    linear, vanilla = spent_runs(in_the_table, tmp_path)
    assert (linear.settings, linear.runs, linear.values, linear.untimed) == (2, 8, {"optim.lr": 2}, 4)
    assert (linear.hours, vanilla.hours) == pytest.approx((4.0, 2.0))
    lines = budget_lines([linear, vanilla])
    states = "2 finished, 2 failed, 2 stopped, 2 running"
    assert f"2 settings (optim.lr: 2 values), 8 runs ({states}), 4.00 hours of training, without 4 whose" in lines[1]
    assert "differ between models (linear 2, vanilla 1)" in lines[-1]


def test_strangers_and_debug_runs_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what lies around a copied run, nor runs of debug=..., nor runs outside the folder that is read."""
    config = compose_config([*SMALL_SCAN, "model=linear"])
    others = tmp_path / "runs" / "scan" / "linear"
    for seed in range(3):
        a_run(others / "lr=0.1" / f"seed{seed}", config | {"seed": seed})
    a_run(others / "smoke" / "seed0", config | {"debug": "smoke"})
    a_run(tmp_path / "copied", config)
    a_run(tmp_path / "linear" / "other" / "seed0", config)
    monkeypatch.chdir(tmp_path)
    copied = spent_runs([look(Path("copied"))], Path("copied"))
    assert [(spent_run.runs, spent_run.settings) for spent_run in copied] == [(1, 1)]
    in_the_table = [look(others / "lr=0.1" / "seed0")]
    assert [spent_run.runs for spent_run in spent_runs(in_the_table, tmp_path / "runs")] == [3]
    assert [spent_run.runs for spent_run in spent_runs(in_the_table, others / "lr=0.1" / "seed0")] == [1]
    assert spent_runs([look(others / "smoke" / "seed0")], others / "smoke") == []
    assert report_main(["runs=copied", "out=report"]) == 0
    assert "1 setting, 1 run (1 finished)" in Path("report/table.md").read_text()


@pytest.mark.parametrize(
    ("pattern", "root"), [("runs/*/linear/lr=0.1", "runs"), ("runs", "runs"), ("a[0]", "a[0]"), ("*", ".")]
)
def test_the_folder_that_a_glob_reads_ends_before_its_first_wildcard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, root: str
) -> None:
    a_run(tmp_path / "a[0]" / "seed0", compose_config(SMALL_SCAN))
    monkeypatch.chdir(tmp_path)
    assert select_glob(pattern).root == Path(root)
