"""The seeds behind an answer: which have an outcome, which were declared, which were left out or added.

A run has an outcome if it has a number or diverged. A verdict needs an outcome of every declared seed in both rows:
choosing some of the finished seeds, or looking while the others still run, finds differences where there are none.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.config.message_text import listed
from attnlab.report.analysis_record import RowRuns
from attnlab.report.read_runs import NOT_BEGUN, FoundRun, Unreadable, look
from attnlab.report.report_record import ReportSeed
from attnlab.report.table_types import Table

Key = tuple[int | None, int | str]
"""data seed, where runs differ in it, and seed"""
Rows = Mapping[str, Sequence[ReportSeed]]


@dataclass(frozen=True)
class ComparedSeeds:
    """The seeds of two rows.

    rows:    the seeds with an outcome in both rows, by row.
    runs:    counts of runs.
    lacking: which declared seeds have no outcome in the table, in words; empty if all have one.
    remarks: on seeds that were left out or added, in words.
    """

    rows: Rows
    runs: list[RowRuns]
    lacking: str
    remarks: list[str]


def compared_seeds(table: Table, rows: Rows, declared: Sequence[Collection[int]]) -> ComparedSeeds:
    """The seeds of two rows in a column.

    Args:
        declared: the seeds that the runs recorded, each set once; without any, the seeds of the report count.
    """
    declared = declared or ([table.report.seeds] if table.report.seeds else [])
    seeds = {row: {_key(one): one for one in members} for row, members in rows.items()}
    known = {row: {key for key, one in members.items() if has_outcome(one)} for row, members in seeds.items()}
    used = set.intersection(*known.values())
    outside = {row: _finished_outside(table, members) for row, members in rows.items()}
    data = {key[0] for members in seeds.values() for key in members}
    wanted = {key for members in seeds.values() for key in members}
    wanted |= {(one, seed) for one in data for each in declared for seed in each}
    lacking: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        lacking[_lacking(wanted - known[row], seeds[row], outside[row])].append(row)
    without = [f"{' and '.join(names)} without seeds {told}" for told, names in lacking.items() if told]
    runs = [
        RowRuns(
            row=row,
            started=sum(one.state not in NOT_BEGUN for one in members),
            diverged=sum(one.diverged for one in members),
            finished=sum(one.value is not None for one in members),
            used=len(used),
        )
        for row, members in rows.items()
    ]
    compared = {row: [one for key, one in members.items() if key in used] for row, members in seeds.items()}
    tested = set.union(*known.values())
    remarks = [*_left_out(tested, set.union(*outside.values()) - tested), *_remarks(tested, declared)]
    return ComparedSeeds(compared, runs, "; ".join(without), remarks)


def left_out(table: Table) -> list[str]:
    """Sentences on the rows whose runs are only some of the finished ones of their settings: a choice of seeds finds
    differences where there are none."""
    members: dict[str, dict[str, ReportSeed]] = defaultdict(dict)
    for cell in table.each():
        members[cell.row] |= {str(one.folder): one for one in cell.seeds if one.folder}
    rows: dict[str, list[str]] = defaultdict(list)
    for row, seeds in members.items():
        tested = {_key(one) for one in seeds.values() if has_outcome(one)}
        for sentence in _left_out(tested, _finished_outside(table, list(seeds.values())) - tested):
            rows[sentence].append(row)
    return [f"{listed(names, 8)}: {sentence}" for sentence, names in rows.items()]


def has_outcome(seed: ReportSeed) -> bool:
    """Whether a run has a number or diverged."""
    return seed.value is not None or seed.diverged


def _key(seed: ReportSeed) -> Key:
    return seed.data_seed, seed.seed


def _finished_outside(table: Table, seeds: Sequence[ReportSeed]) -> set[Key]:
    """The finished or diverged runs of the same settings that lie beside the runs of a row and are not in it."""
    shown = {str(one.folder) for one in seeds}
    beside: dict[Path, tuple[FoundRun, ReportSeed]] = {}
    for one in seeds:
        run = table.by_folder[str(one.folder)]
        beside.setdefault(run.folder.parent, (run, one))
    found: set[Key] = set()
    for parent, (run, one) in beside.items():
        for folder in (each for each in sorted(parent.glob("seed*")) if str(each) not in shown):
            try:
                other = look(folder)
            except Unreadable:
                continue
            if (other.state == "finished" or other.diverged) and other.settings == run.settings:
                found.add((one.data_seed, other.seed))
    return found


def _lacking(keys: Collection[Key], seeds: Mapping[Key, ReportSeed], outside: Collection[Key]) -> str:
    """Seeds without an outcome by their states: `5, 6 (missing)`; empty without any."""
    states = defaultdict(list)
    for key in sorted(keys, key=_place):
        if key in seeds:
            one = seeds[key]
            # of a failed run the kind of error, as in OutOfMemoryError: ...
            state = (one.reason or "").partition(":")[0] if one.state == "failed" else one.named_state
        else:
            state = "finished and left out" if key in outside else "not in the table"
        states[state].append(_named(key))
    return ", ".join(f"{', '.join(names)} ({state})" for state, names in states.items())


def _left_out(tested: Collection[Key], left: Collection[Key]) -> list[str]:
    """A sentence on finished seeds that were left out."""
    names = listed(map(_named, sorted(left, key=_place)), 20)
    return [f"{len(tested)} of {len(tested) + len(left)} finished seeds, without {names}"] if left else []


def _remarks(tested: Collection[Key], declared: Sequence[Collection[int]]) -> list[str]:
    """Sentences on declared seeds that were changed, and on added ones."""
    found = []
    parts = list(dict.fromkeys(listed(map(str, sorted(each)), 20) for each in declared))
    if len(parts) > 1:
        found.append(f"the declared seeds were changed between runs: {'; '.join(parts)}")
    added = [key for key in tested if all(key[1] not in each for each in declared)] if declared else []
    if added:
        names = listed(map(_named, sorted(added, key=_place)), 20)
        found.append(f"{len(added)} of {len(tested)} seeds added to the declared ones: {names}")
    return found


def _place(key: Key) -> tuple[int, int]:
    return key[0] or 0, int(key[1])


def _named(key: Key) -> str:
    """A seed, with its data seed where these differ."""
    return str(key[1]) if key[0] is None else f"{key[1]} of data {key[0]}"
