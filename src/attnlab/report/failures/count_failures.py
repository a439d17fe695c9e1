"""Failures of the rows of a table, by the threshold that its experiment declares (`report.success`).

A run counts if it is finished and has a number in the column of the threshold, or if it diverged. It fails if its
number misses the threshold or if it diverged. Missing, running, interrupted and stopped runs do not count, nor do runs
that failed for another reason, such as a lack of memory.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise

from attnlab.analysis.power_of_tests import LEVEL, fisher
from attnlab.config.message_text import counted, hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.report_block import FEWEST, Success
from attnlab.config.run_identity import task_and_split
from attnlab.learn.metric_units import LOGGED, OF_RUNS, SHARE, number, problem, scaled, unit_of
from attnlab.report.analysis_record import Comparison, RowSuccess, RunOutcome, SuccessReport, TestAgainstBase
from attnlab.report.failures.failure_statistics import (
    Times,
    clopper_pearson,
    log_rank,
    median,
    median_interval,
    reaches,
)
from attnlab.report.report_record import Cell
from attnlab.report.runs.read_runs import ReportRun
from attnlab.report.statistics.differences import mean, sd
from attnlab.report.statistics.length_breakdown import shortcuts_of
from attnlab.report.table_types import Table

WIDER = 3.0
"""ratio of standard deviations of uneven rows"""
GAP = 0.5
"""share of the range of the wider one"""
LEAST = 0.01
"""standard deviation below which no row is wide: as a share of 100 percent, else of its largest number"""
MOST_NAMED = 8
"""rows of uneven spread in one sentence"""
ADVICE = "if some of them failed, let report.success count them in this column: a t interval assumes normal numbers"
Tests = Mapping[str, TestAgainstBase]


@dataclass
class _Row:
    """The runs of a row that count, and the states of the others; ends: the last steps at which they were validated."""

    cell: Cell
    task: str = ""
    runs: list[RunOutcome] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    ends: list[int] = field(default_factory=list)

    @property
    def failed(self) -> tuple[int, int]:
        """The runs that failed, and all runs."""
        return sum(run.failed for run in self.runs), len(self.runs)

    @property
    def times(self) -> Times:
        """The times to success, without any where nothing was validated."""
        reached = [run.success_step for run in self.runs if run.success_step is not None]
        return Times(reached, [run.censored_step for run in self.runs if run.censored_step is not None])


def count_failures(table: Table, against: str | None = None) -> SuccessReport | None:
    """Failures, times to success and tests of every row; None without a declared threshold.

    Args:
        against: the row that others are tested against; None = the first one with a run that counts.
    """
    success = table.report.success
    if success is None:
        return None
    rows = _rows(table, success)
    base, fishers, ranks, notes = _tests(rows, against)
    return SuccessReport(
        **asdict(success),
        unit=next((row.cell.column.unit for row in rows), ""),
        against=base,
        rows=[_line(success, row, fishers, ranks) for row in rows],
        notes=[*notes, *_notes(success, table, rows)],
    )


def times_to_success(table: Table, success: Success) -> dict[str, Times]:
    """The times of every row in which something was validated."""
    return {row.cell.row: times for row in _rows(table, success) if (times := row.times)}


def _rows(table: Table, success: Success) -> list[_Row]:
    """The runs of every row. Diverged ones are followed until the last validation of their row, or of the table where
    their row has no other run: censored where they diverged, they would count as runs that may succeed later."""
    rows = [_row(success, cell, table.by_folder) for cell in table.each() if cell.column.name == success.column]
    ends = [end for row in rows for end in row.ends]
    for row in rows:
        end = max(row.ends if any(not run.diverged for run in row.runs) else ends, default=None)
        row.runs = [
            replace(run, censored_step=end) if run.diverged and run.success_step is None else run for run in row.runs
        ]
    return rows


def _row(success: Success, cell: Cell, runs: Mapping[str, ReportRun]) -> _Row:
    """The outcomes of a row's runs."""
    row, name = _Row(cell), success.validation
    for seed in cell.seeds:
        run = runs[str(seed.folder)]
        row.task = task_and_split(run.config)
        if seed.value is None and not run.diverged:
            row.left_out[seed.short_state] += 1
            continue
        failed = seed.value is None or not reaches(success, seed.value)
        logged = run.logged((name,)) if name else []
        numbers = [(step, scaled(metric, value)) for step, metric, value in logged if not problem(metric, value)]
        at = min((step for step, value in numbers if reaches(success, value)), default=None)
        last = max((step for step, *_ in logged), default=None)
        row.ends += [] if last is None else [last]
        last = last if at is None else None
        row.runs.append(
            RunOutcome(seed=seed.key, failed=failed, diverged=run.diverged, success_step=at, censored_step=last)
        )
    return row


