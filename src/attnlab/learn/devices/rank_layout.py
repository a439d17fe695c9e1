"""The processes of one run, from `trainer.devices`, `trainer.nodes` and the program that started them; without torch.

Each process trains on one device and has a number, its rank. `torchrun`, `srun`, or the agent of
`launch.rank_processes` start all of them and say so in environment variables.
"""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from attnlab.config.problem import UserError
from attnlab.config.schema import TrainerOptions
from attnlab.learn.devices.usable_cores import threads_of_environment, usable_cores

AGENT = "attnlab"
"""id by which the agent of `launch.rank_processes` names itself to its processes"""
Starter = Literal["attnlab", "torchrun", "srun", ""]


class RankError(UserError):
    """Processes that do not fit `trainer.devices` and `trainer.nodes`, or one of them that has ended."""


class EndedElsewhere(Exception):
    """Ends a run on a process, with an exit code, because of an error that rank 0 reports."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the run ended on another process, with exit code {code}")
        self.code = code


@dataclass(frozen=True)
class RankLayout:
    """The place of this process among the processes of a run.

    rank:    number of this process, from 0.
    world:   number of all processes.
    local:   number of this process on its machine, from 0.
    nodes:   number of machines, with equally many processes each.
    starter: program that started the processes; empty: none has yet.
    """

    rank: int = 0
    world: int = 1
    local: int = 0
    nodes: int = 1
    starter: Starter = ""

    @property
    def per_node(self) -> int:
        return self.world // self.nodes

    def threads(self, environment: Mapping[str, str]) -> int | None:
        """CPU threads of a process where `trainer.threads` is null; None: as torch or OMP_NUM_THREADS says.

        Processes of one machine share its cores, unless Slurm has given each its own.
        """
        if self.world == 1 or threads_of_environment() is not None:
            return None
        cores = environment.get("SLURM_CPUS_PER_TASK", "") if self.starter == "srun" else ""
        return int(cores) if cores.isdigit() else max(1, usable_cores() // self.per_node)


ONE_PROCESS = RankLayout()
left_open = threading.Event()
"""set if the connections to the other processes could not be closed, since these do not answer"""


def end_if_left_open(code: int) -> None:
    """End this process at once after a run whose connections are open: its usual end would wait for the others."""
    if left_open.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def started_layout(environment: Mapping[str, str]) -> RankLayout | None:
    """The place that torchrun or srun gave this process; None if neither started it.

    A batch script of Slurm has the variables of its job, with the number of tasks, but is no task of a step; nor is a
    shell that `srun --pty` opens.
    """
    if {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
        world = int(environment["WORLD_SIZE"])
        return RankLayout(
            rank=int(environment["RANK"]),
            world=world,
            local=int(environment["LOCAL_RANK"]),
            nodes=world // int(environment.get("LOCAL_WORLD_SIZE", world)),
            starter="attnlab" if environment.get("TORCHELASTIC_RUN_ID") == AGENT else "torchrun",
        )
    in_step = {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID"} <= environment.keys()
    if in_step and "SLURM_PTY_PORT" not in environment:
        return RankLayout(
            rank=int(environment["SLURM_PROCID"]),
            world=int(environment["SLURM_STEP_NUM_TASKS"]),
            local=int(environment["SLURM_LOCALID"]),
            nodes=int(environment.get("SLURM_STEP_NUM_NODES", "1")),
            starter="srun",
        )
    return None


def layout_of(options: TrainerOptions, environment: Mapping[str, str], gpus: Callable[[], int]) -> RankLayout:
    """The processes of a run.

    Args:
        gpus: counts the GPUs that this process sees; asked only if several devices may be used.

    Raises:
        RankError: the numbers do not fit the processes that were started, or the GPUs.
    """
    if (started := started_layout(environment)) is not None:
        _require_fit(options, started)
        return started if started.world > 1 else ONE_PROCESS
    if options.nodes not in (1, "auto"):
        raise RankError(
            f"trainer.nodes={options.nodes}: torchrun or srun start the processes of several machines, one for each "
            "device (docs/runs.md, several devices); without them write trainer.nodes=1"
        )
    if options.devices == 1:
        return ONE_PROCESS
    n_gpus = 0 if options.device == "cpu" else gpus()
    devices = max(n_gpus, 1) if options.devices == "auto" else options.devices
    if devices > 1 and devices > n_gpus and (n_gpus or options.device == "cuda"):
        here = f"{n_gpus} GPU{'s' if n_gpus > 1 else ''}" if n_gpus else "no GPU"
        fitting = f"trainer.devices={n_gpus} or auto, or " if n_gpus else ""
        raise RankError(f"trainer.devices={devices}: torch sees {here} here; write {fitting}trainer.device=cpu")
    return RankLayout(world=devices)


def _require_fit(options: TrainerOptions, started: RankLayout) -> None:
    """Refuse numbers of devices and machines that are not those of the processes that were started."""
    if started.world % started.nodes:
        raise RankError(
            f"{started.starter} started {started.world} processes on {started.nodes} machines; expected equally many "
            "on each, one for each device"
        )
    if started.local >= started.per_node:
        raise RankError(
            f"{started.starter} started more than {started.per_node} of {started.world} processes on one of "
            f"{started.nodes} machines; expected equally many on each, one for each device"
        )
    if options.nodes not in (started.nodes, "auto"):
        raise RankError(
            f"trainer.nodes={options.nodes}, but {started.starter} started processes on {started.nodes} "
            f"machine{'s' if started.nodes > 1 else ''}; write trainer.nodes={started.nodes} or auto"
        )
    if options.devices not in (started.per_node, "auto"):
        option = "--nproc-per-node" if started.starter == "torchrun" else "--ntasks-per-node"
        alone = started.starter == "srun" and options.devices == started.nodes == 1
        number = "--ntasks=1" if alone else f"{option}={options.devices}"
        raise RankError(
            f"trainer.devices={options.devices}, but {started.starter} started {started.per_node} "
            f"process{'es' if started.per_node > 1 else ''} on each machine; write trainer.devices={started.per_node} "
            f"or auto, or start {started.starter} with {number}"
        )
