"""The threshold of a run's success, declared by an experiment (`report.success`); checked before the first run."""

from collections.abc import Mapping
from typing import Any

from attnlab.config.message_text import listed
from attnlab.config.report_block import Report, Success
from attnlab.config.report_names import unknown_column
from attnlab.config.type_check import build
from attnlab.learn.metric_units import SHARE, lower_is_better, unit_of

SLACK = 1e-9
"""share of a threshold that rounding may take: a recorded 0.58 is 57.99999999999999 percent"""


def reaches(success: Success, value: float) -> bool:
    """Whether a number in the unit of the column reaches the threshold."""
    if success.at_least is not None:
        return value >= success.at_least - SLACK * abs(success.at_least)
    assert success.at_most is not None, "checked by success_problems"
    return value <= success.at_most + SLACK * abs(success.at_most)


def success_problems(block: Report | Mapping[str, Any] | None) -> list[str]:
    """The problem of `report.success` in a `report:` block; empty without one.

    It is wrong with another column, a mean of columns, no threshold or two, a threshold on the wrong side or out of
    range, or a validation in another unit.
    """
    report = block if isinstance(block, Report) or block is None else build(Report, block)
    if report is None or report.success is None:
        return []
    success, name = report.success, report.success.column
    if unknown := unknown_column(report, "success", name):
        return unknown
    if report.average and name == report.average.name:
        of = listed(report.average.of)
        return [f"report.success: {name} is a mean of columns, whose runs may differ; name one of them: {of}"]
    given = report.columns[name]
    found = _problem(success, given["metric"] if isinstance(given, Mapping) else given)
    return [f"report.success: {found}"] if found else []


def _problem(success: Success, metric: str) -> str:
    """What is wrong with a threshold of a column's metric; empty if nothing is."""
    name, validation, unit = success.column, success.validation, unit_of(metric).name
    threshold = success.at_least if success.at_most is None else success.at_most
    found = ""
    if threshold is None or None not in (success.at_least, success.at_most):
        found = "expected one of at_least and at_most"
    elif (success.at_most is not None) != lower_is_better(metric):
        better, key = ("lower", "at_most") if lower_is_better(metric) else ("higher", "at_least")
        found = f"{better} is better in {name} ({metric}); set {key}"
    elif unit == SHARE.name and not 1 <= threshold <= 100:
        found = f"the threshold is in the unit of {name}, percent: expected 1 to 100, found {threshold:g}"
    elif validation and not validation.startswith("val/"):
        found = f"validation={validation}: expected a metric of the validation, val/..."
    elif validation and unit_of(validation).name != unit:
        found = f"the unit of validation={validation} is {unit_of(validation).name}, the unit of {name} is {unit}"
    return found