def _line(success: Success, row: _Row, fishers: Tests, ranks: Tests) -> RowSuccess:
    successful = [value for value in row.cell.values.values() if reaches(success, value)]
    (failed, n), times = row.failed, row.times
    low, high = clopper_pearson(failed, n) if n else (None, None)
    half, earliest, latest = (median(times), *median_interval(times)) if times else (None, None, None)
    return RowSuccess(
        row=row.cell.row,
        failed=failed,
        n=n,
        low=None if low is None else 100 * low,
        high=None if high is None else 100 * high,
        mean=row.cell.mean,
        successful_mean=mean(successful) if successful else None,
        validated=len(times),
        reached=len(times.events),
        median=half,
        median_low=earliest,
        median_high=latest,
        fisher=fishers.get(row.cell.row),
        log_rank=ranks.get(row.cell.row),
        runs=row.runs,
    )


def _tests(rows: Sequence[_Row], against: str | None) -> tuple[str | None, Tests, Tests, list[str]]:
    """The base row (if not named, the first one with a run that counts), Fisher's exact and log-rank tests of the
    others against it, and notes on tests that cannot be made."""
    having = [row for row in rows if row.runs]
    base = next((row for row in having if against in (None, row.cell.row)), None)
    if base is None or len(having) < 2:
        lacks = f"only {having[0].cell.row} has runs that count" if having else "no row has a run that counts"
        lacks = f"{against} has no run that counts" if having and base is None else lacks
        return None, {}, {}, [f"no test between rows: {lacks}"]
    others = [row for row in having if row is not base and row.task == base.task]
    apart = [row.cell.row for row in having if row.task != base.task]
    notes = (
        [f"not tested, as they are on other tasks than {base.cell.row}: {listed(apart, 8, separator='; ')}"]
        if apart
        else []
    )
    if not others:
        return None, {}, {}, notes
    fishers = _corrected({row.cell.row: fisher(row.failed, base.failed) for row in others})
    ranks: Tests = {}
    name = base.cell.row
    notes += _too_few_runs(others, base)
    known = [row for row in others if row.times]
    if base.times and known:
        ranks = _corrected({row.cell.row: log_rank(row.times, base.times) for row in known})
    elif any(row.times for row in rows):
        lacks = f"only {name} has validations" if base.times else f"{name} has no validation"
        notes.append(f"no log-rank test: {lacks}")
    return name, fishers, ranks, notes


def _corrected(values: Mapping[str, float]) -> Tests:
    """P-values of rows, also corrected for all of them."""
    return {row: TestAgainstBase(p=p, corrected=min(1.0, p * len(values))) for row, p in values.items()}


def _too_few_runs(rows: Sequence[_Row], base: _Row) -> list[str]:
    """A sentence where no test can be significant: not even of a row that always fails and one that never does."""
    sizes, known = [len(row.runs) for row in rows], len(base.runs)
    least = min(1.0, len(rows) * min(fisher((size, size), (0, known)) for size in sizes))
    if least <= LEVEL:
        return []
    fewest, most = min(*sizes, known), max(*sizes, known)
    runs = f"{fewest} to {most} runs" if fewest < most else counted(most, "run")
    compared = f" (corrected for {len(rows)} comparisons)" if len(rows) > 1 else ""
    return [
        f"with {runs} a row no p can be below {least:.2f}{compared}, even if one row always fails and the other never: "
        "more seeds are needed to tell rows apart"
    ]


