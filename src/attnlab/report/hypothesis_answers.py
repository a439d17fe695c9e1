"""Answers to the hypotheses that an experiment declares: supported, refuted, undecided (docs/reports.md, Hypotheses).

All intervals and p-values are corrected by Bonferroni's method over all hypotheses that the experiment declares or that
its runs were begun under, also those without runs and those that were removed or changed since. A verdict needs an
outcome (a number, or that it diverged) of every declared seed in both rows: a choice among finished seeds finds
differences where there are none.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from attnlab.config.message_text import counted, listed
from attnlab.config.report_block import ANALYSIS, FEWEST, SEEDS, Hypothesis, Report
from attnlab.config.validation.type_check import build, conform
from attnlab.learn.metric_units import number, unit_of
from attnlab.report.analysis_record import HypothesisAnswer, ReportSeed
from attnlab.report.declared_seeds import ComparedSeeds, compared_seeds, has_outcome
from attnlab.report.failures.count_failures import mixed_seeds
from attnlab.report.failures.failure_statistics import fisher, reaches
from attnlab.report.report_record import Column
from attnlab.report.runs.read_runs import ReportRun
from attnlab.report.statistics.data_seeds import by_data_seed, paired_on_data
from attnlab.report.statistics.differences import (
    LEVEL,
    REFUTED,
    SUPPORTED,
    UNDECIDED,
    ClaimedRange,
    bonferroni,
    claimed_range,
    influential_seeds,
    interval,
    mean,
    p_text,
    p_value,
    undecided_text,
    verdict,
)
from attnlab.report.table_types import Table
from attnlab.run.provenance import commit_text

Record = tuple[Report, Mapping[str, Any]]
"""an analysis that a run was begun under, and the state of the repository"""


def answers(table: Table) -> list[HypothesisAnswer]:
    """The answers to all hypotheses of a table's report."""
    claims = table.report.hypotheses
    # hypotheses that runs were begun under and that are no longer asked count as well
    tests = list(claims)
    for claim in (claim for run in table.runs for then, _ in _records(run) for claim in then.hypotheses):
        tests += [] if claim in tests else [claim]
    return [_answer(table, claim, len(tests)) for claim in claims]


def _answer(table: Table, claim: Hypothesis, tests: int) -> HypothesisAnswer:
    """Verdict, reason and numbers of one hypothesis, corrected for so many tests."""
    success = table.report.success
    name = success.column if claim.fails_less_than and success else claim.column
    column = next(column for column in table.columns if column.name == name)
    cells = {row: table.cells.get(row, {}).get(column.name) for row in (claim.row, claim.other)}
    rows = {row: cell.seeds if cell else [] for row, cell in cells.items()}
    runs = [run for row in rows for run in table.runs_behind(row, column) if run.diverged or run.state == "finished"]
    declared, reports = _declaration(table, claim, runs)
    seeds = compared_seeds(table, column, rows, reports, is_paired=not claim.fails_less_than)
    answer = HypothesisAnswer(
        row=claim.row,
        than=claim.other,
        column=column.name,
        verdict=UNDECIDED,
        reason="",
        claim=_in_words(claim, column.name),
        declared=declared,
        claimed=None if claim.fails_less_than else claimed_range(claim, column.metric).ends,
        published=table.published_difference(claim.row, claim.other, column.name),
        runs=seeds.runs,
    )
    if without := [row for row, members in rows.items() if not any(map(has_outcome, members))]:
        return replace(answer, reason=f"no run of {' and '.join(without)} has a number")
    if claim.fails_less_than:
        answer = _of_failures(answer, table, seeds, tests)
    else:
        answer = _of_difference(answer, table, claim, column, seeds, tests)
        mixed = mixed_seeds(table, column.name, rows) if answer.low is not None else ""
        answer = replace(answer, reason="; ".join(filter(None, [answer.reason, mixed])))
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


def _in_words(claim: Hypothesis, name: str) -> str:
    """A hypothesis on a column in words."""
    row, other = claim.row, claim.other
    if claim.fails_less_than:
        return f"{row} fails less than {other} in {name}"
    if claim.within is not None:
        return f"{row} and {other} differ by at most {claim.within:g} in {name}"
    if claim.not_worse_by is not None:
        return f"{row} is not worse than {other} in {name} by more than {claim.not_worse_by:g}"
    size = "" if claim.at_least is None else f" by at least {claim.at_least:g}"
    return f"{row} is {claim.direction} than {other} in {name}{size}"


