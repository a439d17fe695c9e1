"""Questions to Slurm by its own commands: partitions, the largest array, and the state of jobs."""

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import UserError

SECONDS = 60
"""until a command of Slurm counts as failed"""
_WIDTHS = {"JobArrayID": 40, "State": 24, "RestartCnt": 12, "Reason": 90, "NodeList": 60, "Name": 200, "Comment": 60}
_DEFAULTS = ("SQUEUE_", "SINFO_")
"""variables of the environment that leave jobs or partitions out of the answers of squeue and sinfo begin so"""


class SlurmError(UserError):
    """Slurm is not here, does not answer, or refuses what it is asked for; the message is one sentence."""


@dataclass(frozen=True)
class Partition:
    """A partition of the cluster.

    minutes: its time limit; None = none.
    gpus:    whether one of its nodes has GPUs.
    """

    name: str
    minutes: int | None
    gpus: bool
    is_default: bool


@dataclass(frozen=True)
class SlurmJob:
    """A job that Slurm holds.

    state:    such as PENDING and RUNNING.
    restarts: how often it went back into the queue.
    reason:   why it waits.
    nodes:    on which it runs.
    name, comment: as it was submitted.
    """

    state: str
    restarts: int
    reason: str
    nodes: str
    name: str = ""
    comment: str = ""


def answer(*command: str) -> str:
    """Output of a command of Slurm.

    Raises:
        SlurmError: it is not installed or does not succeed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_DEFAULTS)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)
    except FileNotFoundError:
        raise SlurmError(
            f"there is no Slurm on this machine ({command[0]} was not found); start the command on a login node of the "
            "cluster, or use hydra/launcher=joblib, which needs no Slurm"
        ) from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"Slurm did not answer {command[0]} in {SECONDS} seconds; try again later") from None
    if done.returncode:
        raise SlurmError(f"Slurm does not answer {command[0]} ({complaint(done.stderr)})")
    return done.stdout


def complaint(text: str) -> str:
    """What Slurm says is wrong, of all that a command wrote: `Invalid partition name specified`."""
    lines = [line.strip().removeprefix("sbatch: ") for line in text.split("\n") if not line.startswith("Try ")]
    complaints = re.findall(r"error: (.+)", text) or lines
    reason = next(filter(None, map(str.strip, reversed(complaints))), "it gives no reason")
    return reason.removeprefix("Batch job submission failed: ")


def partitions() -> list[Partition]:
    """The partitions of the cluster, hidden ones too."""
    by_name: dict[str, Partition] = {}
    # a line for every kind of node
    for line in answer("sinfo", "--all", "--noheader", "--format=%P|%l|%G").splitlines():
        name, limit, resources = line.split("|")
        plain, gpus = name.rstrip("*"), "gpu" in resources
        gpus |= plain in by_name and by_name[plain].gpus
        by_name[plain] = Partition(plain, minutes_of(limit), gpus, name.endswith("*"))
    return list(by_name.values())


def minutes_of(limit: str) -> int | None:
    """Minutes of a time limit as Slurm writes it: `3-00:00:00`, `02:00:00`, `30:00`, `infinite`."""
    days, _, rest = limit.strip().rpartition("-")
    if not re.fullmatch(r"[\d:]+", rest):
        return None
    parts = [0, 0, 0, *map(int, rest.split(":"))][-3:]
    return int(days or 0) * 1440 + parts[0] * 60 + parts[1]


def chosen_partitions(wanted: str | None) -> list[Partition]:
    """The partitions that jobs may run in: those named, separated by commas, or the cluster's default.

    Raises:
        SlurmError: there is no such partition, or no default.
    """
    there = partitions()
    names = listed(partition.name for partition in there)
    if wanted is None:
        if default := [partition for partition in there if partition.is_default]:
            return default
        raise SlurmError(f"this cluster has no default partition; write hydra.launcher.partition=..., one of {names}")
    by_name = {partition.name: partition for partition in there}
    for name in wanted.split(","):
        if name not in by_name:
            near = hint(nearest(name, by_name))
            raise SlurmError(f"hydra.launcher.partition={wanted}: there is no partition {name}{near}; here are {names}")
    return [by_name[name] for name in wanted.split(",")]


def configuration() -> Mapping[str, str]:
    """Settings of the cluster by their names, such as ClusterName and MaxArraySize (largest index of an array + 1)."""
    return dict(re.findall(r"^(\w+)\s*=\s*(\S+)", answer("scontrol", "show", "config"), re.MULTILINE))


def held_jobs() -> Mapping[str, SlurmJob]:
    """Jobs of this user that wait or run, by their id; tasks of arrays as `17_3`."""
    wanted = ",".join(f"{name}:{width}" for name, width in _WIDTHS.items())
    command = ("squeue", "--all", "--noheader", "--array", f"--user={os.getuid()}", f"--Format={wanted}")
    return dict(map(_job_of, answer(*command).splitlines()))


def _job_of(line: str) -> tuple[str, SlurmJob]:
    fields: list[str] = []
    for width in _WIDTHS.values():
        fields.append(line[:width].strip())
        line = line[width:]
    number, state, restarts, *rest = fields
    return number, SlurmJob(state, int(restarts) if restarts.isdigit() else 0, *rest)


def cancel_command(jobs: Sequence[str]) -> str:
    """The command that ends these jobs, and no other tasks of their arrays: `scancel 12 '17_[0-3,5]'`."""
    arrays: dict[str, list[int]] = defaultdict(list)
    for job in jobs:
        number, _, task = job.partition("_")
        arrays[number] += [int(task)] if task else []
    words = [f"'{number}_[{_ranges(sorted(set(tasks)))}]'" if tasks else number for number, tasks in arrays.items()]
    return f"scancel {' '.join(words)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending whole numbers in short: `0-4,7`."""
    by_offset = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    groups = [[number for _, number in group] for _, group in by_offset]
    return ",".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)


def final_state(job: str) -> str:
    """State of a job that has ended, in Slurm's word, such as CANCELLED; empty if Slurm has forgotten it."""
    try:
        match = re.search(r"JobState=(\S+)", answer("scontrol", "show", "job", job))
    except SlurmError:
        return ""
    return match[1] if match else ""
