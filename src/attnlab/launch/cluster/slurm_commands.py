"""Questions to Slurm by its own commands: partitions, the largest array, and the state of jobs.

Jobs are watched by squeue: submitit's watcher needs sacct, for which a Slurm must keep accounts.
"""

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import UserError

SECONDS = 60
"""until a command of Slurm counts as failed"""
_WIDTHS = {"JobArrayID": 40, "State": 24, "RestartCnt": 12, "Reason": 90, "NodeList": 60, "STDOUT": 4096}
_ENDS = (0, *accumulate(_WIDTHS.values()))
_DEFAULTS = ("SQUEUE_", "SINFO_")
"""variables of the environment that leave jobs or partitions out of the answers of squeue and sinfo begin so"""


class SlurmError(UserError):
    """Slurm is not here, does not answer, or refuses what it is asked for; the message is one sentence."""


@dataclass(frozen=True)
class SlurmJob:
    """A job that Slurm holds; `restarts`: how often it went back into the queue; `folder`: of its output."""

    state: str
    restarts: int
    reason: str
    nodes: str
    folder: Path = Path()


def answer(*command: str) -> str:
    """Output of a command of Slurm; a SlurmError if it is not installed or does not succeed."""
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


def minutes_of(limit: str) -> int | None:
    """Minutes of a time limit as Slurm writes it: `3-00:00:00`, `02:00:00`, `30:00`, `infinite`."""
    days, _, rest = limit.strip().rpartition("-")
    if not re.fullmatch(r"[\d:]+", rest):
        return None
    parts = [0, 0, 0, *map(int, rest.split(":"))][-3:]
    return int(days or 0) * 1440 + parts[0] * 60 + parts[1]


def chosen_partitions(wanted: str | None) -> dict[str, tuple[int | None, bool]]:
    """Partitions by their names: minutes of the time limit, None = none, and whether a node has GPUs.

    Args:
        wanted: names, separated by commas; None: the cluster's default. A SlurmError if there is no such one.
    """
    partitions, default = dict[str, tuple[int | None, bool]](), list[str]()
    # a line for every kind of node of every partition, hidden ones too
    for line in answer("sinfo", "--all", "--noheader", "--format=%P|%l|%G").splitlines():
        name, limit, resources = line.split("|")
        plain = name.rstrip("*")
        partitions[plain] = minutes_of(limit), "gpu" in resources or partitions.get(plain, (None, False))[1]
        default += [plain] if plain != name else []
    names = default if wanted is None else wanted.split(",")
    if not names:
        choices = f"write hydra.launcher.partition=..., one of {listed(partitions)}"
        raise SlurmError(f"this cluster has no default partition; {choices}")
    if unknown := next((name for name in names if name not in partitions), None):
        choices = f"there is no partition {unknown}{hint(nearest(unknown, partitions))}; here are {listed(partitions)}"
        raise SlurmError(f"hydra.launcher.partition={wanted}: {choices}")
    return {name: partitions[name] for name in names}


def configuration() -> Mapping[str, str]:
    """Settings of the cluster by their names, such as MaxArraySize (largest index of an array + 1)."""
    return dict(re.findall(r"^(\w+)\s*=\s*(\S+)", answer("scontrol", "show", "config"), re.MULTILINE))


def held_jobs() -> Mapping[str, SlurmJob]:
    """Jobs of this user that wait or run, by their id; tasks of arrays as `17_3`."""
    wanted = ",".join(f"{name}:{width}" for name, width in _WIDTHS.items())
    command = ("squeue", "--all", "--noheader", "--array", f"--user={os.getuid()}", f"--Format={wanted}")
    rows = ([line[start:end].strip() for start, end in pairwise(_ENDS)] for line in answer(*command).splitlines())
    return {
        job: SlurmJob(state, int(restarts) if restarts.isdigit() else 0, reason, nodes, Path(output).parent)
        for job, state, restarts, reason, nodes, output in rows
    }


def cancel_command(jobs: Sequence[str]) -> str:
    """The command that ends these jobs, and no other tasks of their arrays: `scancel 12 '17_[0-3,5]'`."""
    arrays: dict[str, set[int]] = defaultdict(set)
    for job in jobs:
        number, _, task = job.partition("_")
        arrays[number].update([int(task)] if task else [])
    words = [f"'{number}_[{_ranges(sorted(tasks))}]'" if tasks else number for number, tasks in arrays.items()]
    return f"scancel {' '.join(words)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending whole numbers in short: `0-4,7`."""
    by_offset = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    groups = [[number for _, number in group] for _, group in by_offset]
    return ",".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)


def final_state(job: str) -> str:
    """State of a job that has ended, in Slurm's word, such as CANCELLED; empty if Slurm has forgotten it."""
    with suppress(SlurmError):
        return "".join(re.findall(r"JobState=(\S+)", answer("scontrol", "show", "job", job))[:1])
    return ""
