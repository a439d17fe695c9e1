"""Validation during training, and the weights of the best validation."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import pytorch_lightning as pl
import torch

from attnlab.learn.callbacks import Metrics, Sink, StepCallback
from attnlab.learn.metrics import improves
from attnlab.learn.training_module import TrainingModule
from attnlab.learn.weight_files import save_atomically, with_checksum


class Best(TypedDict):
    """Best value of a metric, and its step."""

    value: float
    step: int


@dataclass(eq=False)
class Validation(StepCallback):
    """Evaluates on the validation set every `every` steps and at the last step, and keeps the best weights.

    Args:
        measure: returns the validation metrics, without a prefix.
        metric: the metric that selects the best weights.
        folder: folder for the files of weights (`weights_name`).
        stamp: further entries of each file: the run's identity and its code.
        groups: groups with a best validation each, by `<group>/<metric>` (published rule of sort-of-CLEVR).
        writes: whether this process writes weights: of several, which find the same metrics, rank 0.
        say: prints a line about a value that is not finite.

    Attributes:
        best: best value and its step for each rule: "" for all examples, else a group; ties keep the earlier step;
            without a finite value the last validation is the best one.
    """

    sink: Sink
    every: int
    max_steps: int
    measure: Callable[[], Metrics]
    metric: str
    folder: Path
    stamp: dict[str, Any]
    groups: tuple[str, ...] = ()
    writes: bool = True
    say: Callable[[str], None] = lambda text: None
    best: dict[str, Best] = field(default_factory=dict, init=False)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if step % self.every and step != self.max_steps:
            return
        module.require_finite_weights()
        metrics = self.measure()
        self.sink(step, {f"val/{name}": value for name, value in metrics.items()})
        for rule in ("", *self.groups):
            name = f"{rule}/{self.metric}" if rule else self.metric
            if rule and name not in metrics:
                # no example of the group is among a few batches (train.eval_batches)
                continue
            value = metrics[name]
            if not math.isfinite(value):
                self.say(f"note: val/{name} is {value} at step {step:,}: it counts as worst")
            former = self.best.get(rule)
            if improves(self.metric, value, None if former is None else former["value"]):
                self.best[rule] = {"value": value, "step": step}
                if self.writes:
                    self._keep(module, rule, step)

    def _keep(self, module: TrainingModule, rule: str, step: int) -> None:
        # Copies: a view would be saved with the whole tensor that it is a part of.
        weights = {"network": {n: v.clone() for n, v in module.network.state_dict().items()}}
        state = with_checksum(weights | {"step": step} | self.stamp)
        save_atomically(lambda part: torch.save(state, part), self.folder / weights_name(rule, step))

    def drop_former(self) -> None:
        """Remove weights that are no longer best; to be called after a checkpoint that names the best ones is saved."""
        kept = {weights_name(rule, best["step"]) for rule, best in self.best.items()}
        for file in self.folder.glob("best*_step*"):
            if _WEIGHTS.fullmatch(file.name) and file.name not in kept:
                file.unlink(missing_ok=True)


_WEIGHTS = re.compile(r"best(_.+)?_step\d+\.pt")


def weights_name(rule: str, step: int) -> str:
    """Name of the file with the weights of the best validation by a rule.

    It contains the step, so that better weights never replace a file that the last checkpoint names: a run that is
    killed resumes from that checkpoint, and on another machine other steps may be best afterwards.
    """
    return f"best_{rule}_step{step}.pt" if rule else f"best_step{step}.pt"


def saved_best(checkpoint: Mapping[str, Any]) -> dict[str, Best]:
    """Best validations by rule in a checkpoint; empty for tasks without validation."""
    return checkpoint["callbacks"].get(Validation.__qualname__, {"best": {}})["best"]
