"""Failures in reports: counted by a declared threshold, with intervals, tests and times to success."""

import copy
import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom
from support.small_runs import SMALL_SCAN
from support.written_runs import OOD, a_run

from attnlab.analysis.power_of_tests import fisher
from attnlab.config.job_config import compose_config
from attnlab.config.report_block import Average, Report, Success
from attnlab.config.run_identity import run_folder
from attnlab.launch.train_cli import train_main
from attnlab.learn.declaration_checks import declaration_problems
from attnlab.report.analysis_record import SuccessReport
from attnlab.report.build_table import make_table
from attnlab.report.cli import report_main
from attnlab.report.failures.count_failures import count_failures
from attnlab.report.failures.failure_statistics import (
    Times,
    clopper_pearson,
    kaplan_meier,
    log_rank,
    log_rank_statistic,
    median,
    median_interval,
)
from attnlab.report.page.cli import page_main
from attnlab.report.report_notes import notes
from attnlab.report.report_record import read_report
from attnlab.report.runs.read_runs import DIVERGED, look
from attnlab.report.runs.select_runs import RunSelection, require_runs
from attnlab.report.table_types import TableError
from attnlab.report.text_tables import failure_tables

VAL = "val/sequence_accuracy"
DIVERGENCE = {"reason": "NonFiniteLoss: the loss is nan at step 12, on training examples 1, 2"}


def test_shares_and_fishers_test_are_those_of_scipys_examples() -> None:
    """binomtest(7, n=50) and fisher_exact([[8, 2], [1, 5]]) of scipy's documentation."""
    assert clopper_pearson(7, 50) == pytest.approx((0.05819170, 0.26739600), abs=1e-8)
    assert fisher((8, 10), (1, 6)) == pytest.approx(0.034965, abs=1e-6)


def test_survival_is_that_of_scipys_examples() -> None:
    """The fan belts of scipy.stats.ecdf and the gliomas of scipy.stats.logrank."""
    belts = Times([77, 47, 81, 56, 80], [62, 60, 43, 71, 37])
    assert kaplan_meier(belts) == [(47, 0.875), (56, 0.75), (77, 0.5), (80, 0.25), (81, 0)]
    assert median(belts) == 77 and median(Times([3, 4], [9, 9, 9])) is None
    astrocytoma = Times([6, 13, 21, 30, 37, 38, 49, 50, 63, 79, 86, 98, 202, 219], [31, 47, 80, 82, 82, 149])
    deaths = [10, 10, 12, 13, 14, 15, 16, 17, 18, 20, 24, 24, 25, 28, 30, 33, 35, 37, 40, 40, 46, 48, 76, 81, 82, 91]
    glioblastoma = Times([*deaths, 112, 181], [34, 40, 70])
    assert log_rank_statistic(astrocytoma, glioblastoma) == pytest.approx(-2.73799, abs=1e-5)


def test_the_log_rank_test_of_a_handful_is_exact() -> None:
    """Of the 20 divisions of six runs into two rows, two are as far apart as early against late; 2 of 252 for ten."""
    assert log_rank(Times([1, 2, 3], []), Times([4, 5, 6], [])) == pytest.approx(0.1)
    assert log_rank(Times([1, 2, 3, 4, 5], []), Times([], [9] * 5)) == pytest.approx(2 / 252)
    assert log_rank(Times([1], []), Times([4, 5, 6, 7], [])) == pytest.approx(1 / 5), "a row of one run"
    # compared until step 6, where the shorter row ends: nothing has happened in either
    assert log_rank(Times([], [6, 6]), Times([7, 8], [])) == 1
    assert log_rank(Times([5, 5], []), Times([5, 5], [])) == 1


@pytest.mark.parametrize("n", range(3, 13))
def test_the_interval_of_a_median_covers_at_least_95_percent(n: int) -> None:
    low, high = median_interval(Times(list(range(1, n + 1)), []))
    assert (low is not None, high is not None) == (n >= 5, n >= 6)
    # it holds the median if the number of runs below it is in this range
    covered = binom.cdf(n if high is None else high - 1, n, 0.5) - (0 if low is None else binom.cdf(low - 1, n, 0.5))
    assert covered >= 0.95
    assert median_interval(Times([1, 9], [4] * n)) == (None, None)


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_config([*SMALL_SCAN, "model=linear"])


