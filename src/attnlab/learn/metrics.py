"""Metrics from the scores of evaluated examples, and of a task's shortcuts: over all, over groups, over lengths."""

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from attnlab.config.message_text import listed
from attnlab.config.nearest_word import choice
from attnlab.config.problem import UserError
from attnlab.data.examples import Examples
from attnlab.data.task_spec import SEQUENCE_METRICS, TaskSpec
from attnlab.learn.metric_units import has_unit, lower_is_better
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.kinds.base import Metric, kind_of
from attnlab.tasks.shortcuts import Shortcut

Scores = dict[str, dict[str, float]]
"""of shortcuts, by metric (`test/iid/sequence_accuracy`), then by the name of the shortcut"""
Records = Mapping[str, np.ndarray]
"""scores of all examples by name, [n] each (`Kind.scores`)"""


def _mean(records: Records, name: str) -> float:
    return float(np.mean(records[name]))


def _perplexity(records: Records, unit: str) -> float:
    """exp of the mean loss over units (tokens or words); infinite where it overflows, and without units."""
    units = float(records[unit].sum())
    with np.errstate(over="ignore"):
        return float(np.exp(records["loss"].sum(dtype=np.float64) / units)) if units else float("inf")


def _accuracy(records: Records) -> float:
    """Share of right answers: of the examples, or in a language model of the scored tokens."""
    total = records["tokens"].sum() if "tokens" in records else len(records["right"])
    return float(records["right"].sum() / total) if total else 0.0


def _torchmetric(records: Records, function: str, **options: str) -> float:
    """A torchmetrics function of predictions and answers; 0 where it is undefined, as in GLUE."""
    import torch
    from torchmetrics import functional

    kind = torch.int64 if options else torch.float64
    predicted, answers = (torch.as_tensor(np.asarray(records[key])).to(kind) for key in ("predicted", "answer"))
    if len(answers) < 2:
        return 0.0
    with warnings.catch_warnings():
        # about constant predictions or answers, where correlations are undefined
        warnings.simplefilter("ignore")
        return float(torch.nan_to_num(getattr(functional, function)(predicted, answers, **options)))


METRICS: dict[str, Metric] = {
    "accuracy": _accuracy,
    **{name: partial(_mean, name=name) for name in SEQUENCE_METRICS},
    # with two classes Matthews' coefficient equals Pearson's; torchmetrics' own is not 0 for constant predictions
    "matthews_correlation": partial(_torchmetric, function="pearson_corrcoef"),
    "f1": partial(_torchmetric, function="f1_score", task="binary"),
    "pearson": partial(_torchmetric, function="pearson_corrcoef"),
    "spearman": partial(_torchmetric, function="spearman_corrcoef"),
    "token_perplexity": partial(_perplexity, unit="tokens"),
    "masked_token_perplexity": partial(_perplexity, unit="tokens"),
    "word_perplexity": partial(_perplexity, unit="words"),
}
"""every metric that a TaskSpec may name, besides those of its kind (`Kind.metrics`)"""


class MetricError(UserError):
    """A metric that is not known, does not say which of two numbers is better, or reads a score that is not there."""


def metric_functions(spec: TaskSpec) -> dict[str, Metric]:
    """The metrics of a task, by name.

    Raises:
        MetricError: see there.
    """
    known = {**METRICS, **kind_of(spec).metrics}
    functions: dict[str, Metric] = {}
    for name in spec.metrics:
        if name not in known:
            raise MetricError(f"the task has no metric {name}{choice(name, known, 'metrics')}")
        if not has_unit(name):
            raise MetricError(f"metric {name}: no word of it is in metric_units.yaml, which says what is better")
        functions[name] = partial(_computed, name=name, function=known[name])
    return functions


def _computed(records: Records, name: str, function: Metric) -> float:
    """The metric; a MetricError where the kind does not give the scores that it reads."""
    try:
        return function(records)
    except KeyError as error:
        raise MetricError(f"metric {name} reads the score {error}; `Kind.scores` gives {listed(records)}") from None


