"""Tests of hypotheses by their forms: differences, adjusted ones, failures, times to success, standard deviations."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from attnlab.analysis.power_of_tests import (
    LEVEL,
    POWER,
    fewest_failures,
    fisher,
    least_log_rank,
    smallest_ratio,
)
from attnlab.config.message_text import counted
from attnlab.config.report_block import FEWEST, FEWEST_ADJUSTED, Hypothesis
from attnlab.learn.metric_units import number, unit_of
from attnlab.report.analysis_record import HypothesisAnswer, ReportSeed
from attnlab.report.declared_seeds import ComparedSeeds, has_outcome
from attnlab.report.failures.count_failures import mixed_seeds, times_to_success
from attnlab.report.failures.failure_statistics import Times, log_rank, log_rank_statistic, median, reaches
from attnlab.report.report_record import Column
from attnlab.report.statistics.data_seeds import by_data_seed, paired_on_data
from attnlab.report.statistics.differences import (
    REFUTED,
    SUPPORTED,
    UNDECIDED,
    ClaimedRange,
    PairedDifference,
    adjusted,
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
from attnlab.report.statistics.spreads import spreads_of
from attnlab.report.table_types import Table

ALIKE = "no test, as runs on one of several data sets are alike"


def tested(
    answer: HypothesisAnswer, table: Table, claim: Hypothesis, column: Column, seeds: ComparedSeeds, tests: int
) -> HypothesisAnswer:
    """An answer with verdict, reason and numbers, by the test of the hypothesis' form, corrected for so many tests.

    Args:
        answer: of a hypothesis whose rows both have a run with an outcome.
        column: that it is about, or the one of `report.success`.
    """
    if claim.fails_less_than:
        return _of_failures(answer, table, seeds, tests)
    if claim.sooner_than:
        return _of_times(answer, table, seeds, tests)
    if claim.varies_less_than:
        return _of_spreads(answer, column, seeds, tests)
    answer = _of_difference(answer, table, claim, column, seeds, tests)
    mixed = mixed_seeds(table, column.name, seeds.rows) if answer.low is not None else ""
    return replace(answer, reason="; ".join(filter(None, [answer.reason, mixed])))


def _pair(table: Table, claim: Hypothesis, column: Column, seeds: ComparedSeeds, tests: int) -> PairedDifference | str:
    """The paired difference that a hypothesis is about; why there is none, in words."""
    used = min(row.used for row in seeds.runs)
    pair = paired_on_data(seeds.rows[claim.row], seeds.rows[claim.other], column.metric, tests)
    if pair is None:
        return "all runs diverged" if used > 1 else f"{counted(used, 'common seed')}, a test needs {FEWEST}"
    if claim.given is None:
        return pair
    given = next(column for column in table.columns if column.name == claim.given)
    if pair.ranks is not None:
        return f"not adjusted for {given.name}, as runs diverged"
    if (n := len(pair.by_seed)) < FEWEST_ADJUSTED:
        return f"{n} common {pair.units or 'seeds'}, a test adjusted for {given.name} needs {FEWEST_ADJUSTED}"
    rows = {}
    for row, members in seeds.rows.items():
        cell, keys = table.cells[row].get(given.name), {seed.key for seed in members}
        rows[row] = [seed for seed in (cell.seeds if cell else ()) if seed.key in keys and seed.value is not None]
        if lacking := len(keys) - len(rows[row]):
            return f"{counted(lacking, 'run')} of {row} without a number in {given.name}"
    other = paired_on_data(rows[claim.row], rows[claim.other], given.metric)
    line = other and adjusted(pair, other, given.name)
    return line or f"not adjusted for {given.name}, in which all differences are equal"


def _of_difference(
    answer: HypothesisAnswer, table: Table, claim: Hypothesis, column: Column, seeds: ComparedSeeds, tests: int
) -> HypothesisAnswer:
    pair, used = _pair(table, claim, column, seeds, tests), min(row.used for row in seeds.runs)
    if isinstance(pair, str):
        return replace(answer, reason=pair)
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
    if _are_alike(seeds):
        return replace(answer, reason=f"{counts}; {ALIKE}")
    share, other = ours[0] / ours[1], others[0] / others[1]
    answer = _by_p(answer, f"{counts} (Fisher's exact test)", fisher(ours, others), other - share, tests)
    # where all runs fail, no number of runs shows fewer failures
    if answer.verdict != UNDECIDED or ours[0] == ours[1]:
        return answer
    least = fewest_failures(ours, others[1], tests)
    needed = (
        f"with {counted(ours[0], 'failure')} of {answer.row}, so few runs cannot show a difference: more are needed"
        if least is None
        else f"so many runs show a difference from {counted(least, 'failure')} of {answer.than} on"
    )
    return replace(answer, needed=needed)


def _by_p(answer: HypothesisAnswer, numbers: str, p: float, ahead: float, tests: int) -> HypothesisAnswer:
    """The verdict of a two-sided test without an interval.

    Args:
        numbers: that are compared, with the test, in words.
        p: not corrected.
        ahead: above 0 where the numbers are as claimed, below 0 where they are the opposite; 0 decides nothing.
    """
    corrected = bonferroni(p, tests) or 0.0
    decided = UNDECIDED if corrected > LEVEL or not ahead else SUPPORTED if ahead > 0 else REFUTED
    reason = "; ".join([numbers, *_p_texts(p, tests)])
    return replace(answer, verdict=decided, reason=reason, p=p, corrected=corrected)


def _are_alike(seeds: ComparedSeeds) -> bool:
    """Whether a row has several runs on one of several data sets, which are no independent observations."""
    data = [[seed.data_seed for seed in members] for members in seeds.rows.values()]
    return len(set().union(*data)) > 1 and any(len(row) > len(set(row)) for row in data)


def _of_times(answer: HypothesisAnswer, table: Table, seeds: ComparedSeeds, tests: int) -> HypothesisAnswer:
    success = table.report.success
    assert success is not None, "checked by form_problems"
    known = times_to_success(table, success)
    ours, others = (known.get(row, Times([], [])) for row in (answer.row, answer.than))
    for row, times in ((answer.row, ours), (answer.than, others)):
        if lacking := len(seeds.rows[row]) - len(times):
            return replace(answer, reason=f"{counted(lacking, 'run')} of {row} without {success.validation}")
    steps = " and ".join(map(_steps, (ours, others)))
    if _are_alike(seeds):
        return replace(answer, reason=f"median steps to success {steps}; {ALIKE}")
    # above 0 where ours has more successes than expected; steps known of one row only add nothing to it
    ahead = log_rank_statistic(ours, others)
    answer = _by_p(answer, f"median steps to success {steps} (log-rank test)", log_rank(ours, others), ahead, tests)
    if answer.verdict == UNDECIDED and least_log_rank(len(ours), len(others)) * tests > LEVEL:
        return replace(answer, needed="so few runs cannot show a difference: more are needed")
    return answer


def _steps(times: Times) -> str:
    """The median of the times, and how many runs succeeded: `400 (5 of 5)`."""
    half = median(times)
    return f"{'not reached' if half is None else f'{half:,.0f}'} ({len(times.events)} of {len(times)} runs)"


def _of_spreads(answer: HypothesisAnswer, column: Column, seeds: ComparedSeeds, tests: int) -> HypothesisAnswer:
    rows = [[seed.value for seed in seeds.rows[row] if seed.value is not None] for row in (answer.row, answer.than)]
    if lost := sum(seed.diverged for members in seeds.rows.values() for seed in members):
        return replace(answer, reason=f"no test, as {counted(lost, 'run')} diverged and have no number")
    if (fewest := min(map(len, rows))) < FEWEST:
        return replace(answer, reason=f"{counted(fewest, 'seed')}, a test needs {FEWEST}")
    spreads = spreads_of(*rows)
    ours, others = (number(sd, column.unit) for sd in spreads.sds)
    numbers = f"standard deviations {ours} and {others}"
    if _are_alike(seeds):
        return replace(answer, reason=f"{numbers}; {ALIKE}")
    if spreads.p is None:
        return replace(answer, reason=f"{numbers}; no test, as distances from the median are equal in each row")
    answer = _by_p(answer, f"{numbers} (Brown and Forsythe's test)", spreads.p, spreads.ahead, tests)
    ratio = smallest_ratio(fewest, tests) if answer.verdict == UNDECIDED else None
    if ratio is None:
        return answer
    needed = f"{fewest} seeds a row show a ratio of {ratio:.2g} with {100 * POWER:.0f} % power"
    return replace(answer, needed=needed)


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