@pytest.fixture
def runs(tmp_path: Path, config: dict[str, Any]) -> Any:
    """Makes runs of a row; each is an OOD accuracy, or a status, with validations at steps 10, 20, ...

    A validation of 0.7 is written at the steps from the one given on, 0.1 before.
    """

    def make(row: str, *outcomes: tuple[float | str, int | None], last: int = 40) -> list[Any]:
        collected = []
        for seed, (outcome, since) in enumerate(outcomes):
            changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": row}}
            done = isinstance(outcome, float)
            status = {"status": {"reason": outcome}} if isinstance(outcome, str) else {}
            folder = a_run(
                tmp_path / row / f"seed{seed}",
                changed,
                outcome if done else None,
                "finished" if done else "failed",
                **status,
            )
            lines = [f"{at},{VAL},{0.7 if since and at >= since else 0.1}" for at in range(10, last + 1, 10)]
            (folder / "metrics.csv").write_text("\n".join(["step,name,value", *lines]) + "\n")
            collected.append(look(folder))
        return collected

    return make


def counted(runs: list[Any], against: str | None = None, **more: Any) -> SuccessReport:
    success = Success(column="ood", **{"at_least": 60, "validation": VAL} | more)
    result = count_failures(make_table(Report(title="t", columns={"ood": OOD}, success=success), runs), against)
    assert result is not None
    return result


def test_diverged_runs_fail_and_others_without_a_number_do_not_count(runs: Any) -> None:
    from attnlab.learn.training_module import NonFiniteLoss

    assert f"{NonFiniteLoss.__name__}:" == DIVERGED
    item = runs("linear", (0.58, None), (0.6, 30), (DIVERGENCE["reason"], None), ("OutOfMemoryError: no", 10))
    two = runs("linear_l2", (0.9, 10), (0.8, 20), (0.7, 20))
    result = counted([*item, *two])
    first, second = result.rows
    assert (first.failed, first.n, second.failed, second.n) == (2, 3, 0, 3)
    assert (first.low, first.high) == pytest.approx([100 * end for end in clopper_pearson(2, 3)])
    assert (first.mean, first.successful_mean) == pytest.approx((59, 60))
    assert [(run.failed, run.diverged) for run in first.runs] == [(True, False), (False, False), (True, True)]
    assert "runs that do not count: linear: 1 of 4 (OutOfMemoryError)" in result.notes
    assert "diverged, so that they fail and enter no mean: linear: 1 of 3" in result.notes
    assert second.fisher is not None and second.fisher.p == pytest.approx(fisher((0, 3), (2, 3)))
    assert first.fisher is None and result.against == "linear"
    assert "with 3 runs a row no p can be below 0.10" in result.notes[0]


def test_a_run_of_another_version_that_diverged_does_not_count(tmp_path: Path, config: dict[str, Any]) -> None:
    result = look(a_run(tmp_path / "seed0", config, None, "failed", status=DIVERGENCE | {"attnlab": "0.0.1"}))
    assert result.state == "other version" and not result.diverged
    assert "0.0.1" in result.reason and "it failed: NonFiniteLoss" in result.reason


def test_time_to_success_is_the_first_validation_at_the_threshold(runs: Any) -> None:
    """A diverged run is followed to the end of the others: it never succeeds, and is not one that may do so later."""
    item = runs("linear", (0.9, 20), (0.9, 30), (0.2, None))
    diverged = runs("late", (DIVERGENCE["reason"], None), (DIVERGENCE["reason"], 10), last=20)
    rows = counted([*item, *diverged]).rows
    assert [(run.success_step, run.censored_step) for run in rows[0].runs] == [(20, None), (30, None), (None, 40)]
    assert [(run.success_step, run.censored_step) for run in rows[1].runs] == [(None, 40), (10, None)]
    assert (rows[0].reached, rows[0].validated, rows[0].median, rows[0].median_low) == (2, 3, 30, None)
    assert rows[1].log_rank is not None and 0 < rows[1].log_rank.p <= rows[1].log_rank.corrected <= 1
    [_, times] = failure_tables(counted([*item, *diverged]))
    assert times.title == "Steps to the first val/sequence_accuracy of at least 60 %"
    assert times.rows[0] == ["linear", "2/3", "30", "base"]


