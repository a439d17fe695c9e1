"""What a column of a report can show: metrics of results and other numbers of a run, their units and directions."""

import re
from collections.abc import Mapping
from typing import Any

from attnlab.config.spec import SEQUENCE_METRICS
from attnlab.learn.metrics import LOWER_IS_BETTER

PERCENT = ("accuracy", *SEQUENCE_METRICS, "matthews_correlation", "f1", "pearson", "spearman")
"""fractions that are shown in percent"""
SMALLER = ("seconds", "parameters", "state_size", "peak_memory_bytes")
OF_RUNS = {
    "parameters": ("million", 1e-6),
    "seconds": ("seconds", 1.0),
    "steps_per_second": ("steps per second", 1.0),
    "state_size": ("numbers", 1.0),
    "peak_memory_bytes": ("MB", 1e-6),
}
"""numbers of result.json beside its metrics: unit, factor"""
_SPREAD = re.compile(r"relative_sd\((?P<name>[\w/.]+)\)")


def spread_of(metric: str) -> str | None:
    """The name inside `relative_sd(train/gradient_norm)`, else None."""
    found = _SPREAD.fullmatch(metric)
    return found["name"] if found else None


def unit_of(metric: str) -> str:
    """In what a metric is shown."""
    if metric in OF_RUNS:
        return OF_RUNS[metric][0]
    if spread_of(metric):
        return "ratio"
    return "percent" if metric.endswith(PERCENT) else metric.rpartition("/")[2].replace("_", " ")


def factor_of(metric: str) -> float:
    """What a recorded number is multiplied by to be shown."""
    return OF_RUNS[metric][1] if metric in OF_RUNS else 100.0 if unit_of(metric) == "percent" else 1.0


def lower_is_better(metric: str) -> bool:
    """Which of two values is the better one; of sizes and times the smaller."""
    return metric.endswith(LOWER_IS_BETTER) or metric in SMALLER or spread_of(metric) is not None


def shown(value: float, unit: str, like: float | None = None) -> str:
    """A number as tables print it: one digit behind the point in percent, else two, and none from a thousand on.

    Args:
        like: the number that it stands beside, a mean beside a standard deviation; it gets as many digits.
    """
    size = abs(value if like is None else like)
    text = f"{value:{'.1f' if unit == 'percent' else ',.0f' if size >= 1000 else '.2f'}}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def headlines(metrics: Mapping[str, Any]) -> list[str]:
    """A run's main test metrics: the task's first one, for every part that is no single length or range."""
    tested = [name for name in metrics if name.startswith("test/") and "/length_" not in name]
    first = tested[0].rpartition("/")[2] if tested else ""
    return [name for name in tested if name.rpartition("/")[2] == first]
