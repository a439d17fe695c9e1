"""Scores of a task's shortcuts, by the metrics of a network."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from attnlab.data.examples import Examples
from attnlab.data.task_spec import TaskSpec
from attnlab.learn.metrics import summarise_subset
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.shortcuts import Shortcut

Scores = dict[str, dict[str, float]]
"""by metric (`test/iid/sequence_accuracy`), then by the name of the shortcut"""


def shortcut_scores(task: Task, prepared: Prepared[Any]) -> Scores:
    """The scores of every shortcut on all subsets but `train`, and on their groups; not by length."""
    scores, shortcuts = Scores(), task.shortcuts(prepared)
    for subset, examples in prepared.subsets.items():
        if subset != "train":
            scores |= subset_scores(shortcuts, prepared.spec, subset, examples)
    return scores


def subset_scores(
    shortcuts: Mapping[str, Shortcut],
    spec: TaskSpec,
    subset: str,
    examples: Examples,
    numbers: np.ndarray | None = None,
) -> Scores:
    """The scores of shortcuts on one subset.

    Args:
        numbers: of the examples that are scored; None = all.
    """
    scores = Scores()
    chosen = np.arange(len(examples)) if numbers is None else np.asarray(numbers)
    for name, shortcut in shortcuts.items():
        records = {score: values[chosen] for score, values in shortcut(examples).items()}
        for metric, value in summarise_subset(records, spec.metrics, examples, chosen, by_length=False)[0].items():
            scores.setdefault(f"{subset}/{metric}", {})[name] = value
    return scores
