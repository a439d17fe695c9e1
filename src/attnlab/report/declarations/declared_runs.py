"""What was declared before the runs, and what is asked now: the analysis that each was begun under, and its seeds.

A verdict needs an outcome (a number, or that it diverged) of every declared seed in both rows: a choice among finished
seeds finds differences where there are none.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

from attnlab.config.message_text import counted, listed
from attnlab.config.report_block import ANALYSIS, SEEDS, Hypothesis, Report
from attnlab.config.validation.type_check import build, conform
from attnlab.report.analysis_record import ReportSeed, RowRuns
from attnlab.report.runs.read_runs import NOT_BEGUN, FoundRun, grouped
from attnlab.report.table_types import Table
from attnlab.run.provenance import commit_text

Key = tuple[int | None, int]
"""data seed, if the task has one, and seed"""
Rows = Mapping[str, Sequence[ReportSeed]]
Record = tuple[Report, Mapping[str, Any]]
"""an analysis that a run was begun under, and the state of the repository"""


def declaration(table: Table, claim: Hypothesis, runs: Sequence[FoundRun]) -> tuple[str, list[Report]]:
    """Whether runs were begun under a hypothesis, with commits and later changes in words, and the reports with the
    seeds that were declared: of the table where runs recorded none; none without seeds."""
    now = table.report
    by_run = [[record for record in _records(run) if _asks(record[0], claim, now)] for run in runs]
    # of several records of a run, the nearest to the present analysis
    nearest = [min(records, key=lambda record: len(_changed(record[0], now))) for records in by_run if records]
    reports = [
        replace(then, seeds=then.seeds or now.seeds, data_seeds=then.data_seeds or now.data_seeds)
        for then, _ in nearest
    ]
    reports = [report for report in reports or [now] if report.seeds]
    if not runs:
        return "no run yet", reports
    all_runs = counted(len(runs), "run")
    if len(nearest) < len(runs):
        return f"not declared before {len(runs) - len(nearest)} of {all_runs}", reports
    commits = listed(sorted({commit_text(git) for _, git in nearest}))
    changed = set(chain.from_iterable(_changed(then, now) for then, _ in nearest))
    since = f"; changed since: {listed([key for key in ANALYSIS if key in changed])}" if changed else ""
    return f"declared before the {all_runs}, commit {commits}{since}", reports


def declared_hypotheses(table: Table) -> list[Hypothesis]:
    """All hypotheses that runs of a table were begun under, each once."""
    hypotheses: list[Hypothesis] = []
    for claim in (claim for run in table.runs for then, _ in _records(run) for claim in then.hypotheses):
        hypotheses += [] if claim in hypotheses else [claim]
    return hypotheses


def _asks(then: Report, claim: Hypothesis, now: Report) -> bool:
    """Whether a report has a hypothesis, on the same rows, numbers and choice of runs as the present one."""

    def subject(report: Report) -> list[Any]:
        success = report.success if claim.fails_less_than else None
        name = success.column if success else claim.column
        average = report.average if report.average and report.average.name == name else None
        columns = [report.columns.get(column) for column in (average.of if average else [str(name)])]
        rows = {values: row for values, row in report.row_names.items() if row in (claim.row, claim.other)}
        return [report.rows, rows, columns, average, success, report.best_over, report.chosen_by]

    return claim in then.hypotheses and subject(then) == subject(now)


def _changed(then: Report, now: Report) -> list[str]:
    """The keys of the analysis that differ; seeds were not recorded by older versions."""
    keys = [key for key in ANALYSIS if key not in SEEDS or getattr(then, key)]
    return [key for key in keys if getattr(then, key) != getattr(now, key)]


def _records(run: FoundRun) -> list[Record]:
    """The analyses of a run from before its first step; records that this version cannot read are left out."""
    records: list[Record] = []
    for stored in run.declared:
        block, git = stored.get("analysis"), stored.get("git")
        if stored.get("step") or not isinstance(block, Mapping):
            continue
        known = {"title": "", **{key: value for key, value in block.items() if key in ANALYSIS}}
        if not conform(known, Report, "report"):
            records.append((build(Report, known), git if isinstance(git, Mapping) else {}))
    return records


@dataclass(frozen=True)
class ComparedSeeds:
    """The seeds of two rows.

    rows:    the seeds that are compared, by row: those with an outcome in both rows, or unpaired all with an outcome.
    lacking: which declared seeds have no outcome in the table, in words; empty if all have one.
    remarks: on seeds that were left out, changed or added, in words.
    """

    rows: Rows
    runs: list[RowRuns]
    lacking: str
    remarks: list[str]


def compared_seeds(table: Table, rows: Rows, declared: Sequence[Report], is_paired: bool) -> ComparedSeeds:
    """The seeds of two rows in a column.

    Args:
        is_paired: whether differences are paired by seed, where no run diverged; ranks and failures take all runs.
        declared: the reports whose seeds and data seeds were declared.
    """
    outcomes = {row: [seed for seed in members if has_outcome(seed)] for row, members in rows.items()}
    compared = outcomes
    if is_paired and not any(seed.diverged for members in rows.values() for seed in members):
        shared = set.intersection(*({seed.key for seed in members} for members in outcomes.values()))
        compared = {row: [seed for seed in members if seed.key in shared] for row, members in rows.items()}
    runs = [
        RowRuns(
            row=row,
            started=sum(seed.state not in NOT_BEGUN for seed in members),
            diverged=sum(seed.diverged for seed in members),
            finished=sum(seed.value is not None for seed in members),
            used=len(compared[row]),
        )
        for row, members in rows.items()
    ]
    seeds = {row: {_key(table, seed): seed for seed in members} for row, members in rows.items()}
    known = {row: {key for key, seed in members.items() if has_outcome(seed)} for row, members in seeds.items()}
    outside = {row: _begun_outside(table, members) for row, members in rows.items()}
    in_table, tested = (set().union(*keys.values()) for keys in (seeds, known))
    data = {key[0] for key in in_table}
    # a task without data seeds has none, whatever is declared
    declarations = [
        set(product(data if None in data else report.data_seeds or data, report.seeds)) for report in declared
    ]
    wanted = in_table.union(*declarations)
    with_data = len({key[0] for key in wanted.union(*outside.values())}) > 1
    lacking = grouped((row, _lacking(wanted - known[row], seeds[row], outside[row], with_data)) for row in rows)
    without = [f"{' and '.join(of_rows)} without seeds {words}" for words, of_rows in lacking.items() if words]
    # a seed that is finished in one row is a finished one
    states = sorted(chain.from_iterable(map(dict.items, outside.values())), key=lambda pair: pair[1] == "finished")
    remarks = _left_out(tested, dict(states), with_data)
    if len(parts := dict.fromkeys(_names(keys, with_data) for keys in declarations)) > 1:
        remarks.append(f"the declared seeds were changed between runs: {'; '.join(parts)}")
    if declarations and (added := tested.difference(*declarations)):
        names = _names(added, with_data)
        remarks.append(f"{len(added)} of {len(tested)} seeds added to the declared ones: {names}")
    return ComparedSeeds(compared, runs, "; ".join(without), remarks)


def left_out(table: Table) -> list[str]:
    """Sentences on the rows whose runs are only some of the begun ones of their settings."""
    by_row = grouped((seed, cell.row) for cell in table.each() for seed in cell.seeds)
    sentences = []
    for row, seeds in by_row.items():
        last = {str(seed.folder): seed for seed in seeds}.values()
        tested = {_key(table, seed) for seed in last if has_outcome(seed)}
        outside = _begun_outside(table, seeds)
        with_data = len({data for data, _ in tested | outside.keys()}) > 1
        sentences += [(row, sentence) for sentence in _left_out(tested, outside, with_data)]
    return [f"{listed(rows, 8)}: {sentence}" for sentence, rows in grouped(sentences).items()]


def has_outcome(seed: ReportSeed) -> bool:
    """Whether a run has a number or diverged."""
    return seed.value is not None or seed.diverged


def _key(table: Table, seed: ReportSeed) -> Key:
    run = table.by_folder[str(seed.folder)]
    return run.data_seed, run.seed


def _order(key: Key) -> tuple[int, int]:
    return key[0] or 0, key[1]


def _names(keys: Collection[Key], with_data: bool) -> str:
    """Names of seeds: `0, 1`; `0, 1 of data 2, 3` where data seeds differ in the table."""
    by_data = grouped((str(seed), data) for data, seed in sorted(keys, key=_order))
    groups = grouped((str(data), listed(seeds, 20)) for data, seeds in by_data.items())
    return ", ".join(f"{seeds} of data {listed(data, 20)}" if with_data else seeds for seeds, data in groups.items())


def _begun_outside(table: Table, seeds: Sequence[ReportSeed]) -> dict[Key, str]:
    """The begun runs with the settings of a row that are not in the table, and their states; diverged ones finished."""
    settings = [table.by_folder[folder].settings for folder in {str(seed.folder) for seed in seeds}]
    runs = [run for run in table.beside if run.settings in settings]
    return {(run.data_seed, run.seed): "finished" if run.diverged else run.state for run in runs}


def _lacking(
    keys: Collection[Key], seeds: Mapping[Key, ReportSeed], outside: Mapping[Key, str], with_data: bool
) -> str:
    """Seeds without an outcome by their states: `5, 6 (missing)`; empty without any."""

    def state(key: Key) -> str:
        if key not in seeds:
            return f"{outside[key]} and left out" if key in outside else "not in the table"
        seed = seeds[key]
        # of a failed run the kind of error, as in OutOfMemoryError: ...
        return (seed.reason or "").partition(":")[0] if seed.state == "failed" else seed.named_state

    states = grouped((key, state(key)) for key in sorted(keys, key=_order))
    return ", ".join(f"{_names(members, with_data)} ({state})" for state, members in states.items())


def _left_out(tested: Collection[Key], outside: Mapping[Key, str], with_data: bool) -> list[str]:
    """Sentences on begun seeds that were left out, finished ones apart."""
    by_state = grouped((key, outside[key]) for key in outside.keys() - set(tested))
    done = _names(finished := by_state.pop("finished", []), with_data)
    others = ", ".join(f"{_names(keys, with_data)} ({state})" for state, keys in sorted(by_state.items()))
    sentences = [f"{len(tested)} of {len(tested) + len(finished)} finished seeds, without {done}"] if finished else []
    return [*sentences, f"seeds begun and left out: {others}"] if others else sentences
