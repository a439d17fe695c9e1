"""Whether an analysis was declared before the runs: a run records the analysis that it was begun under.

`run.train_run.record_start` writes the keys `config.report_block.ANALYSIS` of the experiment's `report:` into
status.json, with the step and the commit. Here they are compared with what the experiment asks now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnlab.config.message_text import counted, listed
from attnlab.config.report_block import ANALYSIS, SEEDS, Hypothesis, Report
from attnlab.config.type_check import build, conform
from attnlab.report.runs.read_runs import FoundRun
from attnlab.report.table_types import Table
from attnlab.run.provenance import commit_text


def declaration(table: Table, asked: Hypothesis, runs: Sequence[FoundRun]) -> str:
    """Whether some runs were begun under a hypothesis, with the commits, and what has changed since, in words."""
    if not runs:
        return "no run yet"
    nearest = _nearest(table, asked, runs)
    all_runs = counted(len(runs), "run")
    if len(nearest) < len(runs):
        return f"not declared before {len(runs) - len(nearest)} of {all_runs}"
    commits = listed(sorted({commit_text(git) for _, git in nearest}))
    changed = [key for key in ANALYSIS if any(key in _changed(report, table.report) for report, _ in nearest)]
    since = f"; changed since: {listed(changed)}" if changed else ""
    return f"declared before the {all_runs}, commit {commits}{since}"


def declared_reports(table: Table, asked: Hypothesis, runs: Sequence[FoundRun]) -> list[Report]:
    """The reports with a hypothesis that runs were begun under, with the table's seeds where they recorded none.

    The table's report itself where no run was; empty where no seeds are declared.
    """
    now = table.report
    found = [
        replace(then, seeds=then.seeds or now.seeds, data_seeds=then.data_seeds or now.data_seeds)
        for then, _ in _nearest(table, asked, runs)
    ]
    return [report for report in found or [now] if report.seeds]


def declared_hypotheses(table: Table) -> list[Hypothesis]:
    """All hypotheses that runs of a table were begun under, each once."""
    found: list[Hypothesis] = []
    for run in table.runs:
        found += [one for report, _ in _records(run) for one in report.hypotheses if one not in found]
    return found


def _nearest(table: Table, asked: Hypothesis, runs: Sequence[FoundRun]) -> list[tuple[Report, Mapping[str, Any]]]:
    """The analysis with a hypothesis that each run was begun under; of several, the nearest to the present one."""
    now = _question(table.report, asked)
    found = (
        [one for one in _records(run) if asked in one[0].hypotheses and _question(one[0], asked) == now] for run in runs
    )
    return [min(records, key=lambda one: len(_changed(one[0], table.report))) for records in found if records]


def _question(report: Report, asked: Hypothesis) -> list[Any]:
    """What a hypothesis is about beside its own words: the runs behind its rows, the numbers behind its column, and the
    choice of them."""
    name = report.success.column if asked.fails_less_than and report.success else asked.column
    success = report.success if asked.fails_less_than else None
    average = report.average if report.average and report.average.name == name else None
    columns = [report.columns.get(one) for one in (average.of if average else [str(name)])]
    rows = {values: name for values, name in report.row_names.items() if name in (asked.row, asked.other)}
    return [report.rows, rows, columns, average, success, report.best_over, report.chosen_by]


def _changed(then: Report, now: Report) -> list[str]:
    """The keys of the analysis that differ; seeds were not recorded by older versions."""
    keys = [key for key in ANALYSIS if key not in SEEDS or getattr(then, key)]
    return [key for key in keys if getattr(then, key) != getattr(now, key)]


def _records(run: FoundRun) -> list[tuple[Report, Mapping[str, Any]]]:
    """The analyses of a run from before its first step, with the state of the repository.

    Records that this version cannot read are left out.
    """
    found = []
    for one in run.declared:
        block = one.get("analysis")
        if one.get("step") or not isinstance(block, Mapping):
            continue
        given = {"title": "", **{key: value for key, value in block.items() if key in ANALYSIS}}
        if not conform(given, Report, "report"):
            git = one.get("git")
            found.append((build(Report, given), git if isinstance(git, Mapping) else {}))
    return found
