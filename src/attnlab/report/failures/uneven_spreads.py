"""A warning where the seeds of one row are spread several times as widely as the seeds of the other row.

Seeds that fail make a row's numbers fall into two groups. The t interval of a difference assumes normal numbers: where
10 and 20 % of the seeds of one row end 20 standard deviations lower, it contains the true difference in 61 and 67 % of
the cases at five seeds, and in 66 and 89 % at ten, as a sample without a failure is far too sure. An experiment
should then declare `report.success`, so that failures are counted. In a column without it, two rows are named if

* both have five numbers or more,
* the standard deviation of one is at least three times the other's, and
* its widest gap between neighbouring numbers is at least half of its range: a row near 100 % is narrower than a row
  near 60 % without any failure, and then the wider row has no such gap.

Simulated, 100,000 pairs of rows of normal numbers with one standard deviation: named are 2.6 % of the pairs at five
seeds and less than 0.05 % at ten. Where seeds of one row fail with a probability of 10 and 20 % and end 20 standard
deviations lower, 42 and 68 % at five seeds and 65 and 88 % at ten; 10 standard deviations lower, 37 and 58 %, 41 and
52 %. Rows of 99.9 ± 0.1 and 60 ± 4 without failures: 46 % and 4 %. No rule sees failures that no seed has had: at five
seeds and 10 % that is 59 % of the rows.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from attnlab.learn.metric_units import OF_RUNS, number
from attnlab.report.analysis_record import Comparison
from attnlab.report.failures.failure_statistics import reaches
from attnlab.report.report_record import Cell
from attnlab.report.statistics.differences import FEWEST, sd
from attnlab.report.table_types import Table

TIMES = 3.0
"""ratio of standard deviations"""
GAP = 0.5
"""share of the range"""
LEAST = 0.01
"""standard deviation below which no row is wide, as a share of its largest number"""
ADVICE = "if some of them failed, let report.success count them in this column: a t interval assumes normal numbers"


def uneven_spread(one: Cell, other: Cell) -> str:
    """A sentence on the wider of two rows in a column; empty if their spreads are alike."""
    rows = sorted((one, other), key=lambda cell: cell.sd or 0.0)
    narrow, wide = (list(cell.values.values()) for cell in rows)
    if min(len(narrow), len(wide)) < FEWEST or one.column.metric in OF_RUNS:
        return ""
    small, large = sd(narrow) or 0.0, sd(wide) or 0.0
    low, high = _widest_gap(wide)
    is_split = high - low >= GAP * (max(wide) - min(wide))
    if large < max(TIMES * small, LEAST * max(map(abs, wide))) or not is_split or not large:
        return ""
    unit = one.column.unit
    sizes, ends = (number(value, unit) for value in (large, small)), (number(value, unit) for value in (low, high))
    return (
        f"seeds of {rows[1].row} are spread more widely than seeds of {rows[0].row} (sd {' and '.join(sizes)}), "
        f"with none between {' and '.join(ends)}; {ADVICE}"
    )


def uneven_spreads(table: Table, comparisons: Sequence[Comparison]) -> list[str]:
    """A sentence for each compared pair of rows with uneven spreads; none in the column of a declared success."""
    success, found = table.report.success, []
    for pair in comparisons:
        if success is not None and success.column == pair.column:
            continue
        cells = (table.cells[row][pair.column] for row in (pair.row, pair.against))
        if sentence := uneven_spread(*cells):
            found.append(f"in {pair.column}, {sentence}")
    return found


def _widest_gap(values: Iterable[float]) -> tuple[float, float]:
    """The neighbouring numbers that are furthest apart."""
    return max(pairwise(sorted(values)), key=lambda pair: pair[1] - pair[0])


def mixed_seeds(table: Table, column: str, rows: Iterable[str]) -> str:
    """A sentence on the rows in which some seeds reach the declared threshold of a column and others do not, so that a
    t interval says little; empty without such rows. In a column without a threshold, on the spreads of two rows."""
    success = table.report.success
    cells = [cell for row in rows if (cell := table.cells.get(row, {}).get(column))]
    if success is None or success.column != column:
        return uneven_spread(*cells) if len(cells) == 2 else ""
    mixed = [cell.row for cell in cells if len({reaches(success, value) for value in cell.values.values()}) > 1]
    said = f"seeds of {' and '.join(mixed)} fail and succeed, so their differences are not normal: see Failures"
    return said if mixed else ""
