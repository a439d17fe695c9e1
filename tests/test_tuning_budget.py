"""Tuning budget of reports: every run that was spent on a table's tasks and models."""

from pathlib import Path

import pytest
from support.small_runs import SMALL_SCAN
from support.written_runs import a_run

from attnlab.config.job_config import compose_config
from attnlab.report.read_runs import look
from attnlab.report.tuning_budget import budget_lines, spent_runs


def test_failed_and_abandoned_runs_are_counted_with_their_hours(tmp_path: Path) -> None:
    place = tmp_path / "scan-length26"
    spent = [("finished", {}), ("failed", {"seconds": 1800.0}), ("stopped", {"seconds": None}), ("running", {})]
    for model, rates in {"linear": (0.1, 0.2), "vanilla": (0.1,)}.items():
        config = compose_config([*SMALL_SCAN, f"model={model}"])
        for rate in rates:
            for seed, (state, status) in enumerate(spent):
                own = config | {"optim": config["optim"] | {"lr": rate}, "seed": seed}
                a_run(place / model / f"lr{rate}" / f"seed{seed}", own, state=state, status=status, seconds=5400.0)
    in_the_table = [look(place / model / "lr0.1" / "seed0") for model in ("linear", "vanilla")]
    linear, vanilla = spent_runs(in_the_table)
    assert (linear.settings, linear.runs, linear.values, linear.untimed) == (2, 8, {"optim.lr": 2}, 4)
    assert (linear.hours, vanilla.hours) == pytest.approx((4.0, 2.0))
    lines = budget_lines([linear, vanilla])
    states = "2 finished, 2 failed, 2 stopped, 2 running"
    assert f"2 settings (optim.lr: 2 values), 8 runs ({states}), 4.00 hours of training, without 4 whose" in lines[0]
    assert "differ between models (linear 2, vanilla 1)" in lines[-1]
