"""Hypotheses that are adjusted for a column, on times to success and on standard deviations; what was shown before."""

import copy
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pytest
from scipy.stats import levene, linregress, t
from support.small_runs import SMALL_SCAN
from support.written_runs import IID, OOD

from attnlab.analysis.power_of_tests import fewest_failures, fisher, least_log_rank, smallest_ratio, smallest_shown
from attnlab.config.job_config import compose_config
from attnlab.config.report_block import Hypothesis, Report, Success
from attnlab.report.analysis_record import HypothesisAnswer
from attnlab.report.build_table import make_table
from attnlab.report.failures.failure_statistics import Times, log_rank
from attnlab.report.figures.forest import ForestLine, numbers_of
from attnlab.report.hypothesis_answers import answers
from attnlab.report.runs.read_runs import DIVERGED, ReportRun
from attnlab.report.statistics.spreads import spreads_of
from attnlab.report.table_types import Table

MINE = Hypothesis(row="mine", than="linear", column="ood", given="iid")
SPREADS = Hypothesis(row="mine", varies_less_than="linear", column="ood")


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_config([*SMALL_SCAN, "model=linear"])


Outcome = tuple[float, float | None] | None
"""percents OOD and IID; None = diverged"""


def table_of(config: dict[str, Any], rows: Mapping[str, Sequence[Outcome]], *requested: Hypothesis) -> Table:
    """A run for every outcome of a row."""
    runs = []
    for name, outcomes in rows.items():
        for seed, outcome in enumerate(outcomes):
            changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
            folder = Path(name) / f"seed{seed}"
            if outcome is None:
                runs.append(ReportRun(folder, changed, "failed", f"{DIVERGED} loss"))
                continue
            metrics = {key: share / 100 for key, share in zip((OOD, IID), outcome, strict=True) if share is not None}
            runs.append(ReportRun(folder, changed, "finished", result={"metrics": metrics}))
    return make_table(Report(title="t", columns={"ood": OOD, "iid": IID}, hypotheses=list(requested)), runs)


def related(gain: float, slope: float, seeds: int = 10, noise: float = 1.0) -> dict[str, list[Outcome]]:
    """Rows whose differences are a line in the differences of another column, with noise."""
    source = random.Random(5)
    rows: dict[str, list[Outcome]] = {"linear": [], "mine": []}
    for _ in range(seeds):
        x, base = source.gauss(4, 2), 50 + source.gauss(0, 1)
        rows["linear"].append((base, 80.0))
        rows["mine"].append((base + gain + slope * x + source.gauss(0, noise), 80 + x))
    return rows


def differences(rows: Mapping[str, Sequence[Any]], column: int) -> list[float]:
    return [ours[column] - theirs[column] for ours, theirs in zip(rows["mine"], rows["linear"], strict=True)]


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize(
    ("gain", "claim", "verdict"),
    [
        (6.0, {}, "supported"),
        (-6.0, {}, "refuted"),
        (1.0, {}, "undecided"),
        (6.0, {"at_least": 20.0}, "refuted"),
        (0.0, {"within": 9.0}, "supported"),
        (0.0, {"not_worse_by": 9.0}, "supported"),
    ],
)
def test_an_adjusted_difference_is_the_intercept_of_the_line_through_the_differences(
    config: dict[str, Any], gain: float, claim: dict[str, Any], verdict: str, others: int
) -> None:
    """Against scipy's line and the formulas of the least squares line."""
    rows = related(gain, 2.0)
    claims = [replace(MINE, **claim), *[Hypothesis(row="late", than="linear", column="ood")] * others]
    answer = answers(table_of(config, rows, *claims))[0]
    x, y = differences(rows, 1), differences(rows, 0)
    n, center = len(x), sum(x) / len(x)
    squares = sum((value - center) ** 2 for value in x)
    slope = sum((value - center) * other for value, other in zip(x, y, strict=True)) / squares
    intercept = sum(y) / n - slope * center
    rest = sum((other - intercept - slope * value) ** 2 for value, other in zip(x, y, strict=True)) / (n - 2)
    error = math.sqrt(rest * (1 / n + center**2 / squares))
    assert (intercept, error) == pytest.approx((linregress(x, y).intercept, linregress(x, y).intercept_stderr))
    reach = t.isf(0.025 / (1 + others), n - 2) * error
    assert (answer.difference, answer.low, answer.high) == pytest.approx(
        (intercept, intercept - reach, intercept + reach), abs=1e-6
    )
    assert answer.verdict == verdict and answer.statistic == "adjusted for iid"
    assert "adjusted for iid" in answer.words and "adjusted for iid, 95 % t interval" in answer.reason
    assert not answer.influential and answer.published is None
    if not claim and answer.p is not None:
        assert answer.p == pytest.approx(2 * t.sf(abs(intercept) / error, n - 2), rel=1e-4)
    assert ForestLine(answer, "percent").name.startswith("mine \N{MINUS SIGN} linear, ood, adjusted for iid")


