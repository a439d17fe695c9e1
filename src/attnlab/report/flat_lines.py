"""Flat lines of a report, one for every cell or seed: for csv files and wandb's tables."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from attnlab.plots.csv_text import csv_cell
from attnlab.report.analysis_record import ReportSeed
from attnlab.report.failures.failure_record import RowSuccess, RunOutcome
from attnlab.report.report_record import PublishedValue, ReportFile

CELL_HEADS = (
    "row", "column", "unit", "mean", "sd", "n", "of", "best_seed", "best", "worst_seed", "worst", "published",
    "published_sd", "published_text", "difference", "difference_in_sd", "examples", "test_set_error", "one_length",
    "one_length_right", "shortcut", "shortcut_name", "failed", "counted", "failed_low", "failed_high",
)  # fmt: skip
"""columns of table.csv and of wandb's table"""


OUTCOME = tuple(one.name for one in fields(RunOutcome) if one.name != "seed")
SEED_HEADS = ("row", "column", *(one.name for one in fields(ReportSeed)), *OUTCOME)
"""columns of seeds.csv; wandb's table has the unit too"""


def cell_lines(report: ReportFile) -> Iterator[dict[str, Any]]:
    """Every cell as a flat line, numbers with all their digits."""
    for cell in report.each():
        best, worst = cell.best or (None, None), cell.worst or (None, None)
        known, best_shortcut = cell.published or PublishedValue(value=None), (*cell.shortcuts, (None, None))[0]
        yield asdict(cell) | {
            "column": cell.column.name,
            "unit": cell.column.unit,
            "of": len(cell.seeds),
            "best_seed": best[0],
            "best": best[1],
            "worst_seed": worst[0],
            "worst": worst[1],
            "published": known.value,
            "published_sd": known.spread,
            "published_text": known.text,
            **_failures(report, cell.row, cell.column.name),
            "shortcut_name": best_shortcut[0],
            "shortcut": best_shortcut[1],
            "one_length": cell.one_length and cell.one_length.name,
            "one_length_right": cell.one_length and cell.one_length.right,
        }


def _failures(report: ReportFile, row: str, column: str) -> dict[str, Any]:
    """Failures of a row, in the column that declares the threshold; empty in other columns."""
    found = _row_success(report, row, column)
    names = {"failed": "failed", "counted": "n", "failed_low": "low", "failed_high": "high"}
    return {name: found and getattr(found, field) for name, field in names.items()}


def _row_success(report: ReportFile, row: str, column: str) -> RowSuccess | None:
    return report.success.of(row) if report.success and column == report.success.column else None


def seed_lines(report: ReportFile) -> Iterator[dict[str, Any]]:
    """Every run of every cell as a flat line."""
    for cell in report.each():
        counted = _row_success(report, cell.row, cell.column.name)
        for seed in cell.seeds:
            outcome = counted and counted.outcome(seed.key)
            own = {name: outcome and getattr(outcome, name) for name in OUTCOME}
            yield {"row": cell.row, "column": cell.column.name, "unit": cell.column.unit, **asdict(seed), **own}


def csv_text(heads: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> str:
    """Lines under their heads; other values of a line are left out."""
    text = io.StringIO()
    writer = csv.DictWriter(text, heads, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({head: csv_cell(line.get(head)) for head in heads} for line in lines)
    return text.getvalue()
