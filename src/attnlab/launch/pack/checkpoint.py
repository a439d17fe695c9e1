"""Checkpoints of runs that are trained together: one file a run, such as the run by itself writes and reads."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins import CheckpointIO
from torch import Tensor

from attnlab.launch.pack.member import Member
from attnlab.launch.pack.network_stack import NetworkStack
from attnlab.launch.pack.packed_module import PackModule
from attnlab.learn.atomic_write import IDENTITY, save_together
from attnlab.learn.callbacks import RandomState, Saving
from attnlab.learn.optimizers import schedule_of
from attnlab.run.fit import after_saving

COMMON = ("epoch", "global_step", "pytorch-lightning_version", "loops")
"""what is the same in the checkpoints of all runs of a step"""
TOGETHER = "together"
"""beside a run's own random states: those of the pack, and the runs they belong to"""


class PackSaving(Saving):
    """Saves every run that lives to its own folder, all of a step or none."""

    def __init__(self, checkpoints: "PackCheckpoints", *options: Any) -> None:
        super().__init__(*options)
        self.checkpoints = checkpoints

    def save(self, trainer: pl.Trainer, module: PackModule, step: int) -> None:
        living = []
        for member in module.members:
            if member.lives:
                with member.guarded():
                    member.module.require_finite_weights()
                    living.append(member)
        if not living:
            return
        trainer.save_checkpoint(living[0].run.folder.checkpoint)
        states = {member.run.folder.checkpoint: self.checkpoints.of(member) for member in living}
        save_together({path: partial(torch.save, state) for path, state in states.items()})
        for member in living:
            after_saving(member.run, member.callbacks, step)


class PackCheckpoints(CheckpointIO):
    """Between Lightning's checkpoint of the pack, which is written nowhere, and those of its runs.

    Args:
        members: the runs, in the order of the stack's rows.
        saved: their checkpoints, to go on from; empty to begin.
    """

    def __init__(self, members: Sequence[Member], stack: NetworkStack, saved: Sequence[dict[str, Any]]) -> None:
        self.members, self.stack, self.saved = list(members), stack, list(saved)
        self.current: dict[str, Any] = {}

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Keeps what `of` takes apart."""
        self.current = checkpoint

    def remove_checkpoint(self, path: Any) -> None:
        """Nothing: Lightning is asked to keep none."""

    def of(self, member: Member) -> dict[str, Any]:
        """The kept checkpoint's part of a run."""
        row = self.members.index(member)
        callbacks = {each.state_key: each.state_dict() for each in member.callbacks}
        callbacks = {name: state for name, state in callbacks.items() if state}
        return {key: self.current[key] for key in COMMON} | {
            IDENTITY: member.run.identity,
            # copies: a view would be saved with the memory of all runs
            "state_dict": {f"network.{n}": v.clone() for n, v in member.run.network.state_dict().items()},
            "optimizer_states": [self._optimizer_state(row)],
            "lr_schedulers": [_schedule_state(self.current["lr_schedulers"][0], row)] if _scheduled(member) else [],
            "callbacks": callbacks | {RandomState.__qualname__: self._random_state(member)},
        }

    def _optimizer_state(self, row: int) -> dict[str, Any]:
        """That of an optimiser of the run's network alone: the moments of every parameter by itself."""
        together = self.current["optimizer_states"][0]
        state = together["state"].get(row, {})
        parts = {name: self.stack.parts(value) for name, value in state.items() if value.ndim}
        numbers = range(len(self.stack.names))
        own = {
            number: {name: parts[name][number].clone() if name in parts else state[name].clone() for name in state}
            for number in numbers
        }
        group = together["param_groups"][row] | {"params": list(numbers)}
        return {"state": own if state else {}, "param_groups": [group]}

    def _random_state(self, member: Member) -> dict[str, Any]:
        """States for the run alone, which no other run has, and beside them those of the pack."""
        together = self.current["callbacks"][RandomState.__qualname__]
        seed = (member.run.config.seed, self.current["global_step"])
        [number] = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        alone = {"torch": torch.Generator().manual_seed(int(number)).get_state()}
        if together["cuda"]:
            device = member.run.device
            own = torch.Generator(device).manual_seed(int(number)).get_state()
            alone["cuda"] = [own for _ in together["cuda"]]
        return together | alone | {TOGETHER: {"runs": _names(self.members)} | together}

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """What Lightning reads to go on: the checkpoints of the runs put together; weights are in the stack already."""
        states = [saved["optimizer_states"][0] for saved in self.saved]
        own = {row: self._joined(state["state"]) for row, state in enumerate(states)}
        groups = [state["param_groups"][0] | {"params": [row]} for row, state in enumerate(states)]
        random = [saved["callbacks"][RandomState.__qualname__].get(TOGETHER) for saved in self.saved]
        names = _names(self.members)
        same = all(each is not None and each["runs"] == names for each in random)
        return {key: self.saved[0][key] for key in COMMON} | {
            "state_dict": {},
            "optimizer_states": [{"state": {k: v for k, v in own.items() if v}, "param_groups": groups}],
            "lr_schedulers": _joined_schedules([saved["lr_schedulers"] for saved in self.saved], groups),
            # Other runs beside these than before: they draw from states of their own, as if they had begun.
            "callbacks": {RandomState.__qualname__: random[0]} if same else {},
        }

    def _joined(self, state: Mapping[int, Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """The moments of all parameters of a run as one row; those of a parameter that was never moved are 0."""
        if not state:
            return {}
        joined = {}
        for name, value in next(iter(state.values())).items():
            if not value.ndim and name == "step":
                joined[name] = value
                continue
            row = torch.zeros(self.stack.flat.shape[1], dtype=value.dtype)
            for number, part in enumerate(self.stack.parts(row)):
                if number in state:
                    part.copy_(state[number][name])
            joined[name] = row
        return joined


def _names(members: Sequence[Member]) -> list[str]:
    return ["/".join(member.run.folder.path.parts[-2:]) for member in members]


def _scheduled(member: Member) -> bool:
    """Whether a run by itself has a schedule."""
    train = member.run.config.train
    return schedule_of(member.run.config.optim, train.max_steps) is not None


def _schedule_state(together: Mapping[str, Any], row: int) -> dict[str, Any]:
    """That of one run: its entry of every list."""
    return {key: [value[row]] if isinstance(value, list) else value for key, value in together.items()}


def _joined_schedules(states: Sequence[list], groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One state of all schedules; a run without one keeps its rate."""
    first = next((state[0] for state in states if state), None)
    if first is None:
        return []
    joined = dict(first)
    for key in [key for key, value in first.items() if isinstance(value, list)]:
        constant = {"lr_lambdas": lambda group: None}.get(key, lambda group: group["lr"])
        joined[key] = [
            state[0][key][0] if state else constant(group) for state, group in zip(states, groups, strict=True)
        ]
    return [joined]
