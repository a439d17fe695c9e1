"""Notes of a report on runs that were made with different code, by package (`config.classes.source_hash`)."""

from collections.abc import Iterator, Sequence

from attnlab.config.message_text import listed
from attnlab.report.runs.read_runs import ReportRun, grouped, runs_by_row
from attnlab.report.table_types import Table


def known_hashes(runs: Sequence[ReportRun]) -> dict[str, list[str]]:
    """The hashes of every package in some runs, each once; code that was not recorded has none."""
    pairs = sorted({pair for run in runs for part in run.code for pair in part.items()})
    return grouped((value, name) for name, value in pairs)


def code_notes(table: Table) -> Iterator[str]:
    """Sentences on packages of which the runs of a row, and the rows of the table, were made with different code."""
    rows = runs_by_row(table.report, [run for run in table.runs if run.state == "finished" or run.diverged])
    for package, hashes in known_hashes([run for runs in rows.values() for run in runs]).items():
        if len(hashes) == 1:
            continue
        of_rows = {row: known[package] for row, runs in rows.items() if package in (known := known_hashes(runs))}
        mixed = grouped((row, _by_seed(rows[row], package)) for row, known in of_rows.items() if len(known) > 1)
        for seeds, names in mixed.items():
            yield f"runs of one row have different code of {package}: {listed(names, 8, separator='; ')} ({seeds})"
        if len(single := grouped((row, known[0]) for row, known in of_rows.items() if len(known) == 1)) > 1:
            of_each = [f"{value} ({listed(names, 8, separator='; ')})" for value, names in single.items()]
            yield f"rows have different code of {package}: {'; '.join(of_each)}"


def _by_seed(runs: Sequence[ReportRun], package: str) -> str:
    """The hashes of a package by the seeds of a row: `seed 0 1f..; seeds 1, 2 4c.. then 9a..`."""
    hashes = {run.folder: [part[package] for part in run.code if package in part] for run in runs}
    seeds = grouped((run.seed, " then ".join(dict.fromkeys(known))) for run in runs if (known := hashes[run.folder]))
    words = {value: sorted(set(group)) for value, group in seeds.items()}
    return "; ".join(
        f"seed{'s' if len(group) > 1 else ''} {', '.join(map(str, group))}: {value}" for value, group in words.items()
    )