def improves(name: str, value: float, best: float | None) -> bool:
    """Whether a value is better than the best so far; ties keep the earlier value.

    A value that is not finite is worse than any that is; among such values the last one is kept.
    """
    if best is None or not math.isfinite(best):
        return True
    if not math.isfinite(value):
        return False
    return value < best if lower_is_better(name) else value > best


def summarise_subset(
    records: Records, metrics: Mapping[str, Metric], examples: Examples, numbers: np.ndarray, by_length: bool = True
) -> tuple[dict[str, float], dict[str, int]]:
    """As `summarise`, of the examples of a subset that have these numbers, with its groups and its lengths."""
    row_of = np.full(len(examples), -1)
    row_of[numbers] = np.arange(len(numbers))
    groups = {group: row_of[rows][row_of[rows] >= 0] for group, rows in examples.groups.items()}
    lengths = np.asarray(examples.lengths)[numbers] if by_length and examples.lengths is not None else None
    return summarise(records, metrics, groups, lengths, examples.length_bins)


def summarise(
    records: Records,
    metrics: Mapping[str, Metric],
    groups: Mapping[str, np.ndarray],
    lengths: np.ndarray | None,
    length_bins: Sequence[int] | None,
) -> tuple[dict[str, float], dict[str, int]]:
    """Metrics over all examples, over each group (example numbers), and over each length or range of lengths.

    Returns:
        metrics (`accuracy`, `unary/accuracy`, `length_30/sequence_accuracy`, `length_500_999/accuracy`) and the number
        of examples of each part (`all`, `unary`, `length_30`); where an accuracy is over tokens, also the number of
        tokens (`tokens`, `length_30/tokens`).
    """
    size = len(next(iter(records.values())))
    parts = {"all": np.arange(size)} | {name: np.asarray(numbers) for name, numbers in groups.items()}
    parts |= {} if lengths is None else by_length(lengths, length_bins)
    means: dict[str, float] = {}
    counts: dict[str, int] = {}
    for part, numbers in parts.items():
        if len(numbers):
            of_group = {name: values[numbers] for name, values in records.items()}
            means |= {name if part == "all" else f"{part}/{name}": metric(of_group) for name, metric in metrics.items()}
            counts[part] = len(numbers)
            if "accuracy" in metrics and "tokens" in of_group:
                counts["tokens" if part == "all" else f"{part}/tokens"] = int(of_group["tokens"].sum())
    return means, counts


def by_length(lengths: np.ndarray, bins: Sequence[int] | None) -> dict[str, np.ndarray]:
    """Example numbers by length, or by range of lengths without empty ones: `length_500_999`, `length_1000_up`."""
    if bins is None:
        return {f"length_{n}": np.flatnonzero(lengths == n) for n in np.unique(lengths)}
    bin_of = np.searchsorted(np.asarray(bins), lengths, side="right") - 1
    names = [f"length_{low}_{high - 1}" for low, high in pairwise(bins)] + [f"length_{bins[-1]}_up"]
    members = {name: np.flatnonzero(bin_of == i) for i, name in enumerate(names)}
    return {name: numbers for name, numbers in members.items() if len(numbers)}


def shortcut_scores(task: Task, prepared: Prepared[Any]) -> Scores:
    """The scores of every shortcut on all subsets but `train`, and on their groups; not by length.

    Raises:
        MetricError: from `metric_functions`, before anything is trained.
    """
    metric_functions(prepared.spec)
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
    """The scores of shortcuts on one subset, or on its examples of these numbers; without a metric of the task's kind
    that a shortcut has no scores for."""
    scores, functions = Scores(), metric_functions(spec)
    chosen = np.arange(len(examples)) if numbers is None else np.asarray(numbers)
    for name, shortcut in shortcuts.items():
        records = {score: values[chosen] for score, values in shortcut(examples).items()}
        for metric, function in functions.items():
            with suppress(MetricError):
                values, _ = summarise_subset(records, {metric: function}, examples, chosen, by_length=False)
                for part, value in values.items():
                    scores.setdefault(f"{subset}/{part}", {})[name] = value
    return scores
