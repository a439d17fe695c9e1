"""What a reader must know beside the cells: runs without a number, mixed versions, data, hardware, cost."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from attnlab.run.report.cells import Cell, Table
from attnlab.run.report.runs import FoundRun
from attnlab.run.report.table import row_name


def problems(table: Table, skipped: Sequence[str] = ()) -> list[str]:
    """Every cell that lacks a run, with the state and the reason; and folders that were skipped."""
    found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for run in table.runs:
        if run.state != "finished":
            found[row_name(table.report, run), run.state, run.reason].append(run.seed)
    lines = [f"{row}: {state}, {_seeds(seeds)}{_because(reason)}" for (row, state, reason), seeds in found.items()]
    return [*lines, *_without_value(table), *(f"skipped {one}" for one in skipped)]


def _seeds(seeds: Sequence[int]) -> str:
    listed = ", ".join(str(seed) for seed in sorted(set(seeds)))
    return f"seed{'s' if len(set(seeds)) > 1 else ''} {listed}"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _without_value(table: Table) -> Iterator[str]:
    """Finished runs that have no such number."""
    for cell in table.each():
        lacking = [seed for seed in cell.seeds if seed.state == "finished" and seed.value is None]
        if lacking:
            seeds = _seeds([seed.seed for seed in lacking])
            yield f"{cell.row}, {cell.column.name}: no number, {seeds}{_because(lacking[0].reason)}"


def finished(table: Table) -> list[FoundRun]:
    return [run for run in table.runs if run.state == "finished"]


def notes(table: Table) -> list[str]:
    """What is true of the numbers that are there and not seen in them."""
    runs, lines = finished(table), []
    commits = {commit_of(run) for run in runs}
    if len(commits) > 1:
        lines.append(f"runs of {len(commits)} commits: {', '.join(sorted(commits))}")
    if any(run.result.get("git", {}).get("dirty") for run in runs):
        lines.append("some runs were made with changes that no commit holds")
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


def origin(table: Table) -> dict[str, Any]:
    """Commits, hardware, versions and cost of the runs behind a table."""
    runs = finished(table)
    hardware = [run.result.get("hardware", {}) for run in runs]
    machines = [f"{h.get('gpu') or h.get('cpu')}, {h.get('threads')} threads" for h in hardware if h]
    versions = [run.result.get("versions", {}) for run in runs]
    packages = dict.fromkeys(name for one in versions for name in one)
    return {
        "runs": len(runs),
        "seconds": sum(run.result.get("seconds", 0.0) for run in runs),
        "commits": sorted({commit_of(run) for run in runs}),
        "hardware": _distinct(iter(machines)),
        "versions": {name: ", ".join(_distinct(one.get(name) for one in versions)) for name in packages},
    }
