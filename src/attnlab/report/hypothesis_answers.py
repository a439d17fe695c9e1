"""Answers to the hypotheses that an experiment declares: supported, refuted, undecided (docs/reports.md, Hypotheses).

All intervals and p-values are corrected by Bonferroni's method over all hypotheses that the experiment declares or that
its runs were begun under, also those without runs and those that were removed or changed since. A verdict needs an
outcome (a number, or that it diverged) of every declared seed in both rows: a choice among finished seeds finds
differences where there are none.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from attnlab.analysis.recorded_analyses import analyses_before_training, number_of_tests
from attnlab.config.message_text import counted, listed
from attnlab.config.report_block import ANALYSIS, SEEDS, Hypothesis, Report
from attnlab.report.analysis_record import LATE, HypothesisAnswer
from attnlab.report.declared_seeds import compared_seeds, has_outcome
from attnlab.report.hypothesis_tests import tested
from attnlab.report.runs.read_runs import ReportRun
from attnlab.report.statistics.differences import UNDECIDED, claimed_range
from attnlab.report.table_types import Table
from attnlab.run.provenance import commit_text


def answers(table: Table) -> list[HypothesisAnswer]:
    """The answers to all hypotheses of a table's report."""
    claims = table.report.hypotheses
    records = (record for run in table.runs for record in analyses_before_training(run.declared))
    tests = number_of_tests(claims, records)
    return [_answer(table, claim, tests) for claim in claims]


def _answer(table: Table, claim: Hypothesis, tests: int) -> HypothesisAnswer:
    """Verdict, reason and numbers of one hypothesis, corrected for so many tests."""
    success = table.report.success
    name = success.column if success and claim.column is None else claim.column
    column = next(column for column in table.columns if column.name == name)
    cells = {row: table.cells.get(row, {}).get(column.name) for row in (claim.row, claim.other)}
    rows = {row: cell.seeds if cell else [] for row, cell in cells.items()}
    runs = [run for row in rows for run in table.runs_behind(row, column) if run.diverged or run.state == "finished"]
    declared, reports = _declaration(table, claim, runs)
    seeds = compared_seeds(table, column, rows, reports, is_paired=claim.than is not None)
    # a published difference is no adjusted one, no number of steps and no spread
    is_of_means = claim.form in ("than", "fails_less_than") and claim.given is None
    answer = HypothesisAnswer(
        row=claim.row,
        than=claim.other,
        column=column.name,
        verdict=UNDECIDED,
        reason="",
        claim=claim.in_words(success),
        declared=declared,
        claimed=claimed_range(claim, column.metric).ends if claim.than else None,
        published=table.published_difference(claim.row, claim.other, column.name) if is_of_means else None,
        statistic=f"adjusted for {claim.given}" if claim.given else None,
        shown_before=claim.shown_before,
        runs=seeds.runs,
    )
    if without := [row for row, members in rows.items() if not any(map(has_outcome, members))]:
        return replace(answer, reason=f"no run of {' and '.join(without)} has a number")
    answer = tested(answer, table, claim, column, seeds, tests)
    # why runs give no verdict, whatever their numbers
    barred = [seeds.lacking] if seeds.lacking else []
    if debug := {f"debug={run.config['debug']}" for run in runs if run.config.get("debug")}:
        barred.append(f"runs of {listed(sorted(debug))}")
    if table.report.best_over and table.report.chosen_by is None:
        barred.append(f"values of {listed(table.report.best_over)} are chosen by the tested numbers")
    if barred:
        reason = f"{'; '.join(barred)}: no verdict; {answer.reason}"
        answer = replace(answer, verdict=UNDECIDED, reason=reason, influential=[])
    chosen = [f"{row} has {cell.chosen}" for row, cell in cells.items() if cell and cell.chosen]
    counts = [f"{row.row} {row.started}/{row.diverged}/{row.used}" for row in seeds.runs]
    # a seed of a mean of columns has several runs
    unit = "seeds" if column.of else "runs"
    reasons = [answer.reason, *seeds.remarks, *chosen, f"{unit} started/diverged/tested: {', '.join(counts)}"]
    return replace(answer, reason="; ".join(reasons))


def _declaration(table: Table, claim: Hypothesis, runs: Sequence[ReportRun]) -> tuple[str, list[Report]]:
    """Whether runs were begun under a hypothesis, with commits and later changes in words, and the reports with the
    seeds that were declared: of the table where runs recorded none; none without seeds."""
    now = table.report
    recorded = (analyses_before_training(run.declared) for run in runs)
    by_run = [[record for record in records if _asks(record[0], claim, now)] for records in recorded]
    # of several records of a run, the nearest to the present analysis
    nearest = [min(records, key=lambda record: len(_changed(record[0], now))) for records in by_run if records]
    reports = [
        replace(then, seeds=then.seeds or now.seeds, data_seeds=then.data_seeds or now.data_seeds)
        for then, _ in nearest
    ]
    reports = [report for report in reports or [now] if report.seeds]
    if not runs:
        return "no run yet", reports
    all_runs = counted(len(runs), "run")
    if len(nearest) < len(runs):
        return f"{LATE} {len(runs) - len(nearest)} of {all_runs}", reports
    commits = listed(sorted({commit_text(git) for _, git in nearest}))
    changed = set(chain.from_iterable(_changed(then, now) for then, _ in nearest))
    since = f"; changed since: {listed([key for key in ANALYSIS if key in changed])}" if changed else ""
    return f"declared before the {all_runs}, commit {commits}{since}", reports


def _asks(then: Report, claim: Hypothesis, now: Report) -> bool:
    """Whether a report has a hypothesis, on the same rows, numbers and choice of runs as the present one."""

    def subject(report: Report) -> list[Any]:
        success = report.success if claim.column is None else None
        names = [success.column if success else claim.column, *([claim.given] if claim.given else [])]
        average = report.average if report.average and report.average.name in names else None
        columns = [report.columns.get(str(name)) for name in (*names, *(average.of if average else ()))]
        rows = {values: row for values, row in report.row_names.items() if row in (claim.row, claim.other)}
        return [report.rows, rows, columns, average, success, report.best_over, report.chosen_by]

    return claim in then.hypotheses and subject(then) == subject(now)


def _changed(then: Report, now: Report) -> list[str]:
    """The keys of the analysis that differ; seeds were not recorded by older versions."""
    keys = [key for key in ANALYSIS if key not in SEEDS or getattr(then, key)]
    return [key for key in keys if getattr(then, key) != getattr(now, key)]
