"""The seeds behind an answer: which have an outcome, which were declared, which were left out or added.

A run has an outcome if it has a number or diverged. A verdict needs an outcome of every declared seed in both rows:
choosing some of the finished seeds, or looking while the others still run, finds differences where there are none.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from attnlab.config.message_text import listed
from attnlab.config.report_block import Report
from attnlab.report.analysis_record import ReportSeed, RowRuns
from attnlab.report.runs.read_runs import NOT_BEGUN
from attnlab.report.table_types import Table

Key = tuple[int | None, int]
"""data seed, if the task has one, and seed"""
Rows = Mapping[str, Sequence[ReportSeed]]


@dataclass(frozen=True)
class ComparedSeeds:
    """The seeds of two rows.

    rows:    the seeds that are compared, by row: those with an outcome in both rows, or unpaired all with an outcome.
    runs:    counts of runs.
    lacking: which declared seeds have no outcome in the table, in words; empty if all have one.
    remarks: on seeds that were left out or added, in words.
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
    shared = set.intersection(*({one.key for one in members if has_outcome(one)} for members in rows.values()))
    is_paired = is_paired and not any(one.diverged for members in rows.values() for one in members)
    compared = {
        row: [one for one in members if (one.key in shared if is_paired else has_outcome(one))]
        for row, members in rows.items()
    }
    seeds = {row: {_key(table, one): one for one in members} for row, members in rows.items()}
    known = {row: {key for key, one in members.items() if has_outcome(one)} for row, members in seeds.items()}
    outside = {row: _begun_outside(table, members) for row, members in rows.items()}
    in_table, tested = (set().union(*keys.values()) for keys in (seeds, known))
    data = {key[0] for key in in_table}
    declarations = [set(product(_data_seeds(report, data), report.seeds)) for report in declared]
    wanted = in_table.union(*declarations)
    names = _Names(wanted.union(*outside.values()))
    lacking: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        lacking[_lacking(wanted - known[row], seeds[row], outside[row], names)].append(row)
    without = [f"{' and '.join(of_rows)} without seeds {words}" for words, of_rows in lacking.items() if words]
    runs = [
        RowRuns(
            row=row,
            started=sum(one.state not in NOT_BEGUN for one in members),
            diverged=sum(one.diverged for one in members),
            finished=sum(one.value is not None for one in members),
            used=len(compared[row]),
        )
        for row, members in rows.items()
    ]
    states = [pair for row in outside.values() for pair in row.items()]
    # a seed that is finished in one row is a finished one
    begun = dict(sorted(states, key=lambda pair: pair[1] == "finished"))
    remarks = [*_left_out(tested, begun, names), *_remarks(tested, declarations, names)]
    return ComparedSeeds(compared, runs, "; ".join(without), remarks)


def left_out(table: Table) -> list[str]:
    """Sentences on the rows whose runs are only some of the begun ones of their settings: a choice of seeds finds
    differences where there are none."""
    members: dict[str, dict[str, ReportSeed]] = defaultdict(dict)
    for cell in table.each():
        members[cell.row] |= {str(one.folder): one for one in cell.seeds}
    rows: dict[str, list[str]] = defaultdict(list)
    for row, seeds in members.items():
        tested = {_key(table, one) for one in seeds.values() if has_outcome(one)}
        outside = _begun_outside(table, list(seeds.values()))
        for sentence in _left_out(tested, outside, _Names(tested | outside.keys())):
            rows[sentence].append(row)
    return [f"{listed(names, 8)}: {sentence}" for sentence, names in rows.items()]


def has_outcome(seed: ReportSeed) -> bool:
    """Whether a run has a number or diverged."""
    return seed.value is not None or seed.diverged


class _Names:
    """Names of seeds: `0, 1`; `0, 1 of data 2, 3` where data seeds differ among all of them."""

    def __init__(self, keys: Collection[Key]) -> None:
        self.with_data = len({data for data, _ in keys}) > 1

    def of(self, keys: Collection[Key]) -> str:
        by_data: dict[int | None, list[int]] = defaultdict(list)
        for data, seed in sorted(keys, key=_place):
            by_data[data].append(seed)
        groups: dict[str, list[str]] = defaultdict(list)
        for data, seeds in by_data.items():
            groups[listed(map(str, seeds), 20)].append(str(data))
        return ", ".join(
            f"{seeds} of data {listed(data, 20)}" if self.with_data else seeds for seeds, data in groups.items()
        )


def _key(table: Table, seed: ReportSeed) -> Key:
    run = table.by_folder[str(seed.folder)]
    return run.data_seed, run.seed


def _place(key: Key) -> tuple[int, int]:
    return key[0] or 0, key[1]


def _data_seeds(report: Report, in_table: Collection[int | None]) -> Collection[int | None]:
    """The declared data seeds, for a task that has some; those of the table where none are declared."""
    return report.data_seeds if report.data_seeds and None not in in_table else in_table


def _begun_outside(table: Table, seeds: Sequence[ReportSeed]) -> dict[Key, str]:
    """The begun runs with the settings of a row that are not in the table, and their states; diverged ones finished."""
    settings = [table.by_folder[folder].settings for folder in {str(one.folder) for one in seeds}]
    runs = [run for run in table.beside if run.settings in settings]
    return {(run.data_seed, run.seed): "finished" if run.diverged else run.state for run in runs}


def _lacking(keys: Collection[Key], seeds: Mapping[Key, ReportSeed], outside: Mapping[Key, str], names: _Names) -> str:
    """Seeds without an outcome by their states: `5, 6 (missing)`; empty without any."""
    states = defaultdict(list)
    for key in sorted(keys, key=_place):
        if key in seeds:
            one = seeds[key]
            # of a failed run the kind of error, as in OutOfMemoryError: ...
            state = (one.reason or "").partition(":")[0] if one.state == "failed" else one.named_state
        else:
            state = f"{outside[key]} and left out" if key in outside else "not in the table"
        states[state].append(key)
    return ", ".join(f"{names.of(members)} ({state})" for state, members in states.items())


def _left_out(tested: Collection[Key], outside: Mapping[Key, str], names: _Names) -> list[str]:
    """Sentences on begun seeds that were left out, finished ones apart."""
    by_state: dict[str, list[Key]] = defaultdict(list)
    for key in outside.keys() - set(tested):
        by_state[outside[key]].append(key)
    done = by_state.pop("finished", [])
    found = [f"{len(tested)} of {len(tested) + len(done)} finished seeds, without {names.of(done)}"] if done else []
    others = ", ".join(f"{names.of(members)} ({state})" for state, members in sorted(by_state.items()))
    return [*found, f"seeds begun and left out: {others}"] if others else found


def _remarks(tested: Collection[Key], declarations: Sequence[Collection[Key]], names: _Names) -> list[str]:
    """Sentences on declared seeds that were changed, and on added ones."""
    found = []
    parts = list(dict.fromkeys(map(names.of, declarations)))
    if len(parts) > 1:
        found.append(f"the declared seeds were changed between runs: {'; '.join(parts)}")
    added = set(tested).difference(*declarations) if declarations else set()
    if added:
        found.append(f"{len(added)} of {len(tested)} seeds added to the declared ones: {names.of(added)}")
    return found
