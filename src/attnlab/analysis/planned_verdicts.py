"""What the declared seeds of an experiment can show of its hypotheses, before the first run (`train.py ... --plan`)."""

from collections.abc import Iterable, Mapping
from typing import Any

from attnlab.analysis.power_of_tests import (
    LEVEL,
    POWER,
    fewest_failures,
    least_log_rank,
    shown_difference,
    smallest_ratio,
)
from attnlab.analysis.recorded_analyses import analyses_before_training, number_of_tests
from attnlab.config.message_text import counted
from attnlab.config.report_block import DATA_SEED, FEWEST, FEWEST_ADJUSTED, Hypothesis, Report
from attnlab.config.validation.type_check import build
from attnlab.learn.declaration_checks import metric_of
from attnlab.learn.metric_units import unit_of


def planned_verdicts(block: Mapping[str, Any] | None, begun: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each hypothesis of a `report:` block: what its declared seeds show, corrected for all hypotheses.

    Where the seeds are too few for any difference one line says so of all of them.

    Args:
        begun: `declared` of the status of runs that are there, whose hypotheses count as well.
    """
    if not block or not block.get("hypotheses"):
        return []
    report = build(Report, block)
    n, units = _declared(report)
    few = n < FEWEST and any(claim.than or claim.varies_less_than for claim in report.hypotheses)
    lines = [f"hypotheses get no verdict: a test needs {FEWEST} seeds, declared: {n}"] if few else []
    claims = [claim for claim in report.hypotheses if n >= FEWEST or not (claim.than or claim.varies_less_than)]
    tests = number_of_tests(report.hypotheses, analyses_before_training(begun))
    return lines + [f"{claim.in_words(report.success)}: {_shown(report, claim, n, units, tests)}" for claim in claims]


def _declared(report: Report) -> tuple[int, str]:
    """How many observations a row has, and what they are: a mean over the runs of a data set is one."""
    data = [] if DATA_SEED in report.rows else report.data_seeds
    return (len(data), "data seeds") if len(data) > 1 else (len(report.seeds), "seeds")


def _shown(report: Report, claim: Hypothesis, n: int, units: str, tests: int) -> str:
    """What n observations of each row show of one hypothesis, corrected for so many tests, in words."""
    if claim.than:
        return _shown_difference(report, claim, n, units, tests)
    if units != "seeds" and len(report.seeds) > 1:
        return "no test, as runs on one of several data sets are alike"
    return _shown_spread(n, tests) if claim.varies_less_than else _shown_counts(claim, n, tests)


def _shown_difference(report: Report, claim: Hypothesis, n: int, units: str, tests: int) -> str:
    if claim.given and n < FEWEST_ADJUSTED:
        return f"no verdict: a test needs {FEWEST_ADJUSTED} {units}, declared: {n}"
    if claim.spread is None:
        return "spread not declared"
    unit, fitted = unit_of(metric_of(report, str(claim.column))).name, 2 if claim.given else 1
    shown = shown_difference(claim, n, claim.spread, tests, unit, units, fitted)
    return f"at a spread of {claim.spread:g}, {shown}"


def _shown_spread(n: int, tests: int) -> str:
    ratio = smallest_ratio(n, tests)
    shown = "no ratio of standard deviations" if ratio is None else f"a ratio of standard deviations of {ratio:.2g}"
    return f"{counted(n, 'run')} a row show {shown} with {100 * POWER:.0f} % power"


def _shown_counts(claim: Hypothesis, n: int, tests: int) -> str:
    """For failures and times to success: how extreme they must be."""
    runs = f"{counted(n, 'run')} a row"
    if claim.sooner_than and n > 0 and least_log_rank(n, n) * tests <= LEVEL:
        return f"{runs} show it if all of one succeed before the other's"
    least = fewest_failures((0, n), n, tests) if claim.fails_less_than and n > 0 else None
    if least is None:
        return f"{runs} cannot show it"
    return f"0 failures in {counted(n, 'run')} show it from {counted(least, 'failure')} of {claim.other} on"
