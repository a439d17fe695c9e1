"""Objective of a run: its task's main validation metric with the weights that are tested, which a search optimises."""

from collections.abc import Mapping
from typing import Any


def objective(result: Mapping[str, Any]) -> tuple[str, float] | None:
    """Name (`val/accuracy`) and value of the objective in a result; None for runs without validation."""
    selection = result.get("selection", {})
    return next(((name, value) for name, value in selection.items() if name.startswith("val/")), None)
