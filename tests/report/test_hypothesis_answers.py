"""Answers to declared hypotheses: verdicts, correction, whether they were declared before the runs."""

import copy
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy.stats import ttest_1samp
from support.small_runs import SMALL_SCAN
from support.written_runs import IID, OOD

from attnlab.config.job_config import compose_config
from attnlab.config.problem import ConfigError
from attnlab.config.report_block import Average, Hypothesis, Report, Success
from attnlab.config.validation.report_names import require_known_names
from attnlab.learn.declaration_checks import declaration_problems
from attnlab.learn.reporter import Reporter
from attnlab.report.analysis_record import HypothesisAnswer
from attnlab.report.build_table import make_table
from attnlab.report.hypothesis_answers import answers
from attnlab.report.runs.read_runs import DIVERGED, ReportRun
from attnlab.report.statistics.differences import claimed_range
from attnlab.report.table_types import Table
from attnlab.report.table_writers import record
from attnlab.report.text_tables import difference_tables
from attnlab.run.run_folder import RunFolder
from attnlab.run.train_run import record_start

GAINS = (6.0, 9.0, 7.0, 8.0, 5.0)
"""differences of five seeds: 7 ± 1.58, t = 9.899 against 0 (p 0.00058), 2.828 against 5 (p 0.0474)"""


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_config([*SMALL_SCAN, "model=linear"])


def table_of(config: dict[str, Any], gains: tuple[float, ...], *requested: Hypothesis) -> Table:
    """Rows linear, mine (ahead by the gains, in percent) and late (missing), with a run for each seed."""
    runs = []
    for seed, gain in enumerate(gains):
        for name, value in (("linear", 0.5), ("mine", 0.5 + gain / 100), ("late", None)):
            changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
            done = {"result": {"metrics": {OOD: value}}} if value else {}
            runs.append(ReportRun(Path(name) / f"seed{seed}", changed, "finished" if value else "missing", **done))
    return make_table(Report(title="SCAN", columns={"ood": OOD}, hypotheses=list(requested)), runs)


def test_a_hypothesis_without_enough_seeds_has_no_test(config: dict[str, Any]) -> None:
    mine, late = (Hypothesis(row=row, than="linear", column="ood") for row in ("mine", "late"))
    first, second = answers(table_of(config, GAINS[:1], mine, late))
    assert first.verdict == second.verdict == "undecided"
    assert first.reason.startswith("1 common seed, a test needs 5") and second.reason == "no run of late has a number"
    [four] = answers(table_of(config, GAINS[:4], mine))
    assert four.verdict == "undecided"
    assert "range over 4 paired seeds; as claimed in 4 of 4; a test needs 5" in four.reason


@pytest.mark.parametrize(
    ("claim", "others", "verdict", "told"),
    [
        ({}, 0, "supported", "difference +7.0, from +5.0 to +9.0: 95 % paired t interval, 5 seeds; p < 0.001"),
        ({"at_least": 5.0}, 0, "supported", "p = 0.047"),
        # corrected for two hypotheses it is no longer below 0.05, and the interval is wider
        ({"at_least": 5.0}, 1, "undecided", "from +4.5 to +9.5: 95 % paired t interval, corrected for 2 tests"),
        ({"at_least": 5.0}, 1, "undecided", "p = 0.047, corrected for 2 hypotheses p = 0.095"),
        # 5 + 2.66, by 100,000 simulated sets of five seeds
        ({"at_least": 5.0}, 1, "undecided", "at this spread 5 seeds show a difference of 8.2 with 80 % power"),
        ({"at_least": 7.5}, 0, "undecided", "p = 0.519"),
        ({"at_least": 9.5}, 0, "refuted", "p = 0.024"),
        ({"direction": "lower"}, 0, "refuted", "from +5.0 to +9.0"),
        ({"within": 10.0}, 0, "supported", "p = 0.013"),
        ({"within": 8.0}, 0, "undecided", "5 seeds show a margin of"),
        ({"within": 4.0}, 0, "refuted", "p = 0.013"),
        ({"not_worse_by": 1.0}, 0, "supported", "p < 0.001"),
    ],
)
def test_the_corrected_interval_decides(
    config: dict[str, Any], claim: dict[str, Any], others: int, verdict: str, told: str
) -> None:
    hypotheses = [Hypothesis(row="mine", than="linear", column="ood", **claim)]
    hypotheses += [Hypothesis(row="late", than="linear", column="ood")] * others
    answer = answers(table_of(config, GAINS, *hypotheses))[0]
    assert (answer.verdict, told in answer.explanation) == (verdict, True), answer.explanation
    # zero has no sign, which a picture would show
    assert "-0.0" not in map(str, answer.claimed or ())


