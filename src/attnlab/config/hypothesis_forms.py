"""Check of the form of each hypothesis in a `report:` block: one claim, with the keys that it needs, and no others."""

from collections.abc import Iterator

from attnlab.config.message_text import listed, show
from attnlab.config.report_block import Hypothesis, Report

SIZES = ("at_least", "within", "not_worse_by")
"""keys that state a size; a hypothesis has one of them at most"""


def form_problems(report: Report) -> list[str]:
    """Sentences on the hypotheses of a report that have no form or several; empty if all are sound."""
    return [
        f"report.hypotheses.{at}{problem}"
        for at, one in enumerate(report.hypotheses)
        for problem in _problems(one, report)
    ]


def _problems(asked: Hypothesis, report: Report) -> Iterator[str]:
    """What follows the key of a wrong hypothesis in the message."""
    sizes = [key for key in SIZES if getattr(asked, key) is not None]
    if (asked.than is None) == (asked.fails_less_than is None):
        yield ": expected one of than (a difference in a column) and fails_less_than (failures)"
    elif asked.row == asked.other:
        key = "than" if asked.than else "fails_less_than"
        yield f".{key}={show(asked.other)}: a row is compared with itself; name another row"
    elif asked.fails_less_than is not None:
        given = [*(["column"] if asked.column is not None else []), *sizes]
        if given:
            yield f".{given[0]}={show(getattr(asked, given[0]))}: fails_less_than has no {listed(given)}; leave it out"
        if report.success is None:
            yield f".fails_less_than={asked.fails_less_than}: needs report.success, which says when a run fails"
    elif asked.column is None:
        yield ".column: missing; expected a column of the report"
    if len(sizes) > 1:
        yield f": expected one of {listed(SIZES)}, found {listed(sizes)}"
    if asked.direction != "better" and (asked.fails_less_than or asked.within or asked.not_worse_by):
        yield f".direction={asked.direction}: goes with a difference only (than, at_least); leave it out"
