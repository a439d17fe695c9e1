"""Tests between the rows of a table by their failures and their times to success."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from attnlab.config.message_text import counted
from attnlab.report.failures.failure_record import RowSuccess, SuccessReport, TestAgainstBase
from attnlab.report.failures.time_to_success import Times, log_rank
from attnlab.report.statistics.differences import LEVEL


def fisher(ours: tuple[int, int], theirs: tuple[int, int]) -> float:
    """Two-sided p of Fisher's exact test between two pairs of failures and runs."""
    # half a second
    from scipy.stats import fisher_exact

    return float(fisher_exact([[failed, n - failed] for failed, n in (ours, theirs)]).pvalue)


def with_tests(report: SuccessReport, times: Mapping[str, Times | None], against: str | None) -> SuccessReport:
    """Adds tests of every row against a base row, and notes on tests that cannot be made.

    Args:
        times: by row; None where nothing was validated.
        against: the base row; None = the first one with a run that counts.
    """
    having = [row for row in report.rows if row.n]
    base = next((row for row in having if against in (None, row.row)), None)
    if base is None or len(having) < 2:
        lacks = f"{against} has no run that counts" if having and base is None else _few([row.row for row in having])
        return replace(report, notes=[f"no test between rows: {lacks}", *report.notes])
    others = [row for row in having if row is not base]
    fishers = _corrected({row.row: fisher((row.failed, row.n), (base.failed, base.n)) for row in others})
    notes = _smallest(others, base)
    ranks: dict[str, TestAgainstBase] = {}
    own = times.get(base.row)
    known = {row.row: found for row in others if (found := times.get(row.row))}
    if own is not None and known:
        ranks = _corrected({row: log_rank(found, own) for row, found in known.items()})
    elif any(times.values()):
        lacks = f"only {base.row} has validations" if own else f"{base.row} has no validation"
        notes.append(f"no log-rank test: {lacks}")
    rows = [replace(row, fisher=fishers.get(row.row), log_rank=ranks.get(row.row)) for row in report.rows]
    return replace(report, against=base.row, rows=rows, notes=[*notes, *report.notes])


def _few(rows: Sequence[str]) -> str:
    return f"only {rows[0]} has runs that count" if rows else "no row has a run that counts"


def _corrected(found: Mapping[str, float]) -> dict[str, TestAgainstBase]:
    """P-values of rows, also corrected for all of them."""
    return {row: TestAgainstBase(p=p, corrected=min(1.0, p * len(found))) for row, p in found.items()}


def _smallest(rows: Sequence[RowSuccess], base: RowSuccess) -> list[str]:
    """A sentence on the smallest p that so many runs can give, where it is above the level."""
    least = min(1.0, len(rows) * min(fisher((row.n, row.n), (0, base.n)) for row in rows))
    if least <= LEVEL:
        return []
    counts = sorted({row.n for row in (*rows, base)})
    runs = f"{counts[0]} to {counts[-1]} runs" if len(counts) > 1 else counted(counts[0], "run")
    compared = f" (corrected for {len(rows)} comparisons)" if len(rows) > 1 else ""
    return [
        f"with {runs} a row no p can be below {least:.2f}{compared}, even if one row always fails and the other never: "
        "more seeds are needed to tell rows apart"
    ]
