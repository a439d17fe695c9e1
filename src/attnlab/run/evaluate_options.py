"""Options of `python evaluate.py`: which run, and which examples of its task."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from attnlab.config.command_line.option_parser import CommandOptions
from attnlab.config.problem import Problem


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(CommandOptions):
    """Options of evaluate.py."""

    run: Path = field(
        metadata={"missing": "<run folder>, such as run=experiments/runs/scan-simple/linear/default/seed0"}
    )
    """the run folder (experiments/runs/<task>/<model>/<tag>/seed<k>)"""
    subset: str | None = None
    """one subset only: train, val, test, test/iid, test/ood (default: all test subsets)"""
    lengths: str | None = None
    """A-B or a single number: only examples of that many tokens, of the target where a sequence is written, else of
    the input"""
    checkpoint: Literal["selected", "last", "best"] | None = None
    """selected (default: as the run's own test), last, best"""
    out: Path | None = None
    """folder of the findings (default: evaluations/ in the run folder)"""

    def problems(self) -> Iterator[Problem]:
        """Lengths that are no range."""
        if self.lengths and not re.fullmatch(r"\d+(-\d+)?", self.lengths):
            yield Problem("lengths", f"={self.lengths}: expected a number or a range, such as 30 or 24-30")
        elif self.lengths and self.bounds[0] > self.bounds[1]:
            yield Problem("lengths", f"={self.lengths}: the smaller number first")

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last of the lengths: `24-30`, or `30` alone."""
        low, _, high = str(self.lengths).partition("-")
        return int(low), int(high or low)
