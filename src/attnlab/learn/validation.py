"""Validation while training, and the weights of the best one."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from attnlab.learn.atomic_write import IDENTITY, save_atomically
from attnlab.learn.callbacks import Metrics, MetricsSink, StepCallback
from attnlab.learn.metrics import improves
from attnlab.learn.training_module import TrainingModule


class Validation(StepCallback):
    """Evaluates on the validation set every so many steps, and keeps the weights of the best evaluations.

    Args:
        sink: where metrics go.
        every: steps between evaluations; the last step is always evaluated.
        measure: the validation metrics, without a prefix.
        metric: which of them is to be best.
        folder: where the weights go, in files of their own (`weights_name`).
        identity: of the run, in each of them.
        groups: parts that get a best evaluation of their own, by `<group>/<metric>` (published rule, sort-of-CLEVR).

    Attributes:
        best: for each rule ("" is the mean over all examples) the best value and its step; the first of equals wins.
    """

    def __init__(
        self,
        sink: MetricsSink,
        every: int,
        max_steps: int,
        measure: Callable[[], Metrics],
        metric: str,
        folder: Path,
        identity: dict[str, Any],
        groups: tuple[str, ...] = (),
    ) -> None:
        self.sink, self.every, self.max_steps = sink, every, max_steps
        self.measure, self.metric, self.groups = measure, metric, groups
        self.folder, self.identity = folder, identity
        self.best: dict[str, dict[str, float]] = {}

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]

    def on_step(self, trainer: pl.Trainer, module: TrainingModule, step: int) -> None:
        if step % self.every and step != self.max_steps:
            return
        module.require_finite_weights()
        metrics = self.measure()
        self.sink.log(step, {f"val/{name}": value for name, value in metrics.items()})
        for rule in ("", *self.groups):
            value = metrics[f"{rule}/{self.metric}" if rule else self.metric]
            if improves(self.metric, value, self.best.get(rule, {}).get("value")):
                self.best[rule] = {"value": value, "step": step}
                self._keep(module, rule, step)

    def _keep(self, module: TrainingModule, rule: str, step: int) -> None:
        # Copies: a view would be saved with all of the memory that it shares.
        weights = {"network": {n: v.clone() for n, v in module.network.state_dict().items()}}
        state = weights | {"step": step, IDENTITY: self.identity}
        save_atomically(lambda part: torch.save(state, part), self.folder / weights_name(rule, step))

    def drop_former(self) -> None:
        """Remove weights that are best no more; to be called when a checkpoint that names the others is saved."""
        kept = {weights_name(rule, best["step"]) for rule, best in self.best.items()}
        for file in self.folder.glob("best*_step*"):
            if _WEIGHTS.fullmatch(file.name) and file.name not in kept:
                file.unlink(missing_ok=True)


_WEIGHTS = re.compile(r"best(_.+)?_step\d+\.pt(\.part)?")


def weights_name(rule: str, step: int) -> str:
    """File of the weights of the best validation by a rule.

    The step is part of the name, so that a better one replaces no file that the last checkpoint names: a run that is
    killed before its next checkpoint goes on from there, and elsewhere other steps may be best.
    """
    return f"best_{rule}_step{step}.pt" if rule else f"best_step{step}.pt"


def saved_best(checkpoint: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Best validations by rule, as a checkpoint remembers them; empty where the task has no validation."""
    return checkpoint["callbacks"].get(Validation.__qualname__, {"best": {}})["best"]
