"""Grouping of a sweep's jobs into packs: jobs that one network with stacked parameters can train together.

The members of a pack may differ in values that change no shape, batch or order of operations: seeds, rates, weights of
losses, and the run of a warm start. Everything else must be equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from attnlab.config.dotted_keys import flatten
from attnlab.config.job_config import JobConfig
from attnlab.config.lone_groups import LoneGroups
from attnlab.config.message_text import listed, show
from attnlab.config.yaml_tables import table_beside

OWN = frozenset(table_beside(__file__)["own_keys"])
"""keys in which members of a pack may differ, besides all of optim.* except optim.name"""

_ONLY = "no other job differs from it in seed and scalar values only"
_TWICE = "an earlier job is the same run"


@dataclass(frozen=True)
class Pack:
    """Jobs that are trained together, or a single job.

    members: indices in the sequence of jobs, ascending.
    reason:  why a job is alone; empty if there are several.
    """

    members: tuple[int, ...]
    reason: str = ""


def is_own(key: str) -> bool:
    """Whether members of a pack may differ in this key."""
    return key in OWN or (key.startswith("optim.") and key != "optim.name")


def packs(jobs: Sequence[JobConfig]) -> list[Pack]:
    """Every job in exactly one pack, in the order of the packs' first jobs."""
    groups: dict[str, list[int]] = {}
    shared: dict[str, dict[str, Any]] = {}
    for number, job in enumerate(jobs):
        values = {key: value for key, value in flatten(job.raw).items() if not is_own(key)}
        text = repr(sorted(values.items()))
        groups.setdefault(text, []).append(number)
        shared.setdefault(text, values)
    lone = LoneGroups([*shared.values()], [len(numbers) for numbers in groups.values()])
    found = []
    for group, (text, numbers) in enumerate(groups.items()):
        if (reason := _unpackable(shared[text])) or len(numbers) == 1:
            found += [Pack((number,), reason or lone.reason(group) or _ONLY) for number in numbers]
        else:
            found += _without_doubles(numbers, jobs)
    return sorted(found, key=lambda pack: pack.members)


def describe(jobs: Sequence[JobConfig]) -> str:
    """A pack in words: `6 runs of scan-length_cutoff-26/linear_l2_ortho, seeds 0-2, ortho.weight 0.001, 0.01`."""
    parts = [f"{len(jobs)} runs of {jobs[0].label}/{jobs[0].typed.model.name}"]
    seeds = sorted({job.typed.seed for job in jobs})
    parts.append(f"seed{'s' if len(seeds) > 1 else ''} {ranges(seeds)}")
    for key, column in differing(jobs).items():
        parts.append(f"{key.partition('.')[2] or key} {listed(dict.fromkeys(column), most=8)}")
    return ", ".join(parts)


def differing(jobs: Sequence[JobConfig]) -> dict[str, list[str]]:
    """Keys except the seed in which members of a pack differ, with each job's value; equal columns appear once."""
    flat = [flatten(job.raw) for job in jobs]
    columns: dict[str, list[str]] = {}
    for key in (key for key in flat[0] if is_own(key) and key != "seed"):
        column = [show(values.get(key)) for values in flat]
        if len(set(column)) > 1 and column not in columns.values():
            columns[key] = column
    return columns


def ranges(numbers: Iterable[int]) -> str:
    """Ascending whole numbers in short: `0-4, 7`."""
    by_offset = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    groups = [[number for _, number in group] for _, group in by_offset]
    return ", ".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)


def _unpackable(values: Mapping[str, Any]) -> str:
    """Why jobs of this configuration are never packed; empty if they can be."""
    if values["train.precision"] == "16-mixed":
        return "train.precision=16-mixed scales the loss for all members alike"
    if (tokens := values.get("train.batch_tokens")) is not None:
        return f"train.batch_tokens={tokens} makes the batches of members differ in size"
    for key in ("trainer.devices", "trainer.nodes"):
        if (number := values.get(key, 1)) != 1:
            return f"{key}={number} trains each run in several processes"
    return ""


def _without_doubles(numbers: Sequence[int], jobs: Sequence[JobConfig]) -> list[Pack]:
    """One pack of the jobs; a job with the run folder of an earlier job is alone."""
    first = {jobs[number].folder: number for number in reversed(numbers)}
    kept = set(first.values())
    members, doubles = tuple(sorted(kept)), [Pack((number,), _TWICE) for number in numbers if number not in kept]
    return [Pack(members, "" if len(members) > 1 else _ONLY), *doubles]