def test_a_verdict_names_the_seeds_without_one_of_which_it_is_another(config: dict[str, Any]) -> None:
    """Against the t-test of scipy on all but one seed; five seeds have no such test."""
    hypothesis = Hypothesis(row="mine", than="linear", column="ood")
    for gains in ((1.0, 5.0, 9.0, 6.0, -1.0, 7.0, 5.5), (6.0, 9.0, 7.0, 8.0, 5.0, 6.5), (1.0, 4.0, 9.0, 6.0, 0.0, 7.0)):
        [answer] = answers(table_of(config, gains, hypothesis))
        others = [[gain for at, gain in enumerate(gains) if at != left_out] for left_out in range(len(gains))]
        expected = [seed for seed, rest in enumerate(others) if ttest_1samp(rest, 0.0).pvalue > 0.05]
        assert answer.verdict == "supported" and answer.influential == expected
        named = f"not supported if {'seed' if len(expected) == 1 else 'any one of'}"
        assert (named in answer.explanation) == bool(expected)
    [answer] = answers(table_of(config, GAINS, hypothesis))
    assert answer.verdict == "supported" and not answer.influential


def test_a_hypothesis_on_an_average_is_of_the_runs_and_shortcuts_of_all_columns(config: dict[str, Any]) -> None:
    def table(debug: str | None) -> Table:
        runs = []
        for length, (name, value), seed in product((20, 40), (("linear", 0.3), ("mine", 0.2)), range(5)):
            changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
            changed["task"]["length_cutoff"] = length
            changed["debug"] = debug if length == 40 else None
            result = {"metrics": {OOD: value}, "shortcuts": {OOD: {f"shortcut of {length}": 0.5}}}
            runs.append(ReportRun(Path(name) / f"{length}/seed{seed}", changed, "finished", result=result))
        columns = {f"at_{at}": {"metric": OOD, "where": {"task.length_cutoff": at}} for at in (20, 40)}
        mine = Hypothesis(row="mine", than="linear", column="both")
        average = Average(name="both", of=[*columns])
        return make_table(Report(title="SCAN", columns=columns, average=average, hypotheses=[mine]), runs)

    [answer] = answers(table("smoke"))
    assert answer.verdict == "undecided" and answer.reason.startswith("runs of debug=smoke: no verdict")
    assert answer.declared == "not declared before 20 of 20 runs"
    assert "seeds started/diverged/tested: mine 5/0/5, linear 5/0/5" in answer.reason
    [answer] = answers(table(None))
    assert (
        answer.verdict == "undecided" and "not shown to be better than the best of each column, 50.0" in answer.reason
    )
    folders = {
        cell.column.name: {seed.folder for seed in cell.seeds}
        for cell in record(table(None), experiment="lengths").each()
    }
    assert folders["both"] == {None} != folders["at_40"]


def test_better_is_lower_for_a_perplexity() -> None:
    def claimed(**form: Any) -> tuple[float, float]:
        result = claimed_range(Hypothesis(row="a", than="b", column="c", **form), "test/perplexity")
        return result.low, result.high

    assert claimed() == (-math.inf, 0) and claimed(direction="higher") == (0, math.inf)
    assert claimed(at_least=2.0) == (-math.inf, -2) and claimed(not_worse_by=1.0) == (-math.inf, 1)
    assert claimed(within=1.0) == (-1, 1)


