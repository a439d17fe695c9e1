"""Summary of a page: how much of each experiment is measured, and which of its hypotheses are supported."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnlab.report.declarations.claimed_ranges import VERDICTS
from attnlab.report.report_record import HypothesisAnswer, ReportFile


@dataclass(frozen=True)
class Extent:
    """Numbers of one report that are there, of those expected.

    cells, runs: pairs of measured and expected.
    verdicts: number of hypotheses by verdict; None where the report is older than hypotheses.
    """

    cells: tuple[int, int]
    runs: tuple[int, int]
    verdicts: dict[str, int] | None


def extent(report: ReportFile) -> Extent:
    """What is measured of one report."""
    means = [cell.mean for cell in report.each()]
    lines = run_lines(report)
    asked = report.hypotheses
    return Extent(
        (len(means) - means.count(None), len(means)),
        (sum(bool(line.values) for line in lines), len(lines)),
        None if asked is None else {name: sum(one.verdict == name for one in asked) for name in verdicts(asked)},
    )


def measured(reports: Iterable[ReportFile]) -> list[tuple[int, int]]:
    """Pairs of measured and expected numbers over all reports: of cells, and of runs."""
    extents = [extent(report) for report in reports]
    kinds = [each.cells for each in extents], [each.runs for each in extents]
    return [(sum(done for done, _ in kind), sum(expected for _, expected in kind)) for kind in kinds]


def verdicts(asked: Sequence[HypothesisAnswer]) -> list[str]:
    """The verdicts that occur, in their order; verdicts of other programs last."""
    found = dict.fromkeys(one.verdict for one in asked)
    return [name for name in VERDICTS if name in found] + [name for name in found if name not in VERDICTS]


@dataclass
class RunLine:
    """The numbers of one run: in which row of the table, by column.

    values:  by column, of the columns in which the run has a number.
    remarks: states and reasons of the columns in which it has none.
    """

    row: str
    at: int
    seed: int | str
    folder: str
    values: dict[str, float]
    remarks: list[str]


def run_lines(report: ReportFile) -> list[RunLine]:
    """Every run behind a report, row by row."""
    lines: list[RunLine] = []
    for at, row in enumerate(report.rows):
        for cell in row.cells:
            for seed in cell.seeds:
                line = _line(lines, RunLine(row.name, at, seed.key, seed.folder or "", {}, []))
                if seed.value is not None:
                    line.values[cell.column.name] = seed.value
                else:
                    remark = f"{seed.named_state}{f': {seed.reason}' if seed.reason else ''}"
                    line.remarks += [remark] if remark not in line.remarks else []
    return lines


def _line(lines: list[RunLine], new: RunLine) -> RunLine:
    """The line of the same run, else the new one, which is added; a run without a folder is any of its row and seed."""
    alike = [line for line in lines if (line.at, line.seed) == (new.at, new.seed)]
    found = [line for line in alike if not new.folder or line.folder in ("", new.folder)]
    if not found:
        lines.append(new)
        return new
    found[0].folder = found[0].folder or new.folder
    return found[0]
