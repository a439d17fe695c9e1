"""Which metrics of a run a reader sees first."""

from collections.abc import Mapping
from typing import Any


def whole(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of whole subsets and groups, without those of single lengths or ranges."""
    return {name: value for name, value in metrics.items() if "/length_" not in name}


def headlines(metrics: Mapping[str, Any]) -> list[str]:
    """A run's main test metrics: the task's first one, for every part that is no single length or range."""
    tested = [name for name in whole(metrics) if name.startswith("test/")]
    first = tested[0].rpartition("/")[2] if tested else ""
    return [name for name in tested if name.rpartition("/")[2] == first]