FORMS: dict[str, dict[str, Any]] = {
    "better": {},
    "lower": {"direction": "lower"},
    "at least": {"at_least": 5.0},
    "within": {"within": 1.0},
    "not worse": {"not_worse_by": 1.0},
}


@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        # one row at 100 %, the other at 50 %, in all seeds
        (50.0, ("supported", "refuted", "supported", "refuted", "supported")),
        # equal up to rounding: 50.00000000000001
        (1e-14, ("refuted", "refuted", "refuted", "supported", "supported")),
        (0.0, ("refuted", "refuted", "refuted", "supported", "supported")),
        (5.0, ("supported", "refuted", "supported", "refuted", "supported")),
        (-1.0, ("refuted", "supported", "refuted", "supported", "supported")),
        (-2.0, ("refuted", "supported", "refuted", "refuted", "refuted")),
    ],
)
def test_equal_differences_are_a_point(config: dict[str, Any], gain: float, expected: tuple[str, ...]) -> None:
    hypothesis = [Hypothesis(row="mine", than="linear", column="ood", **claim) for claim in FORMS.values()]
    answer = answers(table_of(config, (gain,) * 5, *hypothesis))
    assert tuple(item.verdict for item in answer) == expected
    assert all(item.p is None and item.low == item.high and "equal in all 5 seeds" in item.reason for item in answer)


DIVERGENCE = f"{DIVERGED} the loss is nan"


def outcomes_of(
    config: dict[str, Any],
    rows: dict[str, Sequence[float | str]],
    *requested: Hypothesis,
    shortcut: float | None = None,
    more: Mapping[str, float] = {},
    **block: Any,
) -> Table:
    """A run for every outcome: an accuracy in percent, "diverged", "memory" (an error) or a state.

    Args:
        shortcut: the accuracy of the most frequent answer.
        more: other metrics of every run.
    """
    runs, known = [], {} if shortcut is None else {OOD: {"most frequent answer": shortcut / 100}}
    for name, outcomes in rows.items():
        for seed, outcome in enumerate(outcomes):
            changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
            reason = {"diverged": DIVERGENCE, "memory": "OutOfMemoryError: CUDA"}.get(str(outcome), "")
            state = "failed" if reason else str(outcome) if isinstance(outcome, str) else "finished"
            result = {} if isinstance(outcome, str) else {"metrics": {OOD: outcome / 100, **more}, "shortcuts": known}
            runs.append(ReportRun(Path(name) / f"seed{seed}", changed, state, reason, result))
    block = {"title": "SCAN", "columns": {"ood": OOD}} | block
    return make_table(Report(hypotheses=list(requested), **block), runs)


LOST = ("diverged",) * 5
SPREAD = (50.0, 51.0, 52.0, 53.0, 54.0)
HIGHER = tuple(value + 10 for value in (*SPREAD, *SPREAD))


