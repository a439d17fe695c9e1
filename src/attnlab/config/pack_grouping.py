"""Which jobs of a sweep can be trained together, as one network with its parameters stacked (`hydra/launcher=packed`).

The members of a pack differ in values only that no shape, batch or order of operations follows: their seeds, rates,
weights of losses, and the weights they begin with. Anything else must be equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.config.apply_overrides import flatten
from attnlab.config.job_config import JobConfig
from attnlab.config.suggest import listed, show

OWN = {
    "seed",
    "from_run",
    "model.ortho.weight",
    "model.embedding_dropout",
    "backbone.dropout",
    "backbone.attention_dropout",
    "backbone.attention_output_dropout",
    "backbone.embedding_dropout",
}
"""Keys each member of a pack may have its own value of, beside all of optim.* but the optimiser itself."""

_ONLY = "no other job differs from it in seed and scalar values only"
_TWICE = "an earlier job is the same run"
_GROUPS = {"task": ("task", "backbone", "optim", "train"), "model": ("model",)}
"""The sections that a choice of these groups sets: where the names differ, the rest is not worth naming."""

_MISSING = object()


@dataclass(frozen=True)
class Pack:
    """Jobs that are trained together, or one that is alone.

    members: places in the sequence of jobs, rising.
    reason:  why a job is alone; empty where there are several.
    """

    members: tuple[int, ...]
    reason: str = ""


def is_own(key: str) -> bool:
    """Whether members of a pack may differ in this key."""
    return key in OWN or (key.startswith("optim.") and key != "optim.name")


def packs(jobs: Sequence[JobConfig]) -> list[Pack]:
    """Every job in exactly one pack; a pack stands at the place of its first job."""
    groups: dict[str, list[int]] = {}
    shared: dict[str, dict[str, Any]] = {}
    for number, job in enumerate(jobs):
        values = {key: value for key, value in flatten(job.raw).items() if not is_own(key)}
        text = repr(sorted(values.items()))
        groups.setdefault(text, []).append(number)
        shared.setdefault(text, values)
    found = []
    for text, numbers in groups.items():
        if (reason := _unpackable(shared[text])) or len(numbers) == 1:
            others = [(shared[other], len(groups[other])) for other in groups if other != text]
            reason = reason or _nearest(shared[text], others)
            found += [Pack((number,), reason) for number in numbers]
        else:
            found += _without_doubles(numbers, jobs)
    return sorted(found, key=lambda pack: pack.members)


def describe(jobs: Sequence[JobConfig]) -> str:
    """What a pack trains: `6 runs of scan-length_cutoff-26/linear_l2_ortho, seeds 0-2, ortho.weight 0.001, 0.01`."""
    parts = [f"{len(jobs)} runs of {jobs[0].label}/{jobs[0].typed.model.name}"]
    seeds = sorted({job.typed.seed for job in jobs})
    parts.append(f"seed{'s' if len(seeds) > 1 else ''} {ranges(seeds)}")
    for key, column in differing(jobs).items():
        parts.append(f"{key.partition('.')[2] or key} {listed(dict.fromkeys(column), most=8)}")
    return ", ".join(parts)


def differing(jobs: Sequence[JobConfig]) -> dict[str, list[str]]:
    """Keys but the seed in which members of a pack differ, with the value of each job in words.

    Rates that follow another one are told with it.
    """
    flat = [flatten(job.raw) for job in jobs]
    columns: dict[str, list[str]] = {}
    for key in (key for key in flat[0] if is_own(key) and key != "seed"):
        column = [show(values.get(key)) for values in flat]
        if len(set(column)) > 1 and column not in columns.values():
            columns[key] = column
    return columns


def ranges(numbers: Iterable[int]) -> str:
    """Rising whole numbers in short: `0-4, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _unpackable(values: Mapping[str, Any]) -> str:
    """Why jobs of this configuration are never packed; empty where they can be."""
    if values["train.precision"] == "16-mixed":
        return "train.precision=16-mixed scales the loss for all members alike"
    if (tokens := values.get("train.batch_tokens")) is not None:
        return f"train.batch_tokens={tokens} makes the batches of members differ in size"
    return ""


def _without_doubles(numbers: Sequence[int], jobs: Sequence[JobConfig]) -> list[Pack]:
    """One pack of the jobs; those whose run folder an earlier one has are alone."""
    first = {jobs[number].folder: number for number in reversed(numbers)}
    members = tuple(sorted(first.values()))
    doubles = [Pack((number,), _TWICE) for number in numbers if number not in members]
    return [Pack(members, "" if len(members) > 1 else _ONLY), *doubles]


def _nearest(values: Mapping[str, Any], others: Sequence[tuple[Mapping[str, Any], int]]) -> str:
    """Why a job is alone: the one key in which it differs from others; of several such keys that with most jobs."""
    counts: dict[str, int] = {}
    theirs: dict[str, list[str]] = {}
    for other, count in others:
        keys = _differing(values, other)
        if len(keys) == 1:
            counts[keys[0]] = counts.get(keys[0], 0) + count
            theirs.setdefault(keys[0], []).append(_value(other, keys[0]))
    if not counts:
        return _ONLY
    key = max(counts, key=counts.__getitem__)
    return f"{key}={_value(values, key)} here, {listed(theirs[key], most=4)} in the jobs that would fit otherwise"


def _differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Keys with different values; a choice of a group is one, whatever it sets."""
    keys = [key for key in {**a, **b} if a.get(key, _MISSING) != b.get(key, _MISSING)]
    for group, sections in _GROUPS.items():
        if f"{group}.name" in keys:
            keys = [group, *(key for key in keys if key.partition(".")[0] not in sections)]
    return keys


def _value(values: Mapping[str, Any], key: str) -> str:
    return show(values.get(f"{key}.name" if key in _GROUPS else key))
