"""Answers to the hypotheses that an experiment declares: supported, refuted, undecided (docs/reports.md, Hypotheses).

All intervals and p-values are corrected by Bonferroni's method over all hypotheses that the experiment declares or that
its runs were begun under, also those without runs and those that were removed or changed since.
"""

from collections.abc import Sequence
from dataclasses import replace

from attnlab.config.message_text import counted, listed
from attnlab.config.report_block import Hypothesis
from attnlab.learn.metric_units import number, unit_of
from attnlab.report.analysis_record import HypothesisAnswer, ReportSeed
from attnlab.report.declarations.declared_runs import (
    ComparedSeeds,
    compared_seeds,
    declaration,
    declared_hypotheses,
    has_outcome,
)
from attnlab.report.failures.count_failures import mixed_seeds
from attnlab.report.failures.failure_statistics import fisher, reaches
from attnlab.report.report_record import Column
from attnlab.report.statistics.data_seeds import by_data_seed, paired_on_data
from attnlab.report.statistics.differences import (
    FEWEST,
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


def answers(table: Table) -> list[HypothesisAnswer]:
    """The answers to all hypotheses of a table's report."""
    claims = table.report.hypotheses
    # hypotheses that were declared and are no longer asked count as well
    tests = len(claims) + sum(claim not in claims for claim in declared_hypotheses(table))
    return [_answer(table, claim, tests) for claim in claims]


def _answer(table: Table, claim: Hypothesis, tests: int) -> HypothesisAnswer:
    """Verdict, reason and numbers of one hypothesis, corrected for so many tests."""
    success = table.report.success
    name = success.column if claim.fails_less_than and success else claim.column
    column = next(column for column in table.columns if column.name == name)
    cells = {row: table.cells.get(row, {}).get(column.name) for row in (claim.row, claim.other)}
    rows = {row: cell.seeds if cell else [] for row, cell in cells.items()}
    runs = [table.by_folder[str(seed.folder)] for seeds in rows.values() for seed in seeds if has_outcome(seed)]
    declared, reports = declaration(table, claim, runs)
    seeds = compared_seeds(table, rows, reports, is_paired=not claim.fails_less_than)
    answer = HypothesisAnswer(
        row=claim.row,
        than=claim.other,
        column=column.name,
        verdict=UNDECIDED,
        reason="",
        claim=_in_words(claim, column.name),
        declared=declared,
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
    """The answer to a hypothesis on a column."""
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
    # rows that have learned nothing are equal, whatever they are, so that a verdict that equal rows have says nothing
    ours, theirs = (row in unlearned for row in (claim.row, claim.other))
    of_equal_rows = decided != UNDECIDED and (decided == SUPPORTED) == claimed.holds(0.0)
    # a row that is not worse than another one may be compared with one that has learned nothing
    either = ours or (claim.not_worse_by is None and theirs)
    says_nothing = of_equal_rows and ((ours and theirs) if decided == REFUTED else either)
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
    """The answer to a hypothesis on failures."""
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
    assert success is not None, "checked by hypothesis_forms"
    return sum(seed.value is None or not reaches(success, seed.value) for seed in seeds), len(seeds)
