"""How much of a report is measured, which of its hypotheses are supported, and its runs one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from attnlab.report.declarations.claimed_ranges import VERDICTS
from attnlab.report.report_record import HypothesisAnswer, ReportFile


def verdicts(answers: Sequence[HypothesisAnswer]) -> dict[str, int]:
    """The number of answers by verdict, in their order; verdicts of other programs last."""
    names = dict.fromkeys([*VERDICTS, *(answer.verdict for answer in answers)])
    counts = {name: sum(answer.verdict == name for answer in answers) for name in names}
    return {name: count for name, count in counts.items() if count}


@dataclass
class RunLine:
    """The numbers of one run: in which row of the table, by column.

    at:      place of the row.
    values:  by column, of the columns in which the run has a number.
    remarks: states and reasons of the columns in which it has none.
    """

    row: str
    at: int
    seed: int | str
    folder: str
    values: dict[str, float] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)


def run_lines(report: ReportFile) -> list[RunLine]:
    """Every run behind a report, row by row; a run without a folder is the first of its row and seed."""
    lines: dict[tuple[int, int | str, str], RunLine] = {}
    for at, row in enumerate(report.rows):
        for seed, column in ((seed, cell.column.name) for cell in row.cells for seed in cell.seeds):
            alike = (folder for place, key, folder in lines if (place, key) == (at, seed.key))
            folder = seed.folder or next(alike, "")
            line = lines.setdefault((at, seed.key, folder), RunLine(row.name, at, seed.key, folder))
            if seed.value is not None:
                line.values[column] = seed.value
            else:
                line.remarks[f"{seed.named_state}{f': {seed.reason}' if seed.reason else ''}"] = None
    return list(lines.values())


@dataclass(frozen=True)
class Extent:
    """Pairs of measured and expected numbers of a report: cells, and runs."""

    cells: tuple[int, int]
    runs: tuple[int, int]


def extent(report: ReportFile) -> Extent:
    """What is measured of a report."""
    means = [cell.mean is not None for cell in report.each()]
    lines = [bool(line.values) for line in run_lines(report)]
    return Extent((sum(means), len(means)), (sum(lines), len(lines)))
