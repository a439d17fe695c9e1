"""Checks of a declared analysis by the units of its columns, before the first run: success and hypotheses."""

from collections.abc import Iterator, Mapping
from typing import Any

from attnlab.config.message_text import listed
from attnlab.config.problem import Problem
from attnlab.config.report_block import Hypothesis, Report, Success
from attnlab.config.validation.report_names import SIZES, unknown_column
from attnlab.config.validation.type_check import build
from attnlab.learn.metric_units import LOGGED, OF_RUNS, SHARE, STEP_TIME, lower_is_better, unit_of


def declaration_problems(block: Report | Mapping[str, Any] | None) -> list[Problem]:
    """The problems of `report.success` and `report.hypotheses` in a `report:` block; empty without one.

    Success is wrong with another column, a mean of columns, no threshold or two, a threshold on the wrong side or out
    of range, or a validation in another unit. A hypothesis is wrong on a cost of runs, which depends on the machine, on
    which of two norms is better, or with a size that no difference has.
    """
    report = block if isinstance(block, Report) or block is None else build(Report, block)
    if report is None:
        return []
    problem = _success_problem(report.success, report) if report.success else ""
    problems = [Problem("report.success", f": {problem}")] if problem else []
    for at, hypothesis in enumerate(report.hypotheses):
        problems += _hypothesis_problems(f"report.hypotheses.{at}", hypothesis, report)
    return problems


def _hypothesis_problems(key: str, hypothesis: Hypothesis, report: Report) -> Iterator[Problem]:
    column = hypothesis.column
    if column is None or unknown_column(report, column):
        return
    metric = metric_of(report, column)
    unit = unit_of(metric)
    for name, of in (("column", column), ("given", hypothesis.given)):
        if of is None or unknown_column(report, of):
            continue
        if (cost := metric_of(report, of)) in OF_RUNS and cost != STEP_TIME:
            text = f"={of}: no hypothesis compares {cost}, which depends on the machine; {STEP_TIME} may be compared"
            yield Problem(f"{key}.{name}", text)
    if hypothesis.varies_less_than:
        return
    if not unit.has_better and hypothesis.not_worse_by is not None:
        yield Problem(f"{key}.not_worse_by", f": neither is worse in {column} ({metric}); write within")
    elif not unit.has_better and hypothesis.direction == "better" and hypothesis.within is None:
        text = f"=better: neither is better in {column} ({metric}); name higher or lower, or within"
        yield Problem(f"{key}.direction", text)
    most = (unit.most - unit.least) * unit.factor
    for name in SIZES:
        size = getattr(hypothesis, name)
        if size is not None and size >= most:
            text = f"={size:g}: expected less than {most:g}, the range of {column} ({unit.name})"
            yield Problem(f"{key}.{name}", text)


def metric_of(report: Report, column: str) -> str:
    """The metric of a column; of a mean of columns, the metric of the first one."""
    if report.average and column == report.average.name:
        column = report.average.of[0]
    part = report.columns[column]
    return part["metric"] if isinstance(part, Mapping) else part


def _success_problem(success: Success, report: Report) -> str:
    """What is wrong with the threshold of success; empty if nothing is."""
    name, validation = success.column, success.validation
    if unknown := unknown_column(report, name):
        return unknown
    if report.average and name == report.average.name:
        of = listed(report.average.of)
        return f"{name} is a mean of columns, whose runs may differ; name one of them: {of}"
    metric = metric_of(report, name)
    unit = unit_of(metric).name
    threshold = success.at_least if success.at_most is None else success.at_most
    text = ""
    if threshold is None or None not in (success.at_least, success.at_most):
        text = "expected one of at_least and at_most"
    elif (success.at_most is not None) != lower_is_better(metric):
        better, key = ("lower", "at_most") if lower_is_better(metric) else ("higher", "at_least")
        text = f"{better} is better in {name} ({metric}); set {key}"
    elif unit == SHARE.name and not 1 <= threshold <= 100:
        text = f"the threshold is in the unit of {name}, percent: expected 1 to 100, found {threshold:g}"
    elif validation and not validation.startswith(LOGGED):
        text = f"validation={validation}: expected a metric of the validation or another logged one, {listed(LOGGED)}"
    elif validation and unit_of(validation).name != unit:
        text = f"the unit of validation={validation} is {unit_of(validation).name}, the unit of {name} is {unit}"
    return text
