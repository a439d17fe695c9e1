"""Groups of a sweep's jobs: every job alone, or, for launchers that pack, the jobs that are trained together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.config.launcher_options import PACKING
from attnlab.config.pack_grouping import packs


@dataclass(frozen=True)
class JobGroup:
    """Jobs that one process trains, together if there are several.

    numbers: of the jobs in the sweep, from 0, ascending.
    reason:  why a job of a launcher that packs is alone; else empty.
    """

    numbers: tuple[int, ...]
    reason: str = ""


def job_groups(jobs: Sequence[JobConfig], launcher: Mapping[str, Any]) -> list[JobGroup]:
    """The groups of all jobs, finished ones too: so a repeated command has the same groups, and equal bits.

    Args:
        launcher: its name and its options; with `max_packed` a pack is cut into groups of equal size.
    """
    if launcher["name"] not in PACKING:
        return [JobGroup((number,)) for number in range(len(jobs))]
    most, found = launcher["max_packed"], list[JobGroup]()
    for pack in packs(jobs):
        parts = _cut(pack.members, most or len(pack.members))
        reason = pack.reason or f"hydra.launcher.max_packed={most}"
        found += [JobGroup(part, reason if len(part) == 1 else "") for part in parts]
    return found


def _cut(numbers: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """Numbers in as few parts as possible, whose sizes differ by one at most."""
    parts = -(-len(numbers) // most)
    ends = [len(numbers) * part // parts for part in range(parts + 1)]
    return [numbers[start:end] for start, end in pairwise(ends)]
