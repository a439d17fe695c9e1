"""Findings of `benchmarks.table7` as rows of tables, beside the published table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnlab.report.published_numbers import published_table
from benchmarks.harness.timing import Timings

PUBLISHED = "qin2022/table7_speed"
BASELINE, FUSED = "vanilla", "vanilla_fused"
SPEED, RATIO, MEMORY = "steps a second", "times as fast as vanilla", "peak memory in MB, and as a share of vanilla's"
"""titles of the tables that the figure shows"""


def turn_name(name: str, length: int) -> str:
    """The name of a model at a length among those that take turns."""
    return f"{name}, N = {length}"


@dataclass
class Findings:
    """Measurements of one mode: times of all models and lengths, and by model and length peak bytes, or why there are
    none."""

    times: Timings = field(default_factory=lambda: Timings({}))
    bytes: dict[tuple[str, int], float] = field(default_factory=dict)
    failed: dict[tuple[str, int], str] = field(default_factory=dict)

    def rate(self, name: str, length: int) -> float | str:
        """Steps a second, or why there are none."""
        return self.failed.get((name, length)) or 1 / self.times.median(turn_name(name, length))

    def ratio(self, name: str, length: int, base: int) -> float | str:
        """How many times as fast as vanilla at the length `base`, or why that is not known."""
        if reason := self.failed.get((name, length)):
            return reason
        if (BASELINE, base) in self.failed:
            return "-"
        return self.times.ratio(turn_name(BASELINE, base), turn_name(name, length))

    def memory(self, name: str, length: int) -> str:
        """Peak memory in MB and as a share of vanilla's, or why there is none."""
        if reason := self.failed.get((name, length)):
            return reason
        peak, vanilla = self.bytes[name, length], self.bytes.get((BASELINE, length))
        share = f" ({peak / vanilla:.2f})" if vanilla else ""
        return f"{peak / 1e6:.4g}{share}"


def published_rows() -> list[str]:
    """The models of table 7, in its order."""
    return list(dict.fromkeys(row for row, _ in published_table(PUBLISHED).cells))


def published_ratio(name: str, mode: str, length: int) -> float | None:
    """The ratio of the paper to its vanilla at this length; None where it has none."""
    cells, column = published_table(PUBLISHED).cells, f"{mode}_{round(length / 1000)}k"
    ours, theirs = cells.get((name, column)), cells.get((BASELINE, column))
    close = abs(length / 1000 - round(length / 1000)) < 0.03 * length / 1000
    return ours.value / theirs.value if close and ours and theirs and ours.value and theirs.value else None


def tables_of(
    result: Findings, mode: str, choices: Mapping[str, str], lengths: Sequence[int]
) -> Iterator[tuple[str, Any]]:
    """Title and rows of the tables of one mode: steps a second, ratios beside the published ones, memory.

    Args:
        choices: the choice of `model=` of each row.
    """
    names = list(choices)
    yield (
        SPEED,
        [
            {"model": name, "model=": choices[name]} | {f"N={n}": result.rate(name, n) for n in lengths}
            for name in names
        ],
    )
    rows = []
    for name in names:
        row: dict[str, object] = {"model": name}
        for n in lengths:
            row[f"N={n}"] = result.ratio(name, n, n)
            if published_ratio(BASELINE, mode, n):
                row[f"published {round(n / 1000)}K"] = published_ratio(name, mode, n) or "-"
        rows.append(row)
    yield RATIO, rows
    memory = [{"model": name} | {f"N={n}": result.memory(name, n) for n in lengths} for name in names]
    yield MEMORY, memory
