"""Checkpoints of packed runs: one file for each run, as the same run alone would write and read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins import CheckpointIO
from torch import Tensor

from attnlab.config.schema import Config
from attnlab.config.training_steps import steps_of
from attnlab.launch.pack.member import PackMember
from attnlab.launch.pack.network_stack import NetworkStack
from attnlab.launch.pack.optimizer_groups import OptimizerGroups
from attnlab.launch.pack.packed_module import PackedModule
from attnlab.learn.atomic_write import IDENTITY, save_together
from attnlab.learn.callbacks import RandomState, Saving
from attnlab.learn.optimizers import schedule_of
from attnlab.learn.weights_checksum import with_checksum
from attnlab.run.fit import after_saving

COMMON = ("epoch", "global_step", "pytorch-lightning_version", "loops")
"""entries that are equal in the checkpoints of all runs"""
TOGETHER = "together"
"""entry with the random states of the pack and the names of its runs, in addition to the states of the run alone"""


@dataclass(eq=False)
class PackSaving(Saving[PackedModule]):
    """Saves the runs that are still trained to their own folders, all of them or none."""

    checkpoints: "PackCheckpoints"

    def save(self, trainer: pl.Trainer, module: PackedModule, step: int) -> None:
        active = []
        for member in module.members:
            if member.active:
                with member.guarded():
                    member.module.require_finite_weights()
                    active.append(member)
        if not active:
            return
        trainer.save_checkpoint(active[0].run.folder.checkpoint)
        states = {member.run.folder.checkpoint: self.checkpoints.of(member) for member in active}
        save_together({path: partial(torch.save, state) for path, state in states.items()})
        for member in active:
            after_saving(member.run, member.callbacks, step)


class PackCheckpoints(CheckpointIO):
    """Converts between Lightning's checkpoint of the pack, which is not written to a file, and checkpoints of runs.

    Args:
        members: the runs, in the order of the rows of the stack.
        saved: their checkpoints, to resume from; empty at the start.
    """

    def __init__(self, members: Sequence[PackMember], stack: NetworkStack, saved: Sequence[dict[str, Any]]) -> None:
        self.members, self.stack, self.saved = list(members), stack, list(saved)
        self.groups = OptimizerGroups([member.run.config.optim for member in members])
        self.current: dict[str, Any] = {}

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Keep the checkpoint of the pack for `of`."""
        self.current = checkpoint

    def remove_checkpoint(self, path: Any) -> None:
        """Does nothing: Lightning keeps no checkpoint."""

    def of(self, member: PackMember) -> dict[str, Any]:
        """Returns the checkpoint of one run."""
        row = self.members.index(member)
        callbacks = {each.state_key: each.state_dict() for each in member.callbacks}
        callbacks = {name: state for name, state in callbacks.items() if state}
        own = {key: self.current[key] for key in COMMON} | {
            IDENTITY: member.run.identity,
            # copies: a view would be saved with the memory of all runs
            "state_dict": {f"network.{n}": v.clone() for n, v in member.run.network.state_dict().items()},
            "optimizer_states": [self._optimizer_state(row)],
            "lr_schedulers": self._schedule_states(row, member.run.config),
            "callbacks": callbacks | {RandomState.__qualname__: self._random_state(member)},
        }
        return with_checksum(own)

    def _optimizer_state(self, row: int) -> dict[str, Any]:
        """State of an optimiser for the network of one run, with moments for every parameter."""
        together, place = self.current["optimizer_states"][0], self.groups.places[row]
        state = together["state"].get(place.parameter, {})
        parts = {name: self.stack.parts(value) for name, value in state.items() if value.ndim}
        numbers = range(len(self.stack.names))
        own = {
            number: {name: parts[name][number].clone() if name in parts else state[name].clone() for name in state}
            for number in numbers
        }
        group = together["param_groups"][place.group] | {"params": list(numbers)}
        return {"state": own if state else {}, "param_groups": [group]}

    def _schedule_states(self, row: int, config: Config) -> list[dict[str, Any]]:
        """State of the schedule of one run, its entry of every list; a constant rate has no schedule."""
        if schedule_of(config.optim, steps_of(config.train)) is None:
            return []
        [together] = self.current["lr_schedulers"]
        group = self.groups.places[row].group
        return [{key: [value[group]] if isinstance(value, list) else value for key, value in together.items()}]

    def _random_state(self, member: PackMember) -> dict[str, Any]:
        """Random states for the run alone, from its seed and step, and the states of the pack."""
        together = self.current["callbacks"][RandomState.__qualname__]
        seed = (member.run.config.seed, self.current["global_step"])
        [number] = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        alone: dict[str, Any] = {"torch": torch.Generator().manual_seed(int(number)).get_state()}
        if together["cuda"]:
            alone["cuda"] = [torch.Generator(member.run.device).manual_seed(int(number)).get_state()]
        return together | alone | {TOGETHER: {"runs": _names(self.members)} | together}

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Joins the checkpoints of the runs for Lightning; the stack already holds the weights."""
        states, places = [saved["optimizer_states"][0] for saved in self.saved], self.groups.places
        own = {place.parameter: self._joined(state["state"]) for place, state in zip(places, states, strict=True)}
        groups = [
            states[rows[0]]["param_groups"][0] | {"params": [places[row].parameter for row in rows]}
            for rows in self.groups.rows
        ]
        random = [saved["callbacks"][RandomState.__qualname__].get(TOGETHER) for saved in self.saved]
        names = _names(self.members)
        same = all(each is not None and each["runs"] == names for each in random)
        return {key: self.saved[0][key] for key in COMMON} | {
            "state_dict": {},
            "optimizer_states": [{"state": {k: v for k, v in own.items() if v}, "param_groups": groups}],
            "lr_schedulers": _joined_schedules(
                [self.saved[rows[0]]["lr_schedulers"] for rows in self.groups.rows], groups
            ),
            # If the pack has changed, its random states start from a seed again.
            "callbacks": {RandomState.__qualname__: random[0]} if same else {},
        }

    def _joined(self, state: Mapping[int, Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Moments of all parameters of a run as one row; 0 for a parameter without moments."""
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


def _names(members: Sequence[PackMember]) -> list[str]:
    return ["/".join(member.run.folder.path.parts[-2:]) for member in members]


def _joined_schedules(states: Sequence[list], groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """State of the schedules of all groups; a group without a schedule keeps its learning rate."""
    first = next((state[0] for state in states if state), None)
    if first is None:
        return []
    joined = dict(first)
    for key in [key for key, value in first.items() if isinstance(value, list)]:
        constant = [None if key == "lr_lambdas" else group["lr"] for group in groups]
        joined[key] = [state[0][key][0] if state else other for state, other in zip(states, constant, strict=True)]
    return [joined]