def _of_difference(
    answer: HypothesisAnswer, table: Table, claim: Hypothesis, column: Column, seeds: ComparedSeeds, tests: int
) -> HypothesisAnswer:
    pair = paired_on_data(seeds.rows[claim.row], seeds.rows[claim.other], column.metric, tests)
    used = min(row.used for row in seeds.runs)
    if pair is None:
        reason = "all runs diverged" if used > 1 else f"{counted(used, 'common seed')}, a test needs {FEWEST}"
        return replace(answer, reason=reason)
    claimed, unit = claimed_range(claim, column.metric), column.unit
    numbers = pair.method
    if pair.mean is not None and pair.low is not None and pair.high is not None:
        bounds = [end for end in claimed.ends if end is not None]
        values = (pair.mean, pair.low, pair.high)
        center, low, high = (number(value, unit, signed=True, bounds=bounds) for value in values)
        numbers = f"difference {center}{'' if pair.low == pair.high else f', from {low} to {high}'}: {pair.method}"
    answer = replace(answer, difference=pair.mean, low=pair.low, high=pair.high, reason=numbers)
    if not pair.is_tested:
        held = sum(map(claimed.holds, pair.differences))
        counts = [f"as claimed in {held} of {len(pair.by_seed)}"] if pair.ranks is None else []
        needs = [f"a test needs {FEWEST} {pair.units or 'seeds'}"] if counts or used < FEWEST else []
        return replace(answer, reason="; ".join([answer.reason, *counts, *needs]))
    p, decided = p_value(pair, claimed), verdict(pair, claimed)
    reasons = [answer.reason, *_p_texts(p, tests)]
    needed = undecided_text(pair, claim, claimed, unit) if decided == UNDECIDED else None
    unlearned = _unlearned(table, column, seeds, tests)
    says_nothing = _is_of_unlearned(decided, claim, claimed, unlearned)
    if says_nothing or len(unlearned) == len(seeds.rows):
        reasons.append("; ".join(unlearned.values()) + (": no verdict" if says_nothing else ""))
        decided = UNDECIDED if says_nothing else decided
    best = unit_of(column.metric).best
    if all(seed.value == best for members in seeds.rows.values() for seed in members):
        reasons.append(f"all runs have {number(best, unit)}, where rows that differ are alike")
    return replace(
        answer,
        verdict=decided,
        reason="; ".join(reasons),
        needed=needed,
        influential=[] if decided == UNDECIDED else [*influential_seeds(pair, claimed)],
        p=p,
        corrected=bonferroni(p, tests),
    )


def _is_of_unlearned(decided: str, claim: Hypothesis, claimed: ClaimedRange, unlearned: Collection[str]) -> bool:
    """Whether a verdict rests on the equality of rows that have learned nothing: these are equal, whatever they are."""
    if decided == UNDECIDED or (decided == SUPPORTED) != claimed.holds(0.0):
        return False
    row, other = (name in unlearned for name in (claim.row, claim.other))
    if decided == REFUTED:
        return row and other
    # "not worse" may be claimed against a row that has learned nothing
    return row or (other and claim.not_worse_by is None)


def _p_texts(p: float | None, tests: int) -> list[str]:
    """A p-value in words, also corrected; empty without one."""
    if p is None:
        return []
    corrected = bonferroni(p, tests)
    return [p_text(p) + (f", corrected for {tests} hypotheses {p_text(corrected or 0.0)}" if tests > 1 else "")]


def _of_failures(answer: HypothesisAnswer, table: Table, seeds: ComparedSeeds, tests: int) -> HypothesisAnswer:
    ours, others = (_failures(table, seeds.rows[row]) for row in (answer.row, answer.than))
    counts = f"failures {ours[0]} of {ours[1]} and {others[0]} of {others[1]}"
    data = [[seed.data_seed for seed in members] for members in seeds.rows.values()]
    if len(set().union(*data)) > 1 and any(len(row) > len(set(row)) for row in data):
        return replace(answer, reason=f"{counts}; no test, as runs on one of several data sets are alike")
    p = fisher(ours, others)
    corrected = bonferroni(p, tests) or 0.0
    share, other = ours[0] / ours[1], others[0] / others[1]
    decided = UNDECIDED if corrected > LEVEL or share == other else SUPPORTED if share < other else REFUTED
    reasons = [f"{counts} (Fisher's exact test)", *_p_texts(p, tests)]
    needed = None
    # where all runs fail, no number of runs shows fewer failures
    if decided == UNDECIDED and ours[0] < ours[1]:
        more = (count for count in range(ours[0], others[1] + 1) if fisher(ours, (count, others[1])) * tests <= LEVEL)
        least = next(more, None)
        needed = (
            f"with {counted(ours[0], 'failure')} of {answer.row}, so few runs cannot show a difference: more are needed"
            if least is None
            else f"so many runs show a difference from {counted(least, 'failure')} of {answer.than} on"
        )
    return replace(answer, verdict=decided, reason="; ".join(reasons), needed=needed, p=p, corrected=corrected)


