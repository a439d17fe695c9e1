"""What a reader must know beside the cells: runs without a number, mixed versions, data, hardware, cost."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from attnlab.config.suggest import listed
from attnlab.report.read_runs import FoundRun
from attnlab.report.report_json import Origin
from attnlab.report.table_types import Cell, Table
from attnlab.run.provenance import git_state


def problems(table: Table, skipped: Sequence[str] = ()) -> list[str]:
    """Every cell that lacks a run or its number, with the state and the reason; and folders that were skipped."""
    found: dict[tuple[str, str, str, tuple[int, ...]], list[str]] = defaultdict(list)
    shown = set()
    for cell in _measured(table):
        by_state: dict[tuple[str, str], list[int]] = defaultdict(list)
        for seed in cell.seeds:
            shown.add(seed.folder)
            if seed.value is None:
                state = "no number" if seed.state == "finished" else seed.state
                by_state[state, seed.reason].append(seed.seed)
        for (state, reason), seeds in by_state.items():
            found[cell.row, state, reason, tuple(seeds)].append(cell.column.name)
    whole = {row: sum(cell.row == row for cell in _measured(table)) for row in table.cells}
    lines = [
        f"{row}{'' if len(names) == whole[row] else f', {listed(names)}'}: {state}, {_seeds(seeds)}{_because(reason)}"
        for (row, state, reason, seeds), names in found.items()
    ]
    # of values tried that were not the best, say
    others = [run for run in table.runs if run.state != "finished" and run.folder not in shown]
    lines += [f"{run.place}: {run.state}{_because(run.reason)}" for run in others]
    return [*lines, *(f"skipped {one}" for one in skipped)]


def _measured(table: Table) -> Iterator[Cell]:
    """Cells that are of runs themselves, and no average of others."""
    average = table.report.average.name if table.report.average else None
    return (cell for cell in table.each() if cell.column.name != average)


def _seeds(seeds: Sequence[int]) -> str:
    listed = ", ".join(str(seed) for seed in sorted(set(seeds)))
    return f"seed{'s' if len(set(seeds)) > 1 else ''} {listed}"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def finished(table: Table) -> list[FoundRun]:
    return [run for run in table.runs if run.state == "finished"]


def notes(table: Table) -> list[str]:
    """What is true of the numbers that are there and not seen in them."""
    runs, made = finished(table), origin(table)
    unknown = sum(run.value("seconds") is None for run in runs)
    timed = f", without {unknown} whose time is not known" if unknown else ""
    cost = f"{made.runs} runs, {made.seconds / 3600:.1f} hours of training{timed}"
    lines = [f"{cost}, on {listed(made.hardware) if made.hardware else 'unknown hardware'}"]
    now, commits = git_state()["commit"], {run.result.get("git", {}).get("commit") for run in runs}
    since = "" if {now} == commits else f"; this is {str(now)[:10]}"
    lines.append(f"made by commit {', '.join(made.commits)}{since}")
    lines += [f"computed on: {about}" for about in _distinct(run.result.get("data", {}).get("about") for run in runs)]
    rules = _distinct(run.result.get("selection", {}).get("rule") for run in runs)
    lines += [f"tested weights: {', '.join(rules)}"] if rules else []
    chosen = [cell for cell in table.each() if cell.chosen]
    if chosen:
        lines.append(f"best of the values tried, chosen by the numbers shown: {'; '.join(map(_chosen, chosen))}")
    apart = [f"{cell.row} ({cell.column.name})" for cell in table.each() if cell.bimodal]
    lines += [f"seeds in two groups, so that the mean is no run's value: {', '.join(apart)}"] if apart else []
    if table.published is not None and (trials := table.published.trials):
        lines.append(f"published values are means over {trials} trials ({table.published.paper})")
    return lines


def _chosen(cell: Cell) -> str:
    return f"{cell.row}, {cell.column.name}: {cell.chosen}"


def _distinct(values: Iterator[Any]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values if value))


def commit_of(run: FoundRun) -> str:
    """Short hash, with a word where the code had changes beside it."""
    git = run.result.get("git", {})
    return f"{str(git.get('commit') or 'unknown')[:10]}{' with changes' if git.get('dirty') else ''}"


def origin(table: Table) -> Origin:
    """Commits, hardware, versions and cost of the runs behind a table."""
    runs = finished(table)
    hardware = [run.result.get("hardware", {}) for run in runs]
    machines = [f"{h.get('gpu') or h.get('cpu')}, {h.get('threads')} threads" for h in hardware if h]
    versions = [run.result.get("versions", {}) for run in runs]
    packages = dict.fromkeys(name for one in versions for name in one)
    return Origin(
        runs=len(runs),
        seconds=math.fsum(run.value("seconds") or 0.0 for run in runs),
        commits=sorted({commit_of(run) for run in runs}),
        hardware=_distinct(iter(machines)),
        versions={name: ", ".join(_distinct(one.get(name) for one in versions)) for name in packages},
    )