def test_the_power_of_an_adjusted_difference_is_that_of_its_residuals(config: dict[str, Any]) -> None:
    rows = related(1.0, 2.0)
    [answer] = answers(table_of(config, rows, MINE))
    line = linregress(differences(rows, 1), differences(rows, 0))
    size = smallest_shown(10, line.intercept_stderr * math.sqrt(10), 1, fitted=2)
    assert f"10 seeds show a difference of {size:.1f} with 80 % power" in str(answer.needed)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mine": 5}, "5 common seeds, a test adjusted for iid needs 6"),
        ({"lost": True}, "not adjusted for iid, as runs diverged"),
        ({"lacking": True}, "1 run of mine without a number in iid"),
        ({"constant": True}, "not adjusted for iid, in which all differences are equal"),
    ],
)
def test_an_adjusted_difference_needs_six_seeds_with_numbers_in_both_columns(
    config: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    rows = related(6.0, 2.0)
    rows["mine"] = rows["mine"][: change.get("mine", 10)]
    rows["linear"] = rows["linear"][: change.get("mine", 10)]
    if "lost" in change:
        rows["mine"][3] = None
    if "lacking" in change:
        rows["mine"][3] = (60.0, None)
    if "constant" in change:
        rows["mine"] = [(outcome[0], 81.0) for outcome in rows["mine"] if outcome]
    [answer] = answers(table_of(config, rows, MINE))
    assert (answer.verdict, answer.low, told in answer.reason) == ("undecided", None, True), answer.reason


def test_a_line_without_residuals_has_a_point_as_interval(config: dict[str, Any]) -> None:
    for gain, verdict in ((0.0, "refuted"), (3.0, "supported")):
        [answer] = answers(table_of(config, related(gain, 2.0, noise=0.0), MINE))
        assert answer.difference == answer.low == answer.high == pytest.approx(gain, abs=1e-6)
        assert (answer.verdict, answer.p) == (verdict, None)


def rows_of(mine: Sequence[float | None], linear: Sequence[float | None]) -> dict[str, list[Outcome]]:
    rows = {"linear": linear, "mine": mine}
    return {name: [None if value is None else (value, 90.0) for value in values] for name, values in rows.items()}


NARROW, WIDE = (50.0, 50.5, 51.0, 50.2, 50.8, 50.4), (20.0, 80.0, 35.0, 65.0, 50.0, 72.0)


@pytest.mark.parametrize(
    ("mine", "linear", "verdict", "told"),
    [
        (NARROW, WIDE, "supported", "standard deviations 0.4 and 23.0 (Brown and Forsythe's test); p = 0.00"),
        (WIDE, NARROW, "refuted", "standard deviations 23.0 and 0.4"),
        (WIDE, WIDE, "undecided", "6 seeds a row show a ratio of"),
        (NARROW[:4], WIDE[:4], "undecided", "4 seeds, a test needs 5"),
        ((*NARROW[:5], None), WIDE, "undecided", "no test, as 1 run diverged"),
        ((50.0,) * 5, (60.0,) * 5, "undecided", "no test, as distances from the median are equal"),
    ],
)
def test_standard_deviations_are_compared_by_the_test_of_brown_and_forsythe(
    config: dict[str, Any], mine: Sequence[float | None], linear: Sequence[float | None], verdict: str, told: str
) -> None:
    [answer] = answers(table_of(config, rows_of(mine, linear), SPREADS))
    assert (answer.verdict, told in answer.explanation) == (verdict, True), answer.explanation
    assert answer.claim == "mine varies less than linear in ood" and answer.claimed is answer.low is None
    line = ForestLine(answer, "percent")
    assert line.marks is None and line.name == "standard deviation of mine, of linear" and numbers_of(line)


def test_standard_deviations_that_contradict_the_test_decide_nothing() -> None:
    one_far = (50.0,) * 19 + (90.0,)
    even = (46.0, 54.0) * 10
    spreads = spreads_of(one_far, even)
    assert spreads.sds == pytest.approx((stdev(one_far), stdev(even))) and spreads.sds[0] > spreads.sds[1]
    assert spreads.distances[0] < spreads.distances[1] and spreads.ahead == 0
    assert spreads_of(NARROW, WIDE).ahead > 0 > spreads_of(WIDE, NARROW).ahead


def timed(config: dict[str, Any], folder: Path, rows: Mapping[str, Sequence[int | None]], **block: Any) -> Table:
    """A run for every step at which the training loss reaches 0.5; None = never until the last step, 100."""
    runs = []
    for name, steps in rows.items():
        for seed, reached in enumerate(steps):
            changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
            run = ReportRun(folder / name / f"seed{seed}", changed, "finished", result={"metrics": {OOD: 0.5}})
            run.folder.mkdir(parents=True)
            lines = [f"{at},train/loss,{0.3 if reached and at >= reached else 2.0}" for at in range(10, 101, 10)]
            (run.folder / "metrics.csv").write_text("\n".join(["step,name,value", *lines]) + "\n")
            runs.append(run)
    success = Success(column="loss", at_most=0.5, validation="train/loss")
    return make_table(Report(title="t", columns={"loss": "train/loss"}, success=success, **block), runs)


@pytest.mark.parametrize(
    ("mine", "linear", "others", "verdict", "told"),
    [
        ((10, 20, 20, 30, 30), (60, 70, 80, None, None), 0, "supported", "20 (5 of 5 runs) and 80 (3 of 5 runs)"),
        ((60, 70, 80, None, None), (10, 20, 20, 30, 30), 0, "refuted", "80 (3 of 5 runs) and 20 (5 of 5 runs)"),
        ((10, 20, 20, 30, 30), (60, None, None, None, None), 0, "supported", "and not reached (1 of 5 runs)"),
        ((10, 20, 20, 30, 30), (60, 70, 80, None, None), 6, "undecided", "so few runs cannot show a difference"),
        ((10, 60), (20, 70), 0, "undecided", "so few runs cannot show a difference"),
        ((None,) * 5, (None,) * 5, 0, "undecided", "p = 1.000"),
    ],
)
def test_times_to_success_are_compared_by_the_log_rank_test(
    config: dict[str, Any], tmp_path: Path, mine: Any, linear: Any, others: int, verdict: str, told: str
) -> None:
    claims = [Hypothesis(row="mine", sooner_than="linear")]
    claims += [Hypothesis(row="late", than="linear", column="loss")] * others
    answer = answers(timed(config, tmp_path, {"mine": mine, "linear": linear}, hypotheses=claims))[0]
    assert (answer.verdict, told in answer.explanation) == (verdict, True), answer.explanation
    rows = [Times([at for at in row if at], [100 for at in row if not at]) for row in (mine, linear)]
    assert answer.p == pytest.approx(log_rank(*rows))
    assert answer.claim == "mine succeeds sooner than linear in train/loss" and answer.claimed is None
    line = ForestLine(answer, "loss")
    assert line.marks is None and line.name == "steps to success of mine, of linear"
    assert numbers_of(line).replace("\n", " ").startswith("median steps to success")


def test_a_run_without_the_logged_metric_leaves_times_without_a_verdict(config: dict[str, Any], tmp_path: Path) -> None:
    table = timed(config, tmp_path, {"mine": (10,) * 5, "linear": (90,) * 5})
    for run in table.runs[:1]:
        run.result["metrics"]["train/loss"] = 0.3
        (run.folder / "metrics.csv").write_text("step,name,value\n")
    report = replace(
        table.report, columns={"loss": "train/loss"}, hypotheses=[Hypothesis(row="mine", sooner_than="linear")]
    )
    [answer] = answers(make_table(report, table.runs))
    assert answer.verdict == "undecided" and answer.reason.startswith("1 run of mine without train/loss")


def test_what_a_pilot_or_a_claim_has_shown_is_said_and_no_other_hypothesis(config: dict[str, Any]) -> None:
    rows = rows_of((60.0, 61.0, 62.0, 61.0, 60.0), (50.0, 50.5, 51.0, 50.0, 50.5))
    plain = Hypothesis(row="mine", than="linear", column="ood")
    known = replace(plain, shown_before="pilot", spread=1.0)
    table = table_of(config, rows, known)
    # recorded by a version without these keys, and by one with them
    former = {key: value for key, value in asdict(plain).items() if key in ("row", "than", "column", "direction")}
    for recorded in (former, asdict(plain), asdict(known) | {"shown_before": "claim"}):
        analysis = {"columns": {"ood": OOD, "iid": IID}, "hypotheses": [recorded]}
        for run in table.runs:
            run.declared = [{"analysis": analysis, "step": 0, "git": {"commit": "c" * 40}}]
        [answer] = answers(table)
        assert answer.declared == "declared before the 10 runs, commit cccccccccc"
        assert answer.shown_before == "pilot" and "shown before by a pilot; declared before" in answer.explanation
        assert "corrected" not in answer.reason
    for run in table.runs:
        run.declared = [{"analysis": analysis | {"hypotheses": [former | {"given": "iid"}]}, "step": 0, "git": {}}]
    [answer] = answers(table)
    assert answer.declared == "not declared before 10 of 10 runs" and "corrected for 2 hypotheses" in answer.reason
    assert isinstance(answer, HypothesisAnswer) and not replace(answer, shown_before=None).known


def test_the_least_that_a_test_can_show() -> None:
    ratio, source = smallest_ratio(10, 1) or 0.0, np.random.default_rng(7)
    rows = [(source.normal(size=10), ratio * source.normal(size=10)) for _ in range(1500)]
    power = np.mean([levene(*pair, center="median").pvalue <= 0.05 for pair in rows])
    assert power == pytest.approx(0.8, abs=0.04)
    assert (smallest_ratio(10, 3) or 0) > (smallest_ratio(10, 1) or 0) > (smallest_ratio(30, 1) or 0) > 1
    assert least_log_rank(5, 5) == pytest.approx(log_rank(Times([1, 2, 3, 4, 5], []), Times([6, 7, 8, 9, 10], [])))
    assert fewest_failures((0, 10), 10, 3) == 6 and fewest_failures((0, 5), 5, 7) is None
    assert fisher((0, 10), (6, 10)) * 3 <= 0.05 < fisher((0, 10), (5, 10)) * 3
