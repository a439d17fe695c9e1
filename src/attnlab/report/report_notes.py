"""Notes of a report: runs without a number, cost, hardware, commits, data, tested weights."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, cast

from attnlab.config.message_text import counted, listed
from attnlab.config.run_identity import task_and_split
from attnlab.config.validation.report_names import setting
from attnlab.learn.metric_units import summary_of
from attnlab.report.build_table import choice_sentences
from attnlab.report.code_notes import code_notes, known_hashes
from attnlab.report.declared_seeds import left_out
from attnlab.report.failures.count_failures import mixed_seeds
from attnlab.report.report_record import Origin
from attnlab.report.runs.read_runs import grouped, short_name
from attnlab.report.statistics.length_breakdown import warnings
from attnlab.report.table_types import Table
from attnlab.run.provenance import commit_text, git_state
from attnlab.run.read_run_files import debug_note

_TIMES = {"hours": 3600, "minutes": 60, "seconds": 1}


def problems(table: Table, skipped: Sequence[str] = ()) -> list[str]:
    """Sentences on seeds without a number, with state and reason, and on skipped folders.

    Cells of one row whose seeds lack a number for the same reason share a sentence.
    """
    measured = [cell for cell in table.each() if not cell.column.of]
    columns = grouped(
        (cell.column.name, (cell.row, *why, tuple(keys)))
        for cell in measured
        for why, keys in grouped(
            (cast(int, seed.key), (seed.named_state, seed.reason)) for seed in cell.seeds if seed.value is None
        ).items()
    )
    whole = Counter(cell.row for cell in measured)
    lines = []
    for (row, state, reason, keys), names in columns.items():
        where = "" if len(names) == whole[row] else f", {listed(names)}"
        seeds = f"seed{'s' if len(set(keys)) > 1 else ''} {', '.join(map(str, sorted(set(keys))))}"
        lines.append(f"{row}{where}: {state}, {seeds}{f' ({reason})' if reason else ''}")
    # runs in no cell, such as runs with other values of best_over
    shown = {seed.folder for cell in measured for seed in cell.seeds}
    others = [run for run in table.runs if run.state != "finished" and str(run.folder) not in shown]
    lines += [f"{short_name(run.folder)}: {run.state}{f' ({run.reason})' if run.reason else ''}" for run in others]
    return [*lines, *(f"skipped {folder}" for folder in skipped)]


def notes(table: Table) -> list[str]:
    """Sentences on the numbers that are there: cost, commits, data, tested weights."""
    runs, run_origin = table.finished(), origin(table)
    unknown = sum(run.value("seconds") is None for run in runs)
    timed = f", without {unknown} whose time is not known" if unknown else ""
    seconds = run_origin.seconds or 0.0
    spent = next(f"{seconds / size:.1f} {unit}" for unit, size in _TIMES.items() if seconds >= size or size == 1)
    cost = f"{counted(run_origin.runs, 'run')}, {spent} of training{timed}"
    hardware = listed(run_origin.hardware) if run_origin.hardware else "unknown hardware"
    lines = [
        f"{cost}, on {hardware}" if runs else "no finished run",
        flow_line(table),
        *left_out(table),
    ]
    now, commits = git_state()["commit"], {run.result.get("git", {}).get("commit") for run in runs}
    since = "" if {now} == commits else f"; this is {str(now)[:10]}"
    if commits - {None}:
        lines.append(f"made by commit {', '.join(run_origin.commits)}{since}")
    lines += code_notes(table)
    abouts = grouped((run, str(run.result.get("data", {}).get("about") or "")) for run in runs)
    abouts.pop("", None)
    tasks = {about: dict.fromkeys(task_and_split(run.config) for run in group) for about, group in abouts.items()}
    several = len(set().union(*tasks.values())) > 1
    for about, group in abouts.items():
        part = f"{len(group)} of {len(runs)} runs{f': {listed(tasks[about], 6)}' if several else ''}"
        lines.append(f"computed on{'' if len(group) == len(runs) else f' ({part})'}: {about}")
    pixels = _distinct(setting("task.pixels", run.config) for run in runs)
    lines += [f"pictures: task.pixels={', '.join(pixels)}"] if pixels else []
    rules = _distinct(run.result.get("selection", {}).get("rule") for run in runs)
    lines += [f"tested weights: {', '.join(rules)}"] if rules else []
    lines += choice_sentences(table)
    lines += _logged_maxima(table)
    lines += warnings(table.each(), table.by_folder)
    success = table.report.success
    mixed = mixed_seeds(table, success.column, table.cells) if success else ""
    lines += [f"in {success.column}, {mixed}"] if success and mixed else []
    lines += _distinct(debug_note(run.result) for run in runs)
    torn = [f"{short_name(run.folder)} ({run.damaged})" for run in runs if run.damaged]
    lines += [f"left out of metrics.csv: {listed(torn)}"] if torn else []
    if table.published is not None and (trials := table.published.trials):
        lines.append(f"published values are means over {trials} trials ({table.published.paper})")
    return lines


def _logged_maxima(table: Table) -> list[str]:
    """Sentences on columns where maxima over all steps stand beside maxima over logged steps, which may miss a peak."""
    lines = []
    for column in table.columns:
        if (summary_of(column.metric) or ("",))[0] != "max" or column.of:
            continue
        cells = [of_row[column.name] for of_row in table.cells.values() if column.name in of_row]
        known = [(cell.row, seed) for cell in cells for seed in cell.seeds if seed.value is not None]
        runs = [(row, table.by_folder[str(seed.folder)]) for row, seed in known]
        logged = [row for row, run in runs if run.largest_of_all_steps(column.metric) is None]
        if 0 < len(logged) < len(runs):
            rows = listed(dict.fromkeys(logged), 8, separator="; ")
            lines.append(f"in {column.name}, over logged steps only, as runs of former versions have it: {rows}")
    return lines


def _distinct(values: Iterable[Any]) -> list[str]:
    """Values as text, each once, empty ones left out."""
    return list(dict.fromkeys(str(value) for value in values if value))


def flow_line(table: Table) -> str:
    """The counts of all rows in one line, rows with equal counts together."""
    rows = grouped((row.row, (row.started, row.diverged, row.finished, row.used)) for row in table.row_runs())
    # names of rows hold commas where several keys make a row
    groups = [f"{'/'.join(map(str, counts))} ({listed(names, 8, separator='; ')})" for counts, names in rows.items()]
    return f"runs of each row started/diverged/finished/used: {'; '.join(groups)}"


def origin(table: Table) -> Origin:
    """Commits, hardware, versions and cost of the runs behind a table."""
    runs = table.finished()
    hardware = [run.result.get("hardware", {}) for run in runs]
    machines = [f"{h.get('gpu') or h.get('cpu')}, {counted(h.get('threads'), 'thread')}" for h in hardware if h]
    versions = [run.result.get("versions", {}) for run in runs]
    packages = dict.fromkeys(name for known in versions for name in known)
    return Origin(
        runs=len(runs),
        seconds=math.fsum(run.value("seconds") or 0.0 for run in runs),
        commits=sorted({commit_text(run.result.get("git", {})) for run in runs}),
        code={name: ", ".join(hashes) for name, hashes in known_hashes(runs).items()},
        hardware=_distinct(machines),
        versions={name: ", ".join(_distinct(known.get(name) for known in versions)) for name in packages},
    )