def test_tests_that_cannot_be_made_are_named(runs: Any) -> None:
    run = runs("linear", (0.9, 20), (0.2, None))
    assert "no test between rows: only linear has runs that count" in counted(run).notes
    two = runs("vanilla", ("OutOfMemoryError: no", None))
    assert "no test between rows: vanilla has no run that counts" in counted([*run, *two], against="vanilla").notes
    assert any("names no validation" in note for note in counted(run, validation=None).notes)
    two = runs("other", (0.9, None))
    (two[0].folder / "metrics.csv").write_text("step,name,value\n")
    assert any("no log-rank test: only linear has validations" in note for note in counted([*run, *two]).notes)
    text = counted(run, validation="val/ood/sequence_accuracy").notes
    assert f"no time to success: no run has logged val/ood/sequence_accuracy; nearest: {VAL}" in text
    (run[0].folder / "metrics.csv").unlink()
    assert any(f"runs without {VAL}" in note and "linear: 1 of 2" in note for note in counted(run).notes)


def test_rows_of_another_task_are_not_tested_against_the_base(runs: Any) -> None:
    easy, hard = runs("linear", *[(0.9, 20)] * 5), [*runs("harder", *[(0.1, None)] * 5), *runs("hardest", (0.1, None))]
    for run in hard:
        run.config["task"]["split"] = "simple"
    result = counted([*easy, *hard])
    assert "not tested, as they are on other tasks than linear: harder; hardest" in result.notes
    assert result.against is None and all(row.fisher is None and row.log_rank is None for row in result.rows)
    result = counted([*easy, *hard], against="harder")
    assert [row.row for row in result.rows if row.fisher is not None] == ["hardest"]


def test_rows_that_always_diverge_have_a_report(runs: Any) -> None:
    result = runs("linear", (DIVERGENCE["reason"], None), (DIVERGENCE["reason"], None))
    report = Report(title="t", columns={"ood": OOD}, success=Success(column="ood", at_least=60))
    assert require_runs(RunSelection("x", report, result, Path())).report is report
    assert "no finished run" in notes(make_table(report, result))
    assert counted(result).rows[0].failed == 2
    with pytest.raises(TableError, match="no finished run among 2"):
        require_runs(RunSelection("x", replace(report, success=None), result, Path()))


def test_a_perplexity_succeeds_below_its_threshold(runs: Any) -> None:
    run = runs("linear", (0.9, None))
    name = "test/perplexity"
    content = json.loads((run[0].folder / "result.json").read_text())
    (run[0].folder / "result.json").write_text(json.dumps(content | {"metrics": {name: 12.5}}))
    for most, failed in ((12, 1), (12.5, 0), (20, 0)):
        report = Report(title="t", columns={"ppl": name}, success=Success(column="ppl", at_most=most))
        result = count_failures(make_table(report, [look(run[0].folder)]))
        assert result is not None and result.rows[0].failed == failed
        assert failure_tables(result)[0].title == f"Failures: ppl above {most:g} perplexity, or diverged"


