"""Shortcuts: answers that need no understanding of the input, computed from the training data of a task.

A network that scores no higher than a shortcut has learned nothing that the task is about. `Task.shortcuts` names them,
and they are scored as a network is (`attnlab.learn.metrics`): a shortcut returns scores of every example.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from attnlab.data.examples import Examples
from attnlab.data.ragged_arrays import Ragged
from attnlab.data.task_spec import SEQUENCE_METRICS, TaskSpec

Records = Mapping[str, np.ndarray]
"""scores of the examples of a subset by name, [n] each, as `attnlab.tasks.kinds` give those of a network"""
Shortcut = Callable[[Any], Records]
"""a subset of a task -> the scores of its examples"""
MOST_FREQUENT = "most frequent answer"
BLOCKS = 64
"""blocks of a text that are scored together"""
CHUNK = 2**22
"""tokens that are counted together"""


def general_shortcuts(spec: TaskSpec, train: Examples) -> dict[str, Shortcut]:
    """The shortcuts of a kind of task, from `answers`, `targets` or `tokens` of its training examples.

    Classification: the most frequent answer, alone and by group (kind of question); with F1 also the positive class;
    for a regression the mean. Sequence to sequence: the most frequent answer. Language models: the frequencies of the
    tokens. Examples without such an attribute, or with several answers each, have none.
    """
    parts: Any = train
    if getattr(parts, "answers", np.empty((0, 0))).ndim == 1:
        if spec.n_classes == 1:
            mean = parts.answers.mean()
            return {"mean answer": lambda part: answer_scores(np.full(len(part), mean), part)}
        shortcuts = {MOST_FREQUENT: most_frequent(train)}
        shortcuts |= {"most frequent answer by kind": most_frequent(train, _group_of_each)} if train.groups else {}
        positive: dict[str, Shortcut] = {"positive class": lambda part: answer_scores(np.ones(len(part)), part)}
        return shortcuts | (positive if "f1" in spec.metrics else {})
    if isinstance(getattr(train, "targets", None), Ragged):
        ends = int(spec.end_token)
        ((answer, _),) = Counter(_rows(parts.targets, ends)).most_common(1)
        return {MOST_FREQUENT: lambda part: sequence_scores([answer] * len(part), _rows(part.targets, ends))}
    return {"token frequencies": token_frequencies(spec, parts.tokens)} if hasattr(train, "tokens") else {}


def most_frequent(train: Any, key: Callable[[Any], Iterable[Hashable]] | None = None) -> Shortcut:
    """The most frequent training answer, or the one among the examples with the same key.

    Args:
        train: training examples with `answers`.
        key: returns the key of each example of a subset; a key that is new gets the most frequent answer of all.
    """

    def keys(part: Any) -> Iterable[Hashable]:
        return key(part) if key else [()] * len(part)

    best: dict[Hashable, int] = {}
    for (of, answer), _ in Counter(zip(keys(train), train.answers.tolist(), strict=True)).most_common():
        best.setdefault(of, answer)
    overall = Counter(train.answers.tolist()).most_common(1)[0][0]
    return lambda part: answer_scores(np.array([best.get(of, overall) for of in keys(part)]), part)


def answer_scores(predicted: np.ndarray, part: Any) -> Records:
    """Scores of the predicted classes (or numbers) of a subset with `answers`."""
    return {"predicted": predicted, "answer": part.answers, "right": predicted == part.answers}


def sequence_scores(answers: Iterable[Sequence], targets: Iterable[Sequence]) -> Records:
    """Scores of answered sequences without end tokens; with the end given, what follows the target's length is cut."""
    pairs = [(list(answer), list(target)) for answer, target in zip(answers, targets, strict=True)]
    whole, *end_known = SEQUENCE_METRICS
    begins = np.array([answer[: len(target)] == target for answer, target in pairs])
    return {whole: np.array([answer == target for answer, target in pairs]), **dict.fromkeys(end_known, begins)}


def token_frequencies(spec: TaskSpec, tokens: np.ndarray) -> Shortcut:
    """Every token has the probability of its frequency in the training text, plus one."""
    size = spec.output_vocabulary
    counts = np.ones(size)
    for start in range(0, len(tokens), CHUNK):
        counts += np.bincount(tokens[start : start + CHUNK], minlength=size)
    counts[list(spec.never_targets)] = 0
    with np.errstate(divide="ignore"):
        losses = -np.log(counts / counts.sum())

    def scores(part: Examples) -> Records:
        columns: dict[str, list[np.ndarray]] = {}
        for start in range(0, len(part), BLOCKS):
            batch: Any = part.batch(np.arange(start, min(start + BLOCKS, len(part))))
            targets, scored, words = (x.cpu().numpy() for x in (batch.targets, batch.scored, batch.words))
            right, number = ((targets == counts.argmax()) & scored).sum(1), scored.sum(1)
            sums = {"loss": np.where(scored, losses[targets], 0).sum(1), "right": right, "tokens": number}
            for name, values in (sums | {"words": words, "sequence_accuracy": right == number}).items():
                columns.setdefault(name, []).append(values)
        return {name: np.concatenate(values) for name, values in columns.items()}

    return scores


def _rows(targets: Ragged, ends: int) -> list[bytes]:
    """The sequences without their end tokens (`ends`: 0 or 1 in each), as bytes of one width in all subsets."""
    values = targets.values.astype(np.int32).tobytes()
    return [values[4 * first : 4 * (stop - ends)] for first, stop in pairwise(targets.offsets.tolist())]


def _group_of_each(part: Examples) -> Iterable[Hashable]:
    """The name of the group of each example."""
    names = np.full(len(part), "", dtype=object)
    for name, numbers in part.groups.items():
        names[numbers] = name
    return names.tolist()
