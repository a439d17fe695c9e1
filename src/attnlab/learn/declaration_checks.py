"""Checks of a declared analysis by the units of its columns, before the first run: success and hypotheses."""

from collections.abc import Iterator, Mapping
from typing import Any

from attnlab.config.message_text import listed
from attnlab.config.report_block import Hypothesis, Report, Success
from attnlab.config.validation.report_names import SIZES, unknown_column
from attnlab.config.validation.type_check import build
from attnlab.learn.metric_units import OF_RUNS, SHARE, lower_is_better, unit_of


def declaration_problems(block: Report | Mapping[str, Any] | None) -> list[str]:
    """The problems of `report.success` and `report.hypotheses` in a `report:` block; empty without one.

    Success is wrong with another column, a mean of columns, no threshold or two, a threshold on the wrong side or out
    of range, or a validation in another unit. A hypothesis is wrong on a cost of runs, which depends on the machine, on
    which of two norms is better, or with a size that no difference has.
    """
    report = block if isinstance(block, Report) or block is None else build(Report, block)
    if report is None:
        return []
    problems = [f"report.success: {problem}" for problem in _success_problems(report)]
    for at, hypothesis in enumerate(report.hypotheses):
        problems += [f"report.hypotheses.{at}{problem}" for problem in _hypothesis_problems(hypothesis, report)]
    return problems


def _success_problems(report: Report) -> list[str]:
    """The problem of the threshold of success; empty without one."""
    if report.success is None:
        return []
    success, name = report.success, report.success.column
    if unknown := unknown_column(report, name):
        return [unknown]
    if report.average and name == report.average.name:
        of = listed(report.average.of)
        return [f"{name} is a mean of columns, whose runs may differ; name one of them: {of}"]
    problem = _problem(success, metric_of(report, name))
    return [problem] if problem else []


def _hypothesis_problems(hypothesis: Hypothesis, report: Report) -> Iterator[str]:
    """What follows the key of a wrong hypothesis in the message."""
    if hypothesis.column is None or unknown_column(report, hypothesis.column):
        return
    metric = metric_of(report, hypothesis.column)
    unit = unit_of(metric)
    if metric in OF_RUNS:
        yield f".column={hypothesis.column}: {metric} depends on the machine and is compared by no hypothesis"
    if not unit.has_better and hypothesis.not_worse_by is not None:
        yield f".not_worse_by: neither is worse in {hypothesis.column} ({metric}); write within"
    elif not unit.has_better and hypothesis.direction == "better" and hypothesis.within is None:
        yield f".direction=better: neither is better in {hypothesis.column} ({metric}); name higher or lower, or within"
    for key in SIZES:
        size, most = getattr(hypothesis, key), (unit.most - unit.least) * unit.factor
        if size is not None and size >= most:
            yield f".{key}={size:g}: expected less than {most:g}, the range of {hypothesis.column} ({unit.name})"


def metric_of(report: Report, column: str) -> str:
    """The metric of a column; of a mean of columns, the metric of the first one."""
    if report.average and column == report.average.name:
        column = report.average.of[0]
    part = report.columns[column]
    return part["metric"] if isinstance(part, Mapping) else part


def _problem(success: Success, metric: str) -> str:
    """What is wrong with a threshold of a column's metric; empty if nothing is."""
    name, validation, unit = success.column, success.validation, unit_of(metric).name
    threshold = success.at_least if success.at_most is None else success.at_most
    text = ""
    if threshold is None or None not in (success.at_least, success.at_most):
        text = "expected one of at_least and at_most"
    elif (success.at_most is not None) != lower_is_better(metric):
        better, key = ("lower", "at_most") if lower_is_better(metric) else ("higher", "at_least")
        text = f"{better} is better in {name} ({metric}); set {key}"
    elif unit == SHARE.name and not 1 <= threshold <= 100:
        text = f"the threshold is in the unit of {name}, percent: expected 1 to 100, found {threshold:g}"
    elif validation and not validation.startswith("val/"):
        text = f"validation={validation}: expected a metric of the validation, val/..."
    elif validation and unit_of(validation).name != unit:
        text = f"the unit of validation={validation} is {unit_of(validation).name}, the unit of {name} is {unit}"
    return text
