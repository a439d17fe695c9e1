"""Runs and hours of the presets, by the commands of their headers and the guesses of their configurations (`cost`).

`PYTHONPATH=src:tests python -m support.preset_costs` prints the tables of docs/costs.md.
"""

import itertools
import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from attnlab.config.command_line.words import read_override
from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import show
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import check_command
from attnlab.launch.sweep_plan import span, steps_of_run
from support.preset_files import EXPERIMENTS, text_of

HEADINGS = ("Claim", "Measured", "Cost", "Command")
OF_ITS_COST = ("task", "train.precision", "train.max_steps")
"""swept keys on which the guess of a step, or the number of steps, may depend"""


@cache
def headings(name: str) -> dict[str, str]:
    """The comments that a preset opens with, by heading."""
    text = (EXPERIMENTS / f"{name}.yaml").read_text()
    assert text.startswith("# @package _global_\n# Claim: ")
    collected: dict[str, str] = {}
    for line in itertools.takewhile(lambda line: line.startswith("#"), text.splitlines()[1:]):
        begun = re.match(r"# ([A-Z][a-z]+): (.*)", line)
        if begun and begun[1] in HEADINGS:
            assert begun[1] not in collected, f"{begun[1]} comes twice"
            collected[begun[1]] = begun[2]
        elif len(collected) < len(HEADINGS):
            collected[list(collected)[-1]] += f" {line[2:]}"
    return collected


def presets() -> list[str]:
    """All presets but the quick start, which is one run."""
    files = [file.relative_to(EXPERIMENTS) for file in sorted(EXPERIMENTS.glob("*/*.yaml"))]
    return [file.with_suffix("").as_posix() for file in files if not file.name.startswith("_")]


@dataclass(frozen=True)
class PresetCost:
    """The runs of a preset, the steps of the longest, and the least and the most hours of all, one after the other."""

    runs: int
    steps: int
    hours: tuple[float, float]
    hardware: str

    @property
    def span(self) -> str:
        return span(self.hours, is_guess=True)


@cache
def preset_cost(name: str) -> PresetCost:
    """The cost of the command in a preset's header; few of its jobs are composed."""
    words = shlex.split(headings(name)["Command"])[2:]
    params = text_of(name).get("hydra", {}).get("sweeper", {}).get("params", {})
    items = [read_override(f"{key}={value}", CONF) for key, value in params.items()]
    swept = {item.key: item.values for item in items}
    swept |= {item.key: item.values for word in words if "=" in word and (item := read_override(word, CONF)).swept}
    narrowed = [word for word in words if word != "-m" and word.partition("=")[0] not in swept]
    narrowed += [f"{key}={show(values[0])}" for key, values in swept.items() if not key.startswith(OF_ITS_COST)]
    of_cost = [[f"{key}={show(value)}" for value in swept[key]] for key in swept if key.startswith(OF_ITS_COST)]
    jobs = [job for more in itertools.product(*of_cost) for job in check_command([*narrowed, *more]).jobs]
    runs = math.prod(len(values) for values in swept.values())
    least, most = (sum(hours) * runs / len(jobs) for hours in zip(*map(hours_of, jobs), strict=True))
    (hardware,) = {job.typed.cost.hardware for job in jobs}
    return PresetCost(runs, max(steps_of_run(job) or 0 for job in jobs), (least, most), hardware)


def hours_of(job: JobConfig) -> tuple[float, float]:
    """Least and most hours of a run."""
    times, steps = job.typed.cost.ms_a_step, steps_of_run(job)
    assert steps and times, f"{job.folder}: no guess of its cost"
    return steps * min(times) / 3.6e6, steps * max(times) / 3.6e6


def tables() -> Iterator[str]:
    """The tables of docs/costs.md: presets on a GPU, then the small ones on a CPU."""
    for hardware, hours in (("GPU", "GPU-hours"), ("thread", "hours of one core")):
        rows = [(name, cost) for name in presets() if hardware in (cost := preset_cost(name)).hardware]
        lines = [f"| `{name}` | {cost.runs} | {cost.steps:,} | {cost.span} |" for name, cost in rows]
        yield "\n".join([f"| experiment | runs | steps of a run | {hours} |", "| --- | --- | --- | --- |", *lines])


if __name__ == "__main__":
    print("\n\n".join(tables()))