@pytest.mark.parametrize(
    ("mine", "linear", "claim", "verdict", "told"),
    [
        # the five others of ten runs would be "better, p = 0.002"
        (
            (*HIGHER[:5], *LOST),
            (*SPREAD, *SPREAD),
            {},
            "undecided",
            "better in 50 % of the pairs of runs; 5 of 10 and 0 of 10 diverged",
        ),
        (HIGHER, (*SPREAD, *LOST), {}, "supported", "p < 0.001"),
        (SPREAD, LOST, {}, "supported", "better in 100 % of the pairs of runs; 0 of 5 and 5 of 5 diverged"),
        (LOST, SPREAD, {}, "refuted", "p = 0.008"),
        (LOST, SPREAD, {"direction": "lower"}, "supported", "p = 0.008"),
        (LOST, SPREAD, {"not_worse_by": 1.0}, "refuted", "p = 0.008"),
        (SPREAD, LOST, {"within": 1.0}, "refuted", "diverged"),
        # equal rows, of which one loses two of ten runs
        ((*HIGHER[:8], "diverged", "diverged"), HIGHER, {"within": 9.0}, "undecided", "more than any margin"),
        ((*HIGHER[:8], "diverged", "diverged"), HIGHER, {"not_worse_by": 9.0}, "undecided", "more than any margin"),
        (HIGHER, (*HIGHER[:8], "diverged", "diverged"), {"not_worse_by": 9.0}, "supported", "2 of 10 diverged"),
        # 3 % is not at least 5 points better than a run without a number
        ((3.0, 3.1, 3.2, 3.3, 3.4), LOST, {"at_least": 5.0}, "undecided", "p = 1.000"),
        (SPREAD, LOST, {"at_least": 5.0}, "supported", "p = 0.008"),
        (LOST, LOST, {}, "undecided", "all runs diverged"),
        (LOST, LOST, {"within": 1.0}, "undecided", "all runs diverged"),
        ((*SPREAD[:4], "diverged"), SPREAD, {}, "undecided", "a verdict needs a row that is better in 92 % of"),
        ((*SPREAD[:3], "diverged"), SPREAD[:4], {}, "undecided", "a test needs 5 seeds"),
    ],
)
def test_a_diverged_run_ranks_last(
    config: dict[str, Any],
    mine: tuple[Any, ...],
    linear: tuple[Any, ...],
    claim: dict[str, Any],
    verdict: str,
    told: str,
) -> None:
    hypothesis = Hypothesis(row="mine", than="linear", column="ood", **claim)
    [answer] = answers(outcomes_of(config, {"linear": linear, "mine": mine}, hypothesis))
    assert (answer.verdict, told in answer.explanation) == (verdict, True), answer.explanation
    assert answer.low is None and answer.difference is None
    lost = mine.count("diverged")
    assert f"runs started/diverged/tested: mine {len(mine)}/{lost}/{len(mine)}" in answer.reason
    assert (answer.runs[0].diverged, answer.runs[0].finished) == (lost, len(mine) - lost)


def test_a_difference_with_diverged_runs_has_no_mean(config: dict[str, Any]) -> None:
    table = outcomes_of(config, {"linear": (*SPREAD, *SPREAD), "mine": (*HIGHER[:5], *LOST)})
    [result] = table.comparisons()
    assert (result.difference, result.low) == (None, None) and result.p == pytest.approx(1)
    [shown] = difference_tables(record(table, [result], experiment="e"))
    [line] = shown.rows
    assert (line[0], line[2:4]) == ("mine - linear", ["-", "-"])
    assert line[-1].startswith("better in 50 % of the pairs of runs; 5 of 10 and 0 of 10 diverged")


def test_diverged_runs_without_a_partner_are_compared_too(config: dict[str, Any]) -> None:
    """The lost seed of one row has no outcome in the other one: its common seeds alone have a mean difference of 10."""
    hypothesis = Hypothesis(row="mine", than="linear", column="ood")
    rows = {"linear": (*SPREAD[:4], "diverged"), "mine": (*HIGHER[:4], "missing")}
    table = outcomes_of(config, rows, hypothesis)
    [answer], [actual] = answers(table), table.comparisons()
    assert answer.verdict == "undecided" and answer.difference is None and actual.difference is None
    assert "0 of 4 and 1 of 5 diverged" in answer.reason and "0 of 4 and 1 of 5 diverged" in actual.method
    assert "mine 4/0/4, linear 5/1/5" in answer.reason


@pytest.mark.parametrize("share", [0.0, 100.0])
def test_rows_at_an_end_of_the_scale_are_named(config: dict[str, Any], share: float) -> None:
    hypothesis = Hypothesis(row="mine", than="linear", column="ood")
    [answer] = answers(outcomes_of(config, {"linear": [share] * 5, "mine": [share] * 5}, hypothesis))
    verdict, text = {
        0.0: ("undecided", "linear is not shown to be better than the worst number, 0.0: no verdict"),
        100.0: ("refuted", "all runs have 100.0, where"),
    }[share]
    assert answer.verdict == verdict and text in answer.reason


FAILING = (3.0, 3.1, 2.9, 3.0, 3.2)
LEARNED = (3.4, 3.5, 3.3, 3.4, 3.6)


