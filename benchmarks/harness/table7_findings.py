"""Findings of `benchmarks.table7` as rows of tables and lines of a figure, beside the published table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnlab.report.published_numbers import published_table
from benchmarks.harness.speed_by_length_figure import Lines
from benchmarks.harness.timing import Timings

PUBLISHED = "qin2022/table7_speed"
BASELINE, FUSED = "vanilla", "vanilla_fused"


@dataclass
class Findings:
    """Measurements of one mode: times and peak bytes by length, and why a model has none."""

    times: dict[int, Timings] = field(default_factory=dict)
    bytes: dict[int, dict[str, float]] = field(default_factory=dict)
    failed: dict[int, dict[str, str]] = field(default_factory=dict)

    def rate(self, name: str, length: int) -> float | str:
        """Steps a second, or why there are none."""
        return self.failed[length].get(name) or 1 / self.times[length].median(name)

    def ratio(self, name: str, length: int) -> float | str:
        """How many times as fast as vanilla, or why that is not known."""
        if reason := self.failed[length].get(name):
            return reason
        return self.times[length].ratio(BASELINE, name) if BASELINE not in self.failed[length] else "-"

    def memory(self, name: str, length: int) -> str:
        """Peak memory in MB and as a share of vanilla's, or why there is none."""
        if reason := self.failed[length].get(name):
            return reason
        peaks = self.bytes[length]
        share = f" ({peaks[name] / peaks[BASELINE]:.2f})" if peaks.get(BASELINE) else ""
        return f"{peaks[name] / 1e6:.4g}{share}"


def published_rows() -> list[str]:
    """The models of table 7, in its order."""
    return list(dict.fromkeys(row for row, _ in published_table(PUBLISHED).cells))


def published_ratio(name: str, mode: str, length: int) -> float | None:
    """The ratio of the paper to its vanilla at this length; None where it has none."""
    cells, column = published_table(PUBLISHED).cells, f"{mode}_{round(length / 1000)}k"
    row = BASELINE if name == FUSED else name
    ours, theirs = cells.get((row, column)), cells.get((BASELINE, column))
    close = abs(length / 1000 - round(length / 1000)) < 0.03 * length / 1000
    return ours.value / theirs.value if close and ours and theirs and ours.value and theirs.value else None


def tables_of(found: Findings, mode: str, names: Sequence[str], lengths: Sequence[int]) -> Iterator[tuple[str, Any]]:
    """Title and rows of the tables of one mode: steps a second, ratios beside the published ones, memory."""
    yield "steps a second", [{"model": name} | {f"N={n}": found.rate(name, n) for n in lengths} for name in names]
    rows = []
    for name in names:
        row: dict[str, object] = {"model": name}
        for n in lengths:
            row[f"N={n}"] = found.ratio(name, n)
            if published_ratio(BASELINE, mode, n):
                row[f"published {round(n / 1000)}K"] = published_ratio(name, mode, n) or "-"
        rows.append(row)
    yield "times as fast as vanilla", rows
    memory = [{"model": name} | {f"N={n}": found.memory(name, n) for n in lengths} for name in names]
    yield "peak memory in MB, and as a share of vanilla's", memory


def lines_of(found: Mapping[str, Findings], names: Sequence[str], lengths: Sequence[int]) -> dict[str, Lines]:
    """Lines of the figure by panel: measured and published speed, and measured memory, each over vanilla's first."""
    panels: dict[str, Lines] = {}
    cells, first = published_table(PUBLISHED).cells, lengths[0]
    for mode, findings in found.items():
        rate, peaks = findings.rate(BASELINE, first), findings.bytes
        speeds = {name: {n: findings.rate(name, n) for n in lengths} for name in names}
        panels[f"{mode}, measured speed"] = {
            name: {n: value / rate for n, value in line.items() if not isinstance(value, str)}
            for name, line in speeds.items()
        }
        published = {
            name: {1000 * k: cells[name, f"{mode}_{k}k"].value for k in range(1, 6)} for name in names if name != FUSED
        }
        panels[f"{mode}, published speed"] = {
            name: {n: value / published[BASELINE][1000] for n, value in line.items() if value}
            for name, line in published.items()
        }
        panels[f"{mode}, measured memory"] = {
            name: {n: peaks[n][name] / peaks[first][BASELINE] for n in lengths if peaks[n].get(name)} for name in names
        }
    return panels
