"""Flat lines of a report, one for every cell or seed: for csv files and wandb's tables."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from attnlab.plots.csv_text import csv_cell
from attnlab.report.failures.failure_record import RowSuccess, RunOutcome
from attnlab.report.published_numbers import Value
from attnlab.report.report_record import Cell, ReportFile

NOTHING = (None, None)
OUTCOME = tuple(part.name for part in fields(RunOutcome) if part.name != "seed")


def cell_lines(report: ReportFile) -> list[dict[str, Any]]:
    """Every cell as a flat line, numbers with all their digits."""
    return [_cell_line(cell, _success(report, cell)) for cell in report.each()]


def _success(report: ReportFile, cell: Cell) -> RowSuccess | None:
    """Failures of a row, in the column that declares the threshold; None in other columns."""
    success = report.success
    return success.of(cell.row) if success and cell.column.name == success.column else None


def _cell_line(cell: Cell, success: RowSuccess | None) -> dict[str, Any]:
    best, worst, shortcut = cell.best or NOTHING, cell.worst or NOTHING, (*cell.shortcuts, NOTHING)[0]
    known, length = cell.published or Value(None), cell.one_length
    failures = {"failed": "failed", "counted": "n", "failed_low": "low", "failed_high": "high"}
    return {
        "row": cell.row,
        "column": cell.column.name,
        "unit": cell.column.unit,
        "mean": cell.mean,
        "sd": cell.sd,
        "n": cell.n,
        "of": len(cell.seeds),
        "best_seed": best[0],
        "best": best[1],
        "worst_seed": worst[0],
        "worst": worst[1],
        "published": known.value,
        "published_sd": known.spread,
        "published_text": known.text,
        "difference": cell.difference,
        "difference_in_sd": cell.difference_in_sd,
        "examples": cell.examples,
        "test_set_error": cell.test_set_error,
        "one_length": length and length.name,
        "one_length_right": length and length.right,
        "shortcut": shortcut[1],
        "shortcut_name": shortcut[0],
        **{name: success and getattr(success, field) for name, field in failures.items()},
    }


def seed_lines(report: ReportFile) -> list[dict[str, Any]]:
    """Every run of every cell as a flat line."""
    lines = []
    for cell in report.each():
        success = _success(report, cell)
        for seed in cell.seeds:
            outcome = success and success.outcome(seed.key)
            counted = {name: outcome and getattr(outcome, name) for name in OUTCOME}
            lines.append({"row": cell.row, "column": cell.column.name, **asdict(seed), **counted})
    return lines


def csv_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Lines with the same keys under their heads."""
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0] if lines else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows({head: csv_cell(value) for head, value in line.items()} for line in lines)
    return text.getvalue()