@pytest.mark.parametrize(
    ("mine", "linear", "claim", "verdict", "is_told"),
    [
        (FAILING, FAILING, {"within": 1.0}, "undecided", True),
        (HIGHER[:5], FAILING, {}, "supported", False),
        ((*FAILING[:4], "diverged"), FAILING, {"not_worse_by": 5.0}, "undecided", True),
    ],
)
def test_a_comparison_of_rows_without_a_success_says_so(
    config: dict[str, Any], mine: Any, linear: Any, claim: dict[str, Any], verdict: str, is_told: bool
) -> None:
    hypothesis = Hypothesis(row="mine", than="linear", column="ood", **claim)
    success = Success(column="ood", at_least=50.0)
    [answer] = answers(outcomes_of(config, {"linear": linear, "mine": mine}, hypothesis, success=success))
    assert (answer.verdict, "linear: 0 of 5 runs succeed in ood" in answer.reason) == (verdict, is_told), answer.reason


@pytest.mark.parametrize(
    ("mine", "shortcut", "iid", "claim", "verdict", "told"),
    [
        # two untrained rows are equal, and one is above the shortcut by chance in one seed
        (FAILING, 3.05, 100.0, {"within": 1.0}, "undecided", "better than the most frequent answer, 3.0"),
        (FAILING, 3.05, 100.0, {"not_worse_by": 1.0}, "undecided", "better than the most frequent answer"),
        (FAILING, 2.0, 100.0, {"within": 1.0}, "supported", ""),
        (FAILING, 2.0, 30.0, {"within": 1.0}, "undecided", "linear: 0 of 5 runs succeed in iid: no verdict"),
        # nor is a difference of rows refuted that have learned nothing
        (FAILING, 3.05, 100.0, {"at_least": 5.0}, "undecided", "better than the most frequent answer, 3.0: no verdict"),
        (FAILING, 2.0, 30.0, {}, "undecided", "linear: 0 of 5 runs succeed in iid: no verdict"),
        # nor is a row like one that has learned nothing
        (LEARNED, 3.05, 100.0, {"within": 1.0}, "undecided", "linear is not shown to be better than the most frequent"),
        (LEARNED, 3.05, 100.0, {"not_worse_by": 1.0}, "supported", ""),
        (LEARNED, 3.05, 100.0, {"at_least": 5.0}, "refuted", ""),
        # a difference is one all the same
        (HIGHER[:5], 70.0, 100.0, {}, "supported", "better than the most frequent answer, 70.0"),
    ],
)
def test_rows_that_have_learned_nothing_support_no_parity(
    config: dict[str, Any], mine: Any, shortcut: float, iid: float, claim: dict[str, Any], verdict: str, told: str
) -> None:
    hypothesis = Hypothesis(row="mine", than="linear", column="ood", **claim)
    block = {"columns": {"iid": IID, "ood": OOD}, "success": Success(column="iid", at_least=95)}
    rows = {"linear": FAILING, "mine": mine}
    [answer] = answers(outcomes_of(config, rows, hypothesis, shortcut=shortcut, more={IID: iid / 100}, **block))
    assert (answer.verdict, told in answer.explanation) == (verdict, True), answer.explanation


def test_a_value_that_the_tested_numbers_choose_gives_no_verdict(config: dict[str, Any]) -> None:
    hypothesis = Hypothesis(row="mine", than="linear", column="ood")
    rows = {"linear": SPREAD, "mine": HIGHER[:5]}
    [answer] = answers(outcomes_of(config, rows, hypothesis, best_over=["optim.lr"]))
    assert answer.verdict == "undecided"
    assert "values of optim.lr are chosen by the tested numbers: no verdict; difference +10.0" in answer.reason
    [debugged] = answers(outcomes_of(config | {"debug": "smoke"}, rows, hypothesis))
    assert debugged.verdict == "undecided" and "runs of debug=smoke: no verdict" in debugged.reason


