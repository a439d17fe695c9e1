"""Answers to the hypotheses that an experiment declares: supported, refuted, undecided (docs/reports.md, Hypotheses).

All intervals and p-values are corrected by Bonferroni's method over all hypotheses that the experiment declares or that
its runs were begun under, also those without runs and those that were removed or changed since. A verdict needs an
outcome (a number, or that it diverged) of every declared seed in both rows: a choice among finished seeds finds
differences where there are none.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

from attnlab.config.message_text import counted, listed
from attnlab.config.report_block import ANALYSIS, FEWEST, SEEDS, Hypothesis, Report
from attnlab.config.validation.type_check import build, conform
from attnlab.learn.metric_units import number, unit_of
from attnlab.report.analysis_record import HypothesisAnswer, ReportSeed, RowRuns
from attnlab.report.failures.count_failures import mixed_seeds
from attnlab.report.failures.failure_statistics import fisher, reaches
from attnlab.report.report_record import Column
from attnlab.report.runs.read_runs import NOT_BEGUN, ReportRun, grouped
from attnlab.report.statistics.data_seeds import by_data_seed, paired_on_data
from attnlab.report.statistics.differences import (
    LEVEL,
    REFUTED,
    SUPPORTED,
    UNDECIDED,
    bonferroni,
    claimed_range,
    interval,
    mean,
    p_text,
    p_value,
    undecided_text,
    verdict,
)
from attnlab.report.table_types import Table
from attnlab.run.provenance import commit_text

Key = tuple[int | None, int]
"""data seed, if the task has one, and seed"""
Rows = Mapping[str, Sequence[ReportSeed]]
Record = tuple[Report, Mapping[str, Any]]
"""an analysis that a run was begun under, and the state of the repository"""


@dataclass(frozen=True)
class ComparedSeeds:
    """The seeds of two rows.

    rows:    the seeds that are compared, by row: those with an outcome in both rows, or unpaired all with an outcome.
    lacking: which declared seeds have no outcome in the table, in words; empty if all have one.
    remarks: on seeds that were left out, changed or added, in words.
    """

    rows: Rows
    runs: list[RowRuns]
    lacking: str
    remarks: list[str]


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
    runs = [table.by_folder[str(seed.folder)] for seeds in rows.values() for seed in seeds if has_outcome(seed)]
    declared, reports = _declaration(table, claim, runs)
    seeds = _compared_seeds(table, rows, reports, is_paired=not claim.fails_less_than)
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
        answer = replace(answer, verdict=UNDECIDED, reason=f"{'; '.join(barred)}: no verdict; {answer.reason}")
    chosen = [f"{row} has {cell.chosen}" for row, cell in cells.items() if cell and cell.chosen]
    counts = [f"{row.row} {row.started}/{row.diverged}/{row.used}" for row in seeds.runs]
    reasons = [answer.reason, *seeds.remarks, *chosen, f"runs started/diverged/tested: {', '.join(counts)}"]
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
        center, low, high = (number(value, unit, signed=True) for value in (pair.mean, pair.low, pair.high))
        numbers = f"difference {center}{'' if low == high else f', from {low} to {high}'}: {pair.method}"
    answer = replace(answer, difference=pair.mean, low=pair.low, high=pair.high, reason=numbers)
    if not pair.is_tested:
        held = sum(map(claimed.holds, pair.differences))
        counts = [f"as claimed in {held} of {len(pair.by_seed)}"] if pair.ranks is None else []
        needs = [f"a test needs {FEWEST} {pair.units or 'seeds'}"] if counts or used < FEWEST else []
        return replace(answer, reason="; ".join([answer.reason, *counts, *needs]))
    p, decided = p_value(pair, claimed), verdict(pair, claimed)
    reasons = [answer.reason, *_p_texts(p, tests)]
    if decided == UNDECIDED:
        reasons.append(undecided_text(pair, claim, claimed, unit))
    unlearned = _unlearned(table, column, seeds, tests)
    # rows that have learned nothing are equal, so a verdict that rests on equality says nothing about them
    row_unlearned, other_unlearned = (row in unlearned for row in (claim.row, claim.other))
    if decided == REFUTED:
        of_unlearned = row_unlearned and other_unlearned
    elif claim.not_worse_by is None:
        of_unlearned = row_unlearned or other_unlearned
    else:
        # "not worse" may be claimed against a row that has learned nothing
        of_unlearned = row_unlearned
    rests_on_equality = decided != UNDECIDED and (decided == SUPPORTED) == claimed.holds(0.0)
    says_nothing = rests_on_equality and of_unlearned
    if says_nothing or len(unlearned) == len(seeds.rows):
        reasons.append("; ".join(unlearned.values()) + (": no verdict" if says_nothing else ""))
        decided = UNDECIDED if says_nothing else decided
    best = unit_of(column.metric).best
    if all(seed.value == best for members in seeds.rows.values() for seed in members):
        reasons.append(f"all runs have {number(best, unit)}, where rows that differ are alike")
    return replace(answer, verdict=decided, reason="; ".join(reasons), p=p, corrected=bonferroni(p, tests))


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
    # where all runs fail, no number of runs shows fewer failures
    if decided == UNDECIDED and ours[0] < ours[1]:
        more = (count for count in range(ours[0], others[1] + 1) if fisher(ours, (count, others[1])) * tests <= LEVEL)
        least = next(more, None)
        reasons.append(
            f"with {counted(ours[0], 'failure')} of {answer.row}, so few runs show no difference: more are needed"
            if least is None
            else f"so many runs show a difference from {counted(least, 'failure')} of {answer.than} on"
        )
    return replace(answer, verdict=decided, reason="; ".join(reasons), p=p, corrected=corrected)


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


def _compared_seeds(table: Table, rows: Rows, declared: Sequence[Report], is_paired: bool) -> ComparedSeeds:
    """The seeds of two rows in a column, and of the reports that declared some.

    Differences are paired by seed, where no run diverged; ranks and failures take all runs.
    """
    outcomes = {row: [seed for seed in members if has_outcome(seed)] for row, members in rows.items()}
    compared = outcomes
    if is_paired and not any(seed.diverged for members in rows.values() for seed in members):
        shared = set.intersection(*({seed.key for seed in members} for members in outcomes.values()))
        compared = {row: [seed for seed in members if seed.key in shared] for row, members in rows.items()}
    runs = [
        RowRuns(
            row=row,
            started=sum(seed.state not in NOT_BEGUN for seed in members),
            diverged=sum(seed.diverged for seed in members),
            finished=sum(seed.value is not None for seed in members),
            used=len(compared[row]),
        )
        for row, members in rows.items()
    ]
    seeds = {row: {_key(table, seed): seed for seed in members} for row, members in rows.items()}
    known = {row: {key for key, seed in members.items() if has_outcome(seed)} for row, members in seeds.items()}
    outside = {row: _begun_outside(table, members) for row, members in rows.items()}
    in_table, tested = (set().union(*keys.values()) for keys in (seeds, known))
    data = {key[0] for key in in_table}
    # a task without data seeds has none, whatever is declared
    declarations = [
        set(product(data if None in data else report.data_seeds or data, report.seeds)) for report in declared
    ]
    wanted = in_table.union(*declarations)
    with_data = len({key[0] for key in wanted.union(*outside.values())}) > 1
    lacking = grouped((row, _lacking(wanted - known[row], seeds[row], outside[row], with_data)) for row in rows)
    without = [f"{' and '.join(of_rows)} without seeds {words}" for words, of_rows in lacking.items() if words]
    # a seed that is finished in one row is a finished one
    states = sorted(chain.from_iterable(map(dict.items, outside.values())), key=lambda pair: pair[1] == "finished")
    remarks = _left_out(tested, dict(states), with_data)
    if len(parts := dict.fromkeys(_names(keys, with_data) for keys in declarations)) > 1:
        remarks.append(f"the declared seeds were changed between runs: {'; '.join(parts)}")
    if declarations and (added := tested.difference(*declarations)):
        names = _names(added, with_data)
        remarks.append(f"{len(added)} of {len(tested)} seeds added to the declared ones: {names}")
    return ComparedSeeds(compared, runs, "; ".join(without), remarks)


def left_out(table: Table) -> list[str]:
    """Sentences on the rows whose runs are only some of the begun ones of their settings."""
    by_row = grouped((seed, cell.row) for cell in table.each() for seed in cell.seeds)
    sentences = []
    for row, seeds in by_row.items():
        last = {str(seed.folder): seed for seed in seeds}.values()
        tested = {_key(table, seed) for seed in last if has_outcome(seed)}
        outside = _begun_outside(table, seeds)
        with_data = len({data for data, _ in tested | outside.keys()}) > 1
        sentences += [(row, sentence) for sentence in _left_out(tested, outside, with_data)]
    return [f"{listed(rows, 8)}: {sentence}" for sentence, rows in grouped(sentences).items()]


def has_outcome(seed: ReportSeed) -> bool:
    """Whether a run has a number or diverged."""
    return seed.value is not None or seed.diverged


def _key(table: Table, seed: ReportSeed) -> Key:
    run = table.by_folder[str(seed.folder)]
    return run.data_seed, run.seed


def _order(key: Key) -> tuple[int, int]:
    return key[0] or 0, key[1]


def _names(keys: Collection[Key], with_data: bool) -> str:
    """Names of seeds: `0, 1`; `0, 1 of data 2, 3` where data seeds differ in the table."""
    by_data = grouped((str(seed), data) for data, seed in sorted(keys, key=_order))
    groups = grouped((str(data), listed(seeds, 20)) for data, seeds in by_data.items())
    return ", ".join(f"{seeds} of data {listed(data, 20)}" if with_data else seeds for seeds, data in groups.items())


def _begun_outside(table: Table, seeds: Sequence[ReportSeed]) -> dict[Key, str]:
    """The begun runs with the settings of a row that are not in the table, and their states; diverged ones finished."""
    settings = [table.by_folder[folder].settings for folder in {str(seed.folder) for seed in seeds}]
    runs = [run for run in table.beside if run.settings in settings]
    return {(run.data_seed, run.seed): "finished" if run.diverged else run.state for run in runs}


def _lacking(
    keys: Collection[Key], seeds: Mapping[Key, ReportSeed], outside: Mapping[Key, str], with_data: bool
) -> str:
    """Seeds without an outcome by their states: `5, 6 (missing)`; empty without any."""

    def state(key: Key) -> str:
        if key in seeds:
            return seeds[key].short_state
        return f"{outside[key]} and left out" if key in outside else "not in the table"

    states = grouped((key, state(key)) for key in sorted(keys, key=_order))
    return ", ".join(f"{_names(members, with_data)} ({state})" for state, members in states.items())


def _left_out(tested: Collection[Key], outside: Mapping[Key, str], with_data: bool) -> list[str]:
    """Sentences on begun seeds that were left out, finished ones apart."""
    by_state = grouped((key, outside[key]) for key in outside.keys() - set(tested))
    done = _names(finished := by_state.pop("finished", []), with_data)
    others = ", ".join(f"{_names(keys, with_data)} ({state})" for state, keys in sorted(by_state.items()))
    sentences = [f"{len(tested)} of {len(tested) + len(finished)} finished seeds, without {done}"] if finished else []
    return [*sentences, f"seeds begun and left out: {others}"] if others else sentences
