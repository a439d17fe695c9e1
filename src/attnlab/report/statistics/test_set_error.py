"""Error of an accuracy that comes from the size of its test set: binomial standard errors.

A run with accuracy p on n test examples would get another number on n other examples. If examples are independent, the
standard error is sqrt(p (1 - p) / n). Where they are not, the error is larger: sort-of-CLEVR has 2,000 questions of a
kind about 200 pictures. A cell has the error of one run with the mean accuracy of its runs, and none at 0 and 100 %,
where the formula gives 0 and nothing is certain.

The interval over seeds does not contain this error where all seeds share one test set.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from attnlab.config.message_text import listed
from attnlab.report.report_record import Cell
from attnlab.report.runs.read_runs import FoundRun, is_share


def standard_error(percent: float, examples: int) -> float | None:
    """The binomial standard error of an accuracy in percent, in points; None at 0 and 100 %."""
    return math.sqrt(percent * (100 - percent) / examples) if 0 < percent < 100 else None


def with_test_set_errors(cells: Mapping[str, Cell], runs: Mapping[str, FoundRun]) -> dict[str, Cell]:
    """The cells of one row, by column, with the size of their test sets and the errors that come from it.

    Args:
        runs: of the table, by their folders (`Table.by_folder`).
    """
    found: dict[str, Cell] = {}
    for name, cell in cells.items():
        if cell.column.of:
            found[name] = replace(cell, test_set_error=_of_average([found[part] for part in cell.column.of]))
            continue
        examples = _examples(cell.column.metric, cell.measured(runs))
        error = None if cell.mean is None or examples is None else standard_error(cell.mean, examples)
        found[name] = replace(cell, examples=examples, test_set_error=error)
    return found


def _examples(metric: str, runs: Sequence[FoundRun]) -> int | None:
    """The test examples of each run; None where they are unknown, or differ between runs."""
    sizes = {run.examples(metric) for run in runs} if is_share(metric) else set()
    return sizes.pop() if len(sizes) == 1 else None


def _of_average(parts: Sequence[Cell]) -> float | None:
    """The error of a mean of columns, whose errors are taken as independent."""
    errors = [part.test_set_error for part in parts if part.test_set_error is not None]
    return math.hypot(*errors) / len(errors) if len(errors) == len(parts) else None


def unknown_errors(cells: Iterable[Cell]) -> list[str]:
    """A sentence on the accuracies whose test set has no known size, if there are any."""
    lacking = [
        f"{cell.row} ({cell.column.name})"
        for cell in cells
        if cell.mean is not None and cell.examples is None and is_share(cell.column.metric) and not cell.column.of
    ]
    if not lacking:
        return []
    why = "result.json lacks the number of test examples or tokens, or runs of one cell have different numbers"
    return [f"no test set error, because {why}: {listed(lacking, 8)}"]