@pytest.mark.parametrize(
    ("data_seeds", "seeds", "failing", "verdict", "told"),
    [
        # all runs on one data set fail, and none on the other: two independent observations, not ten
        (2, 5, (1,), "undecided", "failures 0 of 10 and 5 of 10; no test, as runs on one of several data sets are"),
        (5, 1, range(5), "supported", "failures 0 of 5 and 5 of 5 (Fisher's exact test); p = 0.008"),
    ],
)
def test_failures_are_tested_if_each_run_of_a_row_has_its_own_data(
    config: dict[str, Any], data_seeds: int, seeds: int, failing: Sequence[int], verdict: str, told: str
) -> None:
    hypothesis, runs = Hypothesis(row="mine", fails_less_than="linear"), []
    for name, data_seed, seed in product(("linear", "mine"), range(data_seeds), range(seeds)):
        changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
        changed["task"] = changed["task"] | {"data_seed": data_seed}
        value = 0.1 if name == "linear" and data_seed in failing else 0.9
        runs.append(
            ReportRun(Path(name) / f"{data_seed}" / f"seed{seed}", changed, "finished", "", {"metrics": {OOD: value}})
        )
    success = Success(column="ood", at_least=50)
    [answer] = answers(
        make_table(Report(title="t", columns={"ood": OOD}, success=success, hypotheses=[hypothesis]), runs)
    )
    assert (answer.verdict, told in answer.explanation) == (verdict, True), answer.explanation


def test_a_diverged_run_has_no_lowest_norm(config: dict[str, Any]) -> None:
    norm, runs = "val/layer_0/key_norm", []
    for name, seed in product(("linear", "mine"), range(5)):
        changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
        lost = ("failed", DIVERGENCE, {}) if name == "mine" else ("finished", "", {"metrics": {norm: 9.0 + seed}})
        runs.append(ReportRun(Path(name) / f"seed{seed}", changed, *lost))
    hypothesis = Hypothesis(row="mine", than="linear", column="norm", direction="lower")
    [answer] = answers(make_table(Report(title="t", columns={"norm": norm}, hypotheses=[hypothesis]), runs))
    assert answer.verdict == "undecided" and "no test, as neither direction is better" in answer.reason
    assert "better in" not in answer.reason.replace("is better in", ""), "no share of pairs either"


@pytest.mark.parametrize(
    ("metric", "claim", "problem"),
    [
        ("val/layer_0/key_norm", {}, "0.direction=better: neither is better in c (val/layer_0/key_norm)"),
        ("val/layer_0/key_norm", {"direction": "lower"}, None),
        ("val/layer_0/key_norm", {"not_worse_by": 1.0}, "0.not_worse_by: neither is worse in c (val/layer_0/key_norm)"),
        ("val/layer_0/value_cosine", {}, None),
        ("steps_per_second", {}, "0.column=c: no hypothesis compares steps_per_second, which depends on the machine"),
        ("step_seconds", {"direction": "lower"}, None),
        (OOD, {"within": 500.0}, "0.within=500: expected less than 100, the range of c (percent)"),
        (OOD, {"at_least": 5.0}, None),
    ],
)
def test_claims_that_a_column_cannot_have_are_refused(metric: str, claim: dict[str, Any], problem: str | None) -> None:
    requested = {"row": "mine", "than": "linear", "column": "c", **claim}
    messages = declaration_problems({"title": "t", "columns": {"c": metric}, "hypotheses": [requested]})
    assert [item.startswith(f"report.hypotheses.{problem}") for item in messages] == ([True] if problem else []), (
        messages
    )


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("missing", "mine without seeds 5 (missing)"),
        ("interrupted", "mine without seeds 5 (interrupted)"),
        ("memory", "mine without seeds 5 (OutOfMemoryError)"),
    ],
)
def test_no_verdict_while_a_run_has_no_outcome(config: dict[str, Any], state: str, told: str) -> None:
    hypothesis = Hypothesis(row="mine", than="linear", column="ood")
    rows = {"linear": (*SPREAD, 50.0), "mine": (*HIGHER[:5], state)}
    [answer] = answers(outcomes_of(config, rows, hypothesis))
    assert answer.verdict == "undecided" and f"{told}: no verdict; difference +10.0" in answer.reason
    assert f"mine {5 if state == 'missing' else 6}/0/5, linear 6/0/5" in answer.reason