@pytest.mark.parametrize(
    ("success", "said"),
    [
        ({"column": "oodd", "at_least": 60}, "no column oodd; nearest: ood"),
        ({"column": "both", "at_least": 60}, "both is a mean of columns"),
        ({"column": "ood", "at_least": 0.6}, "percent: expected 1 to 100, found 0.6"),
        ({"column": "ood", "at_least": 60, "validation": "test/ood/x"}, "expected a metric of the validation"),
        ({"column": "ood"}, "expected one of at_least and at_most"),
        ({"column": "ood", "at_least": 60, "at_most": 70}, "expected one of"),
        ({"column": "ood", "at_most": 60}, "higher is better in ood .*; set at_least"),
        ({"column": "size", "at_least": 2}, "lower is better in size .*; set at_most"),
        ({"column": "ood", "at_least": 60, "validation": "val/loss"}, "the unit of validation=val/loss is loss"),
        ({"column": "ood", "at_least": 60, "validation": "train/loss"}, "the unit of validation=train/loss is loss"),
        ({"column": "loss", "at_most": 0.1, "validation": "train/loss"}, "^$"),
    ],
)
def test_wrong_thresholds_are_named(success: dict[str, Any], said: str) -> None:
    both = Average(name="both", of=["ood"])
    report = Report(
        title="t",
        columns={"ood": OOD, "size": "parameters", "loss": "train/loss"},
        average=both,
        success=Success(**success),
    )
    assert re.search(said, "".join(declaration_problems(report)))


def test_a_wrong_threshold_is_refused_before_training(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["experiment=park2024/table2_sort_of_clevr_small", "report.success.validation=val/unary/accuracyy"]
    assert train_main(words) == 2
    printed = capsys.readouterr().err
    assert "nothing was run" in printed and "the unit of validation=val/unary/accuracyy is accuracyy" in printed


def test_a_report_counts_failures_in_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["experiment=park2024/table2_sort_of_clevr_small", f"paths.runs={tmp_path / 'runs'}"]
    name = "test_paper_rule/{}/accuracy".format
    for model, unary in {"linear": [0.49, 0.5, 0.95], "linear_l2_ortho": [0.97, 0.98, 0.99]}.items():
        config = compose_config([*words, f"model={model}", "seed=0"])
        config.pop("report")
        for seed, value in enumerate(unary):
            changed = config | {"seed": seed}
            metrics = {name("unary"): value, name("binary"): 0.5, name("ternary"): 0.5}
            folder = a_run(run_folder(changed), changed, metrics=metrics)
            rows = [f"{step},val/unary/accuracy,{value if step > 9000 else 0.49}" for step in range(2000, 20001, 2000)]
            (folder / "metrics.csv").write_text("\n".join(["step,name,value", *rows]) + "\n")
    out = tmp_path / "out"
    more = ["figures=time_to_success", "report.success.at_least=61"]
    assert report_main([*words, "model=linear,linear_l2_ortho", "seed=0,1,2", *more, f"out={out}"]) == 0
    printed = capsys.readouterr().out
    for expected in ("Failures: unary below 61 %, or diverged", "2/3 [9.4, 99.2]", "0/3 [0.0, 70.8]", "0.400 (0.400)"):
        assert expected in printed
    assert "the report block is changed on the command line: report.success.at_least=61" in printed
    assert "Steps to the first val/unary/accuracy of at least 61 %" in printed and "not reached" in printed
    assert "| 2/3 [9.4, 99.2] |" in (out / "table.md").read_text()
    assert r"& 2/3 [9.4, 99.2] \\" in (out / "table.tex").read_text()
    with (out / "table.csv").open() as file:
        cells = {(line["row"], line["column"]): line for line in csv.DictReader(file)}
    assert (cells["linear", "unary"]["failed"], cells["linear", "unary"]["counted"]) == ("2", "3")
    assert cells["linear", "binary"]["failed"] == ""
    with (out / "seeds.csv").open() as file:
        seeds = [line for line in csv.DictReader(file) if (line["row"], line["column"]) == ("linear", "unary")]
    assert [(line["failed"], line["success_step"], line["censored_step"]) for line in seeds] == [
        ("True", "", "20000"),
        ("True", "", "20000"),
        ("False", "10000", ""),
    ]
    report = read_report(out / "report.json")
    assert len(report.figures) == 1 and report.success is not None
    assert [row.median for row in report.success.rows] == [None, 10_000]
    page = tmp_path / "report.html"
    assert page_main([f"measured={out}", f"reports={out}", f"out={page}"]) == 0
    assert "Failures: unary below 61 %, or diverged" in page.read_text() and "2/3 [9.4, 99.2]" in page.read_text()
