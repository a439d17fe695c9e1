"""The way of a row's runs to its numbers: how many have started, diverged, finished, and are used."""

from collections import defaultdict

from attnlab.config.message_text import listed
from attnlab.report.analysis_record import RowRuns
from attnlab.report.build_table import runs_by_row
from attnlab.report.runs.read_runs import NOT_BEGUN
from attnlab.report.table_types import Table


def row_runs(table: Table) -> list[RowRuns]:
    """The counts of every row over all columns; used are runs with a number in a cell."""
    used = {str(seed.folder) for cell in table.each() for seed in cell.seeds if seed.value is not None}
    return [
        RowRuns(
            row=row,
            started=sum(run.state not in NOT_BEGUN for run in runs),
            diverged=sum(run.diverged for run in runs),
            finished=sum(run.state == "finished" for run in runs),
            used=sum(str(run.folder) in used for run in runs),
        )
        for row, runs in runs_by_row(table.report, table.runs).items()
    ]


def flow_line(table: Table) -> str:
    """The counts of all rows in one line, rows with equal counts together."""
    rows: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for one in row_runs(table):
        rows[one.started, one.diverged, one.finished, one.used].append(one.row)
    # names of rows hold commas where several keys make a row
    told = [f"{'/'.join(map(str, counts))} ({listed(names, 8, separator='; ')})" for counts, names in rows.items()]
    return f"runs of each row started/diverged/finished/used: {'; '.join(told)}"
