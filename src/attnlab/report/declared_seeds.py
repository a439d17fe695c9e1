"""The seeds of compared rows: which are declared, which have an outcome, which were begun and left out."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

from attnlab.config.message_text import listed
from attnlab.config.report_block import Report
from attnlab.report.analysis_record import ReportSeed, RowRuns
from attnlab.report.report_record import Column
from attnlab.report.runs.read_runs import NOT_BEGUN, ReportRun, grouped
from attnlab.report.table_types import Table

Key = tuple[int | None, int]
"""data seed, if the task has one, and seed"""
Rows = Mapping[str, Sequence[ReportSeed]]


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


def compared_seeds(
    table: Table, column: Column, rows: Rows, declared: Sequence[Report], is_paired: bool
) -> ComparedSeeds:
    """The seeds of two rows in a column, and of the reports that declared some.

    Differences are paired by seed, where no run diverged; ranks and failures take all runs.
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
    outside = {row: _begun_outside(table, table.runs_behind(row, column)) for row in rows}
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
    seeds = {str(seed.folder): (cell.row, seed) for cell in table.each() if not cell.column.of for seed in cell.seeds}
    settings = grouped(
        (folder, (row, repr(sorted(table.by_folder[folder].settings.items())))) for folder, (row, _) in seeds.items()
    )
    sentences = []
    for (row, _), folders in settings.items():
        members = [seeds[folder][1] for folder in folders]
        tested = {_key(table, seed) for seed in members if has_outcome(seed)}
        outside = _begun_outside(table, [table.by_folder[folder] for folder in folders])
        with_data = len({data for data, _ in tested | outside.keys()}) > 1
        sentences += [(row, sentence) for sentence in _left_out(tested, outside, with_data)]
    # a row has equal sentences on several tasks
    by_sentence = grouped(dict.fromkeys(sentences))
    return [f"{listed(rows, 8)}: {sentence}" for sentence, rows in by_sentence.items()]


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


def _begun_outside(table: Table, runs: Sequence[ReportRun]) -> dict[Key, str]:
    """The begun runs with the settings of some runs that are not in the table, and their states; diverged ones
    finished."""
    settings = [run.settings for run in runs]
    outside = [run for run in table.other_runs if run.settings in settings]
    return {(run.data_seed, run.seed): "finished" if run.diverged else run.state for run in outside}


def _lacking(
    keys: Collection[Key], seeds: Mapping[Key, ReportSeed], outside: Mapping[Key, str], with_data: bool
) -> str:
    """Seeds without an outcome by their states: `5, 6 (missing)`; empty without any."""

    def state(key: Key) -> str:
        if key in seeds:
            return seeds[key].short_state
        return f"{outside[key]} and left out" if key in outside else "not in the table"

    states = grouped((key, state(key)) for key in sorted(keys, key=_order))
    return ", ".join(f"{_names(members, with_data)} ({state})" for state, members in states.items())


def _left_out(tested: Collection[Key], outside: Mapping[Key, str], with_data: bool) -> list[str]:
    """Sentences on begun seeds that were left out, finished ones apart."""
    by_state = grouped((key, outside[key]) for key in outside.keys() - set(tested))
    done = _names(finished := by_state.pop("finished", []), with_data)
    others = ", ".join(f"{_names(keys, with_data)} ({state})" for state, keys in sorted(by_state.items()))
    sentences = [f"{len(tested)} of {len(tested) + len(finished)} finished seeds, without {done}"] if finished else []
    return [*sentences, f"seeds begun and left out: {others}"] if others else sentences