@pytest.mark.parametrize(
    ("mine", "linear", "others", "verdict", "told"),
    [
        (0, 5, 0, "supported", "failures 0 of 5 and 5 of 5 (Fisher's exact test); p = 0.008"),
        (5, 0, 0, "refuted", "p = 0.008"),
        (0, 4, 0, "supported", "p = 0.048"),
        (0, 4, 1, "undecided", "so many runs show a difference from 5 failures of linear on"),
        (0, 5, 6, "undecided", "with 0 failures of mine, so few runs cannot show a difference"),
        (0, 0, 0, "undecided", "failures 0 of 5 and 0 of 5"),
        (5, 5, 0, "undecided", "p = 1.000; runs started"),
    ],
)
def test_failures_are_compared_by_fishers_test(
    config: dict[str, Any], mine: int, linear: int, others: int, verdict: str, told: str
) -> None:
    """A run fails below 60 %, or if it diverges."""
    hypotheses = [Hypothesis(row="mine", fails_less_than="linear")]
    hypotheses += [Hypothesis(row="late", than="linear", column="ood")] * others
    rows = {
        row: [*([30.0] * (count // 2)), *(["diverged"] * (count - count // 2)), *([90.0] * (5 - count))]
        for row, count in (("linear", linear), ("mine", mine))
    }
    answer = answers(outcomes_of(config, rows, *hypotheses, success=Success(column="ood", at_least=60)))[0]
    assert (answer.verdict, told in answer.explanation) == (verdict, True), answer.explanation
    assert answer.claim == "mine fails less than linear in ood" and answer.low is None


def test_the_verdict_agrees_with_the_corrected_p_and_the_interval(config: dict[str, Any]) -> None:
    source = random.Random(3)
    for size in (0.0, 2.0, 4.0):
        for _ in range(40):
            gains = tuple(source.gauss(size, 2.0) for _ in range(5))
            hypothesis = [Hypothesis(row=row, than="linear", column="ood") for row in ("mine", "late", "late")]
            answer = answers(table_of(config, gains, *hypothesis))[0]
            assert answer.corrected is not None and answer.low is not None and answer.high is not None
            assert (answer.verdict == "supported") == (answer.low > 0)
            assert (answer.verdict == "refuted") == (answer.high <= 0)
            assert (answer.verdict == "undecided") == (answer.corrected > 0.05)


def test_a_hypothesis_is_declared_before_a_run_if_the_run_recorded_it_at_its_first_start(
    config: dict[str, Any],
) -> None:
    hypothesis = Hypothesis(row="mine", than="linear", column="ood", at_least=1.0)
    other = Hypothesis(row="late", than="linear", column="ood")
    table = table_of(config, GAINS, hypothesis)
    assert answers(table)[0].declared == "not declared before 10 of 10 runs"
    analysis = {"columns": {"ood": OOD}, "hypotheses": [asdict(hypothesis)]}
    record = {"analysis": analysis, "step": 0, "git": {"commit": "c" * 40}}

    def declared(first: dict[str, Any], **others: Any) -> HypothesisAnswer:
        """With the first run begun under the first analysis, and the others under the second."""
        for at, run in enumerate(table.runs):
            run.declared = [record | (others if at else first)]
        return answers(table)[0]

    assert declared({}).declared == "declared before the 10 runs, commit cccccccccc"
    # added when the run was resumed, another size, a file of another program
    changed = analysis | {"hypotheses": [asdict(hypothesis) | {"at_least": 2.0}]}
    for first in ({"step": 300}, {"analysis": changed}, {"analysis": {"hypotheses": [1, {}]}}, {"analysis": 3}):
        assert declared(first).declared == "not declared before 1 of 10 runs"
    # one more column, and a hypothesis that is no longer asked: it still counts in the correction
    former = {"columns": {"ood": OOD, "iid": IID}, "hypotheses": [asdict(hypothesis), asdict(other)]}
    result = declared({"analysis": former}, analysis=former)
    assert result.declared == "declared before the 10 runs, commit cccccccccc; changed since: columns, hypotheses"
    # the same words about other rows, and about other numbers
    swapped = analysis | {"row_names": {"linear": "mine", "mine": "linear"}}
    assert declared({"analysis": swapped}, analysis=swapped).declared == "not declared before 10 of 10 runs"
    renamed = {"columns": {"ood": IID}, "hypotheses": [asdict(hypothesis)]}
    assert declared({"analysis": renamed}, analysis=renamed).declared == "not declared before 10 of 10 runs"
    result = declared({"analysis": former}, analysis=former)
    assert "corrected for 2 hypotheses" in result.reason
    # one put in the place of another after the runs: both were posed
    former = {"columns": {"ood": OOD}, "hypotheses": [asdict(other)]}
    assert "corrected for 2 hypotheses" in declared({"analysis": former}, analysis=former).reason


def test_a_run_records_every_declared_analysis_with_the_step_of_its_first_record(
    config: dict[str, Any], tmp_path: Path
) -> None:
    folder, reporter = RunFolder(tmp_path / "seed0"), Reporter("none")
    folder.create()
    folder.config_file.write_text(yaml.safe_dump(config))
    first, second = [{"row": "a", "than": "b", "column": "ood"}], [{"row": "b", "than": "a", "column": "ood"}]
    for requested, reached in ((first, 10), (None, 20), (second, 30), (first, 40)):
        record_start(folder, reporter, {"hypotheses": requested} if requested else None)
        folder.set_status("stopped", step=reached)
    collected = [(item["analysis"]["hypotheses"], item["step"]) for item in folder.status()["declared"]]
    assert collected == [(first, 0), (second, 20)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"column": "odd"}, "no column odd; nearest: ood"),
        ({"than": "linea"}, "no such row linea; nearest: linear"),
    ],
)
def test_names_are_checked_before_the_first_run(config: dict[str, Any], changed: dict[str, str], message: str) -> None:
    known = {"row": "mine", "than": "linear", "column": "ood"}
    configs = [config | {"model": config["model"] | {"name": name}} for name in ("linear", "mine")]
    block = {"title": "t", "columns": {"ood": OOD}, "hypotheses": [known]}
    require_known_names(block, configs, ["experiment=own"])
    wrong = block | {"hypotheses": [known | changed]}
    with pytest.raises(ConfigError, match=message):
        require_known_names(wrong, configs, ["experiment=own"])
    for form, problem in {
        "report.hypotheses.0: expected one of than": {"than": None},
        "report.hypotheses.0.column: missing": {"column": None},
        "0.than=mine: a row is compared with itself": {"than": "mine"},
        "expected one of at_least, within, not_worse_by, found at_least, within": {"at_least": 1.0, "within": 1.0},
        "0.direction=lower: goes with a difference only": {"direction": "lower", "within": 1.0},
        "0.column=ood: fails_less_than has no column": {"than": None, "fails_less_than": "linear"},
        "0.fails_less_than=linear: needs report.success": {"than": None, "column": None, "fails_less_than": "linear"},
        "0.sooner_than=linear: needs report.success, ": {"than": None, "column": None, "sooner_than": "linear"},
        "found than, varies_less_than": {"varies_less_than": "linear"},
        "0.given=ood: a column is adjusted for itself": {"given": "ood"},
        "0.given: no column odd; nearest: ood": {"given": "odd"},
        "0.within=1.0: varies_less_than has no within": {"than": None, "varies_less_than": "linear", "within": 1.0},
        "0.spread=1.0: varies_less_than has no spread": {"than": None, "varies_less_than": "linear", "spread": 1.0},
    }.items():
        with pytest.raises(ConfigError, match=form):
            require_known_names(block | {"hypotheses": [known | problem]}, configs, ["experiment=own"])
    sooner = {"success": {"column": "ood", "at_least": 60}, "hypotheses": [{"row": "mine", "sooner_than": "linear"}]}
    with pytest.raises(ConfigError, match=r"0.sooner_than=linear: needs report\.success\.validation"):
        require_known_names(block | sooner, configs, ["experiment=own"])
    # a narrowed experiment may lack rows
    require_known_names(block, configs[:1], ["experiment=own", "model=linear"])
