"""MAD, six small tasks that stand for abilities of language models (Poli et al. 2024, arXiv 2403.17844, section 3).

One example, number 0 of `test` of `in_context_recall` at `vocabulary=8 length=16` and data_seed 0; docs/tasks.md shows
the other tasks.

    input   1 7 0 7 3 7 2 6 2 6 1 7 0 7 2
    target  _ _ _ _ _ _ _ _ 6 _ 7 _ 7 _ 6

In `train` of the three recalls every next number is a target, in `val` and `test` the values of keys that came before;
the other tasks have the same targets everywhere. The last number of a recall is a target alone: inputs of the first two
tasks are one number shorter than `length`.

Definitions as in github athms/mad-lab (mad/data/instances.py, configs/tasks/*.yml, 0f49a45); the sequences are drawn
here. `tests/tasks/test_mad.py` compares the targets with sequences of that code. What differs: accuracies are shares of
all targets, published ones means over the accuracies of each number (torchmetrics, macro); the probe of
fuzzy_in_context_recall is never left out (`sequences.fuzzy_recall`); there is a `val`.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from attnlab.data.task_spec import TaskSpec
from attnlab.data.vocabulary import Symbols
from attnlab.tasks.base import Prepared
from attnlab.tasks.drawn_tagging import DrawnTagging, Part, Table
from attnlab.tasks.kinds.tagging import NONE, TaggedSequences, always, tag_scores
from attnlab.tasks.mad import sequences
from attnlab.tasks.mad.options import BASELINES, Name, key_and_value_numbers, require_possible
from attnlab.tasks.mad.sequences import value_table
from attnlab.tasks.shortcuts import Records, Shortcut


class Mad(DrawnTagging):
    """One of the six tasks, generated on first use; null = the published baseline of the task (`BASELINES`).

    Args:
        dataset: name of the task.
        vocabulary: number of different numbers, with the noise and the special ones.
        length: numbers of a sequence.
        noise_share: share of the pairs that are noise.
        noise_vocabulary: numbers of the vocabulary that are noise.
        key_motif, value_motif: most numbers of a key and of a value; keys of `val` and `test` all have `key_motif`.
        tokens_to_copy: numbers to copy in a sequence.
        train_examples, val_examples, test_examples: number of sequences.
        data_seed: seed of the sequences, and of the map of memorization.
    """

    kind = "tagging"
    subsets = ("train", "val", "test")
    causal = True
    published = "train 12,800 (memorization 256), test 1,280"

    def __init__(
        self,
        dataset: Name = "in_context_recall",
        vocabulary: Annotated[int, "[4, inf) up to 1e6"] | None = None,
        length: Annotated[int, "[4, inf) up to 1e5"] | None = None,
        noise_share: Annotated[float, "[0, 1)"] | None = None,
        noise_vocabulary: Annotated[int, "[1, inf) up to 1e6"] | None = None,
        key_motif: Annotated[int, "[1, inf) up to 1e5"] | None = None,
        value_motif: Annotated[int, "[1, inf) up to 1e5"] | None = None,
        tokens_to_copy: Annotated[int, "[1, inf) up to 1e5"] | None = None,
        train_examples: Annotated[int, "[1, inf)"] | None = None,
        val_examples: Annotated[int, "[1, inf)"] = 1280,
        test_examples: Annotated[int, "[1, inf)"] = 1280,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        arguments = locals()
        self.dataset, self.data_seed = dataset, data_seed
        names = sorted(set().union(*BASELINES.values()))
        self.changes = {name: arguments[name] for name in names if arguments[name] is not None}
        self.options: dict[str, Any] = {**BASELINES[dataset], **self.changes}
        train = self.options.pop("train_examples")
        self.examples_of = {"train": train, "val": val_examples, "test": test_examples}
        self.inputs = Symbols(tuple(map(str, range(self.options["vocabulary"]))))
        self.tags, self.first_tag = self.inputs.words, len(self.inputs.special)

    def task_spec(self, **properties: Any) -> TaskSpec:
        """The kind is `compression` for that task; both kinds need causal attention alone."""
        return super().task_spec(**({"kind": "compression"} if self.dataset == "compression" else {}), **properties)

    def parts(self) -> dict[str, list[Part]]:
        require_possible(self.dataset, self.changes, self.options)
        options = {"dataset": self.dataset, **self.options}
        return {name: [Part(number, options)] for name, number in self.examples_of.items()}

    def draw(
        self, rng: np.random.Generator, sequences: int, subset: str, options: Mapping[str, Any]
    ) -> tuple[Table, Table]:
        training = subset == "train"
        inputs = draw(rng, sequences, training, **options)
        return inputs, answers(inputs, training, value_table(self.data_seed, options["vocabulary"]), **options)

    def shortcuts(self, prepared: Prepared[TaggedSequences]) -> Mapping[str, Shortcut]:
        """Of recalls and copying also the most frequent number so far that can be an answer; of recalls the most
        frequent value in place of the most frequent tag, which may be in no value."""
        shortcuts, train = super().shortcuts(prepared), prepared.subsets["train"]
        if self.dataset in ("memorization", "compression"):
            return shortcuts
        if self.dataset == "selective_copying":
            first, stop = 0, self.options["vocabulary"] - 2
        else:
            first, stop = key_and_value_numbers(self.dataset, self.options)
            stored = slice(first + self.first_tag + 1, stop + self.first_tag + 1)
            counts = np.bincount(train.targets.values, minlength=stored.stop)[stored]
            shortcuts = {"most frequent value": always(stored.start + int(counts.argmax()))}
        return {**shortcuts, "most frequent value before": self._most_frequent_before(first, stop)}

    def _most_frequent_before(self, first: int, stop: int) -> Shortcut:
        """Every target is the most frequent of the numbers from `first` to `stop - 1` so far; of several the last."""

        def scores(part: TaggedSequences) -> Records:
            ids, lengths, size = part.inputs.values.astype(int), part.inputs.lengths, len(part.inputs.values)
            rows = np.repeat(np.arange(len(part)), lengths)
            times = occurrences(rows * len(self.inputs) + ids)
            # above the numbers of the rows before, so that a maximum so far stays in its row
            least = rows * (lengths.max() + 1) * size
            is_value = (ids >= first + len(self.inputs.special)) & (ids < stop + len(self.inputs.special))
            best = np.maximum.accumulate(np.where(is_value, least + times * size + np.arange(size), least))
            return tag_scores(np.where(best > least, ids[best % size] + 1, NONE), part)

        return scores


def draw(
    rng: np.random.Generator, rows: int, training: bool, dataset: str, vocabulary: int, length: int, **options: Any
) -> Table:
    """Inputs of a task, each a row; `options` are the others that it reads."""
    match dataset:
        case "in_context_recall":
            return sequences.recall(rng, rows, vocabulary, length, noise_share=0.0, noise_vocabulary=0)
        case "noisy_in_context_recall":
            return sequences.recall(rng, rows, vocabulary, length, **options)
        case "fuzzy_in_context_recall":
            shortest = 1 if training else options["key_motif"]
            return sequences.fuzzy_recall(rng, rows, vocabulary, length, shortest_key=shortest, **options)
        case "memorization":
            return sequences.memorization(rng, rows, vocabulary, length)
        case "compression":
            return sequences.compression(rng, rows, vocabulary, length)
    return sequences.selective_copying(rng, rows, vocabulary, length, **options)


def answers(inputs: Table, training: bool, values: np.ndarray, dataset: str, **options: Any) -> Table:
    """Targets of inputs, `UNSCORED` where there is none.

    Args:
        values: of the keys of memorization.
    """
    match dataset:
        case "memorization":
            return sequences.memorized(inputs, values)
        case "compression":
            return inputs
        case "selective_copying":
            return sequences.copied(inputs, options["vocabulary"], options["tokens_to_copy"])
    motif = max(options.get("key_motif", 1), options.get("value_motif", 1))
    targets = sequences.recalled(inputs, *key_and_value_numbers(dataset, options), motif)
    return sequences.followed(inputs, targets) if training else targets


def occurrences(codes: np.ndarray) -> np.ndarray:
    """How many times each number was there up to its place, with itself."""
    order = codes.argsort(kind="stable")
    begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
    times = np.empty_like(codes)
    times[order] = np.arange(1, len(codes) + 1) - np.repeat(begins, np.diff(begins, append=len(codes)))
    return times
