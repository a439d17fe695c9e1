"""How much of a report is measured, which of its hypotheses are supported, and its runs one by one."""

from collections.abc import Sequence

from attnlab.report.analysis_record import HypothesisAnswer, ReportSeed
from attnlab.report.declarations.claimed_ranges import VERDICTS
from attnlab.report.report_record import ReportFile, ReportRow


def verdicts(answers: Sequence[HypothesisAnswer]) -> dict[str, int]:
    """The number of answers by verdict, in their order; verdicts of other programs last."""
    names = dict.fromkeys([*VERDICTS, *(answer.verdict for answer in answers)])
    counts = {name: sum(answer.verdict == name for answer in answers) for name in names}
    return {name: count for name, count in counts.items() if count}


def run_lines(row: ReportRow) -> dict[tuple[int | str, str], dict[str, ReportSeed]]:
    """Every run behind a row, by seed and folder, with what it has in each column; a run without a folder is the first
    of its seed."""
    lines: dict[tuple[int | str, str], dict[str, ReportSeed]] = {}
    for cell in row.cells:
        for seed in cell.seeds:
            folder = seed.folder or next((folder for key, folder in lines if key == seed.key), "")
            lines.setdefault((seed.key, folder), {})[cell.column.name] = seed
    return lines


def extent(report: ReportFile) -> dict[str, tuple[int, int]]:
    """Pairs of measured and expected numbers of a report: cells, and runs."""
    cells = [cell.mean is not None for cell in report.each()]
    lines = [line for row in report.rows for line in run_lines(row).values()]
    runs = [any(seed.value is not None for seed in line.values()) for line in lines]
    return {"cells": (sum(cells), len(cells)), "runs": (sum(runs), len(runs))}
