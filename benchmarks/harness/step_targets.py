"""Targets of training steps that are compared in turns: with the published step, an earlier commit, another model."""

from collections.abc import Callable

from benchmarks.harness.results import CPU, Found, Results, Row


def published_step(batches: str, least: float) -> Callable[[Results], Found | None]:
    """Our step of SCAN against the published one, at the published settings on two cores."""

    def find(results: Results) -> Found | None:
        wanted = {"step": "vanilla", "batches": batches, "threads": "2", "title": "SCAN step against the published one"}
        row = results.last("published_step", CPU, **wanted)
        return row and faster(row, least)

    return find


def against_commit(workload: str, commit: str, least: float) -> Callable[[Results], Found | None]:
    """The present code against an earlier commit."""

    def find(results: Results) -> Found | None:
        title = f"Training steps against commit {commit}"
        row = results.last("against_commit", CPU, workload=workload, before=commit, title=title)
        return row and faster(row, least)

    return find


def faster(row: Row, least: float) -> Found:
    """Returns a ratio with its interval; met by the ratio itself."""
    ratio = float(row["times as fast"])
    return Found(f"{ratio:.2f} x ({row['95 % interval']})", ratio >= least, row)


def paired_ortho(results: Results) -> Found | None:
    """Whole steps with and without the orthogonality loss in turn, SCAN and sort-of-CLEVR.

    Met: both intervals end at 5 % or below; missed: one begins above; open in between.
    """
    title = "Orthogonality loss in a training step, by task"
    rows = [results.last("ortho_tasks", CPU, task=task, title=title) for task in ("scan", "sort_of_clevr")]
    if any(row is None or " to " not in row.get("paired, 95 %", "") for row in rows):
        return None
    ends = [[float(end) for end in row["paired, 95 %"].split(" to ")] for row in rows]
    text = ", ".join(f"{row['task']} {float(row['paired %']):+.1f} % ({row['paired, 95 %']})" for row in rows)
    met = True if all(high <= 5 for _, high in ends) else False if any(low > 5 for low, _ in ends) else None
    return Found(text, met, rows[0])