def _unlearned(table: Table, column: Column, seeds: ComparedSeeds, tests: int) -> dict[str, str]:
    """The rows that have not been shown to learn anything, and why, in words.

    At most half of a row's runs succeed by `report.success`, or its corrected interval does not lie above the best
    shortcut in this column and the worst number that there is.
    """
    success, unit, reasons = table.report.success, unit_of(column.metric), {}
    sign = -1 if unit.lower_is_better else 1
    bounds = [pair for row in seeds.rows for pair in table.cells[row][column.name].shortcuts]
    name, bound = max([("worst number", unit.worst), *bounds], key=lambda pair: sign * pair[1])
    for row, members in seeds.rows.items():
        known = table.cells[row].get(success.column) if success else None
        failed, runs = _failures(table, list(filter(has_outcome, known.seeds))) if known else (0, 0)
        if success and runs and 2 * failed >= runs:
            reasons[row] = f"{row}: {runs - failed} of {counted(runs, 'run')} succeed in {success.column}"
            continue
        values = [mean(list(numbers.values())) for numbers in by_data_seed(members).values()]
        values = [seed.value for seed in members if seed.value is not None] if len(values) == 1 else values
        ends = interval(values, 1 - LEVEL / tests) if len(values) > 1 else (bound, bound)
        if unit.has_better and min(sign * end for end in ends) <= sign * bound:
            reasons[row] = f"{row} is not shown to be better than the {name}, {number(bound, column.unit)}"
    return reasons


def _failures(table: Table, seeds: Sequence[ReportSeed]) -> tuple[int, int]:
    """The runs that failed, and all runs."""
    success = table.report.success
    assert success is not None, "checked by form_problems"
    return sum(seed.value is None or not reaches(success, seed.value) for seed in seeds), len(seeds)


def _declaration(table: Table, claim: Hypothesis, runs: Sequence[ReportRun]) -> tuple[str, list[Report]]:
    """Whether runs were begun under a hypothesis, with commits and later changes in words, and the reports with the
    seeds that were declared: of the table where runs recorded none; none without seeds."""
    now = table.report
    by_run = [[record for record in _records(run) if _asks(record[0], claim, now)] for run in runs]
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
        return f"not declared before {len(runs) - len(nearest)} of {all_runs}", reports
    commits = listed(sorted({commit_text(git) for _, git in nearest}))
    changed = set(chain.from_iterable(_changed(then, now) for then, _ in nearest))
    since = f"; changed since: {listed([key for key in ANALYSIS if key in changed])}" if changed else ""
    return f"declared before the {all_runs}, commit {commits}{since}", reports


def _asks(then: Report, claim: Hypothesis, now: Report) -> bool:
    """Whether a report has a hypothesis, on the same rows, numbers and choice of runs as the present one."""

    def subject(report: Report) -> list[Any]:
        success = report.success if claim.fails_less_than else None
        name = success.column if success else claim.column
        average = report.average if report.average and report.average.name == name else None
        columns = [report.columns.get(column) for column in (average.of if average else [str(name)])]
        rows = {values: row for values, row in report.row_names.items() if row in (claim.row, claim.other)}
        return [report.rows, rows, columns, average, success, report.best_over, report.chosen_by]

    return claim in then.hypotheses and subject(then) == subject(now)


def _changed(then: Report, now: Report) -> list[str]:
    """The keys of the analysis that differ; seeds were not recorded by older versions."""
    keys = [key for key in ANALYSIS if key not in SEEDS or getattr(then, key)]
    return [key for key in keys if getattr(then, key) != getattr(now, key)]


def _records(run: ReportRun) -> list[Record]:
    """The analyses of a run from before its first step; records that this version cannot read are left out."""
    records: list[Record] = []
    for stored in run.declared:
        block, git = stored.get("analysis"), stored.get("git")
        if stored.get("step") or not isinstance(block, Mapping):
            continue
        known = {"title": "", **{key: value for key, value in block.items() if key in ANALYSIS}}
        if not conform(known, Report, "report"):
            records.append((build(Report, known), git if isinstance(git, Mapping) else {}))
    return records