def _notes(success: Success, table: Table, rows: Sequence[_Row]) -> list[str]:
    """Sentences on shortcuts that reach the threshold, in its column or in its validation, on runs that do not count or
    diverged, and on what has no time to success."""
    reached = {
        f"{name} has {number(value, row.cell.column.unit)} {unit_of(metric).sign}".rstrip() + f" in {metric}": None
        for row in rows
        for run in row.cell.measured(table.by_folder)
        for metric in filter(None, (row.cell.column.metric, success.validation))
        for name, value in shortcuts_of(metric, run)[:1]
        if reaches(success, value)
    }
    parts = [
        f"{row.cell.row}: {n} of {len(row.runs) + row.left_out.total()} ({state})"
        for row in rows
        for state, n in row.left_out.items()
    ]
    warning = "the threshold is not above a shortcut, so that runs that have learned nothing count as successful"
    lines = [f"{warning}: {'; '.join(reached)}"] if reached else []
    lines += [f"runs that do not count: {'; '.join(parts)}"] if parts else []
    if any(row.cell.data_sets > 1 for row in rows):
        lines.append("intervals and tests take all runs as independent, and runs on one of several data sets are alike")
    diverged = _counts(rows, [sum(run.diverged for run in row.runs) for row in rows])
    lines += [f"diverged, so that they fail and enter no mean: {diverged}"] if diverged else []
    name = success.validation
    if name is None:
        return [*lines, "no time to success: the experiment names no validation metric (report.success.validation)"]
    if not any(row.times for row in rows):
        logged = {metric for run in table.finished() for _, metric, _ in run.logged() if metric.startswith(LOGGED)}
        return [*lines, f"no time to success: no run has logged {name}{hint(nearest(name, sorted(logged)))}"]
    lacking = _counts(rows, [len(row.runs) - len(row.times) for row in rows])
    return (
        [*lines, f"runs without {name} in metrics.csv, which have no time to success: {lacking}"] if lacking else lines
    )


def _counts(rows: Sequence[_Row], numbers: Sequence[int]) -> str:
    """How many of the runs of each row: `linear: 2 of 5`; rows without any left out."""
    pairs = zip(rows, numbers, strict=True)
    return "; ".join(f"{row.cell.row}: {number} of {len(row.runs)}" for row, number in pairs if number)


def _uneven_spread(cells: Iterable[Cell]) -> tuple[str, str] | None:
    """The narrower and the wider of two rows in a column, in words, if the seeds of the wider one seem to fall into two
    groups.

    Both rows have five numbers or more, the wider one's standard deviation is at least `WIDER` the other's, and its
    widest gap between neighbours is at least `GAP` of its range: rows near 100 % are narrow without any failure.
    """
    narrow, wide = sorted(cells, key=lambda cell: cell.sd or 0.0)
    few, values = list(narrow.values.values()), sorted(wide.values.values())
    if min(len(few), len(values)) < FEWEST or wide.column.metric in OF_RUNS:
        return None
    small, large = sd(few) or 0.0, sd(values) or 0.0
    low, high = max(pairwise(values), key=lambda pair: pair[1] - pair[0])
    is_split = high - low >= GAP * (values[-1] - values[0])
    scale = 100.0 if wide.column.unit == SHARE.name else max(map(abs, values))
    if large < max(WIDER * small, LEAST * scale) or not is_split or not large:
        return None
    least, most, below, above = (number(value, wide.column.unit) for value in (small, large, low, high))
    return f"{narrow.row} (sd {least})", f"{wide.row} (sd {most}, none between {below} and {above})"


def _spread_in_words(narrow: Iterable[str], wide: Iterable[str]) -> str:
    few, many = (listed(names, MOST_NAMED) for names in (narrow, wide))
    return f"seeds of {many} are spread more widely than seeds of {few}; {ADVICE}"


def uneven_spreads(table: Table, comparisons: Sequence[Comparison]) -> list[str]:
    """Sentences on the compared rows with uneven spreads: in each column one on the rows that are wider than the row
    that all are compared with, and one on the narrower ones; none in the column of a declared success."""
    success = table.report.success
    groups: dict[tuple[str, str, bool], list[tuple[str, str]]] = defaultdict(list)
    for pair in comparisons:
        if success is not None and success.column == pair.column:
            continue
        if names := _uneven_spread(table.cells[row][pair.column] for row in (pair.row, pair.against)):
            is_wider = names[0].startswith(f"{pair.against} (sd ")
            groups[pair.column, pair.against, is_wider].append(names)
    return [
        f"in {key[0]}, {_spread_in_words(*map(dict.fromkeys, zip(*names, strict=True)))}"
        for key, names in groups.items()
    ]


def mixed_seeds(table: Table, column: str, rows: Iterable[str]) -> str:
    """A sentence on the rows in which some seeds reach the declared threshold of a column and others do not, so that a
    t interval says little; empty without such rows. In a column without a threshold, on the spreads of two rows."""
    success = table.report.success
    cells = [cell for row in rows if (cell := table.cells.get(row, {}).get(column))]
    if success is None or success.column != column:
        names = _uneven_spread(cells) if len(cells) == 2 else None
        return _spread_in_words(names[:1], names[1:]) if names else ""
    mixed = [cell.row for cell in cells if len({reaches(success, value) for value in cell.values.values()}) > 1]
    sentence = f"seeds of {' and '.join(mixed)} fail and succeed, so their differences are not normal: see Failures"
    return sentence if mixed else ""
